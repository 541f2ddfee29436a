// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// history is the finished work that one exporter gave.
type history struct {
	node  *Node
	host  string
	done  finishedOps
	ranks map[string]int // By file.
	short bool           // Only the few completions of the state.
	names map[trace.CommKey]rca.CommID
}

// finished is one operation that a process recorded. The segment has no rank yet, and its peer is a rank in its communicator.
type finished struct {
	file    string
	p2p     bool
	nRanks  int32 // Size of its communicator; not above 0 unknown.
	unended bool  // Nothing shows its end: the segment ends where it begins.
	segment rca.Segment
}

// finishedOps is a list of operations that grows without copying: an operation takes hundreds of bytes, and there are many.
type finishedOps struct {
	parts [][]finished // All full except the last.
}

const partOps = 1024

func (l *finishedOps) len() int {
	if len(l.parts) == 0 {
		return 0
	}
	return (len(l.parts)-1)*partOps + len(l.parts[len(l.parts)-1])
}

func (l *finishedOps) at(i int) *finished { return &l.parts[i/partOps][i%partOps] }

func (l *finishedOps) add(f finished) {
	if l.len()%partOps == 0 {
		l.parts = append(l.parts, make([]finished, 0, partOps))
	}
	last := &l.parts[len(l.parts)-1]
	*last = append(*last, f)
}

// add keeps a finished operation that has times.
func (h *history) add(file string, c *trace.Completion) {
	key := trace.CommKey{ID: c.CommID, NRanks: c.NRanks}
	comm, ok := h.names[key]
	if !ok {
		comm = CommID(key)
		if h.names == nil {
			h.names = map[trace.CommKey]rca.CommID{}
		}
		h.names[key] = comm
	}
	s, ok := segment(c, comm)
	if !ok {
		return
	}
	s.Peer = int(c.Peer)
	h.done.add(finished{file, c.Flags&trace.OpP2P != 0, c.NRanks, c.Flags&trace.OpNoCompletion != 0, s})
}

// AskHistory asks exporters for finished work. For an exporter without the trace API, or one that fails, the completions in its
// state stand in, unless other exporters gave a full history: a few operations of some ranks beside thousands of others would
// look like work that was not done.
func (s *Session) AskHistory(ctx context.Context, nodes []*Node, span time.Duration) {
	var mu sync.Mutex
	each(nodes, s.g.Exporters.Concurrency, func(n *Node) int64 {
		n.told = true
		h, told := history{node: n, host: n.Base, ranks: map[string]int{}}, map[string]int{}
		theirs := s.strangers(n)
		bytes, err := s.g.Nodes.Trace(ctx, n.Base, s.job.ID, span, func(line *nodeapi.TraceLine) {
			switch {
			case line.Header != nil:
				h.done, told = finishedOps{}, map[string]int{}
			case line.Process != nil && line.Process.JobID == s.job.ID:
				h.ranks[line.Process.File] = int(line.Process.Rank)
			case line.Completion != nil && !theirs[line.Completion.File]:
				// A rank with more than its share must leave room for the others.
				if told[line.Completion.File]++; told[line.Completion.File] <= mostRankOps && h.done.len() < mostOps {
					h.add(line.Completion.File, &line.Completion.Completion)
				}
			}
		})
		if err != nil || h.done.len() == 0 {
			h = s.historyOfState(n)
			h.short = true
		}
		mu.Lock()
		if err != nil && !lacksAPI(err) {
			s.untold = append(s.untold, rca.Missing{What: "history", Name: s.nodeName(n), Why: reason(err)})
		}
		s.histories = append(s.histories, h)
		mu.Unlock()
		return bytes
	}, &s.bytes)
	slices.SortFunc(s.histories, func(a, b history) int { return cmp.Compare(a.host, b.host) })
	slices.SortFunc(s.untold, func(a, b rca.Missing) int { return cmp.Compare(a.Name, b.Name) })
}

// strangers gives the files of processes that are not believed, such as those of another user's job of the same name: their work leaves
// no room for that of the job.
func (s *Session) strangers(n *Node) map[string]bool {
	out := map[string]bool{}
	if n.state == nil {
		return out
	}
	for i := range n.state.Processes {
		if p := &n.state.Processes[i]; p.JobID == s.job.ID && !s.believes(p) {
			out[p.File] = true
		}
	}
	return out
}

// told gives the histories that can be compared with each other.
func (s *Session) told() []history {
	whole := slices.DeleteFunc(slices.Clone(s.histories), func(h history) bool { return h.short })
	if len(whole) == 0 {
		return s.histories
	}
	return whole
}

// WithoutHistory gives those exporters that have not been asked for finished work.
func (s *Session) WithoutHistory(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if !n.told {
			out = append(out, n)
		}
	}
	return out
}

// Bounds of a history: operations per rank, operations in total, and how short it may become to stay within them.
const (
	historyRankOps = 5_000
	historyOps     = 400_000
	shortHistory   = 10 * time.Second
	// Bursts may exceed the request: at most this many are read per rank, and per exporter.
	mostRankOps = 4 * historyRankOps
	mostOps     = historyOps
)

// Span gives how much of the longest span to fetch from some exporters to get about the intended number of operations: jobs
// differ a thousandfold in operations per second. Prometheus knows the rate. Without it, the rate is estimated from the newest
// few operations of each communicator. These come in bursts, so the estimate is high and less is fetched.
func (s *Session) Span(ctx context.Context, nodes []*Node, longest time.Duration) time.Duration {
	pace, err := s.g.Directory.Pace(ctx, s.job)
	s.note(err)
	perSecond, ranks := 0.0, 0
	for _, n := range nodes {
		if n.state == nil {
			continue
		}
		for i := range n.state.Processes {
			if p := &n.state.Processes[i]; p.JobID == s.job.ID && s.believes(p) {
				ranks++
				perSecond += rate(p.Completions, n.state.NowNS)
			}
		}
	}
	if pace > 0 {
		perSecond = pace * float64(ranks)
	}
	budget := min(float64(ranks)*historyRankOps, historyOps)
	if perSecond*longest.Seconds() <= budget {
		return longest
	}
	return max(min(shortHistory, longest), seconds(budget/perSecond))
}

// rate estimates operations per second from the newest few operations of each communicator.
func rate(done []trace.Completion, nowNS uint64) float64 {
	type recent struct {
		ops    int
		oldest uint64
	}
	byComm := map[uint32]recent{}
	for i := range done {
		r := byComm[done[i].CommIndex]
		if r.ops++; r.oldest == 0 || done[i].LeftNS < r.oldest {
			r.oldest = done[i].LeftNS
		}
		byComm[done[i].CommIndex] = r
	}
	out := 0.0
	for _, r := range byComm {
		if span := trace.Since(nowNS, r.oldest); span > 0 {
			out += float64(r.ops) / span.Seconds()
		}
	}
	return out
}

// historyOfState makes a history of the few completions that an exporter's state contains.
func (s *Session) historyOfState(n *Node) history {
	h, state := history{node: n, ranks: map[string]int{}}, n.state
	if state == nil {
		return h
	}
	h.host = state.Node
	for i := range state.Processes {
		p := &state.Processes[i]
		if p.JobID != s.job.ID || p.Rank < 0 || !s.believes(p) {
			continue
		}
		h.ranks[p.File] = int(p.Rank)
		for j := range p.Completions {
			h.add(p.File, &p.Completions[j])
		}
	}
	return h
}

// appendSegments appends finished work to a timeline, by rank and start. It leaves out work of another exporter's rank, and of an older
// process of a rank: its clock may belong to another boot.
func (h *history) appendSegments(timeline []rca.Segment, a *assembly) []rca.Segment {
	type place struct {
		rank, at int
		start    int64
	}
	order, unseen, sizes := make([]place, 0, h.done.len()), h.endsUnseen(), a.sizes()
	for i := range h.done.len() {
		f := h.done.at(i)
		if f.unended {
			members := int(f.nRanks)
			if members <= 0 {
				members = sizes[f.segment.Comm]
			}
			if f.segment.End = unseen[opOf(f)].end(members); f.segment.End == 0 {
				continue
			}
		}
		rank, known := h.ranks[f.file]
		if of := a.seen[rank]; known && rank >= 0 && of.node == h.node && of.process.File == f.file {
			order = append(order, place{rank, i, f.segment.Start})
		}
	}
	slices.SortFunc(order, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.start, y.start), cmp.Compare(x.at, y.at))
	})
	for _, p := range order {
		f := h.done.at(p.at)
		s := f.segment
		s.Rank, s.Peer = p.rank, -1
		if f.p2p {
			s.Peer = a.global(s.Comm, f.segment.Peer)
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

// calledAhead gives for each communicator how many more of the operations without a seen end were called while an earlier one of the same
// process was in flight than were not.
func (h *history) calledAhead() map[rca.CommID]int {
	order := make([]*finished, h.done.len())
	for i := range order {
		order[i] = h.done.at(i)
	}
	slices.SortStableFunc(order, func(a, b *finished) int { return cmp.Compare(a.segment.Start, b.segment.Start) })
	out, busy := map[rca.CommID]int{}, map[string]int64{}
	for _, f := range order {
		switch {
		case !f.unended:
			busy[f.file] = max(busy[f.file], f.segment.End)
		case busy[f.file] > f.segment.Start:
			out[f.segment.Comm]++
		default:
			out[f.segment.Comm]--
		}
	}
	return out
}

// sizes gives how many members communicators have whose sources do not say so, such as NCCL 2.24; nothing where not all ranks were seen.
func (a *assembly) sizes() map[rca.CommID]int {
	if a.ev.WorldSize <= 0 || len(a.seen) < a.ev.WorldSize {
		return nil
	}
	out := map[rca.CommID]int{}
	for _, of := range a.seen {
		for i := range of.rank.Memberships {
			out[of.rank.Memberships[i].Comm]++
		}
	}
	return out
}

// endsUnseen gives what is known of the operations that nothing shows to end on some member. Inside a host, over NVLink or shared memory, no
// proxy works, and without kernel events the call is all there is: who waits for one that is late is told from it in no other way. Where the
// host runs ahead of its GPU, a call tells nothing of when the operation began, and those of its communicator are left out.
func (h *history) endsUnseen() map[opKey]together {
	out, ahead := map[opKey]together{}, h.calledAhead()
	for _, unended := range []bool{true, false} {
		for i := range h.done.len() {
			f := h.done.at(i)
			o, ok := out[opOf(f)]
			if f.unended != unended || !ok && !unended || unended && ahead[f.segment.Comm] > 0 {
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
	return out
}

// global gives the global rank for a rank in a communicator, -1 unknown.
func (a *assembly) global(id rca.CommID, commRank int) int {
	if c := a.comms[id]; c != nil && commRank >= 0 && commRank < len(c.Members) {
		return c.Members[commRank]
	}
	return -1
}

// Segment converts one finished operation of a rank and leaves Peer unknown; false: it has no times.
func Segment(rank int, c *trace.Completion) (rca.Segment, bool) {
	s, ok := segment(c, CommID(trace.CommKey{ID: c.CommID, NRanks: c.NRanks}))
	s.Rank = rank
	return s, ok && c.Flags&trace.OpNoCompletion == 0
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
