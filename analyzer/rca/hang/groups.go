// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Bounds of the drawn graph.
const (
	mostGroups     = 24
	mostRootGroups = 8
	groupRanks     = 64 // Ranks of a group that are listed; all are counted.
)

// groupKey is what ranks have in common that are one box: whom they wait for, why, and in what kind of operation.
type groupKey struct {
	on     int
	reason string
	fn     string
}

// grouping folds the wait-for graph into few groups of ranks that wait alike.
type grouping struct {
	w      *waitFor
	out    []rca.WaitGroup
	keys   []groupKey
	of     []int // Group by vertex, -1 none.
	byKey  map[groupKey]int
	steps  map[int32]*edge  // The way on from operations.
	places []map[int32]bool // Communicators of a group.
	last   []int32          // Operation of the rank that joined a group last, -1 none.
}

// waitGroups gives the wait-for graph as a person can look at it: the culprits first, then who waits for them, and who waits for
// those. A rank that waits for its like, as in a ring, is in one group with it. Only ranks that the verdict accuses are roots: the
// other end of a link, or a circle of waiting, is not drawn as if it were to blame.
func (w *waitFor) waitGroups(d *decision, culprits []rca.Culprit) []rca.WaitGroup {
	g := &grouping{w: w, of: make([]int, w.n), byKey: map[groupKey]int{}, steps: map[int32]*edge{}}
	for v := range g.of {
		g.of[v] = -1
	}
	var targets []int32
	for i := range d.chosen {
		g.root(&d.chosen[i])
		targets = append(targets, d.chosen[i].accused()...)
	}
	dist := w.distances(targets)
	reached := w.reach(w.stuck)
	var order []int32
	for n := range int32(len(w.Nodes)) {
		if reached[n] && dist[n] > 0 {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(dist[a], dist[b]) })
	for _, n := range order {
		if g.of[n] < 0 {
			g.follow(n, dist)
		}
	}
	_, around := w.cover(d.chosen)
	for _, n := range w.stuck {
		if g.of[n] >= 0 {
			continue
		}
		switch {
		case around[n] >= 0:
			g.put(n, groupKey{on: 0, reason: words.WaitInCircle}, -1, false)
		case w.Ev.Partial && w.sharesOp(n, d.chosen):
			g.put(n, groupKey{on: 0, reason: words.WaitSameOperation}, d.chosen[0].inst, false)
		default:
			g.put(n, groupKey{on: -1, reason: words.WaitUnseen}, -1, false)
		}
	}
	out := g.fold()
	for i := range out {
		out[i].Root = out[i].Root && accusesAll(culprits, out[i].Ranks)
	}
	return out
}

// accusesAll reports whether all of some ranks are accused, by number or as part of a link or group.
func accusesAll(culprits []rca.Culprit, ranks []int) bool {
	return len(culprits) > 0 && !slices.ContainsFunc(ranks, func(rank int) bool {
		return !slices.ContainsFunc(culprits, func(c rca.Culprit) bool { return c.Rank == rank || c.Rank < 0 })
	})
}

// root makes the group of a root. Beyond a few, roots share one.
func (g *grouping) root(r *candidate) {
	at := len(g.out)
	if at == mostRootGroups {
		at--
		g.out[at].Reason, g.out[at].Op, g.out[at].Comm = words.WaitSeveral, "", ""
		g.last[at] = -1
	} else {
		why := r.note
		if len(r.nodes) > 0 && r.kind != kindLink && r.kind != kindGroup {
			why = g.w.why(r, r.nodes[0])
		}
		g.add(groupKey{on: -1, reason: why}, r.inst)
		g.out[at].Root = true
	}
	for _, v := range r.accused() {
		if g.of[v] >= 0 {
			continue
		}
		if int(v) < len(g.w.Nodes) {
			g.join(v, at, r.inst)
		} else {
			g.of[v] = at // An operation is no rank.
		}
	}
}

// accused gives the vertices at which the waiting ends that a candidate explains: the ranks that it accuses.
func (r *candidate) accused() []int32 {
	switch {
	case len(r.nodes) == 0:
		return r.vertex
	case r.kind == kindLink:
		return r.ends()
	}
	return r.nodes
}

// follow puts a rank with those that wait alike, by its shortest way to a root.
func (g *grouping) follow(n int32, dist []int32) {
	w := g.w
	at, last := n, (*edge)(nil)
	for dist[at] > 0 {
		step, known := g.steps[at]
		if !known {
			if step = w.step(at, dist, -1); int(at) >= len(w.Nodes) {
				g.steps[at] = step // Thousands of ranks come by an operation that lacks thousands.
			}
		}
		if step == nil {
			return
		}
		at, last = step.to, step
		if g.of[at] >= 0 || int(at) < len(w.Nodes) {
			break
		}
	}
	on := g.of[at]
	if on < 0 || last == nil {
		return
	}
	key := groupKey{on: on, reason: reasons[last.kind]}
	if last.inst >= 0 {
		key.fn = w.insts[last.inst].op().Func
	}
	if k := g.keys[on]; !g.out[on].Root && k.reason == key.reason && k.fn == key.fn {
		key = k // Its like: the ranks of a ring wait for each other in a row.
	}
	g.put(n, key, last.inst, last.sure)
}

// step gives the edge by which a vertex comes nearer to a root: over the operation that is asked for where it can, else a certain one.
func (w *waitFor) step(at int32, dist []int32, inst int32) *edge {
	var best *edge
	better := func(e *edge) bool {
		if best == nil || inst >= 0 && (e.inst == inst) != (best.inst == inst) {
			return best == nil || e.inst == inst
		}
		return e.sure && !best.sure
	}
	for _, i := range w.outOf(at) {
		if e := &w.edges[i]; dist[e.to] == dist[at]-1 && better(e) {
			best = e
		}
	}
	return best
}

func (g *grouping) put(n int32, key groupKey, inst int32, sure bool) {
	at, known := g.byKey[key]
	if !known {
		at = g.add(key, inst)
		g.byKey[key] = at
		g.out[at].Sure = true
	}
	g.out[at].Sure = g.out[at].Sure && sure
	g.join(n, at, inst)
}

func (g *grouping) add(key groupKey, inst int32) int {
	group := rca.WaitGroup{On: key.on, Reason: key.reason}
	_, group.Op = g.w.place(inst)
	g.out, g.keys, g.places, g.last = append(g.out, group), append(g.keys, key), append(g.places, map[int32]bool{}), append(g.last, -1)
	return len(g.out) - 1
}

// join adds a rank to a group. An operation that is not that of the others of its group goes by its kind.
func (g *grouping) join(n int32, at int, inst int32) {
	g.of[n] = at
	group := &g.out[at]
	group.Count++
	if id := g.w.Nodes[n].ID; id >= 0 && len(group.Ranks) < groupRanks {
		group.Ranks = append(group.Ranks, id)
	}
	if inst < 0 || inst == g.last[at] {
		return
	}
	g.last[at] = inst
	in := &g.w.insts[inst]
	g.places[at][in.key.comm] = true
	group.Comms = len(g.places[at])
	if group.Comm = ""; group.Comms == 1 {
		group.Comm = g.w.Comms[in.key.comm].Name
	}
	if op := in.op(); group.Op != job.OpLabel(op) {
		group.Op = op.Func
	}
}

// fold leaves as many groups as can be drawn: the smallest of those for which nobody waits go into one beside them.
func (g *grouping) fold() []rca.WaitGroup {
	children := make([]int, len(g.out))
	for i := range g.out {
		if on := g.out[i].On; on >= 0 {
			children[on]++
		}
	}
	gone := map[int]bool{}
	rest := map[int]int{} // The group that takes the others in, by whom they wait for.
	for len(g.out)-len(gone) > mostGroups {
		least := -1
		for i := range g.out {
			k := &g.out[i]
			into, known := rest[k.On]
			leaf := !gone[i] && !k.Root && children[i] == 0 && !(known && into == i)
			if leaf && (least < 0 || k.Count < g.out[least].Count) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		k := &g.out[least]
		at, known := rest[k.On]
		if !known {
			rest[k.On] = least
			k.Reason, k.Op, k.Comm, k.Comms = words.WaitSeveral, "", "", 0
			continue
		}
		to := &g.out[at]
		to.Count += k.Count
		to.Ranks = append(to.Ranks, k.Ranks[:min(len(k.Ranks), groupRanks-len(to.Ranks))]...)
		to.Sure = to.Sure && k.Sure
		gone[least] = true
		if k.On >= 0 {
			children[k.On]--
		}
	}
	number := make([]int, len(g.out))
	var out []rca.WaitGroup
	for i := range g.out {
		if number[i] = len(out); !gone[i] {
			out = append(out, g.out[i])
		}
	}
	for i := range out {
		if out[i].On >= 0 {
			out[i].On = number[out[i].On]
		}
		slices.Sort(out[i].Ranks)
	}
	return out
}
