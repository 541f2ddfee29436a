// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// candidate is an explanation: ranks, or a link or group, with the row of the table that says what they show.
type candidate struct {
	row            // Its weight and strength are less where something speaks against it.
	nodes  []int32 // Culprits; several when one cannot be told from the other.
	peer   int32   // Other end of a link, -1 none.
	inst   int32   // Operation that it shows in, -1 none.
	vertex []int32 // What others must reach to be explained by it.
	// note says what the rank does while others wait for it, action what would decide it, where class and cause do not say what to do.
	note, action string
	channel      int16
	order        []orderSide // Deadlock: who entered what first.
	others       []int32     // Those that it is ahead of.
	inside       *rca.Op     // A hidden operation that it may be inside, nil none.
	rivals       bool        // It may wait unseen for another that is outside like itself.
}

// candidateOf makes the candidate of one rank.
func candidateOf(r row, n, inst int32) candidate {
	c := candidate{row: r, nodes: []int32{n}, peer: -1, inst: inst, channel: -1, vertex: []int32{n}}
	if r.kind != kindFlaw {
		c.note = r.text
	}
	return c
}

// doubt makes the candidate weak and limits its weight: something else may explain what it shows.
func (c *candidate) doubt(most float64) { c.strength, c.weight = weak, min(c.weight, most) }

func (c *candidate) strong() bool { return c.strength == strong }

// candidates follows the waiting of all stuck ranks to its ends. What nobody else's waiting explains is strong. The rest counts where
// nothing strong explains a rank that waits: of each component that nobody leaves and in which nothing strong shows.
func (w *waitFor) candidates() []candidate {
	seen := w.reach(w.stuck)
	of, sink := w.components(seen, false)
	explained := make([]bool, len(sink))
	var out []candidate
	for v := range int32(w.n) {
		if !seen[v] {
			continue
		}
		if c, ok := w.showsStrongly(v); ok {
			out = append(out, c)
			explained[of[v]] = true
		}
	}
	out = w.coverLinks(out)
	for _, vs := range w.membersOf(of, func(c int32) bool { return sink[c] && !explained[c] }) {
		out = append(out, w.ofComponent(vs))
	}
	if !slices.ContainsFunc(out, func(c candidate) bool { return c.kind != kindUnseen }) {
		// A rank waits for all that its operation lacks, so one that waits in a circle is not released by whoever else it waits for. A
		// lost host makes no circle.
		for _, vs := range w.membersOf(of, func(c int32) bool { return !sink[c] }) {
			if lock, ok := w.deadlock(vs, w.ranksOf(vs)); ok && lock.strong() {
				out = append(out, lock)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(a.vertex[0], b.vertex[0]) })
	out = oneOfEach(out)
	for i := range out {
		w.settleByNode(&out[i])
	}
	return w.mayBeInside(w.outnumbered(out))
}

// membersOf gives the vertices of each of some components.
func (w *waitFor) membersOf(of []int32, component func(int32) bool) [][]int32 {
	members := map[int32][]int32{}
	for v := range int32(w.n) {
		if c := of[v]; c >= 0 && component(c) {
			members[c] = append(members[c], v)
		}
	}
	var out [][]int32
	for _, c := range slices.Sorted(maps.Keys(members)) {
		out = append(out, members[c])
	}
	return out
}

// ranksOf gives those of some vertices that are ranks.
func (w *waitFor) ranksOf(vs []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(vs), func(v int32) bool { return int(v) >= len(w.Nodes) })
}

// showsStrongly says what a vertex shows that is nobody else's doing.
func (w *waitFor) showsStrongly(v int32) (candidate, bool) {
	if int(v) >= len(w.Nodes) {
		i := v - int32(len(w.Nodes))
		in := &w.insts[i]
		if in.odd == nil { // Only operations that stand still are compared.
			return candidate{}, false
		}
		c := candidateOf(otherCall, v, i)
		c.nodes = nil
		for _, o := range in.odd.odd {
			c.nodes = append(c.nodes, o.node)
		}
		return c, true
	}
	if w.Unseen(v) {
		return candidate{}, false
	}
	if job.Dead(w.Nodes[v].Rank) {
		return w.died(v, w.diedIn(v, w.wantedIn(v))), true
	}
	var best *own
	owns := w.ownsOf(v)
	for i := range owns {
		if o := &owns[i]; o.strength == strong && (best == nil || o.weight > best.weight) {
			best = o
		}
	}
	if best != nil {
		return w.flawed(best, owns), true
	}
	if len(w.outOf(v)) == 0 && !w.inFlight(v) {
		c := w.missed(v)
		return c, c.strong()
	}
	return candidate{}, false
}

// flawed makes the candidate of a flaw that a rank shows among others.
func (w *waitFor) flawed(o *own, all []own) candidate {
	c := candidateOf(*o.row, o.node, o.inst)
	c.weight, c.strength, c.peer, c.channel = o.weight, o.strength, o.peer, o.channel
	if o.inCall() && w.firstStep(o.node, o.inst) {
		c.row = w.begins(o.node)
		c.kind, c.note, c.text = kindFlaw, c.text, o.text
	}
	for i := range all {
		if all[i].cause == o.cause && all[i].inst == o.inst && all[i].channel != o.channel {
			c.channel = -1 // More than one channel: no single one is meant.
		}
	}
	if len(all) == 1 || c.channel >= 0 {
		c.channel = w.onlyChannel(o)
	}
	return c
}

// onlyChannel gives the flaw's channel when the operation has others that show nothing, else -1.
func (w *waitFor) onlyChannel(o *own) int16 {
	for i := range w.acts[o.node] {
		a := &w.acts[o.node][i]
		if a.inst == o.inst && slices.ContainsFunc(a.op.Flows, func(f rca.Flow) bool { return int16(f.Channel) != o.channel }) {
			return o.channel
		}
	}
	return -1
}

// missed makes the candidate of a living rank that runs no operation and that others wait for.
func (w *waitFor) missed(v int32) candidate {
	c := w.outside(v, w.wantedIn(v))
	if _, lies := w.lies[v]; lies {
		c.strength, c.weight = weak, deniedWeight
	}
	if !slices.ContainsFunc(w.into(v), func(e int32) bool { return w.edges[e].sure }) {
		c.doubt(callsUnseenWeight)
	}
	return c
}

// inFlight reports whether the rank has any operation that could mean something in flight.
func (w *waitFor) inFlight(v int32) bool {
	r := w.Nodes[v].Rank
	for i := range r.Memberships {
		m := &r.Memberships[i]
		for k := range m.InFlight {
			if w.waits(r, m, &m.InFlight[k]) {
				return true
			}
		}
	}
	return false
}

// wantedIn gives the operation in which the others miss the rank: the one that lacks fewest beside it, for ranks that wait for
// it elsewhere are missed in what comes later; of those the one that most wait in, and longest.
func (w *waitFor) wantedIn(v int32) int32 {
	best := int32(-1)
	for _, e := range w.into(v) {
		if i := w.edges[e].inst; i >= 0 && i != best && (best < 0 || w.wantedMore(best, i)) {
			best = i
		}
	}
	return best
}

func (w *waitFor) wantedMore(than, i int32) bool {
	a, b := &w.insts[than], &w.insts[i]
	if a.key.p2p() != b.key.p2p() {
		if inner := pick(a.key.p2p(), b, a); w.beforeSends(inner) {
			return inner == b
		}
		if w.lacks(a) == w.lacks(b) {
			return a.key.p2p() // Who sends runs ahead of who receives.
		}
	}
	return cmp.Or(cmp.Compare(w.lacks(b), w.lacks(a)), cmp.Compare(a.inside, b.inside), cmp.Compare(a.age, b.age), cmp.Compare(i, than)) < 0
}

// beforeSends reports whether a collective comes before the receives of those in it: others wait to send to one of them.
func (w *waitFor) beforeSends(in *instance) bool {
	return slices.ContainsFunc(in.joins, func(j join) bool {
		return j.active && slices.ContainsFunc(w.into(j.node), func(e int32) bool {
			i := w.edges[e].inst
			return i >= 0 && w.insts[i].key.p2p()
		})
	})
}

// lacks counts the members that are not inside.
func (w *waitFor) lacks(in *instance) int {
	return pick(in.key.p2p(), 2, w.Comms[in.key.comm].Size) - in.inside
}

// diedIn gives the operation that a dead process was inside and is missed in, else the one it is missed in.
func (w *waitFor) diedIn(v, inst int32) int32 {
	for _, e := range w.into(v) {
		for i := range w.acts[v] {
			if a := &w.acts[v][i]; a.inst == w.edges[e].inst && a.stuck {
				return a.inst
			}
		}
	}
	return inst
}

// ofComponent explains a component that nobody leaves and in which nothing strong shows.
func (w *waitFor) ofComponent(vs []int32) candidate {
	ranks := w.ranksOf(vs)
	lock, locked := candidate{}, false
	if len(vs) > 1 {
		lock, locked = w.deadlock(vs, ranks)
	}
	single := len(vs) == 1 && len(ranks) == 1
	best := w.likeliest(ranks)
	switch {
	case single && w.Unseen(ranks[0]):
		return w.withoutRecord(ranks[0])
	case locked && lock.strong():
		return lock
	case best != nil && w.Nodes[best.node].Rank != nil && !(best.is(&gpuGivesNothingUnseen) && w.getsOn(best.node)):
		return w.weakFlaw(best, vs)
	case single && !w.inFlight(ranks[0]):
		return w.missed(ranks[0])
	case single:
		return candidateOf(stillMoves, ranks[0], w.wantedIn(ranks[0]))
	case locked:
		return lock
	}
	return w.allInside(vs, ranks)
}

// likeliest gives the flaw that weighs most of those that some ranks show, and those that wait for one of them inside a host, where
// nothing is seen of what is handed over: what they show is of the same host.
func (w *waitFor) likeliest(ranks []int32) *own {
	all := slices.Clone(ranks)
	for _, v := range ranks {
		for _, e := range w.into(v) {
			if d := &w.edges[e]; d.kind == edgeLocal && !slices.Contains(all, d.from) {
				all = append(all, d.from)
			}
		}
	}
	var best *own
	for _, v := range all {
		for i := range w.ownsOf(v) {
			if o := &w.ownsOf(v)[i]; best == nil || o.weight > best.weight || o.weight == best.weight && w.movedLess(o, best) {
				best = o
			}
		}
	}
	for passed := map[int32]bool{}; best != nil && !passed[best.node]; {
		passed[best.node] = true
		best = cmp.Or(w.heldBy(best, all), best)
	}
	return best
}

// heldBy gives a flaw, of the same weight, of a rank whose data or buffers another flawed rank waits for, itself, beside others of its host
// where it may wait for those unseen, or by way of others: that one's may follow from it. nil none.
func (w *waitFor) heldBy(by *own, ranks []int32) *own {
	held, left := []int32{by.node}, make([]bool, w.n)
	if by.mayBeInsideHost() {
		held = w.matesIn(by.node, by.inst)
	}
	for _, v := range ranks {
		left[v] = !slices.Contains(held, v)
	}
	for i := 0; i < len(held); i++ {
		for _, e := range w.outOf(held[i]) {
			d := &w.edges[e]
			if !d.sure || d.kind != edgeNoData && d.kind != edgeReceiver && d.kind != edgeDelivery || d.inst == by.inst || !left[d.to] {
				continue
			}
			owns := w.ownsOf(d.to)
			if k := slices.IndexFunc(owns, func(o own) bool { return o.weight == by.weight }); k >= 0 {
				return &owns[k]
			}
			held, left[d.to] = append(held, d.to), false
		}
	}
	return nil
}

// movedLess reports whether, of two GPUs in one operation that show equally little, the first has moved less: what one holds keeps
// those after it from moving as far as those before it.
func (w *waitFor) movedLess(a, b *own) bool {
	return a.cause == rca.CauseGPU && b.cause == rca.CauseGPU && a.inst == b.inst && a.inst >= 0 && w.moved(a) < w.moved(b)
}

// moved gives how many steps a rank's flows on the channel of a flaw have done, of the least; -1 none is seen.
func (w *waitFor) moved(o *own) int64 {
	least := int64(-1)
	if j := w.part(&w.insts[o.inst], o.node); j != nil {
		for i := range j.op.Flows {
			if f := &j.op.Flows[i]; (o.channel < 0 || int16(f.Channel) == o.channel) && (least < 0 || f.Done < least) {
				least = f.Done
			}
		}
	}
	return least
}

// withoutRecord makes the candidate of a rank, or members, without a record.
func (w *waitFor) withoutRecord(v int32) candidate {
	n := &w.Nodes[v]
	r := notSeen
	switch n.Visibility {
	case job.NoAnswer:
		r = noAnswer
	case job.Unnamed:
		r = unnamed
	}
	c := candidateOf(r, v, w.wantedIn(v))
	// If one rank alone points at it, that one may as well have failed to deliver.
	only := int32(-1)
	for _, e := range w.into(v) {
		from := w.edges[e].from
		if int(from) >= len(w.Nodes) || from == only {
			continue
		}
		if only >= 0 {
			return c
		}
		only = from
	}
	if only < 0 {
		return c
	}
	for _, o := range w.ownsOf(only) {
		if o.peer == v && o.is(&linkUnproven) {
			c.peer, c.channel = only, o.channel
		}
	}
	return c
}

// allInside: all are inside and nobody shows more than the others. The group is named, not a rank in it.
func (w *waitFor) allInside(vs, ranks []int32) candidate {
	c := candidate{row: allAlike, peer: -1, inst: -1, channel: -1, vertex: vs}
	if last := vs[len(vs)-1]; int(last) >= len(w.Nodes) {
		c.inst = vs[len(ranks)] - int32(len(w.Nodes))
	} else if acts := w.acts[ranks[0]]; len(acts) > 0 {
		c.inst = acts[0].inst
	}
	if c.inst < 0 {
		return c
	}
	in := &w.insts[c.inst]
	for k := range in.joins {
		c.nodes = append(c.nodes, in.joins[k].node)
	}
	comm := &w.Comms[in.key.comm]
	first := comm.Members[0].Node
	if w.Host(first) != "" && w.insideHost(in.key.comm, first) && !comm.Call && !makesConnections(in.op()) {
		c.row = oneHostStands
	}
	return c
}
