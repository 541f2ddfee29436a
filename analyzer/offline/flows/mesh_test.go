// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mesh writes all-to-alls of six ranks in intervals of 0.1 ms: when each begins, for how many intervals it sends, and how much in each.
func mesh(ops int, of func(op, rank int) (begin float64, intervals, bytes int)) string {
	const ranks = 6
	var b strings.Builder
	b.WriteString("time_ms,rank,peer,bytes\n")
	for r := range ranks {
		for p := range ranks {
			if p == r {
				continue
			}
			for op := range ops {
				begin, n, size := of(op, r)
				for i := range n {
					fmt.Fprintf(&b, "%.1f,%d,%d,%d\n", 100*float64(op)+begin+0.1*float64(i), r, p, size)
				}
			}
		}
	}
	return b.String()
}

// TestP6MeshOfFlows: of an all-to-all it is who begins late, or who sends at a low rate and for longest; not who has little to send.
func TestP6MeshOfFlows(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    func(op, rank int) (float64, int, int)
		class string
		who   []int
	}{
		{"healthy", func(int, int) (float64, int, int) { return 20, 100, 1 << 20 }, "", nil},
		{"slow NIC", func(_, r int) (float64, int, int) { return 20, pick(r == 4, 200, 100), pick(r == 4, 1<<19, 1<<20) }, "slow_comm", []int{4}},
		{"little to send", func(_, r int) (float64, int, int) { return 20, 100, pick(r == 4, 1<<17, 1<<20) }, "", nil},
		{"much to send", func(_, r int) (float64, int, int) { return 20, pick(r == 4, 300, 100), 1 << 20 }, "", nil},
		{"late", func(_, r int) (float64, int, int) {
			return pick(r == 1, 29.0, 20), pick(r == 1, 60, 150), pick(r == 1, 5<<19, 1<<20)
		}, "slow_compute", []int{1}},
		{"two late", func(_, r int) (float64, int, int) {
			return pick(r < 2, 29.0, 20), pick(r < 2, 60, 150), pick(r < 2, 5<<19, 1<<20)
		}, "unknown", nil},
	} {
		r, err := Read("x", []byte(mesh(10, c.of)))
		if err != nil {
			t.Fatal(err)
		}
		v, _, _ := Analyze([]*Recording{r})
		if got := accused(&v); !slices.Equal(got, c.who) || c.class != "" && string(v.Class) != c.class {
			t.Errorf("%s: %s %+v: %s", c.name, v.Class, v.Culprits, v.Summary)
		}
	}
}

// TestTwoGroups: groups that point at different ranks accuse nobody, and one that points at nobody takes the other's word away.
func TestTwoGroups(t *testing.T) {
	text := strings.ReplaceAll(mesh(10, func(_, r int) (float64, int, int) {
		return pick(r == 1, 29.0, 20), pick(r == 1, 60, 150), pick(r == 1, 5<<19, 1<<20)
	}), "\n", ",a\n")
	other := strings.ReplaceAll(mesh(10, func(_, r int) (float64, int, int) {
		return pick(r == 3, 29.0, 20), pick(r == 3, 60, 150), pick(r == 3, 5<<19, 1<<20)
	}), "\n", ",b\n")
	_, other, _ = strings.Cut(other, "\n")
	text = strings.Replace(text, "bytes,a", "bytes,group", 1)
	r, err := Read("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := Analyze([]*Recording{r}); !slices.Equal(accused(&v), []int{1}) {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
	q, err := Read("y", []byte("time_ms,rank,peer,bytes,group\n"+other))
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := Analyze([]*Recording{r, q}); len(v.Culprits) > 0 || v.Class != "unknown" || len(v.Evidence) != 2 {
		t.Errorf("%s %+v: %s", v.Class, v.Culprits, v.Summary)
	}
}
