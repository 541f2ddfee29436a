// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
)

// finished is one operation that a process recorded. The segment has no rank yet, and its peer is a rank in its communicator.
type finished struct {
	file    string
	p2p     bool
	nRanks  int32 // Size of its communicator; not above 0 unknown.
	unended bool  // Nothing shows its end: the segment ends where it begins.
	segment rca.Segment
}

// Finished is what the processes of one node finished, on the node's clock. It grows without copying: an operation takes hundreds of bytes,
// and there are many.
type Finished struct {
	parts   [][]finished // All full except the last.
	unended int          // How many of them nothing shows to end.
	names   map[trace.CommKey]rca.CommID
}

const partOps = 1024

func (l *Finished) len() int {
	if len(l.parts) == 0 {
		return 0
	}
	return (len(l.parts)-1)*partOps + len(l.parts[len(l.parts)-1])
}

func (l *Finished) at(i int) *finished { return &l.parts[i/partOps][i%partOps] }

func (l *Finished) add(f finished) {
	if l.len()%partOps == 0 {
		l.parts = append(l.parts, make([]finished, 0, partOps))
	}
	last := &l.parts[len(l.parts)-1]
	*last = append(*last, f)
	if f.unended {
		l.unended++
	}
}

// Add keeps an operation that a process finished, if it has times.
func (l *Finished) Add(file string, c *trace.Completion) {
	key := trace.CommKey{ID: c.CommID, NRanks: c.NRanks}
	comm, ok := l.names[key]
	if !ok {
		comm = CommID(key)
		if l.names == nil {
			l.names = map[trace.CommKey]rca.CommID{}
		}
		l.names[key] = comm
	}
	s, ok := segment(c, comm)
	if !ok {
		return
	}
	s.Peer = int(c.Peer)
	l.add(finished{file, c.Flags&trace.OpP2P != 0, c.NRanks, c.Flags&trace.OpNoCompletion != 0, s})
}

// Place is where the processes of a node are in their job.
type Place struct {
	Rank   func(file string) (rank int, ok bool)
	Member func(comm rca.CommID, commRank int) int // The rank of a member, -1 unknown.
	Sizes  map[rca.CommID]int                      // Of communicators whose sources do not say so; nil unknown.
}

// Append appends the operations to a timeline, by rank and start; those of processes without a rank are left out.
func (l *Finished) Append(timeline []rca.Segment, at Place) []rca.Segment {
	type place struct {
		rank, at int
		start    int64
	}
	order, unseen := make([]place, 0, l.len()), l.endsUnseen()
	for i := range l.len() {
		f := l.at(i)
		if f.unended {
			members := int(f.nRanks)
			if members <= 0 {
				members = at.Sizes[f.segment.Comm]
			}
			if f.segment.End = unseen[opOf(f)].end(members); f.segment.End == 0 {
				continue
			}
		}
		if rank, ok := at.Rank(f.file); ok {
			order = append(order, place{rank, i, f.segment.Start})
		}
	}
	slices.SortFunc(order, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.start, b.start), cmp.Compare(a.at, b.at))
	})
	for _, p := range order {
		f := l.at(p.at)
		s := f.segment
		s.Rank, s.Peer = p.rank, -1
		if f.p2p {
			s.Peer = at.Member(s.Comm, f.segment.Peer)
		}
		timeline = append(timeline, s)
	}
	return timeline
}

// opKey is one operation of a communicator.
type opKey struct {
	comm   rca.CommID
	number int64
}

func opOf(f *finished) opKey { return opKey{f.segment.Comm, f.segment.Number} }

// together is what the members of a communicator on one node show of an operation, on the node's clock.
type together struct {
	members int
	called  int64 // The last call.
	ended   int64 // The first end that was seen; 0 none.
}

// end gives the earliest moment at which the operation can have ended, 0 unknown: those who saw its end tell it, and nobody's ends before the
// last member has called it. The communicator's members are all on this node, or at least one of them saw the end.
func (o together) end(members int) int64 {
	if o.ended == 0 && (members <= 0 || o.members < members) {
		return 0
	}
	return max(o.called, o.ended)
}

// endsUnseen gives what is known of the operations that nothing shows to end on some member. Inside a host, over NVLink or shared memory, no
// proxy works, and without kernel events the call is all there is: who waits for one that is late is told from it in no other way. Where the
// hosts run ahead of their GPUs, a call tells nothing of when the operation began.
func (l *Finished) endsUnseen() map[opKey]together {
	if l.unended == 0 {
		return nil
	}
	out := map[opKey]together{}
	for _, unended := range []bool{true, false} {
		for i := range l.len() {
			f := l.at(i)
			o, ok := out[opOf(f)]
			if f.unended != unended || !ok && !unended {
				continue
			}
			o.members++
			o.called = max(o.called, f.segment.Start)
			if !unended && (o.ended == 0 || f.segment.End < o.ended) {
				o.ended = f.segment.End
			}
			out[opOf(f)] = o
		}
	}
	if l.runsAhead(out) {
		return nil
	}
	return out
}

// runsAhead reports whether the node's processes call operations while those that they called before are in flight: nearer to when they called
// those than to when they ended, as the end of a network operation is seen a little late. One that waits for each never does; one that waits
// once in an iteration of two operations or more does every second time or more often. Half way between is a quarter. The calls of one group
// wait for none of it.
func (l *Finished) runsAhead(ends map[opKey]together) bool {
	order := make([]*finished, l.len())
	for i := range order {
		order[i] = l.at(i)
	}
	slices.SortStableFunc(order, func(a, b *finished) int { return cmp.Compare(a.segment.Start, b.segment.Start) })
	ahead, after := 0, 0
	type span struct{ start, end int64 }
	last := map[string]span{} // By process: of what it called, what ends last.
	for _, f := range order {
		before, start := last[f.file], f.segment.Start
		if f.unended && f.segment.GroupOrdinal <= 1 && before.end > before.start { // Else it waited for nobody.
			if before.end-start > start-before.start {
				ahead++
			} else {
				after++
			}
		}
		now := span{start, f.segment.End}
		if f.unended {
			now.end = max(now.end, ends[opOf(f)].called)
		}
		if now.end >= before.end {
			last[f.file] = now
		}
	}
	return ahead > after/3
}

// segment converts one finished operation on a communicator and leaves rank and peer unknown; false: it has no times.
func segment(c *trace.Completion, comm rca.CommID) (rca.Segment, bool) {
	start, left := firstOf(c.EnqueuedNS, c.CalledNS, c.EnteredNS), c.LeftNS
	if c.Flags&trace.OpNoCompletion != 0 && waitsForAll(c.Func) {
		left = start
	} else if c.Flags&trace.OpNoCompletion != 0 {
		return rca.Segment{}, false
	}
	if start == 0 || left < start || signed(left) < 0 {
		return rca.Segment{}, false
	}
	s := rca.Segment{
		Rank:         -1,
		Kind:         rca.SegmentOp,
		Iteration:    -1,
		Comm:         comm,
		Number:       signed(c.Number),
		GroupOrdinal: signed(c.GroupOrdinal),
		Seq:          signed(c.Seq),
		Func:         c.Func.String(),
		Algo:         known(c.Algo.String()),
		Peer:         -1,
		Bytes:        signed(c.Bytes),
		Start:        signed(start),
		End:          signed(left),
		Entered:      entered(c),
		Active:       max(nanoseconds(c.Send.ActiveNS), nanoseconds(c.Recv.ActiveNS)),
		Steps:        int64(c.Send.Steps) + int64(c.Recv.Steps),
		Stage:        -1,
		DataRank:     -1,
		Layer:        -1,
		Microbatch:   -1,
	}
	for i := range c.Send.WaitNS {
		s.SendWait[i], s.RecvWait[i] = nanoseconds(c.Send.WaitNS[i]), nanoseconds(c.Recv.WaitNS[i])
	}
	s.SendFlows, s.SendBytes, s.SendActive, s.SendPeer = int(c.Send.Flows), signed(c.Send.Bytes), nanoseconds(c.Send.ActiveNS), int(c.Send.SlowestPeer)
	s.RecvFlows, s.RecvBytes, s.RecvActive, s.RecvPeer = int(c.Recv.Flows), signed(c.Recv.Bytes), nanoseconds(c.Recv.ActiveNS), int(c.Recv.SlowestPeer)
	if c.Algo == trace.AlgoRing || c.Algo == trace.AlgoTree { // Of the others nothing tells which ranks are alike.
		s.SendProbes, s.RecvProbes = int(c.SendProbes), int(c.RecvProbes)
	}
	slowest := &c.Send
	if c.Recv.SlowestNS > slowest.SlowestNS {
		slowest = &c.Recv
	}
	s.SlowestChannel, s.SlowestPeer = int(slowest.SlowestChannel), int(slowest.SlowestPeer)
	s.SlowestTime, s.FastestTime = nanoseconds(slowest.SlowestNS), nanoseconds(slowest.FastestNS)
	return s, true
}

// waitsForAll reports whether an operation ends on no member before all have called it.
func waitsForAll(f trace.Func) bool {
	return f == trace.AllReduce || f == trace.AllGather || f == trace.ReduceScatter
}

// entered gives when the operation began on the GPU: at its kernel's start or, where kernels are not seen, when the GPU had its
// first data ready to send, if that data needs no other rank; 0 unknown. The first step itself shows nothing, because the proxy
// takes it as soon as the operation is launched.
func entered(c *trace.Completion) int64 {
	switch {
	case c.EnteredNS != 0:
		return signed(c.EnteredNS)
	case c.GPUReadyNS != 0 && sendsOwnFirst(c):
		return signed(c.GPUReadyNS)
	}
	return 0
}

// sendsOwnFirst reports whether a rank's first send in an operation carries its own data: in a ring, except for operations with a
// root, and in a Send. In a tree most ranks pass on what they received.
func sendsOwnFirst(c *trace.Completion) bool {
	switch c.Func {
	case trace.Send:
		return true
	case trace.AllReduce, trace.AllGather, trace.ReduceScatter:
		return c.Algo == trace.AlgoRing
	default:
		return false
	}
}
