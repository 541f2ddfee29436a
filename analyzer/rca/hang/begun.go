// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// Where kernels are not seen, an operation that was launched and has moved nothing looks the same whether its GPU stands or still
// computes what comes before. Who has given data is in the operation, and waits for those that have not; where nobody has, nobody
// is known to wait.

// unseenKernel reports whether neither the source nor any data shows if a launched collective's kernel runs.
func (x *standstill) unseenKernel(j *join) bool {
	r := x.Nodes[j.node].Rank
	return r != nil && !seesKernel(r, j.op) && j.started == startUnknown && j.op.State != rca.OpCalled && !job.IsP2P(j.op)
}

// freeQueued frees the operations that nothing shows to have begun, and whose ranks all have another in flight that gets on: the GPUs come to
// them later. Which was called first does not count: each stream has its own order, and those of a replayed graph are called in none.
func (x *standstill) freeQueued() {
	for i := range x.insts {
		in := &x.insts[i]
		in.stuck = in.stuck && slices.ContainsFunc(in.joins, func(j join) bool {
			return j.active && (!x.unseenKernel(&j) || !x.getsOn(j.node))
		})
	}
}

// getsOn reports whether anything that a rank has called moves: its GPU then stands in nothing that it may come to later.
func (x *standstill) getsOn(n int32) bool {
	r := x.Nodes[n].Rank
	return r != nil && slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool {
		return slices.ContainsFunc(m.InFlight, func(o rca.Op) bool {
			return showsProgress(&o) && x.moves(&join{still: standsFor(&o, &m, r)})
		})
	})
}

// wouldShow reports whether an operation's flows would show that its GPU has come to it: in a ring a send that needs nothing from others, or
// data that has arrived, is given or taken at once.
func wouldShow(o *rca.Op) bool {
	return ringLike(o.Algo) && slices.ContainsFunc(o.Flows, func(f rca.Flow) bool {
		return f.Send && freeFirstStep(o.Func) || !f.Send && f.Transmitted > 0
	})
}

// markGivers marks the members whose data has come to others as begun: only their kernels can have given it, and their own record of a
// flow that is done is no longer there.
func (in *instance) markGivers() {
	for i := range in.joins {
		for k := range in.joins[i].op.Flows {
			f := &in.joins[i].op.Flows[k]
			if f.Send || f.Ready <= 0 || f.Peer < 0 {
				continue
			}
			if giver := in.at(int32(f.Peer)); giver != nil && giver.started == startUnknown {
				giver.started = startYes
			}
		}
	}
}

// markContributors marks all members of a collective as begun that one of them has finished with the data of all, as its network flows
// showed: only their kernels can have given it.
func (x *standstill) markContributors(in *instance) {
	if in.key.p2p() || in.key.fn >= 0 || oneSided(in.op().Func) {
		return
	}
	c := &x.Comms[in.key.comm]
	if !slices.ContainsFunc(c.Members, func(m job.Member) bool { return !in.has(&m) && x.finished(in, &m) && showsFlows(m.Membership) }) {
		return
	}
	for i := range in.joins {
		if j := &in.joins[i]; j.started == startUnknown {
			j.started = startYes
		}
	}
}

// showsFlows reports whether a member's part in its communicator's operations goes over the network, so that their end is seen there. The
// end of others is taken from what was called after them.
func showsFlows(m *rca.Membership) bool {
	return slices.ContainsFunc(m.InFlight, func(o rca.Op) bool { return len(o.Flows) > 0 && !job.IsP2P(&o) && !o.NoCompletion })
}

// countBegun counts a member in or out of an operation, if its GPU shows which.
func (x *standstill) countBegun(in *instance, j *join) {
	switch {
	case j.started == startYes:
		in.begun++
	case x.unseenKernel(j) && wouldShow(j.op):
		in.idle++
	}
}

// computes handles a rank of which nothing shows that its GPU has come to a collective; false when its flows are to be read as those
// of one that has. A minority that gave nothing holds the others. Where most gave nothing they still compute, as far as anybody
// can tell.
func (b *builder) computes(n int32, a *active, in *instance) bool {
	j := in.at(a.mem.CommRank)
	if j == nil || !b.x.unseenKernel(j) || in.begun > 0 && !wouldShow(a.op) {
		return false
	}
	if in.begun > 0 && in.idle <= in.begun {
		b.own(n, -1, a.inst, -1, &gpuNotCome)
	}
	return true
}

// holdQueued takes ranks of which nothing shows that their GPU has come to an operation out of it, where another one holds them: what they
// wait for, they wait for there.
func (x *standstill) holdQueued(i int32) {
	in := &x.insts[i]
	if in.begun == 0 {
		return
	}
	for k := range in.joins {
		if j := &in.joins[k]; j.active && x.unseenKernel(j) && x.heldBefore(in.key.comm, j) {
			j.active = false
			in.inside--
			x.acts[j.node] = slices.DeleteFunc(x.acts[j.node], func(a active) bool { return a.inst == i })
		}
	}
}

// heldBefore reports whether a rank called another operation before one, which stands, and in which others are, or are not seen.
func (x *standstill) heldBefore(comm int32, j *join) bool {
	r := x.Nodes[j.node].Rank
	for i := range r.Memberships {
		m := &r.Memberships[i]
		ci := x.CommOf[m.Comm]
		mem := x.Comms[ci].Find(j.node)
		if ci == comm || mem == nil {
			continue
		}
		for k := range m.InFlight {
			o := &m.InFlight[k]
			if o.NoCompletion || o.Age < j.op.Age {
				continue
			}
			if id := x.instanceOf(mem, o); id >= 0 && x.insts[id].stuck && (x.insts[id].begun > 0 || x.UnseenMember(&x.Comms[ci])) {
				return true
			}
		}
	}
	return false
}

// besideUnseen gives a rank and those beside whom it may be in earlier operations inside its host, whose end nobody sees: one of
// these may be what keeps its GPU from coming to a later one, or another one in front of that, and their members are not told apart.
func (x *standstill) besideUnseen(n, inst int32) []int32 {
	out := []int32{n}
	j := x.part(&x.insts[inst], n)
	if j == nil {
		return out
	}
	for next := 0; next < len(out); next++ {
		r := x.Nodes[out[next]].Rank
		for i := range r.Memberships {
			m := &r.Memberships[i]
			ci := x.CommOf[m.Comm]
			if ci == x.insts[inst].key.comm || !x.insideHost(ci, n) || !unseenInFront(r, m, j.op) {
				continue
			}
			for k := range x.Comms[ci].Members {
				if mate := x.Comms[ci].Members[k].Node; x.Nodes[mate].Rank != nil && !slices.Contains(out, mate) {
					out = append(out, mate)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// insideHost reports whether all members of a communicator that are known are on a rank's host.
func (x *standstill) insideHost(comm, n int32) bool {
	return x.Comms[comm].Unnamed < 0 && !slices.ContainsFunc(x.Comms[comm].Members, func(m job.Member) bool { return x.Host(m.Node) != x.Host(n) })
}

// unseenInFront reports whether a rank called an operation of a communicator before another one, and nothing would show its end.
func unseenInFront(r *rca.Rank, m *rca.Membership, later *rca.Op) bool {
	for i := range m.InFlight {
		o := &m.InFlight[i]
		if (o.NoCompletion || endUnseen(r, o)) && (o.Age < 0 || o.Age >= later.Age) && !passed(r, m, o) {
			return true
		}
	}
	return false
}
