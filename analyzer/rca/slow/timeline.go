// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package slow finds whose time it is that makes iterations long: the critical path, compared with peers and the past, confirmed by
// replaying the iteration without the blamed element (docs/rca.md).
package slow

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// timeline is finished work with what links it: on each rank what came before, across ranks what was done together.
// Times are nanoseconds on each rank's own clock; nothing here compares two clocks.
type timeline struct {
	*job.Index
	segs     []seg
	restored int       // How many of them have no record.
	cut      bool      // Iterations were found, not told by the source: they tell no operations apart.
	ranks    [][]int32 // Segments by node, in the order they were entered.
	jobs     []joint   // What ranks did together, and computations alone.
	order    []int32   // jobs so that everything comes after what it depends on.
	tokens   []token   // The kinds of operations.
	tokenAt  []int32   // By segment: its place in tokens.
	iters    int       // Number of iterations, 0 unknown.
	role     []int32   // By node: ranks that run the same program share a role; -1 no segments.
	roles    int
	ahead    bool               // The source tells the call from the kernel's start: the host runs ahead of the GPU.
	exchange []bool             // By communicator: its sends and receives make all-to-all exchanges.
	seats    map[commNode]int32 // Ranks in the communicators in which something is sent.
	across   []bool             // By communicator: its members are on more than one host.
	clock    []line             // By node: its clock against the reference's (X6).
	peers    *peerWork
}

// seg is one segment with its place. It has what nearly every pass reads of the record, which is several times as large; what most passes
// read lies together.
type seg struct {
	id    int32
	node  int32
	comm  int32 // In Comms; below 0 one that is not there, all segments of one alike.
	fn    int32 // In FuncNames.
	job   int32
	pred  int32 // What ended last before this was entered, on the same rank; -1 nothing.
	iter  int32 // noIteration unknown.
	pos   int32 // Position in the iteration, shared by the ranks of a role; -1 unknown.
	stage int32 // Of the record.
	dir   int8  // Of data: +1 a send, -1 a receive, 0 a collective or a computation.

	compute bool
	// also: entered together with the one before it (one group call), or while a computation runs: its gap is the same
	// time again.
	also bool
	// holed: an operation before it, since the last of the same sequence, has no record: the time before it may be that
	// operation's.
	holed bool
	// restored: its record is lost. That it was, and when it ended, its other members' records tell; when it was entered
	// is inferred.
	restored bool

	enter int64
	gap   int64 // From pred's end to enter: computation, or the host being late.
	stay  int64 // Inside, waiting for others included.
	host  int64 // The part of gap in which the GPU had nothing to do because the call had not come yet.

	number, seq, bytes, start, entered, end int64 // Of the record, like peer.
	peer                                    int
	record                                  *rca.Segment
}

// commNode is a rank in a communicator.
type commNode struct{ comm, node int32 }

// joint is an operation across ranks, or one computation.
type joint struct {
	parts    []int32 // Segments.
	class    transferClass
	transfer int64 // The shortest stay: the last arriver waits for no other rank.
	last     int32 // Segment of the last arriver; -1 none told.
	p2p      bool
	buffered bool // The send did not wait for its receiver.
	compute  bool
}

// in gives the communicator that the segment was on, if it is in Comms.
func (s *seg) in() (comm int32, ok bool) { return s.comm, s.comm >= 0 }

type jointKey struct {
	comm     int32
	fn       int32
	iter     int32
	src, dst int32 // Ranks.
	number   int64
}

func newTimeline(x *job.Index, tl []rca.Segment) *timeline {
	return restoredTimeline(x, tl, len(tl), false)
}

// restoredTimeline is the timeline of some records and, behind them, of operations whose records are lost. Their iterations
// are the source's, unless they were cut.
func restoredTimeline(x *job.Index, tl []rca.Segment, recorded int, cut bool) *timeline {
	t := &timeline{Index: x, ranks: make([][]int32, len(x.Nodes)), restored: len(tl) - recorded, cut: cut}
	t.load(tl, recorded)
	if len(t.segs) == 0 {
		return t
	}
	t.spanHosts()
	t.link()
	t.findHoles()
	t.join()
	t.sort()
	t.findIterations()
	t.alignClocks()
	return t
}

// between gives the iterations from up to but not including to as a timeline of its own.
func (t *timeline) between(from, to int) *timeline {
	var tl, lost []rca.Segment
	for i := range t.segs {
		s := &t.segs[i]
		if s.iter == noIteration || int(s.iter) < from || int(s.iter) >= to {
			continue
		}
		c := *s.record
		c.Iteration = int(s.iter)
		if s.restored {
			lost = append(lost, c)
		} else {
			tl = append(tl, c)
		}
	}
	return restoredTimeline(t.Index, append(tl, lost...), len(tl), t.cut)
}

func (t *timeline) load(tl []rca.Segment, recorded int) {
	ops, ahead := 0, 0
	at := make([]int32, len(t.Nodes)+1) // Where each rank's segments begin.
	fits := func(s *rca.Segment) int32 {
		if s.End < s.Start || s.End-s.Start > int64(1e15) {
			return -1
		}
		return t.NodeOf(s.Rank)
	}
	for i := range tl {
		s := &tl[i]
		if s.Kind == rca.SegmentOp {
			ops++
			if s.Entered > s.Start {
				ahead++
			}
		}
		if n := fits(s); n >= 0 {
			at[n+1]++
		}
	}
	t.ahead = 10*ahead >= ops
	for n := range t.Nodes {
		at[n+1] += at[n]
	}
	unknown := map[rca.CommID]int32{hiddenComm: hiddenNumber}
	comm := func(id rca.CommID) int32 {
		c, ok := t.CommOf[id]
		if !ok {
			if c, ok = unknown[id]; !ok {
				c = -1 - int32(len(unknown))
				unknown[id] = c
			}
		}
		return c
	}
	// Sorted before segs are made of them: records are small to move about, and mostly in order.
	order := make([]int32, at[len(t.Nodes)])
	next := slices.Clone(at)
	for i := range tl {
		if n := fits(&tl[i]); n >= 0 {
			order[next[n]] = int32(i)
			next[n]++
		}
	}
	t.segs = make([]seg, len(order))
	for n := range t.Nodes {
		own := order[at[n]:at[n+1]]
		slices.SortFunc(own, func(a, b int32) int { return compareSegments(&tl[a], &tl[b]) })
		t.ranks[n] = make([]int32, len(own))
		for k, i := range own {
			id := at[n] + int32(k)
			s := &t.segs[id]
			r := &tl[i]
			*s = seg{
				id: id, node: int32(n), comm: comm(r.Comm), fn: t.FuncNumber(r.Func), job: -1, pred: -1, iter: int32(r.Iteration), pos: -1, stage: int32(r.Stage),
				dir: direction(r.Func), compute: r.Kind == rca.SegmentCompute, restored: int(i) >= recorded,
				number: r.Number, seq: r.Seq, bytes: r.Bytes, start: r.Start, entered: r.Entered, end: r.End, peer: r.Peer, record: r,
			}
			t.ranks[n][k] = s.id
		}
	}
}

// compareSegments orders a rank's segments by when they began, and so that ties never depend on the order of the input.
func compareSegments(s, o *rca.Segment) int {
	if c := cmp.Compare(first(s), first(o)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(s.End, o.End), cmp.Compare(s.Comm, o.Comm), cmp.Compare(s.Number, o.Number), cmp.Compare(s.Func, o.Func),
		cmp.Compare(s.Peer, o.Peer), cmp.Compare(s.Seq, o.Seq), cmp.Compare(s.Bytes, o.Bytes), cmp.Compare(s.Start, o.Start))
}

// first is when a segment began as far as it says itself.
func first(s *rca.Segment) int64 {
	if s.Entered > s.Start && s.Entered <= s.End {
		return s.Entered
	}
	return s.Start
}

// Times of consecutive work may overlap a little because they were rounded or taken by different threads of one rank: by rounding in
// any case, by a twentieth of the shorter one's length up to mostOverlap. Between kernels it is a twentieth of the earlier one's: its
// end is seen when somebody looks, however short the later one is. Without kernels an operation begins when it is called, ahead of the
// GPU, and a call just before an end is as likely as any other.
const (
	rounding    = int64(2 * time.Microsecond)
	mostOverlap = int64(200 * time.Microsecond)
)

// follows reports whether p had ended, as far as times tell, when s was entered.
func (s *seg) follows(p *seg) bool {
	if p.end <= s.enter {
		return true
	}
	length := p.stay
	if p.entered == 0 || s.entered == 0 {
		length = min(length, s.stay)
	}
	return p.enter < s.enter && p.end-s.enter <= max(rounding, min(mostOverlap, length/20))
}

// enterGroups gives the sends and receives of one group the same beginning, which some of them show. One kernel runs a group: when the GPU has
// data to send in one of them, or is done with one, it has begun them all. A receive shows no beginning of its own: its data waits until its
// kernel runs, and to take it to begin when the operation before had ended would make the rank's own computation a wait for the sender.
func (t *timeline) enterGroups(list []int32) {
	byNumber := slices.DeleteFunc(slices.Clone(list), func(i int32) bool { return t.segs[i].dir == 0 || t.segs[i].number < 0 })
	slices.SortStableFunc(byNumber, func(a, b int32) int {
		return cmp.Or(cmp.Compare(t.segs[a].comm, t.segs[b].comm), cmp.Compare(t.segs[a].number, t.segs[b].number))
	})
	for from := 0; from < len(byNumber); {
		shown, begun, to := false, int64(math.MaxInt64), from
		for ; to < len(byNumber); to++ {
			s := &t.segs[byNumber[to]]
			if to > from && !s.sharesKernel(&t.segs[byNumber[to-1]]) {
				break
			}
			begun = min(begun, s.end)
			if s.entered > s.start && s.entered <= s.end {
				shown, begun = true, min(begun, s.entered)
			}
		}
		for _, i := range byNumber[from:to] {
			if s := &t.segs[i]; shown && begun > s.start {
				s.entered = begun
			}
		}
		from = to
	}
}

// sharesKernel reports whether two sends or receives of a rank were called in one group on one communicator. Neither comes before the other,
// though data that was there already lets one end as soon as the kernel runs.
func (s *seg) sharesKernel(other *seg) bool {
	a, b := other.record.GroupOrdinal, s.record.GroupOrdinal
	return s.comm == other.comm && a > 0 && b > 0 && other.number-a == s.number-b
}

// link finds for every segment when it was entered and what came before it. Where the kernel's start is not known, an
// operation called early is taken to have begun when the one before it had ended, unless both started together: then
// they are one batch.
func (t *timeline) link() {
	for n, list := range t.ranks {
		// Of ranks without any kernel events all starts are inferred. There it costs more than it gives: five slow jobs of the scorecard become
		// unknown, and why is not known.
		if r := t.Nodes[n].Rank; r != nil && r.Caps&rca.SeesKernels != 0 {
			t.enterGroups(list)
		}
		byEnd := slices.Clone(list)
		slices.SortStableFunc(byEnd, func(a, b int32) int { return cmp.Compare(t.segs[a].end, t.segs[b].end) })
		lastOp, before := int64(-1<<62), int64(-1<<62) // Ends of the operations so far, and of those before the batch.
		started := int64(-1 << 62)
		for _, i := range list {
			s := &t.segs[i]
			s.enter = max(s.start, s.entered)
			if s.enter > s.end {
				s.enter = s.start
			}
			if !s.compute && (s.entered == 0 || s.entered < s.start) {
				if s.start-started > rounding {
					started, before = s.start, lastOp
				}
				if before > s.enter && before <= s.end {
					s.enter = before
				}
				lastOp = max(lastOp, s.end)
			}
			s.stay = s.end - s.enter
		}
		sharing := make([]int32, len(byEnd)) // Where those before it that share its kernel, one after the other, begin.
		for j := 1; j < len(byEnd); j++ {
			if sharing[j] = int32(j); t.segs[byEnd[j]].sharesKernel(&t.segs[byEnd[j-1]]) {
				sharing[j] = sharing[j-1]
			}
		}
		k, ended := 0, 0
		byEnter := slices.Clone(list)
		slices.SortStableFunc(byEnter, func(a, b int32) int { return cmp.Compare(t.segs[a].enter, t.segs[b].enter) })
		copy(list, byEnter)
		busy := int64(-1 << 62) // When the computation that runs ends.
		for at, i := range list {
			s := &t.segs[i]
			if at > 0 {
				s.also = s.enter < busy || s.enter-t.segs[list[at-1]].enter < int64(time.Microsecond)
			}
			if s.compute {
				busy = max(busy, s.end)
				s.also = false
			}
			for k < len(byEnd) && t.segs[byEnd[k]].end <= s.enter+mostOverlap {
				k++
			}
			for ended < k && t.segs[byEnd[ended]].end <= s.enter {
				ended++
			}
			if s.pred = t.endedBefore(i, byEnd[:k], ended, sharing); s.pred >= 0 {
				p := &t.segs[s.pred]
				s.gap = max(0, s.enter-p.end)
				if !s.compute && t.ahead && s.start > p.end && !s.restored {
					s.host = min(s.gap, s.start-p.end)
				}
				if s.compute {
					s.host = s.gap // Nothing was recorded to run: the host had given it nothing.
				}
			}
		}
	}
}

// endedBefore gives the last one that had ended, as far as times tell, when a segment was entered, without those of its own kernel; -1 none. Of the
// others not more are looked at than can end in an overlap: a process may claim that thousands did.
func (t *timeline) endedBefore(i int32, byEnd []int32, ended int, sharing []int32) int32 {
	s, left := &t.segs[i], mostOverlap/rounding
	for j := len(byEnd) - 1; j >= 0; j-- {
		switch p := byEnd[j]; {
		case left == 0 && j >= ended:
			j = ended
		case p == i:
		case s.sharesKernel(&t.segs[p]):
			j = int(sharing[j])
		case s.follows(&t.segs[p]):
			return p
		default:
			left--
		}
	}
	return -1
}

// sequence identifies operations of a rank that are numbered without holes.
type sequence struct {
	comm int32
	fn   int32 // Where only calls of one function are numbered, else -1.
	peer int32
	iter int32
	rank int32
}

// findHoles marks what lies between two operations of one sequence whose numbers do not follow each other. What was
// entered together is in the order of its ends, not of its calls.
func (t *timeline) findHoles() {
	type reached struct {
		number int64
		put    int64 // Restored sends and receives on the communicator so far: each has one of the numbers that are missing.
		at     int
	}
	type found struct{ top, count int64 }
	for _, list := range t.ranks {
		before, here := map[sequence]reached{}, map[sequence]found{}
		put := map[int32]int64{}
		for from := 0; from < len(list); {
			to := from + 1
			for to < len(list) && t.batched(list, to) {
				to++
			}
			clear(here)
			for _, i := range list[from:to] {
				s := &t.segs[i]
				if s.compute || s.comm == hiddenNumber {
					continue
				}
				if s.number == lostNumber {
					put[s.comm]++
					continue
				}
				k, number := sequence{comm: s.comm, fn: -1, peer: -1, iter: -1}, s.number
				if number < 0 {
					k.fn, k.peer, k.iter, number = s.fn, int32(s.peer), int32(s.record.Iteration), s.seq
				}
				if b, ok := before[k]; number < 0 || ok && number <= b.number {
					continue
				}
				h := here[k]
				here[k] = found{max(h.top, number), h.count + 1}
			}
			for k, h := range here {
				if b, ok := before[k]; ok {
					missing := h.top - b.number - h.count
					if k.fn < 0 {
						missing -= put[k.comm] - b.put
					}
					if missing > 0 {
						for _, i := range list[b.at+1 : to] {
							t.segs[i].holed = true
						}
					}
				}
				before[k] = reached{h.top, put[k.comm], to - 1}
			}
			from = to
		}
	}
}

// join gathers what ranks did together.
func (t *timeline) join() {
	at := make(map[jointKey]int32, len(t.segs)/2)
	t.jobs = make([]joint, 0, len(t.segs)/2)
	for i := range t.segs {
		s := &t.segs[i]
		if s.compute {
			s.job = int32(len(t.jobs))
			t.jobs = append(t.jobs, joint{transfer: s.stay, last: int32(i), compute: true})
			continue
		}
		k := t.keyOfSegment(s)
		id, ok := at[k]
		if !ok {
			id = int32(len(t.jobs))
			at[k] = id
			t.jobs = append(t.jobs, joint{last: -1, p2p: k.src >= 0})
		}
		s.job = id
	}
	members, all := make([]int32, len(t.jobs)), make([]int32, len(t.segs))
	for i := range t.segs {
		members[t.segs[i].job]++
	}
	for j, n := range members {
		t.jobs[j].parts, all = all[:0:n], all[n:]
	}
	for i := range t.segs {
		j := &t.jobs[t.segs[i].job]
		j.parts = append(j.parts, int32(i))
	}
	for i := range t.jobs {
		t.jobs[i].class = t.classOf(&t.jobs[i])
		t.settleJoint(&t.jobs[i])
	}
}

// keyOfSegment tells operations apart. A send or receive of which the other rank is not known is one alone: others on its communicator have the
// same number in operations of their own.
func (t *timeline) keyOfSegment(s *seg) jointKey {
	k := jointKey{comm: s.comm, fn: -1, iter: -1, number: s.number, src: -1, dst: -1}
	if s.dir != 0 && s.peer < 0 {
		k.src, k.number = int32(s.record.Rank), int64(s.id)
		return k
	}
	if s.dir != 0 {
		k.src, k.dst, k.number = int32(s.record.Rank), int32(s.peer), s.seq
		if s.dir < 0 {
			k.src, k.dst = k.dst, k.src
		}
		k.iter = pick(t.cut, -1, int32(s.record.Iteration))
		return k
	}
	if s.number < 0 {
		k.fn, k.number, k.iter = s.fn, s.seq, pick(t.cut, -1, int32(s.record.Iteration))
	}
	return k
}

// direction is +1 for a send, -1 for a receive, 0 for a collective.
func direction(fn string) int8 {
	switch {
	case fn == "Send" || strings.HasSuffix(fn, "-send"):
		return 1
	case fn == "Recv" || strings.HasSuffix(fn, "-recv"):
		return -1
	}
	return 0
}

// settleJoint finds the transfer time and the last arriver. All leave a synchronising operation together, so the
// shortest stay is the last arriver's, whatever the clocks say.
func (t *timeline) settleJoint(j *joint) {
	if j.compute || len(j.parts) == 0 {
		return
	}
	shortest, longest := j.parts[0], j.parts[0]
	for _, p := range j.parts {
		if t.segs[p].stay < t.segs[shortest].stay {
			shortest = p
		}
		if t.segs[p].stay > t.segs[longest].stay {
			longest = p
		}
	}
	j.transfer, j.last = t.segs[shortest].stay, shortest
	if t.segs[shortest].comm == hiddenNumber && 3*j.transfer > t.segs[longest].stay {
		j.transfer = 0 // All waited long for a rank that is not among them.
	}
	if j.p2p && len(j.parts) == 2 {
		send := j.parts[0]
		if t.segs[send].dir < 0 {
			send = j.parts[1]
		}
		j.buffered = send == shortest
	}
}

// collectives gives the operations in which two members or more were seen, sends and receives aside, in the order of their dependencies.
func (t *timeline) collectives() iter.Seq[*joint] {
	return func(yield func(*joint) bool) {
		for _, id := range t.order {
			if j := &t.jobs[id]; !j.compute && !j.p2p && len(j.parts) >= 2 && !yield(j) {
				return
			}
		}
	}
}

// works reports whether a rank's own work lies before a segment, as far as that is known: the first has nothing before it, what was entered
// with another one has its gap, and what lies outside whole iterations is compared with nothing.
func (s *seg) works() bool { return s.iter != noIteration && s.pred >= 0 && !s.also }

// entered is when a segment was entered, on the reference's clock.
func (t *timeline) entered(s *seg) int64 { return t.clock[s.node].toReference(s.enter) }

// wait is how long a rank waited in an operation for the others.
func (t *timeline) wait(i int32) int64 { return t.segs[i].stay - t.jobs[t.segs[i].job].transfer }

// sort orders the joints by dependency. What noise in the times makes circular is appended as it comes.
func (t *timeline) sort() {
	need := make([]int32, len(t.jobs))
	from := make([]int32, len(t.jobs)+1) // Where in after those begin that come after a job.
	edges := func(yield func(before, next int32)) {
		for i := range t.segs {
			if s := &t.segs[i]; s.pred >= 0 && t.segs[s.pred].job != s.job {
				yield(t.segs[s.pred].job, s.job)
			}
		}
	}
	edges(func(before, next int32) { need[next]++; from[before+1]++ })
	for j := range need {
		from[j+1] += from[j]
	}
	after, end := make([]int32, from[len(need)]), slices.Clone(from)
	edges(func(before, next int32) { after[end[before]] = next; end[before]++ })
	t.order = make([]int32, 0, len(t.jobs))
	for j := range t.jobs {
		if need[j] == 0 {
			t.order = append(t.order, int32(j))
		}
	}
	for k := 0; k < len(t.order); k++ {
		done := t.order[k]
		for _, j := range after[from[done]:from[done+1]] {
			if need[j]--; need[j] == 0 {
				t.order = append(t.order, j)
			}
		}
	}
	if len(t.order) < len(t.jobs) {
		for j := range t.jobs {
			if need[j] > 0 {
				t.order = append(t.order, int32(j))
			}
		}
	}
}
