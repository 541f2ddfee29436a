// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"math/rand/v2"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// drawLiar lets one host report what is not so, of one kind at a time.
func drawLiar(rng *rand.Rand, ev *rca.Evidence) Spoiler {
	hosts := hostsOf(ev)
	host := hosts[rng.IntN(len(hosts))]
	lies := []func(rng *rand.Rand, host string) Spoiler{lieCounters, lieFlows, lieState, lieErrors, lieDurations}
	s := lies[rng.IntN(len(lies))](rng, host)
	s.Liar = host
	if s.States == nil {
		s.States = func(*rca.Evidence) {}
	}
	if s.History == nil {
		s.History = func(*rca.Evidence, int) {}
	}
	return s
}

// lieCounters: operations that never were are counted as called, or as completed.
func lieCounters(rng *rand.Rand, host string) Spoiler {
	called, completed := int64(1+rng.IntN(1000)), rng.IntN(2) == 0
	return Spoiler{States: func(ev *rca.Evidence) {
		for i := range ev.Ranks {
			if ev.Ranks[i].Host != host {
				continue
			}
			for j := range ev.Ranks[i].Memberships {
				m := &ev.Ranks[i].Memberships[j]
				m.Called += called
				m.Started += called
				if completed {
					m.Completed = m.Called
				}
			}
		}
	}}
}

// lieFlows: all is sent and received.
func lieFlows(_ *rand.Rand, host string) Spoiler {
	return Spoiler{States: func(ev *rca.Evidence) {
		ops(ev, onHostNamed(host), func(o *rca.Op) {
			for f := range o.Flows {
				fl := &o.Flows[f]
				fl.Posted, fl.Ready, fl.Transmitted, fl.Done = fl.Total, fl.Total, fl.Total, fl.Total
			}
		})
	}}
}

// lieState: one process is said to be stopped, or to be gone.
func lieState(rng *rand.Rand, host string) Spoiler {
	nth := rng.IntN(8)
	state := []rca.ProcessState{rca.ProcessStopped, rca.ProcessGone, rca.ProcessDisk}[rng.IntN(3)]
	return Spoiler{States: func(ev *rca.Evidence) {
		var there []*rca.Rank
		for i := range ev.Ranks {
			if ev.Ranks[i].Host == host {
				there = append(there, &ev.Ranks[i])
			}
		}
		if len(there) > 0 {
			there[nth%len(there)].State = state
		}
	}}
}

// lieErrors: hardware that works is said to be broken.
func lieErrors(_ *rand.Rand, host string) Spoiler {
	return Spoiler{States: func(ev *rca.Evidence) {
		for i := range ev.Ranks {
			r := &ev.Ranks[i]
			if r.Host != host {
				continue
			}
			ev.Facts = append(ev.Facts,
				rca.Fact{Host: host, Rank: r.ID, Component: "gpu", Device: r.GPU, Kind: "xid", Value: 79, Text: "a lie"},
				rca.Fact{Host: host, Rank: r.ID, Component: "gpu", Device: r.GPU, Kind: "clock_throttled", Value: 600, Expected: 1980, Text: "a lie"},
				rca.Fact{Host: host, Rank: r.ID, Component: "pcie", Device: r.GPU, Kind: "link_width_reduced", Value: 4, Expected: 16, Text: "a lie"},
			)
		}
	}}
}

// lieDurations: everything is said to have begun much earlier than it did, or to have ended in no time.
func lieDurations(rng *rand.Rand, host string) Spoiler {
	longer := rng.IntN(2) == 0
	meant := map[int]bool{}
	return Spoiler{
		States: func(ev *rca.Evidence) {
			for i := range ev.Ranks {
				meant[ev.Ranks[i].ID] = ev.Ranks[i].Host == host
			}
			ops(ev, onHostNamed(host), func(o *rca.Op) {
				if longer {
					o.Age, o.Stuck = o.Age+time.Hour, o.Stuck+time.Hour
				} else {
					o.Age, o.Stuck = 0, 0
				}
			})
		},
		History: func(ev *rca.Evidence, from int) {
			for i := from; i < len(ev.Timeline); i++ {
				s := &ev.Timeline[i]
				if !meant[s.Rank] {
					continue
				}
				if longer {
					s.Start -= 2 * (s.End - s.Start)
				} else {
					s.End = s.Start + (s.End-s.Start)/100
				}
				s.Entered = min(s.Entered, s.End)
			}
		},
	}
}
