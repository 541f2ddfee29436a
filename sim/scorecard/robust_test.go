// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestX1SpoiledEvidenceAccusesNoInnocent: with worse evidence of simulated hangs the verdict widens or gives up; it does not
// move to somebody else. A liar may be named: its word is all there is of it. So may a host whose silence is all that the
// others wait for.
func TestX1SpoiledEvidenceAccusesNoInnocent(t *testing.T) {
	cases := Matrix(Options{Quick: true, Seed: 1, Ranks: 32, Groups: []string{"hang"}, Harm: HarmAll})
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
			fates[h.Harm][h.fate()]++
			if h.Slanders() && h.Cause != string(rca.CauseHostLost) {
				t.Error(tr.out.HarmedLine(h))
			}
		}
	}
	for _, name := range Harms() {
		if len(fates[name]) == 0 {
			t.Errorf("%s: no run", name)
		}
		t.Logf("%s: %v", name, fates[name])
	}
}

// spoiled gives evidence of a healthy job under each harm that is drawn for it.
func spoiled(t *testing.T, harm string, seed uint64) (whole, bad rca.Evidence) {
	t.Helper()
	cases := Matrix(Options{Quick: true, Seed: seed, Only: []string{"healthy/none/gpt-32/"}, Harm: harm})
	tr := &trial{Case: &cases[0], lab: newLab(t.Context(), cases[0].config, nil)}
	if err := tr.lab.until(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	g, err := tr.lab.gather()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := harmNamed(harm).on(cases[0].Name, &g.ev)
	if !ok {
		t.Fatalf("%s means nothing on four hosts", harm)
	}
	bad = copied(&g.ev)
	s.states(&bad)
	for _, ev := range []*rca.Evidence{&g.ev, &bad} {
		if err := g.lookBack(tr.lab.rec, ev, nil); err != nil {
			t.Fatal(err)
		}
		g.spoil, g.mask, g.pasts = s.history, s.record, nil
	}
	return g.ev, bad
}

// Every harm changes the evidence, leaves the original alone, and does the same every time.
func TestHarmsSpoilACopy(t *testing.T) {
	for _, harm := range Harms() {
		t.Run(harm, func(t *testing.T) {
			differs := false
			for seed := range uint64(4) {
				_, once := spoiled(t, harm, seed)
				whole, again := spoiled(t, harm, seed)
				if !reflect.DeepEqual(once, again) {
					t.Fatalf("seed %d: a second time is not the same", seed)
				}
				if other := Harms()[0]; other != harm {
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
