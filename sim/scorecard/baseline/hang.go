// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// bench is the evidence arranged for the baselines.
type bench struct {
	ev     *rca.Evidence
	member map[rca.CommID][]memberView
	stuck  rca.CommID // Communicator with the longest-stuck operation; empty: nobody is stuck.
}

type memberView struct {
	rank int
	m    *rca.Membership
}

const baselineHang = 3 * time.Second

func newBench(ev *rca.Evidence) *bench {
	b := &bench{ev: ev, member: map[rca.CommID][]memberView{}}
	var longest time.Duration
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			m := &ev.Ranks[i].Memberships[j]
			b.member[m.Comm] = append(b.member[m.Comm], memberView{ev.Ranks[i].ID, m})
			for k := range m.InFlight {
				o := &m.InFlight[k]
				if entered(o) && o.Stuck > baselineHang && (o.Stuck > longest || (o.Stuck == longest && m.Comm < b.stuck)) {
					longest, b.stuck = o.Stuck, m.Comm
				}
			}
		}
	}
	return b
}

func entered(o *rca.Op) bool { return o.State == rca.OpEntered || o.State == rca.OpMoving }

// lastArriverHang names the first rank of the stuck communicator that has not entered its operation.
func (b *bench) lastArriverHang() int {
	for _, v := range b.member[b.stuck] {
		if !slices.ContainsFunc(v.m.InFlight, func(o rca.Op) bool { return entered(&o) }) {
			return v.rank
		}
	}
	return -1
}

// ras is NCCL RAS's view: processes that do not answer, and lower counts of launched operations.
func (b *bench) ras() int {
	for i := range b.ev.Ranks {
		if b.ev.Ranks[i].State == rca.ProcessGone {
			return b.ev.Ranks[i].ID
		}
	}
	for _, m := range b.ev.Missing {
		if len(m.Ranks) > 0 {
			return m.Ranks[0]
		}
	}
	best, behind := -1, int64(0)
	for _, id := range b.comms() {
		views := b.member[id]
		high := int64(0)
		for _, v := range views {
			high = max(high, v.m.Called)
		}
		for _, v := range views {
			if d := high - v.m.Called; d > behind && b.collectiveOnly(views) {
				best, behind = v.rank, d
			}
		}
	}
	if behind < 1 || b.stuck == "" {
		return -1
	}
	return best
}

// collectiveOnly tells that a communicator does no send and receive, whose counts differ legitimately.
func (b *bench) collectiveOnly(views []memberView) bool {
	for _, v := range views {
		if v.m.FuncCalled["Send"] > 0 || v.m.FuncCalled["Recv"] > 0 {
			return false
		}
	}
	return true
}

func (b *bench) comms() []rca.CommID {
	out := make([]rca.CommID, 0, len(b.member))
	for id := range b.member {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
