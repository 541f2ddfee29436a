// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

var faultKinds = []string{"link", "gpu", "skip", "other", "stop", "stop_outside", "kill", "kernel"}

// hung gives a random job that a random fault has stopped, with the true culprit.
func hung(t testing.TB, rng *rand.Rand) (*model, int) {
	t.Helper()
	for range 100 {
		m := newModel(1+rng.IntN(3), 1+rng.IntN(4), 1+rng.IntN(4))
		if len(m.ranks) < 4 {
			continue
		}
		m.channels, m.ahead, m.perHost = 1+rng.IntN(3), 1+rng.IntN(5), 1+rng.IntN(4)
		rank := rng.IntN(len(m.ranks))
		per := len(m.ranks[rank].program)
		m.fault = mfault{kind: faultKinds[rng.IntN(len(faultKinds))], rank: rank, after: 2*per + rng.IntN(2*per), step: int64(rng.IntN(3))}
		if m.fault.kind == "other" && m.ranks[rank].program[m.fault.after%per].peer >= 0 {
			continue
		}
		if m.run(200000) {
			return m, rank
		}
	}
	t.Fatal("no random job hangs")
	return nil, 0
}

// allowed reports whether only the culprit is named; where two ranks disagree, both may be.
func allowed(t *testing.T, v rca.Verdict, m *model, rank int, what string) {
	t.Helper()
	for _, r := range rcatest.Accused(v) {
		if r == rank {
			continue
		}
		if m.fault.kind == "other" && slices.Contains(rcatest.Accused(v), rank) && v.Class == rca.Inconsistent {
			continue
		}
		t.Errorf("%s: %+v dp%d pp%d tp%d: names innocent %d (%g)\n%s", what, m.fault, m.dp, m.pp, m.tp, r, v.Confidence, v.Summary)
	}
}

func TestRandomJobsComplete(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range rcatest.Draws(500) {
		m, rank := hung(t, rng)
		v := Analyze(m.evidence(), rca.Options{})
		if !slices.Contains(rcatest.Accused(v), rank) {
			t.Errorf("%+v dp%d pp%d tp%d host%d: got %s/%s %v, want %d\n%s", m.fault, m.dp, m.pp, m.tp, m.perHost, v.Class, v.Cause, rcatest.CulpritRanks(v), rank, v.Summary)
		}
		allowed(t, v, m, rank, "complete")
	}
}

func TestRandomJobsFifthOfRanksMissing(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("told=%v", told), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 2))
			named, jobs := 0, rcatest.Draws(500)
			for range jobs {
				m, rank := hung(t, rng)
				full := m.evidence()
				whole := Analyze(full, rca.Options{})
				part := full
				part.Ranks = nil
				var gone []int
				for _, r := range full.Ranks {
					if rng.IntN(5) == 0 {
						gone = append(gone, r.ID)
						continue
					}
					part.Ranks = append(part.Ranks, r)
				}
				if told {
					for _, g := range gone {
						part.Missing = append(part.Missing, rca.Missing{What: "exporter", Name: fmt.Sprint("x", g), Ranks: []int{g}, Why: "timeout"})
					}
				}
				v := Analyze(part, rca.Options{})
				allowed(t, v, m, rank, fmt.Sprint("missing ", gone))
				if slices.Contains(rcatest.Accused(v), rank) {
					named++
				}
				if v.Confidence > whole.Confidence {
					t.Errorf("%+v: surer without %v: %g > %g\n%s", m.fault, gone, v.Confidence, whole.Confidence, v.Summary)
				}
			}
			t.Logf("named with a fifth missing: %d of %d", named, jobs)
			if 5*named < 3*jobs {
				t.Errorf("only %d of %d named", named, jobs)
			}
		})
	}
}

func TestRandomJobsTenthOfRecordsLost(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	named, jobs := 0, rcatest.Draws(300)
	for range jobs {
		m, rank := hung(t, rng)
		ev := m.evidence()
		for i := range ev.Ranks {
			r := &ev.Ranks[i]
			for j := range r.Memberships {
				mb := &r.Memberships[j]
				before := len(mb.InFlight)
				mb.InFlight = slices.DeleteFunc(mb.InFlight, func(rca.Op) bool { return rng.IntN(10) == 0 })
				if len(mb.InFlight) < before {
					r.Lost += uint64(before - len(mb.InFlight))
				}
				for k := range mb.InFlight {
					o := &mb.InFlight[k]
					n := len(o.Flows)
					o.Flows = slices.DeleteFunc(o.Flows, func(rca.Flow) bool { return rng.IntN(10) == 0 })
					r.Lost += uint64(n - len(o.Flows))
				}
			}
		}
		v := Analyze(ev, rca.Options{})
		allowed(t, v, m, rank, "lossy")
		if slices.Contains(rcatest.Accused(v), rank) {
			named++
		}
	}
	t.Logf("named with a tenth of the records lost: %d of %d", named, jobs)
}

func TestRandomJobsOneClockWrong(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	named, jobs := 0, rcatest.Draws(300)
	for range jobs {
		m, rank := hung(t, rng)
		ev := m.evidence()
		r := &ev.Ranks[rng.IntN(len(ev.Ranks))]
		wrong := []time.Duration{0, time.Millisecond, 100 * time.Hour, -1}[rng.IntN(4)]
		for j := range r.Memberships {
			for k := range r.Memberships[j].InFlight {
				o := &r.Memberships[j].InFlight[k]
				o.Age, o.Stuck = wrong, wrong
				for f := range o.Flows {
					o.Flows[f].Stuck = wrong
				}
			}
		}
		v := Analyze(ev, rca.Options{})
		allowed(t, v, m, rank, fmt.Sprintf("clock of %d says %v", r.ID, wrong))
		if slices.Contains(rcatest.Accused(v), rank) {
			named++
		}
	}
	t.Logf("named with a wrong clock: %d of %d", named, jobs)
	if 6*named < 5*jobs {
		t.Errorf("only %d of %d named", named, jobs)
	}
}

func TestDeterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range rcatest.Draws(300) {
		m, _ := hung(t, rng)
		ev := m.evidence()
		want, err := json.Marshal(Analyze(ev, rca.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		shuffled := ev
		shuffled.Ranks = slices.Clone(ev.Ranks)
		shuffled.Comms = slices.Clone(ev.Comms)
		rng.Shuffle(len(shuffled.Ranks), func(i, j int) { shuffled.Ranks[i], shuffled.Ranks[j] = shuffled.Ranks[j], shuffled.Ranks[i] })
		rng.Shuffle(len(shuffled.Comms), func(i, j int) { shuffled.Comms[i], shuffled.Comms[j] = shuffled.Comms[j], shuffled.Comms[i] })
		for i := range shuffled.Ranks {
			ms := slices.Clone(shuffled.Ranks[i].Memberships)
			rng.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
			shuffled.Ranks[i].Memberships = ms
		}
		got, err := json.Marshal(Analyze(shuffled, rca.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("the order of the evidence changes the verdict:\n%s\n%s", want, got)
		}
	}
}
