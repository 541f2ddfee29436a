// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"math/rand/v2"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// drawLiar lets one host report what is not so, of one kind at a time.
func drawLiar(rng *rand.Rand, hosts []string) Spoiler {
	host := hosts[rng.IntN(len(hosts))]
	lies := []func(rng *rand.Rand) Spoiler{lieCounters, lieFlows, lieState, lieErrors, lieDurations}
	lie := lies[rng.IntN(len(lies))](rng)
	s := Spoiler{Liar: host, State: func(st *nodeapi.State) {
		if st.Node == host {
			lie.State(st)
		}
	}}
	if lie.Record != nil {
		s.Record = func(of string, c *trace.Completion) bool { return of != host || lie.Record(of, c) }
	}
	return s
}

// lieCounters: operations that never were are counted as called, or as completed.
func lieCounters(rng *rand.Rand) Spoiler {
	called, completed := uint64(1+rng.IntN(1000)), rng.IntN(2) == 0
	return Spoiler{State: func(st *nodeapi.State) {
		for i := range st.Processes {
			for j := range st.Processes[i].Comms {
				c := &st.Processes[i].Comms[j]
				c.OpsCalled += called
				c.OpsStarted += called
				if completed {
					c.OpsCompleted = c.OpsCalled
				}
			}
		}
	}}
}

// lieFlows: all is sent and received.
func lieFlows(*rand.Rand) Spoiler {
	return Spoiler{State: func(st *nodeapi.State) {
		for i := range st.Processes {
			for j := range st.Processes[i].Flows {
				f := &st.Processes[i].Flows[j]
				f.Posted, f.Ready, f.Transmitted, f.Done = f.StepsTotal, f.StepsTotal, f.StepsTotal, f.StepsTotal
			}
		}
	}}
}

// lieState: one process is said to be stopped, gone, or waiting for its disk.
func lieState(rng *rand.Rand) Spoiler {
	nth := rng.IntN(8)
	state := []nodeapi.ProcessState{nodeapi.ProcessStopped, nodeapi.ProcessGone, nodeapi.ProcessDisk}[rng.IntN(3)]
	return Spoiler{State: func(st *nodeapi.State) {
		if n := len(st.Processes); n > 0 && st.Processes[nth%n].Kernel != nil {
			st.Processes[nth%n].Kernel.State = state
		}
	}}
}

// lieErrors: hardware that works is said to be broken.
func lieErrors(*rand.Rand) Spoiler {
	return Spoiler{State: func(st *nodeapi.State) {
		for i := range st.Processes {
			p := &st.Processes[i]
			st.Facts = append(st.Facts,
				nodeapi.Fact{Rank: p.Rank, Component: "gpu", Device: p.GPU, Kind: "xid", Value: 79, Text: "a lie"},
				nodeapi.Fact{Rank: p.Rank, Component: "gpu", Device: p.GPU, Kind: "clock_throttled", Value: 600, Expected: 1980, Text: "a lie"},
				nodeapi.Fact{Rank: p.Rank, Component: "pcie", Device: p.GPU, Kind: "link_width_reduced", Value: 4, Expected: 16, Text: "a lie"},
			)
		}
	}}
}

// lieDurations: everything is said to have begun much earlier than it did, or to have ended in no time.
func lieDurations(rng *rand.Rand) Spoiler {
	longer := rng.IntN(2) == 0
	return Spoiler{
		State: func(st *nodeapi.State) {
			for i := range st.Processes {
				for j := range st.Processes[i].Ops {
					o := &st.Processes[i].Ops[j]
					for _, ns := range []*uint64{&o.CalledNS, &o.EnqueuedNS, &o.EnteredNS, &o.FirstStepNS, &o.LastProgressNS} {
						if longer {
							*ns = shift(*ns, -int64(time.Hour))
						} else if *ns != 0 {
							*ns = st.NowNS
						}
					}
				}
			}
		},
		Record: func(_ string, c *trace.Completion) bool {
			start := c.EnqueuedNS
			if longer {
				c.CalledNS = shift(c.CalledNS, -2*int64(c.LeftNS-start))
				c.EnqueuedNS = shift(start, -2*int64(c.LeftNS-start))
			} else if c.LeftNS > start {
				c.LeftNS = start + (c.LeftNS-start)/100
				c.EnteredNS = min(c.EnteredNS, c.LeftNS)
			}
			return true
		},
	}
}
