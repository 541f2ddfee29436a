// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"slices"
)

// orderSide is one side of a deadlock: the ranks that entered inst first and have the rest behind it.
type orderSide struct {
	inst  int32
	ranks []int32
}

// deadlock recognises a component in which ranks wait for each other through two or more operations: the groups were
// entered in different orders. Operations of one communicator mean that its ranks called in different orders (H2).
func (w *waitFor) deadlock(vs, ranks []int32) (root, bool) {
	in := make(map[int32]bool, len(vs))
	for _, v := range vs {
		in[v] = true
	}
	byInst := map[int32][]int32{}
	for _, n := range ranks {
		if w.nodes[n].rank == nil {
			return root{}, false
		}
		for k := range w.acts[n] {
			i := w.acts[n][k].inst
			if in[w.vertexOf(i)] || w.within(n, i, in) {
				byInst[i] = append(byInst[i], n)
			}
		}
	}
	if len(byInst) < 2 {
		return root{}, false
	}
	r := root{kind: rootDeadlock, peer: -1, channel: -1, vertex: vs,
		leaf: leaf{class: Inconsistent, cause: CauseDeadlock, weight: pick(w.surelyCyclic(vs), 0.9, 0.5), hard: true}}
	for i, ns := range byInst {
		r.order = append(r.order, orderSide{i, ns})
	}
	// The smaller camp first: it is more likely the one that differs from the program of the others.
	slices.SortFunc(r.order, func(a, b orderSide) int {
		return cmp.Or(cmp.Compare(len(a.ranks), len(b.ranks)), cmp.Compare(a.inst, b.inst))
	})
	r.inst = r.order[0].inst
	oneComm := true
	for _, s := range r.order {
		oneComm = oneComm && w.insts[s.inst].key.comm == w.insts[r.inst].key.comm
	}
	if oneComm && !w.insts[r.inst].key.p2p() {
		r.leaf.cause = CauseOtherOp
	}
	last := r.order[len(r.order)-1]
	for _, s := range r.order {
		if len(s.ranks) < len(last.ranks) || len(r.order[0].ranks) == len(last.ranks) {
			r.nodes = append(r.nodes, s.ranks...)
		}
	}
	slices.Sort(r.nodes)
	r.nodes = slices.Compact(r.nodes)
	return r, true
}

// within says whether the rank's waiting in the operation stays in the component.
func (w *waitFor) within(n, inst int32, in map[int32]bool) bool {
	for _, e := range w.out[w.row[n]:w.row[n+1]] {
		if d := &w.edges[e]; d.inst == inst && in[d.to] {
			return true
		}
	}
	return false
}

// surelyCyclic says that the component still holds together by its certain edges alone.
func (w *waitFor) surelyCyclic(vs []int32) bool {
	in := make(map[int32]bool, len(vs))
	for _, v := range vs {
		in[v] = true
	}
	out := map[int32]int{}
	for _, v := range vs {
		for _, e := range w.out[w.row[v]:w.row[v+1]] {
			if d := &w.edges[e]; d.sure && in[d.to] {
				out[v]++
			}
		}
	}
	return len(out) == len(vs)
}
