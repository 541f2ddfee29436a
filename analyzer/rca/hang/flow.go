// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// view is one end of one flow with what is known of the other end.
type view struct {
	node  int32
	me    int32 // Its rank in the communicator.
	inst  int32
	op    *rca.Op
	flow  *rca.Flow
	peer  int32 // Node, -1 unknown.
	other *join // Peer's part in the operation, nil: not in it.
	seen  bool  // The peer is a rank that was seen.
	alive bool
	left  bool // The peer's kernel has finished the operation.
	// cutOff: the peer's transfers have ended with those to a process that is no more.
	cutOff bool
	sure   bool // Of the peer's absence.
	pf     *rca.Flow
	// leftOp is the operation as a peer that has left it recorded it: its proxy may still be at it.
	leftOp *rca.Op
	alone  bool // Everything the kernel takes or gives on this channel is seen: no edge inside the host is left out.
}

// flows adds what the flows of one rank in one operation say.
func (b *builder) flows(n int32, a *active) {
	x := b.x
	if a.op.ProxyUnreliable {
		return
	}
	in := &x.insts[a.inst]
	moves := b.getsOn(stuckFor(a.op))
	if b.computes(n, a, in) {
		return
	}
	if dead, ch := b.cutOffBy(n, a.comm); dead >= 0 {
		b.edge(n, dead, a.inst, ch, edgeDead, true)
		return
	}
	b.moving, b.doubted = moves && !in.stuck, moves && in.stuck
	defer func() { b.moving, b.doubted, b.whole = false, false, false }()
	lonely := b.lonely(n, a.mem, in)
	for i := range a.op.Flows {
		f := &a.op.Flows[i]
		if f.Finished() {
			continue
		}
		b.whole = wholeChannel(a.op, f.Channel) || b.wholeTree(in, f.Channel)
		v := view{node: n, me: a.mem.CommRank, inst: a.inst, op: a.op, flow: f, peer: -1, alone: lonely || b.whole}
		b.look(&v)
		if b.doubted && v.pf != nil && b.getsOn(v.pf.Stuck) && b.getsOn(f.Stuck) {
			continue // Both ends say that this channel moves: it is another one that stands.
		}
		if f.Send {
			b.sendSide(&v)
		} else {
			b.recvSide(&v)
		}
	}
}

// cutOffBy gives a process that has ended in the middle of a rank's transfers on a communicator, with the channel; -1 none. The first
// broken connection ends NCCL's progress thread (ncclProxyProgress), and with it all other transfers of the rank: what they show is
// where that met them, and what others wrote into its memory since is not in it.
func (b *builder) cutOffBy(n, comm int32) (dead int32, channel int) {
	if !b.ended {
		return -1, -1
	}
	at := b.x.Comms[comm].At
	for k := range b.x.acts[n] {
		a := &b.x.acts[n][k]
		if a.comm != comm {
			continue
		}
		for i := range a.op.Flows {
			f := &a.op.Flows[i]
			if f.Finished() || f.Peer < 0 || f.Peer >= len(at) || at[f.Peer] < 0 {
				continue
			}
			if hasEnded(b.x.Nodes[at[f.Peer]].Rank) {
				return at[f.Peer], f.Channel
			}
		}
	}
	return -1, -1
}

// hasEnded reports whether a rank's process is no more: one that is stopped keeps its connections.
func hasEnded(r *rca.Rank) bool {
	return r != nil && (r.State == rca.ProcessGone || r.State == rca.ProcessExited)
}

// getsOn reports whether what last moved so long ago still makes progress.
func (b *builder) getsOn(stuck time.Duration) bool { return stuck >= 0 && stuck < b.x.Opt.HangAfter }

// lonely reports whether nothing of the operation is still to come to or from the rank inside its host: no other member of the communicator
// is there, the library takes each rank for a node of its own, or the other members' kernels have left, and what they gave is in
// the rank's memory. Where only some ranks were asked, a member of which nothing is known may be on the host.
func (b *builder) lonely(n int32, mem *job.Member, in *instance) bool {
	c := &b.x.Comms[in.key.comm]
	if m := mem.Membership; m != nil && m.Nodes > 0 && m.Nodes == c.Size {
		return true
	}
	if b.x.Ev.Partial && b.x.UnseenMember(c) {
		return false
	}
	for _, m := range b.x.Mates[b.x.Host(n)] {
		if mem := c.Find(m); m != n && mem != nil && !b.x.hasLeft(in, mem) {
			return false
		}
	}
	return true
}

// part gives a node's part in an instance, nil when it is not in it.
func (x *standstill) part(in *instance, n int32) *join {
	if mem := x.Comms[in.key.comm].Find(n); mem != nil && mem.CommRank >= 0 {
		return in.at(mem.CommRank)
	}
	return nil
}

// wholeChannel: a send or receive has one edge, a ring two; when all are network edges, nothing is hidden.
func wholeChannel(o *rca.Op, ch int) bool {
	if job.IsP2P(o) {
		return true
	}
	if !ringLike(o.Algo) {
		return false
	}
	has := func(send bool) bool {
		return slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return f.Channel == ch && f.Send == send })
	}
	return has(true) && has(false)
}

// treeChannel is one channel of a communicator.
type treeChannel struct{ comm, channel int32 }

// wholeTree reports whether a channel's tree over n members shows n-1 edges on the network: then no two of them are connected inside a
// host. A communicator's trees are the same in all its operations (NCCL connects them when it is made), so what any of them shows counts.
func (b *builder) wholeTree(in *instance, ch int) bool {
	if in.op().Algo != "tree" {
		return false
	}
	if b.trees == nil {
		b.trees = b.x.treeEdges()
	}
	key := treeChannel{in.key.comm, int32(ch)}
	return len(b.trees[key]) == b.x.Comms[in.key.comm].Size-1
}

// treeEdges gives the pairs of ranks between which each tree's flows were seen.
func (x *standstill) treeEdges() map[treeChannel]map[[2]int32]bool {
	out := map[treeChannel]map[[2]int32]bool{}
	for i := range x.insts {
		in := &x.insts[i]
		for k := range in.joins {
			j := &in.joins[k]
			if j.op == nil || j.op.Algo != "tree" {
				continue
			}
			for l := range j.op.Flows {
				f := &j.op.Flows[l]
				peer := int32(f.Peer)
				if peer < 0 || peer == j.commRank {
					continue
				}
				key := treeChannel{in.key.comm, int32(f.Channel)}
				if out[key] == nil {
					out[key] = map[[2]int32]bool{}
				}
				out[key][[2]int32{min(j.commRank, peer), max(j.commRank, peer)}] = true
			}
		}
	}
	return out
}

// look fills in what is known of the other end.
func (b *builder) look(v *view) {
	x := b.x
	in := &x.insts[v.inst]
	c := &x.Comms[in.key.comm]
	if p := v.flow.Peer; p >= 0 && p < len(c.At) {
		v.peer = c.At[p]
	}
	v.sure = true
	if v.peer < 0 {
		v.peer = c.Unnamed
		return
	}
	r := x.Nodes[v.peer].Rank
	v.seen = r != nil
	v.alive = v.seen && !job.Dead(r)
	dead, _ := b.cutOffBy(v.peer, in.key.comm)
	v.cutOff = dead >= 0
	if v.other = in.at(int32(v.flow.Peer)); v.other != nil {
		v.pf = matching(v.other.op, v.flow, v.me)
		return
	}
	counts := x.Nodes[v.peer].Visibility == job.CountsOnly
	if counts && in.key.p2p() {
		v.seen, v.alive = false, false
	}
	if !v.seen {
		v.sure = false
		return
	}
	if pm := c.Find(v.peer); pm != nil {
		p, sure := x.presenceOf(in, pm)
		v.left, v.sure = p == leftIt, sure
		if v.left && counts && !x.finished(in, pm) {
			v.seen, v.alive, v.left, v.sure = false, false, false, false // It has called it; whether it is in it, its host knows.
		}
		if v.left {
			v.leftOp = leftOp(in, pm)
			v.pf = matching(v.leftOp, v.flow, v.me)
		}
	}
}

// leftOp gives a member's record of an operation that it has left, nil none.
func leftOp(in *instance, mem *job.Member) *rca.Op {
	like := in.op()
	fn := like.Func
	if in.key.p2p() {
		fn = pick(mem.CommRank == in.key.src, "Send", "Recv")
	}
	for i := range mem.Membership.Recent {
		o := &mem.Membership.Recent[i]
		var same bool
		switch {
		case in.key.p2p(): // Only the other end is asked about.
			same = o.Seq == in.key.place && int32(o.Peer) == in.key.src+in.key.dst-mem.CommRank
		case in.key.fn >= 0:
			same = o.Seq == like.Seq
		default:
			same = o.Number == like.Number
		}
		if same && o.Func == fn {
			return o
		}
	}
	return nil
}

// finished reports whether a member of which counts are known has completed a collective.
func (x *standstill) finished(in *instance, mem *job.Member) bool {
	return mem.Membership != nil && in.key.fn < 0 && mem.Membership.Completed > in.key.place
}

func matching(o *rca.Op, f *rca.Flow, me int32) *rca.Flow {
	if o == nil {
		return nil
	}
	for i := range o.Flows {
		g := &o.Flows[i]
		if g.Channel == f.Channel && g.Send != f.Send && int32(g.Peer) == me {
			return g
		}
	}
	return nil
}

// away handles a peer that is not in the operation, or whose process is dead; true when that settles the flow.
func (b *builder) away(v *view, kind edgeKind) bool {
	switch {
	case v.peer < 0:
		return true
	case !v.seen:
		b.edge(v.node, v.peer, v.inst, v.flow.Channel, edgeUnseen, false)
		return false
	case !v.alive:
		b.edge(v.node, v.peer, v.inst, v.flow.Channel, edgeDead, true)
		return true
	case v.left:
		return false
	case v.cutOff:
		b.edge(v.node, v.peer, v.inst, v.flow.Channel, kind, true)
		return true
	case v.other == nil:
		if !v.flow.Send && v.flow.Ready > 0 {
			if _, ok := b.lies[v.peer]; !ok {
				b.lies[v.peer] = v.node // It says it is not inside, yet its data arrived.
			}
		}
		b.edge(v.node, v.peer, v.inst, v.flow.Channel, edgeNotCalled, v.sure)
		return true
	case !v.other.active:
		b.edge(v.node, v.peer, v.inst, v.flow.Channel, kind, true)
		return true
	}
	return false
}

func (b *builder) sendSide(v *view) {
	f := v.flow
	switch {
	case f.Transmitted > f.Done:
		b.notDelivered(v)
	case f.Ready > f.Transmitted:
		b.notTransmitted(v)
	default:
		b.kernelOwesData(v)
	}
}

// notDelivered: 2>3. The receiver's counters decide between the wire and the receiver (M8).
func (b *builder) notDelivered(v *view) {
	if b.away(v, edgeDelivery) {
		return
	}
	f, ch := v.flow, v.flow.Channel
	unknownState := v.seen && b.x.Nodes[v.peer].Rank.State == rca.ProcessUnknown
	switch {
	case !v.seen:
		b.own(v.node, v.peer, v.inst, ch, &receiverUnseen)
	case v.left:
		b.own(v.node, v.peer, v.inst, ch, &peerLeft)
	case v.pf == nil:
		if senderDone(v.other.op) {
			b.edge(v.node, v.peer, v.inst, ch, edgeDelivery, false)
			b.own(v.peer, v.node, v.inst, ch, &noBuffersPerhaps)
			return
		}
		b.own(v.node, v.peer, v.inst, ch, &linkUnproven)
	case v.pf.Ready < f.Done && v.pf.Posted > v.pf.Ready:
		b.own(v.node, v.peer, v.inst, ch, &lostOnWire)
	case v.pf.Ready >= f.Transmitted && v.pf.Posted > v.pf.Ready:
		b.own(v.node, v.peer, v.inst, ch, &unacknowledged)
	case v.pf.Posted > v.pf.Ready:
		b.own(v.node, v.peer, v.inst, ch, pick(unknownState, &undeliveredPerhaps, &undelivered))
	default:
		b.edge(v.node, v.peer, v.inst, ch, edgeDelivery, true)
	}
}

// senderDone: all of the operation's send flows stand at 1=2=3>0, Mycroft's sign of a receiver that stopped.
func senderDone(o *rca.Op) bool {
	some := false
	for i := range o.Flows {
		if f := &o.Flows[i]; f.Send {
			if f.Conditions()&(rca.NotTransmitted|rca.NotDelivered|rca.NotStarted) != 0 {
				return false
			}
			some = true
		}
	}
	return some
}

// notTransmitted: 1>2. With a buffer posted for the next step the receiver is ready and the trouble is local.
func (b *builder) notTransmitted(v *view) {
	if b.away(v, edgeReceiver) {
		return
	}
	f, ch := v.flow, v.flow.Channel
	switch {
	case !v.seen:
	case v.left:
		b.own(v.node, v.peer, v.inst, ch, &peerLeft)
	case v.pf == nil || v.pf.Ready > f.Transmitted:
		// A receiver that claims more than was ever sent is no witness.
		b.edge(v.node, v.peer, v.inst, ch, edgeReceiver, false)
	case v.pf.Posted > f.Transmitted && f.PeerPolls == 0 && b.x.Nodes[v.node].Rank.Caps&rca.SeesPeerWait != 0:
		b.own(v.node, v.peer, v.inst, ch, &proxyStopped)
	case v.pf.Posted > f.Transmitted:
		b.own(v.node, v.peer, v.inst, ch, &untransmitted)
	default:
		b.edge(v.node, v.peer, v.inst, ch, edgeReceiver, true)
	}
}

// kernelOwesData: everything ready was sent. The kernel waits for what this rank receives on the same channel, for a
// neighbour inside the host, or for nobody.
func (b *builder) kernelOwesData(v *view) {
	f, ch := v.flow, v.flow.Channel
	recvs, starved, fed := 0, (*rca.Flow)(nil), false
	for i := range v.op.Flows {
		g := &v.op.Flows[i]
		if g.Send || g.Channel != f.Channel {
			continue
		}
		recvs++
		if g.Starved() {
			starved = g
		} else if !g.Finished() {
			fed = true
		}
	}
	switch {
	case fed && starved == nil:
		return // The receive side says why.
	case starved != nil:
		if recvs == 1 && freeFirstStep(v.op.Func) && ringLike(v.op.Algo) && f.Ready <= starved.Done && !b.mayBeQueued(v) {
			b.own(v.node, -1, v.inst, ch, &gpuGivesNothingPerhaps)
		}
	case recvs == 0 && !v.alone:
		b.neighbours(v.node, v.inst)
		b.own(v.node, -1, v.inst, ch, &gpuGivesNothingUnseen)
	case b.mayBeQueued(v):
		b.own(v.node, -1, v.inst, ch, &gpuGivesNothingUnseen)
	case unbegun(b.x.Nodes[v.node].Rank, v.op):
		b.own(v.node, -1, v.inst, ch, &gpuGivesNothingPerhaps)
	default:
		sure := v.alone && !b.unseenMember(v.inst)
		b.own(v.node, -1, v.inst, ch, pick(sure, &gpuGivesNothing, &gpuGivesNothingPerhaps))
	}
}

// unbegun reports whether nothing shows an operation's kernel to run, at a rank whose source would not show it.
func unbegun(r *rca.Rank, o *rca.Op) bool {
	if seesKernel(r, o) || o.KernelStarted > 0 || o.State == rca.OpEntered {
		return false
	}
	return !slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return f.Send && f.Ready > 0 || !f.Send && f.Done > 0 })
}

// mayBeQueued reports whether nothing shows the operation's kernel to run, and what may be in front of it on its stream does not go on
// either: an operation called before it, or one whose end nobody sees.
func (b *builder) mayBeQueued(v *view) bool {
	r := b.x.Nodes[v.node].Rank
	if !unbegun(r, v.op) {
		return false
	}
	for i := range r.Memberships {
		m := &r.Memberships[i]
		sameComm := b.x.CommOf[m.Comm] == b.x.insts[v.inst].key.comm
		unseen := func(o *rca.Op) bool {
			return o.NoCompletion && !toItself(m, o) && (o.Age < 0 || o.Age >= v.op.Age) && !(sameComm && inGroup(o, v.op)) && !passed(r, m, o)
		}
		if slices.ContainsFunc(m.Recent, func(o rca.Op) bool { return unseen(&o) }) || slices.ContainsFunc(m.InFlight, func(o rca.Op) bool {
			// One whose kernel is seen not to run holds nobody: what it waits for is in front of both.
			return unseen(&o) || !o.NoCompletion && started(r, &o) != startNo && inFront(&o, v.op, sameComm)
		}) {
			return true
		}
	}
	return false
}

// toItself reports whether a rank sends to itself or receives from itself: that waits for nobody else.
func toItself(m *rca.Membership, o *rca.Op) bool { return job.IsP2P(o) && o.Peer == m.CommRank }

// inFront reports whether an operation keeps a later one of its rank from running, as far as calls tell. Sends and receives of one group
// run side by side. Where only their times say that they are of one group, one that waits for its other end may be in front, or one
// inside its host.
func inFront(o, later *rca.Op, sameComm bool) bool {
	if o.State == rca.OpLeft || o.Age <= later.Age {
		return false
	}
	if !sameComm || !sameGroup(o, later) {
		return true
	}
	return !inGroup(o, later) && (len(o.Flows) == 0 || slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return f.Starved() || f.NoCredit() }))
}

// unseenMember reports whether members of the operation's communicator were not seen: what they called is not known.
func (b *builder) unseenMember(inst int32) bool {
	c := &b.x.Comms[b.x.insts[inst].key.comm]
	return c.Unnamed >= 0 || slices.ContainsFunc(c.Members, func(m job.Member) bool { return m.Membership == nil })
}

// freeFirstStep names the ring operations in which every rank's first send needs nothing from the others.
func freeFirstStep(fn string) bool {
	return fn == "AllReduce" || fn == "AllGather" || fn == "ReduceScatter"
}

func ringLike(algo string) bool { return algo == "" || algo == "ring" || algo == "unknown" }

// neighbours: what this rank sends comes over NVLink or shared memory from a member on its host whose own flows are
// seen to wait.
func (b *builder) neighbours(n, inst int32) {
	in := &b.x.insts[inst]
	for _, m := range b.x.Mates[b.x.Host(n)] {
		if j := b.x.part(in, m); m != n && j != nil && j.active && len(j.op.Flows) > 0 {
			b.edge(n, m, inst, -1, edgeLocal, false)
		}
	}
}

func (b *builder) recvSide(v *view) {
	f := v.flow
	switch {
	case f.Transmitted > f.Done:
		b.notConsumed(v)
	case f.Ready > f.Transmitted:
		b.own(v.node, v.peer, v.inst, f.Channel, &notFlushed)
	case f.Posted > f.Ready:
		b.noData(v)
	default:
		b.noBuffers(v)
	}
}

// notConsumed: the data is on the GPU and its kernel does not take it, though it has room for what it must send on.
func (b *builder) notConsumed(v *view) {
	for i := range v.op.Flows {
		g := &v.op.Flows[i]
		if g.Channel != v.flow.Channel || g == v.flow {
			continue
		}
		if g.NoCredit() {
			return // The send side says why.
		}
		if g.Send && g.Posted <= 0 {
			b.notBegun(v, g)
			return
		}
		if g.Starved() {
			return // A tree's kernel takes what all below it have sent together: the one that has not says why.
		}
	}
	if b.mayBeQueued(v) {
		b.own(v.node, -1, v.inst, v.flow.Channel, &gpuStoppedUnseen)
	} else {
		b.own(v.node, -1, v.inst, v.flow.Channel, pick(v.alone, &gpuStopped, &gpuStoppedPerhaps))
	}
	if !v.alone {
		b.neighbours(v.node, v.inst)
	}
}

// notBegun: no buffer of a send is posted, which needs neither kernel nor peer. The proxy serves a connection in order, so what is
// in front of it there has not left or is not taken: the link, or the other end.
func (b *builder) notBegun(v *view, send *rca.Flow) {
	w := view{node: v.node, inst: v.inst, op: v.op, flow: send, peer: -1, alone: v.alone}
	b.look(&w)
	if w.peer < 0 {
		return
	}
	if !w.alive || w.other == nil || !w.other.active {
		b.away(&w, edgeReceiver)
	}
	b.own(v.node, w.peer, v.inst, send.Channel, &sendNotBegun)
}

func (b *builder) noData(v *view) {
	if b.away(v, edgeNoData) || !v.seen {
		return
	}
	ch := v.flow.Channel
	switch {
	case v.left && v.pf != nil && v.pf.Ready > v.pf.Done:
		// What the peer's kernel has handed to its proxy is still with that, or under way.
		b.edge(v.node, v.peer, v.inst, ch, edgeNoData, true)
		mine := b.x.part(&b.x.insts[v.inst], v.node)
		b.sendSide(&view{node: v.peer, inst: v.inst, op: v.leftOp, flow: v.pf, peer: v.node, other: mine, seen: true, alive: true, sure: true, pf: v.flow})
	case v.left:
		b.edge(v.node, v.peer, v.inst, ch, edgeNoData, false)
		// A send that fits into its buffers ends before its data has arrived.
		sending := v.sure && job.IsP2P(v.op) && b.x.Nodes[v.node].Rank.Lost == 0
		b.own(v.peer, v.node, v.inst, ch, pick(sending, &peerLeftSending, &peerLeft))
	case v.pf == nil:
		b.edge(v.node, v.peer, v.inst, ch, edgeNoData, false)
	case v.pf.Done > v.flow.Ready:
		b.edge(v.node, v.peer, v.inst, ch, edgeNoData, false)
		b.own(v.peer, v.node, v.inst, ch, &lostOnWire)
	default:
		b.edge(v.node, v.peer, v.inst, ch, edgeNoData, true)
	}
}

// noBuffers: a receiver that has consumed everything and posts nothing more, while its sender has something to send.
func (b *builder) noBuffers(v *view) {
	wanted := v.pf != nil && v.pf.Ready > v.pf.Done
	if v.flow.Posted <= 0 && !wanted {
		b.own(v.node, v.peer, v.inst, v.flow.Channel, &neverPosted)
		return
	}
	b.own(v.node, v.peer, v.inst, v.flow.Channel, pick(wanted, &noBuffers, &nothingPosted))
}
