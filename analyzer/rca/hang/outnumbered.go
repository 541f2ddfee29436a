// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// outnumbered takes those roots away that are an operation's majority and its only fault is that they have not called it: one
// that is a call ahead explains the same with one mistake instead of many. Neither story is told from the other by counts, so a
// root that names both takes their place.
func (w *waitFor) outnumbered(roots []root) (rest, apart []root) {
	by := map[int32][]root{}
	for _, r := range roots {
		if r.kind == rootOutside && r.inst >= 0 && r.leaf.cause == rca.CauseNotCalled {
			by[r.inst] = append(by[r.inst], r)
		}
	}
	for _, r := range roots {
		out := by[r.inst]
		if r.kind != rootOutside || r.leaf.cause != rca.CauseNotCalled || !w.areMost(r.inst, out) {
			rest = append(rest, r)
			continue
		}
		if out[0].nodes[0] == r.nodes[0] {
			apart = append(apart, w.aheadRoot(r.inst, out))
		}
	}
	return rest, apart
}

// areMost says that those outside a collective outnumber those inside, and have come equally far.
func (w *waitFor) areMost(inst int32, out []root) bool {
	if inst < 0 || len(out) < 2 {
		return false
	}
	in := &w.insts[inst]
	if in.key.p2p() || in.inside == 0 || len(out) <= in.inside {
		return false
	}
	c := &w.Comms[in.key.comm]
	return !slices.ContainsFunc(out, func(r root) bool {
		m := c.Find(r.nodes[0])
		return m == nil || m.Membership == nil || m.Membership.Called != in.key.place
	})
}

func (w *waitFor) aheadRoot(inst int32, out []root) root {
	in := &w.insts[inst]
	r := root{kind: rootAhead, peer: -1, inst: inst, channel: -1, leaf: leaf{class: rca.Unknown, cause: rca.CauseUnknown, weight: undecidedWeight}}
	for i := range in.joins {
		if in.joins[i].active {
			r.nodes = append(r.nodes, in.joins[i].node)
		}
	}
	for i := range out {
		r.others = append(r.others, out[i].nodes[0])
		r.vertex = append(r.vertex, out[i].nodes[0])
	}
	return r
}
