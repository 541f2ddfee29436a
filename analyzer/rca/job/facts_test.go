// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestFactsThatSetApart: what most other hosts show too says nothing of one of them, unless a part has stopped.
func TestFactsThatSetApart(t *testing.T) {
	fact := func(host int, kind, text string) rca.Fact {
		return rca.Fact{Host: fmt.Sprintf("node%d", host), Rank: host, Component: "gpu", Kind: kind, Text: text}
	}
	capped, hot := "GPU 0 runs at 1200 MHz instead of 1980 MHz: power_cap", "GPU 0 runs at 1200 MHz instead of 1980 MHz: hw_thermal"
	for _, tc := range []struct {
		name  string
		facts []rca.Fact
		of    int
		want  int
	}{
		{"of one host", []rca.Fact{fact(1, "foreign_process", "")}, 1, 1},
		{"of most hosts", []rca.Fact{fact(0, "foreign_process", ""), fact(1, "foreign_process", ""), fact(2, "foreign_process", "")}, 1, 0},
		{"of half of the others", []rca.Fact{fact(0, "foreign_process", ""), fact(1, "foreign_process", "")}, 1, 1},
		{"for another reason", []rca.Fact{fact(0, "clock_throttled", capped), fact(1, "clock_throttled", hot), fact(2, "clock_throttled", capped)}, 1, 1},
		{"that stop a GPU", []rca.Fact{fact(0, "xid", ""), fact(1, "xid", ""), fact(2, "xid", "")}, 1, 1},
	} {
		ev := &rca.Evidence{WorldSize: 3, Facts: tc.facts}
		for r := range 3 {
			ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r), State: rca.ProcessRunning})
		}
		x := NewIndex(ev, rca.Options{})
		if got := len(x.FactsOf(x.NodeOf(tc.of))); got != tc.want {
			t.Errorf("%s: %d facts, want %d", tc.name, got, tc.want)
		}
	}
}
