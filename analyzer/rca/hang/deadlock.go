// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// orderSide is one side of a deadlock: the ranks that entered inst first and have the rest behind it.
type orderSide struct {
	inst  int32
	ranks []int32
}

// deadlock recognises a component in which ranks wait for each other through two or more operations: the groups were
// entered in different orders. Operations of one communicator mean that its ranks called in different orders (H2).
// Only ranks that belong to both sides have an order; of those the fewer are named.
func (w *waitFor) deadlock(vs, ranks []int32) (candidate, bool) {
	insts := w.cyclicInstances(vs, true)
	sure := len(insts) >= 2
	if !sure {
		if insts = w.cyclicInstances(vs, false); len(insts) < 2 {
			return candidate{}, false
		}
	}
	if w.inOneOrder(insts, ranks) {
		return candidate{}, false
	}
	byInst := map[int32][]int32{}
	for _, both := range [2]bool{true, false} {
		clear(byInst)
		for _, n := range ranks {
			if w.Nodes[n].Rank == nil || both && !w.inSeveral(n, insts) {
				continue
			}
			for k := range w.acts[n] {
				if i := w.acts[n][k].inst; slices.Contains(insts, i) {
					byInst[i] = append(byInst[i], n)
				}
			}
		}
		withoutOrder(byInst)
		if len(byInst) >= 2 {
			break
		}
	}
	if len(byInst) < 2 {
		return candidate{}, false
	}
	r := candidate{row: pick(sure, deadlockSeen, deadlockPerhaps), peer: -1, channel: -1, vertex: vs}
	for i, ns := range byInst {
		r.order = append(r.order, orderSide{i, ns})
		if w.insts[i].hidden {
			r.strength, r.weight = weak, hiddenWeight
		}
	}
	// The smaller camp first: it is more likely the one that differs from the program of the others.
	slices.SortFunc(r.order, func(a, b orderSide) int {
		return cmp.Or(cmp.Compare(len(a.ranks), len(b.ranks)), cmp.Compare(a.inst, b.inst))
	})
	w.breakTie(&r)
	r.inst = r.order[0].inst
	last := r.order[len(r.order)-1]
	switch first := len(r.order[0].ranks); {
	case len(r.nodes) > 0: // The ranks outside told.
	case len(r.order) > 2 && first < len(r.order[1].ranks):
		r.nodes = slices.Clone(r.order[0].ranks) // The other small camps wait like the large one.
	default:
		for _, s := range r.order {
			if len(s.ranks) < len(last.ranks) || first == len(last.ranks) {
				r.nodes = append(r.nodes, s.ranks...)
			}
		}
	}
	slices.Sort(r.nodes)
	r.nodes = slices.Compact(r.nodes)
	if w.skipped(&r, last) {
		r.cause = rca.CauseOtherOp
	}
	return r, true
}

// inOneOrder reports whether the operations of a cycle were called in orders that agree, by ranks of which nobody sees the kernels. Each GPU
// then comes to them in that order, and what seems to be entered first is what has not ended: no deadlock.
func (w *waitFor) inOneOrder(insts, ranks []int32) bool {
	const most = 64 // Operations; a longer cycle is told by other means.
	noKernels := func(n int32) bool { r := w.Nodes[n].Rank; return r != nil && r.Caps&rca.SeesKernels == 0 }
	if len(insts) > most || !slices.ContainsFunc(ranks, noKernels) {
		return false
	}
	before := make([][]bool, len(insts))
	for i := range before {
		before[i] = make([]bool, len(insts))
	}
	for _, n := range ranks {
		for i, a := range insts {
			for k, b := range insts {
				if i != k && w.calledFirst(n, a, b) {
					before[i][k] = true
				}
			}
		}
	}
	for via := range insts {
		for i := range insts {
			for k := range insts {
				before[i][k] = before[i][k] || before[i][via] && before[via][k]
			}
		}
	}
	for i := range insts {
		if before[i][i] {
			return false
		}
	}
	return true
}

// calledFirst reports whether a rank that belongs to both has called one operation before the other, or has not called the other.
func (w *waitFor) calledFirst(n, first, second int32) bool {
	if !w.inSeveral(n, []int32{first, second}) {
		return false
	}
	a, b := w.part(&w.insts[first], n), w.part(&w.insts[second], n)
	switch {
	case a != nil && b != nil:
		return a.op.Age > b.op.Age
	case a != nil:
		return !w.mayHaveLeft(n, second)
	}
	return b != nil && w.mayHaveLeft(n, first)
}

// mayHaveLeft reports whether a rank is past the operation, as far as is known: hasLeft asks for proof.
func (w *waitFor) mayHaveLeft(n, inst int32) bool {
	mem := w.Comms[w.insts[inst].key.comm].Find(n)
	p, _ := w.presenceOf(&w.insts[inst], mem)
	return p == leftIt
}

// withoutOrder takes out ranks that are in several of the operations at once: they show no order, as those of a group call
// do not where nobody sees kernels.
func withoutOrder(byInst map[int32][]int32) {
	times := map[int32]int{}
	for _, ns := range byInst {
		for _, n := range ns {
			times[n]++
		}
	}
	for i, ns := range byInst {
		if ns = slices.DeleteFunc(ns, func(n int32) bool { return times[n] > 1 }); len(ns) > 0 {
			byInst[i] = ns
		} else {
			delete(byInst, i)
		}
	}
}

// breakTie names one of two equal camps when the ranks outside the deadlock know the program's order.
func (w *waitFor) breakTie(r *candidate) {
	if len(r.order) != 2 || len(r.order[0].ranks) != len(r.order[1].ranks) {
		return
	}
	if w.usualOrder(r.order[1].inst, r.order[0].inst) {
		r.order[0], r.order[1] = r.order[1], r.order[0]
	} else if !w.usualOrder(r.order[0].inst, r.order[1].inst) {
		return
	}
	r.nodes = slices.Clone(r.order[0].ranks)
}

// usualOrder asks the ranks outside the deadlock which of two operations comes first in the program: true when those
// that are in first have left second's like in their own communicator of its family, and nobody says the opposite. Who
// entered first before second is then the one who differs.
func (w *waitFor) usualOrder(first, second int32) bool {
	return w.leftBefore(second, first) > 0 && w.leftBefore(first, second) == 0
}

// leftBefore counts ranks that are in one operation and have left another's like at the same place of a sibling
// communicator.
func (w *waitFor) leftBefore(left, in int32) int {
	k := &w.insts[left].key
	c := &w.Comms[k.comm]
	if k.fn >= 0 || k.p2p() {
		return 0
	}
	count := 0
	for i := range w.insts[in].joins {
		j := &w.insts[in].joins[i]
		r := w.Nodes[j.node].Rank
		if !j.active || c.Find(j.node) != nil {
			continue
		}
		for m := range r.Memberships {
			mb := &r.Memberships[m]
			s := &w.Comms[w.CommOf[mb.Comm]]
			if !w.Siblings(c, s) || mb.Called <= k.place {
				continue
			}
			if !slices.ContainsFunc(mb.InFlight, func(o rca.Op) bool { return o.Number == k.place }) {
				count++
			}
		}
	}
	return count
}

// cyclicInstances gives the instances of the largest cycle within the component. An operation that all its members are in
// was entered in no other order than it should be.
func (w *waitFor) cyclicInstances(vs []int32, sureOnly bool) []int32 {
	marked := make([]bool, w.n)
	for _, v := range vs {
		marked[v] = true
	}
	of, sink := w.components(marked, sureOnly)
	by := make([][]int32, len(sink))
	for _, v := range vs {
		c := of[v]
		if int(v) >= len(w.Nodes) {
			if i := v - int32(len(w.Nodes)); w.insts[i].gap {
				by[c] = append(by[c], i)
			}
			continue
		}
		// Sends and receives are waited for directly, without their instance's vertex.
		for _, e := range w.outOf(v) {
			if d := &w.edges[e]; of[d.to] == c && d.inst >= 0 && w.insts[d.inst].gap && (!sureOnly || d.sure) && d.kind != edgeIn {
				by[c] = append(by[c], d.inst)
			}
		}
	}
	var best []int32
	for c := range by {
		slices.Sort(by[c])
		if by[c] = slices.Compact(by[c]); len(by[c]) > len(best) {
			best = by[c]
		}
	}
	return best
}

// inSeveral reports whether the rank belongs to more than one of the operations, called or not.
func (w *waitFor) inSeveral(n int32, insts []int32) bool {
	count := 0
	for _, i := range insts {
		k := &w.insts[i].key
		c := &w.Comms[k.comm]
		m := c.Find(n)
		if m == nil || k.p2p() && m.CommRank != k.src && m.CommRank != k.dst {
			continue
		}
		if count++; count > 1 {
			return true
		}
	}
	return false
}

// skipped reports whether the odd ranks have not called what the others are in, although those have called both: an
// operation was left out, or another called, rather than two entered in different orders. The same where both sides
// are on one communicator.
func (w *waitFor) skipped(r *candidate, last orderSide) bool {
	if !slices.ContainsFunc(r.order, func(s orderSide) bool { return w.insts[s.inst].key.comm != w.insts[r.inst].key.comm }) {
		return !w.insts[r.inst].key.p2p()
	}
	if len(r.order) != 2 || len(r.order[0].ranks) == len(last.ranks) {
		return false
	}
	for _, n := range r.order[0].ranks {
		if w.part(&w.insts[last.inst], n) != nil {
			return false
		}
	}
	for _, n := range last.ranks {
		if w.part(&w.insts[r.inst], n) == nil {
			return false
		}
	}
	return true
}
