// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"fmt"
	"math"
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

// enteredCount is the number of operations whose kernel has started: CCL-D's counter, which counts on the GPU.
func enteredCount(m *rca.Membership) int64 {
	n := m.Completed
	for i := range m.InFlight {
		if entered(&m.InFlight[i]) {
			n++
		}
	}
	return n
}

// shape is what of an operation's work can be compared: members of a ring have all the same, those of a tree by layer.
type shape struct {
	flows int
	total int64
}

// data gives the network steps that a rank has done of its first operation in flight, and what it has to do.
func data(m *rca.Membership) (s shape, done int64) {
	if len(m.InFlight) == 0 {
		return s, 0
	}
	for _, f := range m.InFlight[0].Flows {
		s.flows++
		s.total += f.Total
		done += f.Done
	}
	return s, done
}

// fewest gives the rank that has done the fewest network steps among those that have the same to do.
func fewest(views []memberView) int {
	groups := map[shape][]memberView{}
	for _, v := range views {
		if s, _ := data(v.m); s.flows > 0 {
			groups[s] = append(groups[s], v)
		}
	}
	rank, behind := -1, int64(0)
	for _, g := range groups {
		low, high, who := int64(math.MaxInt64), int64(0), -1
		for _, v := range g {
			_, n := data(v.m)
			if n < low {
				low, who = n, v.rank
			}
			high = max(high, n)
		}
		if d := high - low; d > behind || (d == behind && d > 0 && who < rank) {
			rank, behind = who, d
		}
	}
	return rank
}

// least gives the rank with the smallest value, -1 when all have the same.
func least(views []memberView, value func(*rca.Membership) int64) int {
	low, high, rank := int64(math.MaxInt64), int64(math.MinInt64), -1
	for _, v := range views {
		n := value(v.m)
		if n < low {
			low, rank = n, v.rank
		}
		high = max(high, n)
	}
	if low == high {
		return -1
	}
	return rank
}

// silent gives the first rank of the stuck communicator whose node does not answer: its counter does not advance, and
// no log of it arrives. -1: all answer.
func (b *bench) silent() int {
	for i := range b.ev.Comms {
		c := &b.ev.Comms[i]
		if c.ID != b.stuck || c.Size <= len(b.member[c.ID]) {
			continue
		}
		for _, m := range b.ev.Missing {
			for _, r := range m.Ranks {
				if len(c.Members) < c.Size || slices.Contains(c.Members, r) || slices.Contains(c.Members, -1) {
					return r
				}
			}
		}
	}
	return -1
}

// ccldHang is CCL-D's decision tree for hangs (section 4.3) on the communicator that has been stuck longest: whose
// counter has not advanced (H1); who does not hang, or has another operation type set (H2); the fewest Send and Recv (H3).
func (b *bench) ccldHang() int {
	if r := b.silent(); r >= 0 {
		return r
	}
	views := b.member[b.stuck]
	if r := least(views, enteredCount); r >= 0 {
		return r
	}
	for _, v := range views {
		if len(v.m.InFlight) == 0 {
			return v.rank
		}
	}
	count := map[string]int{}
	types := func(m *rca.Membership) string {
		o := &m.InFlight[0]
		return fmt.Sprint(o.Func, o.Datatype, o.Bytes, o.Algo, o.Proto)
	}
	for _, v := range views {
		count[types(v.m)]++
	}
	if len(count) > 1 {
		rare, rank := math.MaxInt, -1
		for _, v := range views {
			if n := count[types(v.m)]; n < rare {
				rare, rank = n, v.rank
			}
		}
		return rank
	}
	return fewest(views)
}

// mycroftFailure is Mycroft's algorithm 2 for failures in the group of the rank that has been stuck longest: the lowest
// operation number (CheckMinOp), else the least data (CheckMinData). A node without logs has done least.
func (b *bench) mycroftFailure() int {
	if r := b.silent(); r >= 0 {
		return r
	}
	views := b.member[b.stuck]
	if r := least(views, func(m *rca.Membership) int64 { return m.Completed }); r >= 0 {
		return r
	}
	return least(views, func(m *rca.Membership) int64 {
		_, n := data(m)
		return n
	})
}

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
