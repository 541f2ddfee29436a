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

// root is one end of the waiting: a rank, link or group that explains why others wait.
type root struct {
	kind    rootKind
	nodes   []int32 // Culprits; several when one cannot be told from the other.
	peer    int32   // Other end of a link.
	inst    int32   // Operation that it shows in, -1 none.
	channel int16
	leaf    leaf
	what    flawKind
	order   []orderSide // Deadlock: who entered what first.
	others  []int32     // Those that it is ahead of.
	vertex  []int32     // What others must reach to be explained by it.
}

type rootKind uint8

const (
	rootDead     rootKind = iota
	rootOutside           // Alive, outside every operation.
	rootFlaw              // A fault it shows in itself.
	rootLink              // Two ends of a link, not told apart.
	rootOdd               // Called something else.
	rootDeadlock          // Operations entered in different orders.
	rootGroup             // All inside, nobody shows more.
	rootUnseen            // Nothing is known of it.
	rootMoving            // It makes progress: not hung.
	rootAhead             // It is in an operation that most members have not called, or something holds all of those.
)

// findRoots follows the waiting of all stuck ranks to its ends. What cannot be explained by somebody else's waiting is
// hard; the rest only counts where nothing hard explains a rank that waits.
func (w *waitFor) findRoots() (hard, soft []root) {
	seen := w.reach(w.stuck)
	of, sink := w.components(seen, false)
	explained := make([]bool, len(sink))
	for v := range int32(w.n) {
		if !seen[v] {
			continue
		}
		if r, ok := w.hardRoot(v); ok {
			hard = append(hard, r)
			explained[of[v]] = true
		}
	}
	hard = w.coverLinks(hard)
	members := make([][]int32, len(sink))
	for v := range int32(w.n) {
		if c := of[v]; c >= 0 && sink[c] && !explained[c] {
			members[c] = append(members[c], v)
		}
	}
	for c := range members {
		if len(members[c]) > 0 {
			r := w.softRoot(members[c])
			if r.leaf.hard {
				hard = append(hard, r)
			} else {
				soft = append(soft, r)
			}
		}
	}
	if len(hard) == 0 && !slices.ContainsFunc(soft, func(r root) bool { return r.kind != rootUnseen }) {
		hard = w.seenLocks(of, sink)
	}
	byPlace := func(a, b root) int { return cmp.Compare(a.vertex[0], b.vertex[0]) }
	slices.SortStableFunc(hard, byPlace)
	slices.SortStableFunc(soft, byPlace)
	return hard, oneOfEach(soft)
}

// oneOfEach makes one root of those that name the same group: each of its members may show that one of them holds it.
func oneOfEach(soft []root) []root {
	at := map[int32][]int{} // Groups so far, by their first member.
	var out []root
	for _, r := range soft {
		if r.kind != rootGroup || len(r.nodes) == 0 {
			out = append(out, r)
			continue
		}
		known := slices.IndexFunc(at[r.nodes[0]], func(i int) bool { return out[i].leaf == r.leaf && slices.Equal(out[i].nodes, r.nodes) })
		if known < 0 {
			at[r.nodes[0]] = append(at[r.nodes[0]], len(out))
			out = append(out, r)
			continue
		}
		o := &out[at[r.nodes[0]][known]]
		o.vertex = append(slices.Clone(o.vertex), r.vertex...)
	}
	return out
}

// seenLocks gives the deadlocks among ranks that were seen, where all waiting seems to end at unseen ones: a rank waits for
// all that its operation lacks, so one that waits in a circle is not released by whoever else it waits for. A lost host
// makes no circle.
func (w *waitFor) seenLocks(of []int32, sink []bool) []root {
	members := make([][]int32, len(sink))
	for v := range int32(w.n) {
		if c := of[v]; c >= 0 && !sink[c] {
			members[c] = append(members[c], v)
		}
	}
	var out []root
	for c := range members {
		var ranks []int32
		for _, v := range members[c] {
			if int(v) < len(w.Nodes) {
				ranks = append(ranks, v)
			}
		}
		if len(ranks) < 2 {
			continue
		}
		if r, ok := w.deadlock(members[c], ranks); ok && r.leaf.hard {
			out = append(out, r)
		}
	}
	return out
}

// hardRoot says what a vertex shows that is nobody else's doing.
func (w *waitFor) hardRoot(v int32) (root, bool) {
	if int(v) >= len(w.Nodes) {
		in := &w.insts[int(v)-len(w.Nodes)]
		if in.odd == nil || !in.stuck {
			return root{}, false
		}
		return w.oddRoot(v, in), true
	}
	n := &w.Nodes[v]
	if w.Unseen(v) {
		return root{}, false // Counts alone accuse nobody: it can be asked.
	}
	if job.Dead(n.Rank) {
		inst := w.diedIn(v, w.wantedIn(v))
		return root{kind: rootDead, nodes: []int32{v}, peer: -1, inst: inst, channel: -1, leaf: w.deadLeaf(v, inst), vertex: []int32{v}}, true
	}
	best := -1
	owns := w.ownsOf(v)
	for i := range owns {
		if owns[i].strong && (best < 0 || owns[i].weight > owns[best].weight) {
			best = i
		}
	}
	if best >= 0 {
		return w.flawRoot(&owns[best], owns), true
	}
	if w.row[v] == w.row[v+1] && !w.inFlight(v) {
		if r := w.outside(v, w.wantedIn(v)); r.leaf.hard {
			return r, true
		}
	}
	return root{}, false
}

func (w *waitFor) oddRoot(v int32, in *instance) root {
	r := root{
		kind: rootOdd, peer: -1, inst: v - int32(len(w.Nodes)), channel: -1, vertex: []int32{v},
		leaf: leaf{class: rca.Inconsistent, cause: rca.CauseOtherOp, weight: otherOpWeight, hard: true},
	}
	if in.odd.tie {
		r.leaf.weight = otherOpTieWeight
	}
	for _, o := range in.odd.odd {
		r.nodes = append(r.nodes, o.node)
	}
	return r
}

func (w *waitFor) flawRoot(o *own, all []own) root {
	r := root{
		kind: rootFlaw, nodes: []int32{o.node}, peer: o.peer, inst: o.inst, channel: o.channel, what: o.what, vertex: []int32{o.node},
		leaf: leaf{class: o.class, cause: o.cause, weight: o.weight, hard: o.strong},
	}
	if o.what == flawCall && !w.Comms[w.insts[o.inst].key.comm].Call && w.firstStep(o.node, o.inst) {
		r.leaf = w.begins(o.node)
	}
	for i := range all {
		if all[i].cause == o.cause && all[i].inst == o.inst && all[i].channel != o.channel {
			r.channel = -1 // More than one channel: no single one is meant.
		}
	}
	if len(all) == 1 || r.channel >= 0 {
		r.channel = w.onlyChannel(o)
	}
	return r
}

// onlyChannel gives the flaw's channel when the operation has others that show nothing, else -1.
func (w *waitFor) onlyChannel(o *own) int16 {
	for i := range w.acts[o.node] {
		a := &w.acts[o.node][i]
		if a.inst != o.inst {
			continue
		}
		for k := range a.op.Flows {
			if int16(a.op.Flows[k].Channel) != o.channel {
				return o.channel
			}
		}
	}
	return -1
}

// outside makes the root of a living rank that runs no operation.
func (w *waitFor) outside(v, inst int32) root {
	r := root{kind: rootOutside, nodes: []int32{v}, peer: -1, inst: inst, channel: -1, vertex: []int32{v}, leaf: w.leafOf(v, inst)}
	if _, lies := w.lies[v]; lies {
		r.leaf.hard, r.leaf.weight = false, deniedWeight
	}
	for _, e := range w.in[w.rrow[v]:w.rrow[v+1]] {
		if w.edges[e].sure {
			return r
		}
	}
	r.leaf.hard, r.leaf.weight = false, min(r.leaf.weight, callsUnseenWeight)
	return r
}

// inFlight says whether the rank has any operation that could mean something in flight.
func (w *waitFor) inFlight(v int32) bool {
	r := w.Nodes[v].Rank
	for i := range r.Memberships {
		for k := range r.Memberships[i].InFlight {
			if w.waits(r, &r.Memberships[i], &r.Memberships[i].InFlight[k]) {
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
	for _, e := range w.in[w.rrow[v]:w.rrow[v+1]] {
		i := w.edges[e].inst
		if i < 0 || i == best {
			continue
		}
		if best < 0 || w.wantedMore(best, i) {
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
	}
	if ap, bp := a.key.p2p(), b.key.p2p(); ap != bp && w.lacks(a) == w.lacks(b) {
		return ap // Who sends runs ahead of who receives.
	}
	return cmp.Or(cmp.Compare(w.lacks(b), w.lacks(a)), cmp.Compare(a.inside, b.inside), cmp.Compare(a.age, b.age), cmp.Compare(i, than)) < 0
}

// beforeSends says that a collective comes before the receives of those in it: others wait to send to one of them.
func (w *waitFor) beforeSends(in *instance) bool {
	for k := range in.joins {
		v := in.joins[k].node
		for _, e := range w.in[w.rrow[v]:w.rrow[v+1]] {
			if i := w.edges[e].inst; in.joins[k].active && i >= 0 && w.insts[i].key.p2p() {
				return true
			}
		}
	}
	return false
}

// lacks counts the members that are not inside.
func (w *waitFor) lacks(in *instance) int {
	return pick(in.key.p2p(), 2, w.Comms[in.key.comm].Size) - in.inside
}

// diedIn gives the operation that a dead process was inside and is missed in, else the one it is missed in.
func (w *waitFor) diedIn(v, inst int32) int32 {
	for _, e := range w.in[w.rrow[v]:w.rrow[v+1]] {
		for i := range w.acts[v] {
			if a := &w.acts[v][i]; a.inst == w.edges[e].inst && a.stuck {
				return a.inst
			}
		}
	}
	return inst
}

// softRoot explains a component that nobody leaves and in which nobody shows a hard fault.
func (w *waitFor) softRoot(vs []int32) root {
	var ranks, insts []int32
	for _, v := range vs {
		if int(v) < len(w.Nodes) {
			ranks = append(ranks, v)
		} else {
			insts = append(insts, v-int32(len(w.Nodes)))
		}
	}
	var best *own
	for _, v := range w.withHandedOver(ranks) {
		for i := range w.ownsOf(v) {
			if o := &w.ownsOf(v)[i]; best == nil || o.weight > best.weight || o.weight == best.weight && w.movedLess(o, best) {
				best = o
			}
		}
	}
	lock, locked := root{}, false
	if len(vs) > 1 {
		lock, locked = w.deadlock(vs, ranks)
	}
	switch {
	case len(vs) == 1 && len(ranks) == 1 && w.Unseen(ranks[0]):
		return w.unseenRoot(ranks[0])
	case locked && lock.leaf.hard:
		return lock
	case best != nil && w.Nodes[best.node].Rank != nil:
		return w.weakFlaw(best, vs)
	case len(vs) == 1 && len(ranks) == 1 && !w.inFlight(ranks[0]):
		return w.outside(ranks[0], w.wantedIn(ranks[0]))
	case len(vs) == 1 && len(ranks) == 1:
		return root{
			kind: rootMoving, nodes: ranks, peer: -1, inst: w.wantedIn(ranks[0]), channel: -1, vertex: vs,
			leaf: leaf{class: rca.Unknown, cause: rca.CauseUnknown, weight: faintWeight},
		}
	}
	if locked {
		return lock
	}
	return w.groupRoot(vs, ranks, insts)
}

// movedLess says that of two GPUs in one operation, which show as little of themselves, the first has moved less: what one holds keeps
// those after it from moving as far as those before it.
func (w *waitFor) movedLess(a, b *own) bool {
	if a.cause != rca.CauseGPU || b.cause != rca.CauseGPU || a.inst != b.inst || a.inst < 0 {
		return false
	}
	return w.moved(a) < w.moved(b)
}

// moved gives how many steps a rank's flows on the channel of a flaw have done, of the least; -1 none is seen.
func (w *waitFor) moved(o *own) int64 {
	least := int64(-1)
	if j := w.part(&w.insts[o.inst], o.node); j != nil {
		for i := range j.op.Flows {
			if f := &j.op.Flows[i]; (o.channel < 0 || int16(f.Channel) == o.channel) && (least < 0 || f.Done < least) { //nolint:gosec // Channels are few.
				least = f.Done
			}
		}
	}
	return least
}

// withHandedOver adds the ranks that wait for one of these inside a host, where nothing is seen of what is handed over: what
// they show of themselves is of the same host.
func (w *waitFor) withHandedOver(ranks []int32) []int32 {
	out := slices.Clone(ranks)
	for _, v := range ranks {
		for _, e := range w.in[w.rrow[v]:w.rrow[v+1]] {
			if d := &w.edges[e]; d.kind == edgeLocal && !slices.Contains(out, d.from) {
				out = append(out, d.from)
			}
		}
	}
	return out
}

// weakFlaw names a rank by what it shows, if no other explains it better; a link's ends are not told apart where only
// one end, or each differently, tells of it.
func (w *waitFor) weakFlaw(o *own, vs []int32) root {
	r := w.flawRoot(o, w.ownsOf(o.node))
	r.vertex = vs
	if o.link && o.peer >= 0 {
		r.kind = rootLink
	}
	switch o.what {
	case flawNotCome:
		if mates := w.besideUnseen(o.node, o.inst); len(mates) > 1 {
			r.kind, r.nodes = rootGroup, mates
		}
	case flawGPU, flawGPUStart:
		// What it waits for comes or goes over NVLink, where nothing is seen: any GPU on the host may hold it.
		if mates := w.matesIn(o.node, o.inst); len(mates) > 1 {
			r.kind, r.nodes, r.channel = rootGroup, mates, -1
			if !o.doubted {
				r.leaf.weight = max(hostGroupWeight, r.leaf.weight)
			}
			return r
		}
		// Where nothing shows that it has come to this operation, it may be in one before it, or still compute.
		if j := w.part(&w.insts[o.inst], o.node); j != nil && j.started == startUnknown {
			if mates := w.besideUnseen(o.node, o.inst); len(mates) > 1 {
				r.kind, r.nodes, r.channel = rootGroup, mates, -1
				r.leaf.weight = min(r.leaf.weight, hiddenWeight)
			}
		}
	}
	return r
}

// matesIn gives the members of an operation's communicator on a rank's host, the rank included.
func (w *waitFor) matesIn(n, inst int32) []int32 {
	var out []int32
	c := &w.Comms[w.insts[inst].key.comm]
	for _, m := range w.Mates[w.Host(n)] {
		if c.Find(m) != nil {
			out = append(out, m)
		}
	}
	return out
}

func (w *waitFor) unseenRoot(v int32) root {
	n := &w.Nodes[v]
	r := root{
		kind: rootUnseen, nodes: []int32{v}, peer: -1, inst: w.wantedIn(v), channel: -1, vertex: []int32{v},
		leaf: leaf{class: rca.Unknown, cause: rca.CauseUnknown, weight: pick(n.Visibility == job.NoAnswer, noAnswerWeight, hiddenWeight), note: words.NoAnswer},
	}
	if n.ID < 0 {
		r.leaf.weight = faintWeight
	}
	// If one rank alone points at it, that one may as well have failed to deliver.
	only, several := int32(-1), false
	for _, e := range w.in[w.rrow[v]:w.rrow[v+1]] {
		if from := w.edges[e].from; int(from) < len(w.Nodes) && from != only {
			several = several || only >= 0
			only = from
		}
	}
	if only < 0 || several {
		return r
	}
	owns := w.ownsOf(only)
	for i := range owns {
		if o := &owns[i]; o.peer == v && o.what == flawLinkUnproven {
			r.peer, r.channel, r.what = only, o.channel, o.what
		}
	}
	return r
}

// groupRoot: all are inside and nobody shows more than the others. The group is named, not a rank in it.
func (w *waitFor) groupRoot(vs, ranks, insts []int32) root {
	r := root{kind: rootGroup, peer: -1, inst: -1, channel: -1, vertex: vs, leaf: leaf{class: rca.Unknown, cause: rca.CauseUnknown, weight: groupWeight}}
	if len(insts) > 0 {
		r.inst = insts[0]
	} else if len(ranks) > 0 && len(w.acts[ranks[0]]) > 0 {
		r.inst = w.acts[ranks[0]][0].inst
	}
	if r.inst < 0 {
		return r
	}
	call := w.Comms[w.insts[r.inst].key.comm].Call
	for k := range w.insts[r.inst].joins {
		r.nodes = append(r.nodes, w.insts[r.inst].joins[k].node)
	}
	c := &w.Comms[w.insts[r.inst].key.comm]
	host := w.Host(c.Members[0].Node)
	same := !slices.ContainsFunc(c.Members, func(m job.Member) bool { return w.Host(m.Node) != host })
	if same && c.Unnamed < 0 && host != "" && !call && !connects(w.insts[r.inst].op()) {
		// Inside one host nothing but its GPUs and their links can hold it.
		r.leaf = leaf{class: rca.Fault, cause: rca.CauseGPU, weight: hostGroupWeight}
	}
	return r
}
