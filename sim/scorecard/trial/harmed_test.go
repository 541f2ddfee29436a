// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// TestX1SpoiledEvidenceAccusesNoInnocent: with worse evidence of simulated hangs the verdict widens or gives up; it does not
// move to somebody else. A liar may be named: its word is all there is of it. So may a host whose silence is all that the
// others wait for.
func TestX1SpoiledEvidenceAccusesNoInnocent(t *testing.T) {
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: 1, Ranks: 32, Groups: []string{"hang"}, Harm: matrix.HarmAll})
	fates := map[string]map[string]int{}
	for i := range cases {
		c := &cases[i]
		if strings.Contains(c.Scenario, "+") {
			continue // Two culprits: either may be all that is left to see.
		}
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

// spoiled gives evidence of a healthy job under each harm that is drawn for it.
func spoiled(t *testing.T, name string, seed uint64) (whole, bad rca.Evidence) {
	t.Helper()
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: seed, Only: []string{"healthy/none/gpt-32/"}, Harm: name})
	tr := &trial{Case: &cases[0], lab: newLab(t.Context(), cases[0].Config, nil)}
	if err := tr.lab.until(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	g, err := tr.lab.gather()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := harm.Named(name).On(cases[0].Name, &g.ev)
	if !ok {
		t.Fatalf("%s means nothing on four hosts", name)
	}
	bad = harm.Copy(&g.ev)
	s.States(&bad)
	for _, ev := range []*rca.Evidence{&g.ev, &bad} {
		if err := g.lookBack(tr.lab.rec, ev, nil); err != nil {
			t.Fatal(err)
		}
		g.spoil, g.mask, g.pasts = s.History, s.Record, nil
	}
	return g.ev, bad
}

// Every harm changes the evidence, leaves the original alone, and does the same every time.
func TestHarmsSpoilACopy(t *testing.T) {
	for _, name := range harm.Names() {
		t.Run(name, func(t *testing.T) {
			differs := false
			for seed := range uint64(4) {
				_, once := spoiled(t, name, seed)
				whole, again := spoiled(t, name, seed)
				if !reflect.DeepEqual(once, again) {
					t.Fatalf("seed %d: a second time is not the same", seed)
				}
				if other := harm.Names()[0]; other != name {
					if untouched, _ := spoiled(t, other, seed); !reflect.DeepEqual(whole, untouched) {
						t.Errorf("seed %d: the original is spoiled", seed)
					}
				}
				differs = differs || !reflect.DeepEqual(whole, again)
			}
			if !differs {
				t.Error("nothing is spoiled")
			}
		})
	}
}

// A fifth of four hosts is one: its ranks, facts and history are gone, and it is missing by name.
func TestHarmSilent(t *testing.T) {
	whole, bad := spoiled(t, "silent-20", 1)
	if len(bad.Missing) != 1 || len(bad.Missing[0].Ranks) != 8 || len(bad.Ranks) != len(whole.Ranks)-8 {
		t.Fatalf("%d missing, %d ranks of %d", len(bad.Missing), len(bad.Ranks), len(whole.Ranks))
	}
	gone := bad.Missing[0].Ranks
	if slices.ContainsFunc(bad.Timeline, func(s rca.Segment) bool { return slices.Contains(gone, s.Rank) }) {
		t.Error("the history of a silent host is there")
	}
	if len(bad.Comms) != len(whole.Comms) {
		t.Error("Prometheus forgets communicators")
	}
}

// A tenth of the finished operations is lost, and what lost them says so.
func TestHarmLost(t *testing.T) {
	whole, bad := spoiled(t, "records-10", 1)
	lost := len(whole.Timeline) - len(bad.Timeline)
	if share := float64(lost) / float64(len(whole.Timeline)); share < 0.08 || share > 0.12 {
		t.Errorf("%.3f of the records are lost", share)
	}
	var counted uint64
	for i := range bad.Ranks {
		counted += bad.Ranks[i].Lost
	}
	if counted < uint64(lost) { //nolint:gosec // Not negative.
		t.Errorf("%d counted as lost, at least %d are", counted, lost)
	}
}
