// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// instance is one operation across ranks: what CCL-D calls a Trace ID (C1). Collectives are found by their place in the
// communicator's call order, so that ranks which called different operations there meet in one instance (H2).
type instance struct {
	key    instKey
	joins  []join // Sorted by rank in the communicator.
	stuck  bool
	age    time.Duration // Longest time without progress among the ranks in it that another host confirms.
	inside int           // Ranks that are in it now.
	// begun counts the ranks whose GPU is known to be in it, and idle those known not to have given it anything yet.
	begun, idle int
	gap         bool // Somebody it needs is not in it.
	odd         *oddity
	hidden      bool // Only the calls are seen, and a member may have finished its part before others have begun theirs.
}

// instKey identifies an instance. Send/recv: src and dst are ranks in the communicator; otherwise both -1.
type instKey struct {
	comm     int32
	fn       int32 // -1 when the place alone identifies.
	place    int64
	src, dst int32
}

// join is one rank's part in an instance.
type join struct {
	node     int32
	commRank int32
	op       *rca.Op
	active   bool
	started  startState
	still    time.Duration // How long it stands there, -1 unknown.
}

// startState says whether an operation's kernel runs.
type startState uint8

const (
	startUnknown startState = iota
	startNo
	startYes
)

// active is an operation that a rank waits in now, as opposed to one queued behind it.
type active struct {
	inst  int32
	op    *rca.Op
	comm  int32
	mem   *job.Member // The rank as a member of the communicator.
	stuck bool
}

// head is a candidate for active while the ranks' queues are sorted out.
type head struct {
	op      *rca.Op
	m       *rca.Membership
	comm    int32
	started startState
	first   bool // First in its communicator.
}

// started reports whether an operation's kernel runs. Data that has arrived or buffers that are posted say nothing of it:
// the network side of an operation begins when it is enqueued. What the GPU gave or took does.
func started(r *rca.Rank, o *rca.Op) startState {
	if o.KernelStarted > 0 {
		return startYes
	}
	for i := range o.Flows {
		// Only a kernel fills send buffers and empties receive buffers; the proxy posts and receives without one.
		f := &o.Flows[i]
		if f.Send && f.Ready > 0 || !f.Send && f.Done > 0 {
			return startYes
		}
	}
	if o.KernelStarted == 0 && seesKernel(r, o) {
		// Called but not enqueued is the CPU inside the call: whether it waits there for others is not known.
		return pick(o.State == rca.OpCalled, startUnknown, startNo)
	}
	// Steps that pass are the network's.
	return pick(o.State == rca.OpEntered || o.State > rca.OpEntered && len(o.Flows) == 0, startYes, startUnknown)
}

// seesKernel reports whether the source would show an operation's kernel to start and stop. Of some operations it does not although it does of
// others: NCCL's kernel events run ahead after a send to oneself.
func seesKernel(r *rca.Rank, o *rca.Op) bool {
	return r.Caps&rca.SeesKernels != 0 && o.KernelStarted >= 0
}

// waits reports whether being in flight means anything for a rank's operation. Of one whose end nothing tells it does where another
// rank has not called it: it cannot have ended everywhere.
func (x *standstill) waits(r *rca.Rank, m *rca.Membership, o *rca.Op) bool {
	switch {
	case o.State == rca.OpLeft:
		return false
	case !o.NoCompletion && !endUnseen(r, o):
		return true
	}
	ci := x.CommOf[m.Comm]
	switch {
	case !o.NoCompletion:
		return o.Number >= x.left[ci]
	case job.IsP2P(o):
		return x.unmatched(ci, m, o)
	}
	return x.least[ci] >= 0 && o.Number >= x.least[ci]
}

// endUnseen reports whether nothing can show the rank the end of a collective that all members leave together: no kernel is seen,
// and all that it exchanges stays inside its host.
func endUnseen(r *rca.Rank, o *rca.Op) bool {
	return r.Caps&rca.SeesSteps != 0 && !seesKernel(r, o) && len(o.Flows) == 0 && o.KernelStarted <= 0 && o.State <= rca.OpEnqueued &&
		o.Number >= 0 && !job.IsP2P(o) && !oneSided(o.Func)
}

// leftBy gives by communicator up to which number, exclusively, a member is known to have left its collectives; -1 none.
func leftBy(x *job.Index) []int64 {
	out := make([]int64, len(x.Comms))
	for i := range x.Comms {
		out[i] = -1
		for k := range x.Comms[i].Members {
			m := x.Comms[i].Members[k].Membership
			if m == nil || x.Comms[i].P2P {
				continue
			}
			for j := range m.Recent {
				if o := &m.Recent[j]; !o.NoCompletion {
					out[i] = max(out[i], o.Number+1)
				}
			}
		}
	}
	return out
}

// unmatched reports whether the other end of a send or receive is known to have come as far as the one before it and no further.
func (x *standstill) unmatched(ci int32, m *rca.Membership, o *rca.Op) bool {
	c := &x.Comms[ci]
	if m.CommRank < 0 || o.Seq < 1 || o.Peer < 0 || o.Peer >= len(c.At) || c.At[o.Peer] < 0 {
		return false
	}
	peer := c.Find(c.At[o.Peer])
	if peer == nil || peer.Membership == nil {
		return false
	}
	if r := x.Nodes[peer.Node].Rank; r.Caps&rca.SeesCalls == 0 || r.Lost > 0 {
		return false
	}
	half, last := pick(o.Func == "Send", "Recv", "Send"), int64(-1)
	for _, ops := range [2][]rca.Op{peer.Membership.Recent, peer.Membership.InFlight} {
		for i := range ops {
			if ops[i].Func == half && ops[i].Peer == m.CommRank {
				last = max(last, ops[i].Seq)
			}
		}
	}
	return last == o.Seq-1
}

// leastCalled gives by communicator how many operations every member that was seen has called, with the same arguments where nothing
// shows their ends; -1 where that is not known, or where sends and receives among them make the numbers differ.
func leastCalled(x *job.Index) []int64 {
	out := make([]int64, len(x.Comms))
	for i := range x.Comms {
		out[i] = -1
		for k := range x.Comms[i].Members {
			m := x.Comms[i].Members[k].Membership
			if m == nil || m.Called < 0 || x.Comms[i].P2P || x.Nodes[x.Comms[i].Members[k].Node].Rank.Caps&rca.SeesCalls == 0 {
				continue
			}
			if out[i] < 0 || m.Called < out[i] {
				out[i] = m.Called
			}
		}
		if out[i] < 0 {
			continue
		}
		if odd := oddCalled(x, &x.Comms[i]); odd >= 0 {
			out[i] = min(out[i], odd)
		}
	}
	return out
}

// oddCalled gives the first of a communicator's collectives without a recorded end that its members have called with different
// arguments, -1 none. What differs and holds nobody up is none: the members must have called nothing for a while.
func oddCalled(x *job.Index, c *job.Comm) int64 {
	calls := map[int64][]join{}
	for k := range c.Members {
		m := c.Members[k].Membership
		if m == nil {
			continue
		}
		if m.SinceCalled < x.Opt.HangAfter {
			return -1
		}
		for i := range m.InFlight {
			if o := &m.InFlight[i]; o.NoCompletion && o.Number >= 0 && !job.IsP2P(o) {
				calls[o.Number] = append(calls[o.Number], join{op: o})
			}
		}
	}
	first := int64(-1)
	for number, parts := range calls {
		differs := slices.ContainsFunc(signatureFields, func(f signatureField) bool { return !agree(parts, f.get) })
		if differs && (first < 0 || number < first) {
			first = number
		}
	}
	return first
}

// buildInstances gathers what every rank has in flight into instances and decides what each rank is really in: the
// oldest operation whose kernel runs; later ones are queued behind it in stream order.
func (x *standstill) buildInstances() {
	at := make(map[instKey]int32, len(x.Nodes))
	x.instAt = at
	x.acts = make([][]active, len(x.Nodes))
	all := make([]active, 0, 2*len(x.Nodes)) // Most ranks wait in one or two.
	var heads []head
	for n := range x.Nodes {
		r := x.Nodes[n].Rank
		if r == nil {
			continue
		}
		first := len(all)
		heads = x.heads(r, heads[:0])
		act := chooseActive(heads)
		for i := range heads {
			h := &heads[i]
			mem := x.Comms[h.comm].Find(int32(n))
			key := x.keyOf(h.comm, mem.CommRank, h.op)
			id, ok := at[key]
			if !ok {
				id = int32(len(x.insts))
				at[key] = id
				x.insts = append(x.insts, instance{key: key})
			}
			in := &x.insts[id]
			in.hidden = in.hidden || hidden(h.op)
			still := standsFor(h.op, h.m, r)
			if connects(h.op) {
				still = x.connectingFor(h.comm, still)
			}
			in.joins = append(in.joins, join{int32(n), mem.CommRank, h.op, act[i], h.started, still})
			if act[i] {
				all = append(all, active{inst: id, op: h.op, comm: h.comm, mem: mem})
			}
		}
		x.acts[n] = all[first:len(all):len(all)]
	}
	by := newHostVotes(x.Index)
	for i := range x.insts {
		x.settle(&x.insts[i], by)
		x.callers(int32(i))
	}
	x.outvote(by)
	x.freeQueued()
	for n := range x.acts {
		for i := range x.acts[n] {
			x.acts[n][i].stuck = x.insts[x.acts[n][i].inst].stuck
		}
	}
}

// settle decides whether an instance is stuck. The members of an operation move together or not at all, and the ranks of one
// host read one clock: a host that claims progress does not unstick it when no fewer of the others say that it stands. Members that
// would not see progress have no say where others would.
func (x *standstill) settle(in *instance, by *hostVotes) {
	slices.SortStableFunc(in.joins, func(a, b join) int {
		return cmp.Or(cmp.Compare(a.commRank, b.commRank), cmp.Compare(a.node, b.node))
	})
	seen := false
	for i := range in.joins {
		j := &in.joins[i]
		seen = seen || j.active && showsProgress(j.op)
	}
	by.clear()
	for i := range in.joins {
		if j := &in.joins[i]; j.active && (!seen || showsProgress(j.op)) {
			by.add(j, x.moves(j))
		}
	}
	in.stuck, in.age = by.stuck(), by.age()
}

// showsProgress reports whether an operation would be seen to get on: it has flows, or its kernel is seen not to have started. What moves
// inside a host is not seen, and looks as if it had stood since it was called.
func showsProgress(o *rca.Op) bool { return len(o.Flows) > 0 || o.KernelStarted == 0 }

// outvote frees the operations of which one host alone says that they stand still, while others know better: members on other hosts
// say that they move, or something was completed together with its ranks since. No other host may have anything that stands still: in a
// job that hangs, more than one of three hosts comes to know of it, so the one is wrong about the time.
func (x *standstill) outvote(by *hostVotes) {
	if by.hosts < 3 {
		return
	}
	only := int32(-1)
	for i := range x.insts {
		in := &x.insts[i]
		for k := range in.joins {
			if j := &in.joins[k]; in.stuck && j.active && !x.moves(j) {
				h := by.of[j.node]
				if only >= 0 && only != h {
					return
				}
				only = h
			}
		}
	}
	for i := range x.insts {
		in := &x.insts[i]
		if slices.ContainsFunc(in.joins, func(j join) bool { return j.active && x.moves(&j) && by.of[j.node] != only }) || in.stuck && x.completedSince(in, by) {
			in.stuck = false
		}
	}
}

// completedSince reports whether a rank of another host has completed an operation with one that is said to stand in an instance, long after
// that must have come to a stand: a collective does not go on for long without one of its members, and what was called before the stop has
// ended soon after. Not of calls: a process that does not return from one may go on in another thread.
func (x *standstill) completedSince(in *instance, by *hostVotes) bool {
	if x.Comms[in.key.comm].Call {
		return false
	}
	for k := range in.joins {
		n := in.joins[k].node
		for i := range x.Nodes[n].Rank.Memberships {
			c := &x.Comms[x.CommOf[x.Nodes[n].Rank.Memberships[i].Comm]]
			if !c.P2P && slices.ContainsFunc(c.Members, func(m job.Member) bool {
				return by.of[m.Node] != by.of[n] && m.Membership != nil && m.Membership.Completed > 0 && m.Membership.SinceCompleted >= 0 &&
					m.Membership.SinceCompleted+x.Opt.HangAfter < in.age
			}) {
				return true
			}
		}
	}
	return false
}

// moves reports whether a rank has got on in the operation lately, by its own word.
func (x *standstill) moves(j *join) bool { return j.still >= 0 && j.still < x.Opt.HangAfter }

// callers takes ranks whose CPU is still inside the call out of an operation that others have launched: they are not in
// it yet. While all are inside the call, or it makes connections and somebody is still to come, they are in it together. A send or receive
// whose other side is not told yet is inside a group call that has not been closed.
func (x *standstill) callers(i int32) {
	in := &x.insts[i]
	open := in.openGroup()
	if !open && !slices.ContainsFunc(in.joins, func(j join) bool { return j.op.State >= rca.OpEnqueued }) {
		return
	}
	lacks := sync.OnceValue(func() bool { return x.lacksCall(in) })
	for k := range in.joins {
		j := &in.joins[k]
		if j.op.State != rca.OpCalled || !j.active || j.started == startYes {
			continue
		}
		if !connects(j.op) || !x.moves(j) && !(open && x.awaitsPeer(in, j)) && !(!open && lacks()) {
			j.active = false
			x.acts[j.node] = slices.DeleteFunc(x.acts[j.node], func(a active) bool { return a.inst == i })
		}
	}
}

func (in *instance) openGroup() bool { return in.key.p2p() && (in.key.src < 0 || in.key.dst < 0) }

// standsFor is how long an operation stands on a rank, -1 unknown: the host calls far ahead, so not since the call if the
// operation before it has left since then. A rank that goes on elsewhere is not known to stand in a hidden one.
func standsFor(o *rca.Op, m *rca.Membership, r *rca.Rank) time.Duration {
	d := stuckFor(o)
	if d >= 0 && m != nil && m.SinceCompleted >= 0 && m.Completed > 0 {
		d = min(d, m.SinceCompleted)
	}
	if idle := idleFor(r); hidden(o) && idle >= 0 {
		d = min(d, idle)
	}
	return d
}

// stuckFor is how long an operation made no progress, -1 unknown.
func stuckFor(o *rca.Op) time.Duration {
	if o.Stuck >= 0 {
		return o.Stuck
	}
	return o.Age
}

// heads lists a rank's operations in flight that mean something, in call order per communicator.
func (x *standstill) heads(r *rca.Rank, to []head) []head {
	for j := range r.Memberships {
		m := &r.Memberships[j]
		var q queue
		for i := range m.InFlight {
			o := &m.InFlight[i]
			if !x.waits(r, m, o) {
				continue
			}
			to = append(to, head{op: o, m: m, comm: x.CommOf[m.Comm], started: started(r, o), first: q.front(o)})
		}
	}
	slices.SortStableFunc(to, func(a, b head) int { return cmp.Compare(a.comm, b.comm) })
	return to
}

// chooseActive marks what the rank waits in now.
func chooseActive(heads []head) []bool {
	act := make([]bool, len(heads))
	some := false
	youngest := time.Duration(-1)
	for i := range heads {
		if heads[i].started == startYes {
			act[i], some = true, true
			if a := heads[i].op.Age; a >= 0 && (youngest < 0 || a < youngest) {
				youngest = a
			}
		}
	}
	if some {
		for i := range heads {
			h := &heads[i]
			if hidden(h.op) {
				continue // Nothing says that it runs beside one that does.
			}
			if h.started == startUnknown && h.first && h.op.Age >= 0 && youngest >= 0 && h.op.Age > youngest {
				act[i] = true
			}
			// One kernel runs all of a group: what is not seen to run does if another of them does.
			act[i] = act[i] || h.started == startUnknown && h.first && job.IsP2P(h.op) && slices.ContainsFunc(heads, func(o head) bool {
				return o.started == startYes && o.comm == h.comm && job.IsP2P(o.op) && o.op.Age >= 0 && sameGroup(o.op, h.op)
			})
		}
		return act
	}
	// Nothing is known to run. Of those that may run, the oldest does; of unknown age, all may.
	oldest := time.Duration(-1)
	for i := range heads {
		if h := &heads[i]; h.first && h.started == startUnknown {
			oldest = max(oldest, h.op.Age)
		}
	}
	for i := range heads {
		h := &heads[i]
		act[i] = h.first && h.started == startUnknown && (h.op.Age < 0 || h.op.Age >= oldest || oldest-h.op.Age < time.Millisecond)
	}
	return act
}

func (x *standstill) keyOf(ci, commRank int32, o *rca.Op) instKey {
	if job.IsP2P(o) {
		k := instKey{comm: ci, fn: -1, place: o.Seq, src: commRank, dst: int32(o.Peer)}
		if o.Func == "Recv" {
			k.src, k.dst = k.dst, k.src
		}
		return k
	}
	if o.Number >= 0 && !x.Comms[ci].P2P {
		return instKey{comm: ci, fn: -1, place: o.Number, src: -1, dst: -1}
	}
	return instKey{comm: ci, fn: x.FuncNumber(o.Func), place: o.Seq, src: -1, dst: -1}
}

// instanceOf gives the instance of a rank's operation in flight, -1 none.
func (x *standstill) instanceOf(mem *job.Member, o *rca.Op) int32 {
	if id, ok := x.instAt[x.keyOf(x.CommOf[mem.Membership.Comm], mem.CommRank, o)]; ok {
		return id
	}
	return -1
}

func (k instKey) p2p() bool { return k.src >= 0 || k.dst >= 0 }

// at finds the part of the member with that rank in the communicator, nil when it is not in the instance.
func (in *instance) at(commRank int32) *join {
	if commRank < 0 {
		return nil
	}
	// Where nobody is missing a member is at its own place, behind a missing one it is one place before.
	for i := max(0, int(commRank)-1); i <= int(commRank) && i < len(in.joins); i++ {
		if in.joins[i].commRank == commRank && (i == 0 || in.joins[i-1].commRank != commRank) {
			return &in.joins[i]
		}
	}
	low, high := 0, len(in.joins)
	for low < high {
		if mid := (low + high) / 2; in.joins[mid].commRank < commRank {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(in.joins) || in.joins[low].commRank != commRank {
		return nil
	}
	return &in.joins[low]
}

// op gives an operation that stands for the instance.
func (in *instance) op() *rca.Op { return in.joins[0].op }

// presence is what a rank has to do with an instance.
type presence uint8

const (
	presenceUnknown presence = iota // Cannot be told.
	notCalled
	leftIt // Not in it any more, or behind it.
)

// presenceOf says what a member of the communicator has to do with the instance; sure is false where the source could
// have missed the call.
func (x *standstill) presenceOf(in *instance, mem *job.Member) (p presence, sure bool) {
	if mem.Membership == nil {
		return presenceUnknown, false
	}
	r := x.Nodes[mem.Node].Rank
	m := mem.Membership
	sure = r.Caps&rca.SeesCalls != 0 && r.Lost == 0
	o := in.op()
	if in.key.p2p() {
		if x.Nodes[mem.Node].Visibility == job.CountsOnly {
			return presenceUnknown, false // Counts do not tell one peer's messages from another's.
		}
		return p2pPresence(in, mem, m), sure
	}
	if in.key.fn < 0 && m.Called >= 0 {
		if m.Called <= in.key.place {
			return notCalled, sure
		}
		return leftIt, sure
	}
	if c, ok := m.FuncCalled[o.Func]; ok && o.Seq >= 0 {
		if c <= o.Seq {
			return notCalled, sure
		}
		return leftIt, sure
	}
	if m.FuncCalled != nil && o.Seq >= 0 {
		return notCalled, sure
	}
	if seen := lastSeq(m.Recent, o); seen >= 0 {
		if seen < o.Seq {
			return notCalled, false
		}
		return leftIt, sure
	}
	if m.Called >= 0 && o.Number >= 0 && m.Called <= o.Number && !x.Comms[in.key.comm].P2P {
		return notCalled, false
	}
	return presenceUnknown, false
}

func lastSeq(ops []rca.Op, like *rca.Op) int64 {
	seen := int64(-1)
	for i := range ops {
		if ops[i].Func == like.Func && ops[i].Peer == like.Peer {
			seen = max(seen, ops[i].Seq)
		}
	}
	return seen
}

// p2pPresence: the other side of a send or receive has left it when it finished that number, else it has not called.
func p2pPresence(in *instance, mem *job.Member, m *rca.Membership) presence {
	want, peer := "Recv", in.key.src
	if mem.CommRank == in.key.src {
		want, peer = "Send", in.key.dst
	}
	for i := range m.Recent {
		o := &m.Recent[i]
		if o.Func == want && int32(o.Peer) == peer && in.key.place >= 0 && o.Seq >= in.key.place {
			return leftIt
		}
	}
	return notCalled
}
