// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package hang finds who holds a job that stands still: the wait-for graph, its leaves, knots and cycles (docs/rca.md).
package hang

import (
	"cmp"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// waitFor is the wait-for graph of a job that stands still, with what every rank shows of itself.
type waitFor struct {
	*standstill
	*graph
	owns   []own
	ownRow []int32         // First of owns by node; len nodes+1.
	stuck  []int32         // Ranks inside an operation that stands still.
	lies   map[int32]int32 // Ranks whose own word others' data contradicts, and one of those others.
}

// ownsOf gives what a node shows of itself.
func (w *waitFor) ownsOf(n int32) []own { return w.owns[w.ownRow[n]:w.ownRow[n+1]] }

// builder makes the wait-for graph out of the index.
type builder struct {
	x     *standstill
	edges []edge
	owns  []own
	// moving: the operation being looked at makes progress on the rank being looked at.
	moving bool
	// doubted: it says so, and the other hosts say that the operation stands.
	doubted bool
	// whole: all flows of the channel being looked at are there.
	whole bool
	lies  map[int32]int32
	// ended: the process of some rank is no more.
	ended bool
	// trees are the edges seen of each tree; nil before one is asked for.
	trees map[treeChannel]map[[2]int32]bool
	// weak: that a member lacks the operation being looked at holds nobody for sure.
	weak bool
}

func (b *builder) edge(from, to, inst int32, ch int, kind edgeKind, sure bool) {
	b.edges = append(b.edges, edge{from: from, to: to, inst: inst, channel: int16(ch), kind: kind, sure: sure})
}

// buildWaitFor makes the graph. A rank inside an operation waits for the operation if that lacks somebody, and for
// whom its flows show; an operation waits for the members that are not inside. Dead processes wait for nobody.
func buildWaitFor(idx *job.Index) *waitFor {
	x := newStandstill(idx)
	b := &builder{x: x, lies: map[int32]int32{}, edges: make([]edge, 0, 4*len(x.Nodes))} // A rank has a few flows and operations.
	b.ended = slices.ContainsFunc(x.Nodes, func(n job.Node) bool { return hasEnded(n.Rank) })
	w := &waitFor{standstill: x, lies: b.lies}
	for i := range x.insts {
		in := &x.insts[i]
		in.markGivers()
		x.markContributors(in)
		for k := range in.joins {
			if in.joins[k].active {
				in.inside++
				x.countBegun(in, &in.joins[k])
			}
		}
	}
	for i := range x.insts {
		x.holdQueued(int32(i))
	}
	for i := range x.insts {
		if in := &x.insts[i]; in.stuck {
			in.odd = x.compareSignatures(in)
		}
		b.instance(int32(i))
	}
	for n := range x.Nodes {
		r := x.Nodes[n].Rank
		if r == nil {
			continue
		}
		if slices.ContainsFunc(x.acts[n], func(a active) bool { return a.stuck }) {
			w.stuck = append(w.stuck, int32(n))
		}
		if !job.Dead(r) {
			b.rank(int32(n), r)
		}
	}
	w.owns = b.owns
	slices.SortStableFunc(w.owns, func(a, b own) int { return cmp.Compare(a.node, b.node) })
	w.ownRow, _ = rows(len(x.Nodes), w.owns, func(o *own) int32 { return o.node })
	w.graph = newGraph(len(x.Nodes)+len(x.insts), b.edges)
	return w
}

// instance adds the edges from an operation to the members that are not in it.
func (b *builder) instance(i int32) {
	x := b.x
	in := &x.insts[i]
	v := int32(len(x.Nodes)) + i
	if in.inside == 0 {
		return
	}
	if in.odd != nil {
		for _, o := range in.odd.odd {
			b.edge(v, o.node, i, -1, edgeOdd, true)
		}
		in.gap = true
	}
	for k := range in.joins {
		j := &in.joins[k]
		switch r := x.Nodes[j.node].Rank; {
		case job.Dead(r):
			b.edge(v, j.node, i, -1, edgeDead, true)
			in.gap = true
		case !j.active:
			b.edge(v, j.node, i, -1, pick(j.started == startNo && len(x.acts[j.node]) == 0, edgeNotStarted, edgeQueued), true)
			in.gap = true
		}
	}
	c := &x.Comms[in.key.comm]
	if in.key.p2p() {
		for _, cr := range [2]int32{in.key.src, in.key.dst} {
			if in.at(cr) == nil && cr >= 0 {
				b.absent(v, i, in, b.p2pMember(c, cr))
			}
		}
		if in.openGroup() {
			b.connecting(v, i, in)
		}
		return
	}
	if len(in.joins) >= len(c.Members) && c.Unnamed < 0 {
		return
	}
	// What somebody has finished all have entered, seen or not.
	entered := !oneSided(in.op().Func) && x.completed(in) > 0
	b.weak = in.hidden && !x.mostCalled(in)
	for k := range c.Members {
		if !in.has(&c.Members[k]) && (!entered || x.Nodes[c.Members[k].Node].Rank != nil) {
			b.absent(v, i, in, &c.Members[k])
		}
	}
	b.weak = false
	if c.Unnamed >= 0 && !entered {
		b.edge(v, c.Unnamed, i, -1, edgeUnseen, false)
		in.gap = true
	}
	if in.gap && in.key.fn < 0 {
		b.called(v, i, in)
	}
}

// called: an operation that lacks somebody holds those, too, of whom nothing but counts is known and who have called it and
// not finished it.
func (b *builder) called(v, i int32, in *instance) {
	c := &b.x.Comms[in.key.comm]
	for k := range c.Members {
		if m := &c.Members[k]; m.Membership != nil && b.x.Nodes[m.Node].Visibility == job.CountsOnly && m.Membership.Called > in.key.place && m.Membership.Completed >= 0 && m.Membership.Completed <= in.key.place {
			b.edge(m.Node, v, i, -1, edgeIn, false)
		}
	}
}

func (b *builder) p2pMember(c *job.Comm, commRank int32) *job.Member {
	n := c.Unnamed
	if int(commRank) < len(c.At) && c.At[commRank] >= 0 {
		n = c.At[commRank]
	}
	if n < 0 {
		return nil
	}
	if m := c.Find(n); m != nil {
		return m
	}
	return &job.Member{Node: n, CommRank: commRank}
}

// absent adds the edge to a member that is not in the instance.
func (b *builder) absent(v, i int32, in *instance, mem *job.Member) {
	if mem == nil {
		return
	}
	p, sure := b.x.presenceOf(in, mem)
	switch r := b.x.Nodes[mem.Node].Rank; {
	case p == leftIt:
		return
	case r == nil:
		b.edge(v, mem.Node, i, -1, edgeUnseen, false)
	case p == presenceUnknown && b.x.Nodes[mem.Node].Visibility == job.CountsOnly:
		b.edge(v, mem.Node, i, -1, edgeUnseen, false)
	case job.Dead(r):
		b.edge(v, mem.Node, i, -1, edgeDead, true)
	case p == notCalled:
		b.edge(v, mem.Node, i, -1, edgeNotCalled, sure && !b.weak)
	default:
		b.edge(v, mem.Node, i, -1, edgeNotCalled, false)
	}
	in.gap = true
}

// rank adds whom one living rank waits for.
func (b *builder) rank(n int32, r *rca.Rank) {
	x := b.x
	for k := range x.acts[n] {
		a := &x.acts[n][k]
		in := &x.insts[a.inst]
		before := len(b.edges) + len(b.owns)
		if in.odd == nil {
			b.flows(n, a)
		}
		if in.gap {
			b.edge(n, int32(len(x.Nodes))+a.inst, a.inst, -1, edgeIn, !in.hidden)
			continue
		}
		if len(b.edges)+len(b.owns) == before && !b.heldByGroup(n, a) {
			b.unobserved(n, a, r)
		}
	}
	if len(x.acts[n]) == 0 {
		b.idle(n, r)
	}
}

// heldByGroup: sends and receives of one group run in one kernel and end together. One whose own data has passed waits
// for those of its group whose data has not.
func (b *builder) heldByGroup(n int32, a *active) bool {
	if !job.IsP2P(a.op) || pending(a.op) {
		return false
	}
	acts := b.x.acts[n]
	for i := range acts {
		if o := &acts[i]; o.comm == a.comm && o.op != a.op && job.IsP2P(o.op) && pending(o.op) {
			return true
		}
	}
	return false
}

// pending reports whether a flow of the operation shows unfinished work.
func pending(o *rca.Op) bool {
	return slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return !f.Finished() })
}

// unobserved: all members are inside and no flow of this rank says anything. It waits for those on its host whose
// flows are seen; failing that, for the operation as a whole.
func (b *builder) unobserved(n int32, a *active, r *rca.Rank) {
	in := &b.x.insts[a.inst]
	if len(a.op.Flows) == 0 {
		before := len(b.edges)
		b.neighbours(n, a.inst)
		if len(b.edges) > before {
			return
		}
	}
	all := len(a.op.Flows) > 0
	for i := range a.op.Flows {
		all = all && a.op.Flows[i].Finished()
	}
	if len(a.op.Flows) == 0 {
		b.alone(n, a, r)
	}
	if all && r.Caps&rca.SeesCompletion != 0 && !a.op.ProxyUnreliable {
		b.own(n, -1, a.inst, -1, &kernelStays)
	}
	if in.stuck {
		b.edge(n, int32(len(b.x.Nodes))+a.inst, a.inst, -1, edgeIn, true)
	}
}

// alone: other members have finished the operation, which none of them can without this rank's part in it. What is left
// to do is this rank's own: its GPU does not get to the end.
func (b *builder) alone(n int32, a *active, r *rca.Rank) {
	in := &b.x.insts[a.inst]
	call := b.x.Comms[in.key.comm].Call
	if !a.stuck || in.key.p2p() || r.Caps&rca.SeesCompletion == 0 && !call {
		return
	}
	left := b.x.completed(in)
	if call && b.x.Comms[in.key.comm].Size == 1 {
		b.own(n, -1, a.inst, -1, &insideSetupPerhaps)
		return
	}
	if left == 0 || left < len(in.joins) {
		return
	}
	if call {
		b.own(n, -1, a.inst, -1, pick(len(in.joins) == 1, &insideSetup, &insideSetupPerhaps))
		return
	}
	b.own(n, -1, a.inst, -1, pick(len(in.joins) > 1 || b.x.othersCalled(n, a.inst) || oneSided(a.op.Func), &alonePerhaps, &alone))
}

// othersCalled reports whether another member, which nothing shows in an operation, has it in flight: it may be what is waited for.
func (x *standstill) othersCalled(n, inst int32) bool {
	return slices.ContainsFunc(x.Comms[x.insts[inst].key.comm].Members, func(m job.Member) bool {
		return m.Node != n && m.Membership != nil && slices.ContainsFunc(m.Membership.InFlight, func(o rca.Op) bool { return x.instanceOf(&m, &o) == inst })
	})
}

// oneSided names the collectives of which a member may have finished its part long before the data is where it should be.
func oneSided(fn string) bool {
	switch strings.ToLower(fn) {
	case "broadcast", "reduce", "gather", "scatter", "_broadcast_oop", "_reduce_oop":
		return true
	}
	return false
}

// completed counts the members that have finished the instance.
func (x *standstill) completed(in *instance) int {
	c := &x.Comms[in.key.comm]
	left := 0
	for i := range c.Members {
		if x.hasLeft(in, &c.Members[i]) {
			left++
		}
	}
	return left
}

// hasLeft reports whether a member was seen to finish the instance.
func (x *standstill) hasLeft(in *instance, mem *job.Member) bool {
	if mem.Membership == nil || in.has(mem) {
		return false
	}
	p, sure := x.presenceOf(in, mem)
	return p == leftIt && sure && (x.Comms[in.key.comm].Call || x.Nodes[mem.Node].Rank.Caps&rca.SeesCompletion != 0) &&
		(mem.Membership.Completed < 0 || mem.Membership.Completed > in.key.place)
}

// completedLately reports whether a rank has finished something within the time from which operations count as stuck: its GPU
// does get on, and what is called far ahead waits for its turn.
func (x *standstill) completedLately(r *rca.Rank) bool {
	for i := range r.Memberships {
		if m := &r.Memberships[i]; m.Completed > 0 && m.SinceCompleted > 0 && m.SinceCompleted < x.Opt.HangAfter {
			return true
		}
	}
	return false
}

// idle: a rank that runs no operation. If some are called and none of their kernels runs, its GPU does not get to
// them; if the oldest is only called, its CPU does not come out of the call.
func (b *builder) idle(n int32, r *rca.Rank) {
	if b.x.completedLately(r) {
		return
	}
	var first *rca.Op
	var in *rca.Membership
	for j := range r.Memberships {
		m := &r.Memberships[j]
		for i := range m.InFlight {
			o := &m.InFlight[i]
			if !b.x.waits(r, m, o) || started(r, o) != startNo && o.State != rca.OpCalled {
				continue
			}
			if first == nil || o.Age > first.Age || o.Age == first.Age && m.Comm < in.Comm {
				first, in = o, m
			}
			break
		}
	}
	if first == nil {
		return
	}
	mem := b.x.Comms[b.x.CommOf[in.Comm]].Find(n)
	if inst := b.x.instanceOf(mem, first); inst >= 0 {
		late := first.Age < 0 || first.Age >= b.x.Opt.HangAfter
		if first.State == rca.OpCalled {
			sure := late && r.GroupOpen >= b.x.Opt.HangAfter
			f := pick(sure, &insideCall, &insideCallPerhaps)
			if makesConnections(first) {
				f = pick(sure, &connecting, &connectingPerhaps)
			}
			b.own(n, -1, inst, -1, f)
			return
		}
		// A job's first kernels wait for modules to be loaded or compiled.
		late = late && b.x.hiddenBefore(r, first) == nil && !heldUnseen(r, first) && !b.x.firstStep(n, inst)
		b.own(n, -1, inst, -1, pick(late, &kernelNotStarted, &kernelNotStartedYet))
	}
}
