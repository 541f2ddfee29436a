// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// lies are false claims that a process can make. It writes its own trace file, so it can claim anything about itself: what it
// called, where it stands, and what arrived from others. The state of the process comes from the kernel, and no process can
// falsify it.
var lies = map[string]func(rng *rand.Rand, r *rca.Rank){
	"calls that never were": func(rng *rand.Rand, r *rca.Rank) {
		n := int64(1 + rng.IntN(1000))
		eachMembership(r, func(m *rca.Membership) { m.Called += n })
	},
	"calls that it has not made": func(rng *rand.Rand, r *rca.Rank) {
		n := int64(1 + rng.IntN(3))
		eachMembership(r, func(m *rca.Membership) {
			m.Called, m.Started, m.Completed = max(0, m.Called-n), max(0, m.Started-n), max(0, m.Completed-n)
			m.InFlight = nil
		})
	},
	"all is completed": func(_ *rand.Rand, r *rca.Rank) {
		eachMembership(r, func(m *rca.Membership) { m.Completed = 1 << 40 })
	},
	"nothing is in flight": func(_ *rand.Rand, r *rca.Rank) {
		eachMembership(r, func(m *rca.Membership) { m.Completed, m.InFlight = m.Called, nil })
	},
	"all is sent and received": func(_ *rand.Rand, r *rca.Rank) {
		eachFlow(r, func(f *rca.Flow) { f.Posted, f.Ready, f.Transmitted, f.Done = f.Total, f.Total, f.Total, f.Total })
	},
	"nothing is sent or received": func(_ *rand.Rand, r *rca.Rank) {
		eachFlow(r, func(f *rca.Flow) { f.Ready, f.Transmitted, f.Done = 0, 0, 0 })
	},
	"it waits for its receivers": func(_ *rand.Rand, r *rca.Rank) {
		eachFlow(r, func(f *rca.Flow) {
			if f.Send {
				f.Ready, f.Transmitted, f.Done = f.Posted, f.Posted, max(0, f.Posted-4)
			}
		})
	},
	"its senders send nothing": func(_ *rand.Rand, r *rca.Rank) {
		eachFlow(r, func(f *rca.Flow) {
			if !f.Send {
				f.Ready, f.Transmitted, f.Done = 0, 0, 0
			}
		})
	},
	"other operations": func(_ *rand.Rand, r *rca.Rank) {
		eachOp(r, func(o *rca.Op) { o.Func, o.Bytes = "Broadcast", 77 })
	},
	"it has waited for an hour": func(_ *rand.Rand, r *rca.Rank) {
		eachOp(r, func(o *rca.Op) { o.Age, o.Stuck = time.Hour, time.Hour })
	},
	"it moves": func(_ *rand.Rand, r *rca.Rank) {
		eachOp(r, func(o *rca.Op) { o.Stuck = 0 })
	},
	"its kernels have not begun": func(_ *rand.Rand, r *rca.Rank) {
		eachOp(r, func(o *rca.Op) { o.KernelStarted, o.KernelStopped = 0, 0 })
	},
}

func eachMembership(r *rca.Rank, do func(*rca.Membership)) {
	for j := range r.Memberships {
		do(&r.Memberships[j])
	}
}

func eachOp(r *rca.Rank, do func(*rca.Op)) {
	eachMembership(r, func(m *rca.Membership) {
		for k := range m.InFlight {
			do(&m.InFlight[k])
		}
	})
}

func eachFlow(r *rca.Rank, do func(*rca.Flow)) {
	eachOp(r, func(o *rca.Op) {
		for f := range o.Flows {
			do(&o.Flows[f])
		}
	})
}

// TestRandomJobsOneProcessLies: whatever one process of a stalled job claims, only the culprit or the liar is named.
func TestRandomJobsOneProcessLies(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, 6))
			named := 0
			jobs := rcatest.Draws(200)
			for range jobs {
				m, rank := hung(t, rng)
				ev := m.evidence()
				liar := rng.IntN(len(ev.Ranks))
				lie(rng, &ev.Ranks[liar])
				v := Analyze(ev, rca.Options{})
				if slices.Contains(rcatest.Accused(v), rank) {
					named++
				}
				if liar == rank || m.fault.kind == "other" {
					continue
				}
				for _, a := range rcatest.Accused(v) {
					if a != rank && a != ev.Ranks[liar].ID {
						t.Errorf("%+v, %d lies: names innocent %d (%g), page %v\n%s", m.fault, liar, a, v.Confidence, v.Page, v.Summary)
					}
				}
			}
			t.Logf("named beside a liar: %d of %d", named, jobs)
		})
	}
}
