// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// clone copies evidence deeply, so that one copy can be spoiled.
func clone(t *testing.T, ev *rca.Evidence) rca.Evidence {
	t.Helper()
	text, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	var out rca.Evidence
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// hostsOf gives the hosts of the evidence's ranks.
func hostsOf(ev *rca.Evidence) []string {
	var out []string
	for i := range ev.Ranks {
		out = append(out, ev.Ranks[i].Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// spoilers are ways in which evidence is worse than it should be.
var spoilers = map[string]func(rng *rand.Rand, ev *rca.Evidence){
	"a fifth of the nodes silent": func(rng *rand.Rand, ev *rca.Evidence) {
		for _, h := range hostsOf(ev) {
			if rng.IntN(5) > 0 {
				continue
			}
			m := rca.Missing{What: "exporter", Name: h, Why: "no answer in time"}
			ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool {
				if r.Host == h {
					m.Ranks = append(m.Ranks, r.ID)
				}
				return r.Host == h
			})
			ev.Facts = slices.DeleteFunc(ev.Facts, func(f rca.Fact) bool { return f.Host == h })
			ev.Missing = append(ev.Missing, m)
		}
	},
	"a tenth of the records lost": func(rng *rand.Rand, ev *rca.Evidence) {
		for i := range ev.Ranks {
			r := &ev.Ranks[i]
			lost := func() bool {
				if rng.IntN(10) == 0 {
					r.Lost++
					return true
				}
				return false
			}
			for j := range r.Memberships {
				m := &r.Memberships[j]
				m.InFlight = slices.DeleteFunc(m.InFlight, func(rca.Op) bool { return lost() })
				for k := range m.InFlight {
					m.InFlight[k].Flows = slices.DeleteFunc(m.InFlight[k].Flows, func(rca.Flow) bool { return lost() })
				}
			}
		}
	},
	"one wrong clock": func(rng *rand.Rand, ev *rca.Evidence) {
		hosts := hostsOf(ev)
		h := hosts[rng.IntN(len(hosts))]
		off := []time.Duration{-24 * time.Hour, 24 * time.Hour, 50 * time.Millisecond}[rng.IntN(3)]
		for i := range ev.Ranks {
			for j := range ev.Ranks[i].Memberships {
				for k := range ev.Ranks[i].Memberships[j].InFlight {
					if o := &ev.Ranks[i].Memberships[j].InFlight[k]; ev.Ranks[i].Host == h {
						o.Age, o.Stuck = max(0, o.Age+off), max(0, o.Stuck+off)
					}
				}
			}
		}
	},
	"a rank that lies": func(rng *rand.Rand, ev *rca.Evidence) {
		r := &ev.Ranks[rng.IntN(len(ev.Ranks))]
		for j := range r.Memberships {
			for k := range r.Memberships[j].InFlight {
				for f := range r.Memberships[j].InFlight[k].Flows {
					fl := &r.Memberships[j].InFlight[k].Flows[f]
					fl.Posted, fl.Ready, fl.Transmitted, fl.Done = fl.Total, fl.Total, fl.Total, fl.Total
				}
			}
		}
		ev.Facts = append(ev.Facts, rca.Fact{Host: r.Host, Rank: r.ID, Component: "gpu", Kind: "xid", Value: 13, Text: "a lie"})
	},
}

// TestX1SpoiledEvidenceAccusesNoInnocent: with worse evidence of simulated hangs the verdict widens or gives up; it does not
// move to somebody else. A liar may be named: its word is all there is of it. So may a host whose silence is all that the
// others wait for.
func TestX1SpoiledEvidenceAccusesNoInnocent(t *testing.T) {
	cases := Matrix(Options{Quick: true, Seed: 1, Ranks: 32, Groups: []string{"hang"}})
	named, runs, wrong := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range cases {
		c := &cases[i]
		if strings.Contains(c.Scenario, "+") {
			continue // Two culprits: either may be all that is left to see.
		}
		m := &meter{}
		m.alone.RLock()
		tr, err := c.run(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if tr.ev == nil || !tr.out.Effect {
			continue
		}
		for name, spoil := range spoilers {
			for seed := range uint64(3) {
				ev := clone(t, tr.ev)
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				before := len(ev.Facts)
				spoil(rng, &ev)
				liar := -1
				if len(ev.Facts) > before {
					liar = ev.Facts[len(ev.Facts)-1].Rank
				}
				v := rca.Analyze(ev, rca.Options{})
				runs[name]++
				for _, cu := range v.Culprits {
					switch {
					case cu.Rank < 0 || innocent(v.Class):
					case slices.Contains(tr.out.TruthRanks, cu.Rank):
						named[name]++
					case cu.Rank != liar && v.Cause != rca.CauseHostLost:
						wrong[name]++
						t.Errorf("%s, %s, seed %d: names innocent %d of %v (%g): %s", c.Name, name, seed, cu.Rank, tr.out.TruthRanks, v.Confidence, v.Summary)
					}
				}
			}
		}
	}
	for name := range spoilers {
		t.Logf("%s: %d runs, the culprit named %d times, an innocent %d times", name, runs[name], named[name], wrong[name])
	}
}
