// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// TestX1SpoiledEvidenceAccusesNoInnocent: with worse evidence of simulated hangs the verdict widens or gives up; it does not
// move to somebody else. A liar may be named: its word is all there is of it. So may a host whose silence is all that the
// others wait for.
func TestX1SpoiledEvidenceAccusesNoInnocent(t *testing.T) {
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: 1, Ranks: 32, Groups: []string{"hang"}, Levels: []cluster.Level{cluster.KernelEvents}, Harm: matrix.HarmAll})
	fates, seen := map[string]map[string]int{}, map[string]bool{}
	for i := range cases {
		c := &cases[i]
		if strings.Contains(c.Scenario, "+") {
			continue // Two culprits: either may be all that is left to see.
		}
		if testing.Short() && seen[c.Scenario] {
			continue // One workload and severity of each kind of fault.
		}
		seen[c.Scenario] = true
		m := &meter{}
		m.alone.RLock()
		tr, err := run(t.Context(), c, m)
		if err != nil {
			t.Fatal(err)
		}
		for k := range tr.out.Harmed {
			h := &tr.out.Harmed[k]
			if fates[h.Harm] == nil {
				fates[h.Harm] = map[string]int{}
			}
			fates[h.Harm][h.Fate()]++
			if h.Slanders() && h.Cause != string(rca.CauseHostLost) {
				t.Error(tr.out.HarmedLine(h))
			}
		}
	}
	for _, name := range harm.Names() {
		if len(fates[name]) == 0 {
			t.Errorf("%s: no run", name)
		}
		t.Logf("%s: %v", name, fates[name])
	}
}
