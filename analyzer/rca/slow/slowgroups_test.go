// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestMembersOfSlow: a rank is what slow communicators have in common only when nearly all that matter have it.
func TestMembersOfSlow(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  [][]int32
		nodes []int32
		most  bool
	}{
		{"all have one", [][]int32{{6, 7}, {3, 7}, {5, 7}}, []int32{7}, false},
		{"one alone", [][]int32{{6, 7}}, []int32{6, 7}, false},
		{"two have one, and two are of others", [][]int32{{6, 7}, {3, 7}, {0, 1}, {4, 5}}, []int32{0, 1, 3, 4, 5, 6, 7}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := rca.Evidence{JobID: "groups", WorldSize: 8}
			for r := range 8 {
				ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: "node0", State: rca.ProcessRunning})
			}
			a := unseenWork(&ev)
			for n := range a.now.ranks {
				a.now.ranks[n] = []int32{0} // Seen.
			}
			a.base = &baseline{}
			for i, nodes := range c.slow {
				a.base.transfer = append(a.base.transfer, 1e6)
				a.base.slowComm = append(a.base.slowComm, slowComm{joints: []int32{int32(i)}, ratio: 2, nodes: nodes})
			}
			m := a.membersOfSlow()
			if !slices.Equal(m.nodes, c.nodes) || m.most != c.most {
				t.Errorf("%v, most %v; want %v, %v", m.nodes, m.most, c.nodes, c.most)
			}
		})
	}
}
