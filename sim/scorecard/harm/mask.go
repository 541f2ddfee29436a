// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"math/rand/v2"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
)

// mask is what a smaller CULPRIT_EVENTS leaves out.
type mask struct {
	steps, kernels bool
	local          map[rca.CommID]bool // Nothing of these crosses the network.
}

// drawMasked takes events away on all ranks alike: a job has one environment.
func drawMasked(rng *rand.Rand, ev *rca.Evidence) Spoiler {
	n := rng.IntN(3)
	m := mask{steps: n != 0, kernels: n != 1, local: localComms(ev)}
	return Spoiler{States: m.states, Record: m.record}
}

// localComms are the communicators whose members are all on one host.
func localComms(ev *rca.Evidence) map[rca.CommID]bool {
	hosts := make(map[int]string, len(ev.Ranks))
	for i := range ev.Ranks {
		hosts[ev.Ranks[i].ID] = ev.Ranks[i].Host
	}
	out := map[rca.CommID]bool{}
	for i := range ev.Comms {
		c := &ev.Comms[i]
		out[c.ID] = len(c.Members) > 0 && !slices.ContainsFunc(c.Members, func(r int) bool { return hosts[r] == "" || hosts[r] != hosts[c.Members[0]] })
	}
	return out
}

func (m *mask) states(ev *rca.Evidence) {
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if m.steps {
			r.Caps &^= rca.SeesSteps | rca.SeesPeerWait
		}
		if m.kernels {
			r.Caps &^= rca.SeesKernels
		}
		for j := range r.Memberships {
			mb := &r.Memberships[j]
			for k := range mb.InFlight {
				m.op(&mb.InFlight[k], mb.Comm)
			}
			for k := range mb.Recent {
				m.op(&mb.Recent[k], mb.Comm)
			}
		}
	}
}

func (m *mask) op(o *rca.Op, comm rca.CommID) {
	if m.steps {
		o.Flows = nil
		if o.State == rca.OpMoving {
			o.State = rca.OpEntered
		}
	}
	if m.kernels {
		o.KernelStarted, o.KernelStopped = -1, -1
		if o.State == rca.OpEntered {
			o.State = rca.OpEnqueued
		}
		o.NoCompletion = o.NoCompletion || m.local[comm] // Neither a kernel nor a proxy tells of its end.
	}
}

// record is a finished operation as the shim would have written it.
func (m *mask) record(c *trace.Completion) {
	if m.kernels {
		c.EnteredNS, c.GPUNS = 0, 0
		c.Flags |= trace.OpLeftInferred
		if c.Send.Flows+c.Recv.Flows == 0 {
			c.Flags |= trace.OpNoCompletion
			c.LeftNS = max(c.CalledNS, c.EnqueuedNS)
		}
	}
	if m.steps {
		c.Send, c.Recv = trace.Direction{}, trace.Direction{}
	}
}
