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

// unseenKernel says that the source does not tell whether a launched collective's kernel runs, and that no data does.
func (x *standstill) unseenKernel(j *join) bool {
	r := x.Nodes[j.node].Rank
	return r != nil && r.Caps&rca.SeesKernels == 0 && j.started == startUnknown && j.op.State != rca.OpCalled && !job.IsP2P(j.op)
}

// offersFirst says that an operation shows a send which needs nothing from others: a GPU that has come to it gives that at once.
func offersFirst(o *rca.Op) bool {
	if !freeFirstStep(o.Func) || !ringLike(o.Algo) {
		return false
	}
	for i := range o.Flows {
		if o.Flows[i].Send {
			return true
		}
	}
	return false
}

// countBegun counts a member in or out of an operation, if its GPU shows which.
func (x *standstill) countBegun(in *instance, j *join) {
	switch {
	case j.started == startYes:
		in.begun++
	case x.unseenKernel(j) && offersFirst(j.op):
		in.idle++
	}
}

// computes handles a rank of which nothing shows that its GPU has come to a collective; false when its flows are to be read as those
// of one that has. A minority that gave nothing holds the others. Where most gave nothing they still compute, as far as anybody
// can tell.
func (b *builder) computes(n int32, a *active, in *instance) bool {
	j := b.x.part(in, n)
	if j == nil || !b.x.unseenKernel(j) || in.begun > 0 && !offersFirst(a.op) {
		return false
	}
	if in.begun > 0 && in.idle <= in.begun {
		b.own(n, -1, a.inst, -1, 0.5, false, rca.CauseGPU, flawNotCome)
	}
	return true
}

// besideUnseen gives a rank and those beside whom it may be in an earlier operation inside its host, whose end nobody sees: that may be
// what keeps its GPU from coming to a later one, and its members are not told apart.
func (x *standstill) besideUnseen(n, inst int32) []int32 {
	out := []int32{n}
	j := x.part(&x.insts[inst], n)
	if j == nil {
		return out
	}
	r := x.Nodes[n].Rank
	for i := range r.Memberships {
		m := &r.Memberships[i]
		ci := x.CommOf[m.Comm]
		if ci == x.insts[inst].key.comm || !unseenInFront(r, m, j.op) {
			continue
		}
		for k := range x.Comms[ci].Members {
			if mate := x.Comms[ci].Members[k].Node; x.Nodes[mate].Rank != nil && !slices.Contains(out, mate) {
				out = append(out, mate)
			}
		}
	}
	slices.Sort(out)
	return out
}

// unseenInFront says that a rank called an operation of a communicator before another one, and nothing would show its end.
func unseenInFront(r *rca.Rank, m *rca.Membership, later *rca.Op) bool {
	for i := range m.InFlight {
		o := &m.InFlight[i]
		if (o.NoCompletion || endUnseen(r, o)) && (o.Age < 0 || o.Age >= later.Age) && !passed(r, m, o) {
			return true
		}
	}
	return false
}
