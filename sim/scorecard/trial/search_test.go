// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// gatheredAt is the whole evidence of a case at the moment the analyzer is told.
func gatheredAt(t *testing.T, name string) (*gathered, *trial) {
	t.Helper()
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: 1, Only: []string{name}})
	if len(cases) != 1 {
		t.Fatalf("%d cases named %s", len(cases), name)
	}
	var m meter
	m.alone.RLock()
	defer m.alone.RUnlock()
	x, err := run(t.Context(), &cases[0], &m)
	if err != nil {
		t.Fatal(err)
	}
	again := newLab(t.Context(), cases[0].Config, nil)
	if err := again.until(x.Config.Faults[0].At + leastWatch); err != nil {
		t.Fatal(err)
	}
	g, err := again.gather()
	if err != nil {
		t.Fatal(err)
	}
	return g, x
}

func TestSearchFindsWhatTheWholeShows(t *testing.T) {
	for _, name := range []string{"process_stopped/stopped/gpt-64/1", "op_not_entered/stuck/gpt-64-tree/1", "gpu_error/dead/gpt-64/1"} {
		t.Run(name, func(t *testing.T) {
			g, x := gatheredAt(t, name)
			whole := engine.Analyze(g.ev, rca.Options{})
			s := newSearch(g, nil)
			_, v := s.run(func(ev *rca.Evidence) rca.Verdict { return engine.Analyze(*ev, rca.Options{}) })
			if !sameAnswer(&v, &whole) {
				t.Errorf("the search says %s %v, the whole %s %v", v.Class, v.Culprits, whole.Class, whole.Culprits)
			}
			if !judge.Judge(&v, x.lab.answer, true, x.lab.rec).Right {
				t.Errorf("%s %v is wrong", v.Class, v.Culprits)
			}
			ranks, bytes := s.cost()
			if s.hosts() < 1 || s.hosts() > 8 || bytes <= 0 || bytes > g.states || s.rounds < 1 || ranks != len(s.alone) {
				t.Errorf("%d hosts and %d ranks asked in %d rounds, %d bytes of %d", s.hosts(), ranks, s.rounds, bytes, g.states)
			}
			if first := s.backFirst([]int{9, 8, 17}); len(first) != len(g.names) || first[0] != g.names[1] || first[1] != g.names[2] {
				t.Errorf("looks back at %v", first)
			}
		})
	}
}

// What has not been asked for is not in the evidence, but for what Prometheus has.
func TestSearchSeesOnlyWhatItAskedFor(t *testing.T) {
	g, _ := gatheredAt(t, "process_stopped/stopped/gpt-64/1")
	id := g.ev.Comms[0].ID
	s := newSearch(g, nil)
	s.asked, s.alone, s.known = map[string]bool{"node-0003": true}, map[int]bool{}, map[rca.CommID]bool{id: true}
	ev := s.evidence()
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if r.Host == "node-0003" {
			continue
		}
		if r.Caps != rca.SeesCalls || r.State != rca.ProcessUnknown || len(r.Memberships) != 1 || len(r.Memberships[0].InFlight) != 0 || r.Memberships[0].Comm != id {
			t.Errorf("rank %d on %s shows more than counts", r.ID, r.Host)
		}
	}
	for _, f := range ev.Facts {
		if f.Host != "node-0003" {
			t.Errorf("a fact of %s", f.Host)
		}
	}
	if len(ev.Ranks) < 9 || len(ev.Ranks) == len(g.ev.Ranks) {
		t.Errorf("%d ranks", len(ev.Ranks))
	}
}
