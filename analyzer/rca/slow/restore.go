// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// lostRecord is an operation that a rank must have been in, for others were in it with them and the rank was seen in the
// same communicator before and after, and of which there is no record.
type lostRecord struct {
	node   int32
	job    int32
	end    int64 // When it ended, on the rank's own clock.
	latest int64 // When the rank entered at the latest.
	seen   int64 // When the last of those on record entered, on the same clock: all waited from then on.
}

// lostNumber is the number of a send or receive that has one, as the other side's record shows, and is not known.
const lostNumber = -2

// restore puts lost records back. Operations are matched by number, so that a lost record is a hole and no shift; when the
// operation ended the other members tell, and what it was. Before it the rank is taken to have computed as long as it does at
// this place in the iterations around; if that makes it last, cap its entry time at when all others were waiting. That they
// waited alone does not make it the last: the transfer may have taken long.
// Without it iterations could not be told apart, the others' waiting would look like work that nothing can shorten, and the
// time of the operation like a computation of the rank's. The timeline itself when nothing is lost.
func (t *timeline) restore() (*timeline, repair) {
	lost := t.lostRecords()
	if float64(len(lost)) < leastLost*float64(len(t.segs)) || len(lost) == 0 {
		return t, repair{left: len(lost)}
	}
	tl := slices.Grow(t.records(func(*seg) bool { return true }), len(lost))
	for i := range lost {
		tl = append(tl, t.lostSegment(&lost[i]))
	}
	recorded := len(t.segs)
	of := make(map[*rca.Segment]int, len(lost))
	for i := range lost {
		of[&tl[recorded+i]] = i
	}
	stays := restoredTimeline(t.Index, tl, recorded, false).restoredStays(lost, of)
	for i := range lost {
		s := &tl[recorded+i]
		s.Start, s.Entered, s.End = stays[i].enter, stays[i].enter, stays[i].end
	}
	out := restoredTimeline(t.Index, tl, recorded, false)
	return out, repair{changed: len(lost), left: countFunc(out.segs, func(s seg) bool { return s.holed })}
}

// lostRecords finds them.
func (t *timeline) lostRecords() []lostRecord {
	seen, spans := t.seenIn(), t.spans()
	absent := make([][]int32, len(t.jobs))
	some := false
	for j := range t.jobs {
		absent[j] = t.absentFrom(&t.jobs[j], seen, spans)
		some = some || len(absent[j]) > 0
	}
	if !some {
		return nil
	}
	usual, leaving := t.usualStays(absent), t.whoLeavesWhen()
	var out []lostRecord
	for j := range absent {
		jo := &t.jobs[j]
		u := min(usual[j], jo.transfer)
		for _, n := range absent[j] {
			end, ok := t.leftAt(jo, n, leaving)
			if !ok || end-u <= spans[n][0] || end >= spans[n][1] {
				continue // Outside of what was seen of the rank.
			}
			out = append(out, lostRecord{node: n, job: int32(j), end: end, latest: end - u, seen: end - jo.transfer})
		}
	}
	return out
}

// spans gives, by node, from when to when anything that the rank did ended, by its own clock.
func (t *timeline) spans() [][2]int64 {
	out := make([][2]int64, len(t.Nodes))
	for n, list := range t.ranks {
		for k, i := range list {
			if e := t.segs[i].end; k == 0 {
				out[n] = [2]int64{e, e}
			} else {
				out[n] = [2]int64{min(out[n][0], e), max(out[n][1], e)}
			}
		}
	}
	return out
}

// within reports whether a segment ended while another rank was seen, as far as clocks can be compared.
func (t *timeline) within(s *seg, n int32, spans [][2]int64) bool {
	c, own := &t.clock[n], &t.clock[s.node]
	if !own.known || !c.known || c.root != own.root {
		return false
	}
	end := c.fromReference(own.toReference(s.end))
	return end > spans[n][0] && end < spans[n][1]
}

// seenIn gives, by communicator, the ranks that were seen in operations of it.
func (t *timeline) seenIn() [][]int32 {
	out := make([][]int32, len(t.Comms))
	for i := range t.segs {
		s := &t.segs[i]
		if ci, ok := s.in(); ok && !s.compute {
			if l := out[ci]; len(l) == 0 || l[len(l)-1] != s.node {
				out[ci] = append(l, s.node) // Segments are in the order of nodes.
			}
		}
	}
	return out
}

// absentFrom gives the ranks that took part in an operation as far as others tell, and have no record of it.
func (t *timeline) absentFrom(j *joint, seen [][]int32, spans [][2]int64) []int32 {
	if t.complete(j) || j.compute || len(j.parts) == 0 {
		return nil
	}
	s := &t.segs[j.parts[0]]
	ci, ok := s.in()
	if !ok || !t.clock[s.node].known {
		return nil
	}
	might := func(n int32) bool { return t.within(s, n, spans) }
	if j.p2p {
		n := t.NodeOf(s.peer)
		if _, in := slices.BinarySearch(seen[ci], n); n >= 0 && in && might(n) {
			return []int32{n}
		}
		return nil
	}
	if len(seen[ci]) == len(j.parts) {
		return nil
	}
	in := make(map[int32]bool, len(j.parts))
	for _, p := range j.parts {
		in[t.segs[p].node] = true
	}
	var out []int32
	for _, n := range seen[ci] {
		if !in[n] && might(n) {
			out = append(out, n)
		}
	}
	return out
}

// usualStays gives what every operation with lost records takes once all are there: the median of those of its class around
// it on the communicator, as far as most of their records are left.
func (t *timeline) usualStays(absent [][]int32) []int64 {
	by := map[transferKey][]int32{}
	for j := range t.jobs {
		jo := &t.jobs[j]
		if jo.compute || len(jo.parts) == 0 {
			continue
		}
		k := t.transferKeyOf(jo)
		by[k] = append(by[k], int32(j))
	}
	out := make([]int64, len(t.jobs))
	for _, js := range by {
		slices.SortStableFunc(js, func(x, y int32) int {
			a, b := &t.segs[t.jobs[x].parts[0]], &t.segs[t.jobs[y].parts[0]]
			if t.jobs[x].p2p { // Each side has its own number.
				return cmp.Or(cmp.Compare(a.record.Iteration, b.record.Iteration), cmp.Compare(a.seq, b.seq))
			}
			return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.record.Iteration, b.record.Iteration), cmp.Compare(a.seq, b.seq))
		})
		stays, whole := make([]int64, len(js)), make([]bool, len(js))
		for i, j := range js {
			jo := &t.jobs[j]
			stays[i] = jo.transfer
			whole[i] = jo.p2p && t.complete(jo) || !jo.p2p && 4*len(absent[j]) <= len(absent[j])+len(jo.parts)
		}
		for i, j := range js {
			if len(absent[j]) > 0 {
				out[j] = around(stays, whole, i, t.jobs[j].transfer)
			}
		}
	}
	return out
}

// around gives the median of the nearest values that count, a few to each side; without any the fallback.
func around(v []int64, counts []bool, at int, fallback int64) int64 {
	var near []int64
	for _, step := range []int{-1, 1} {
		for i, n := at+step, 0; i >= 0 && i < len(v) && n < aside; i += step {
			if counts[i] {
				near = append(near, v[i])
				n++
			}
		}
	}
	if len(near) == 0 {
		return fallback
	}
	return median64(near)
}

// leaving is how much later than others ranks leave, ns on the reference's clock: receives than their sends, and members of a class of
// collectives than the median of them, for a tree's root leaves before its leaves.
type leaving map[transferKey]int64

// leavingKey is that of a rank in a collective, or of a pair, whatever its sends carry.
func leavingKey(j *joint, comm, n int32) transferKey {
	return transferKey{class: j.class, comm: comm, from: n, to: -1}
}

func pairKey(from, to int32) transferKey { return transferKey{comm: -1, from: from, to: to} }

// whoLeavesWhen learns it from what is on record.
func (t *timeline) whoLeavesWhen() leaving {
	later := map[transferKey][]int64{}
	for j := range t.jobs {
		jo := &t.jobs[j]
		if jo.compute || len(jo.parts) < 2 {
			continue
		}
		a, b := &t.segs[jo.parts[0]], &t.segs[jo.parts[1]]
		if !jo.p2p {
			mid, ok := t.middleEnd(jo)
			ci, known := a.in()
			if !ok || !known {
				continue
			}
			for _, p := range jo.parts {
				s := &t.segs[p]
				k := leavingKey(jo, ci, s.node)
				later[k] = append(later[k], t.clock[s.node].toReference(s.end)-mid)
			}
			continue
		}
		if a.dir < 0 {
			a, b = b, a
		}
		if a.node == b.node || !t.clock[a.node].known || t.clock[a.node].root != t.clock[b.node].root {
			continue
		}
		k := pairKey(a.node, b.node)
		later[k] = append(later[k], t.clock[b.node].toReference(b.end)-t.clock[a.node].toReference(a.end))
	}
	return mediansOf(later)
}

// middleEnd gives when the median of its members left an operation, on the reference's clock; false where they have none in
// common.
func (t *timeline) middleEnd(j *joint) (int64, bool) {
	ends := make([]int64, 0, len(j.parts))
	for _, p := range j.parts {
		s := &t.segs[p]
		if c := &t.clock[s.node]; !c.known || c.root != t.clock[t.segs[j.parts[0]].node].root {
			return 0, false
		}
		ends = append(ends, t.clock[s.node].toReference(s.end))
	}
	return median64(ends), true
}

// leftAt gives when a rank that has no record of an operation left it, on its own clock.
func (t *timeline) leftAt(j *joint, n int32, l leaving) (int64, bool) {
	end, ok := t.middleEnd(j)
	s := &t.segs[j.parts[0]]
	switch {
	case !ok:
		return 0, false
	case !j.p2p:
		end += l[leavingKey(j, s.comm, n)]
	case s.dir > 0:
		end += l[pairKey(s.node, n)]
	default:
		end -= l[pairKey(n, s.node)]
	}
	return t.clock[n].fromReference(end), true
}

// lostSegment is the lost record as far as other ranks' records tell it.
func (t *timeline) lostSegment(l *lostRecord) rca.Segment {
	j := &t.jobs[l.job]
	s := &t.segs[j.parts[0]]
	own := &t.segs[t.ranks[l.node][0]]
	c := rca.Segment{
		Rank: t.Nodes[l.node].ID, Kind: rca.SegmentOp, Iteration: s.record.Iteration, Comm: s.record.Comm, Number: s.number, Seq: s.seq, Func: t.FuncNames[s.fn], Peer: -1, Bytes: s.bytes,
		Start: l.latest, Entered: l.latest, End: l.end,
		Stage: int(own.stage), DataRank: own.record.DataRank, Layer: s.record.Layer, Microbatch: s.record.Microbatch,
	}
	if j.p2p {
		c.Peer, c.Func, c.Number = s.record.Rank, opposite(t.FuncNames[s.fn]), pick[int64](s.number < 0, -1, lostNumber)
	}
	return c
}

// opposite turns a send into the receive that matches it, and back.
func opposite(fn string) string {
	for _, p := range [][2]string{{"Send", "Recv"}, {"send", "recv"}} {
		switch {
		case strings.HasSuffix(fn, p[0]):
			return strings.TrimSuffix(fn, p[0]) + p[1]
		case strings.HasSuffix(fn, p[1]):
			return strings.TrimSuffix(fn, p[1]) + p[0]
		}
	}
	return fn
}

// restoredStay is when a rank was in an operation that it has no record of, on its own clock.
type restoredStay struct {
	enter, end int64
	latest     int64 // When it entered at the latest.
	placed     bool  // What it does at this place in other iterations is known.
}

// restoredStays infers them from a draft, in which the ranks entered as late as they can have; of is whose segment each is.
func (t *timeline) restoredStays(lost []lostRecord, of map[*rca.Segment]int) []restoredStay {
	type place struct{ node, pos int32 }
	out := make([]restoredStay, len(lost))
	for i, l := range lost {
		out[i] = restoredStay{enter: l.latest, end: l.end, latest: l.latest}
	}
	at := map[place][]int32{}
	for i := range t.segs {
		if s := &t.segs[i]; s.pos >= 0 && !s.compute {
			at[place{s.node, s.pos}] = append(at[place{s.node, s.pos}], int32(i))
		}
	}
	d := &draft{timeline: t, times: t.numberedTimes(), batches: t.findBatches(), places: t.places()}
	for _, list := range at {
		gaps, counts := make([]int64, len(list)), make([]bool, len(list))
		for k, i := range list {
			s := &t.segs[i]
			gaps[k], counts[k] = s.gap, s.pred >= 0 && !s.restored
		}
		for k, i := range list {
			if s := &t.segs[i]; s.restored && s.pred >= 0 {
				out[of[s.record]] = d.stayOf(s, out[of[s.record]], around(gaps, counts, k, s.gap))
			}
		}
	}
	capLast(out, lost)
	return out
}

// draft is a timeline with lost records where they can be at the latest, and what bounds them.
type draft struct {
	*timeline
	times   map[numbered][2]int64
	batches *batches
	places  []int32
}

// stayOf infers when a rank was in an operation before which it computes for so long.
func (d *draft) stayOf(s *seg, r restoredStay, computes int64) restoredStay {
	r.placed = true
	takes := r.end - r.latest
	before, after := d.beside(s, d.places)
	if p, ok := d.times[numbered{s.comm, s.node, s.number - 1}]; ok && s.number >= 0 && p[1] < r.end {
		before = max(before, p[1])
	}
	if p, ok := d.times[numbered{s.comm, s.node, s.number + 1}]; ok && s.number >= 0 && p[0] > before {
		end := r.end
		r.end, r.latest, after = min(end, p[0]), min(r.latest, p[0]), min(after, p[0])
		takes = end - r.latest
	}
	r.enter = min(max(r.latest, before), before+computes)
	if b, ok := d.batches.of(s, r.enter); ok {
		r.enter = b
		return r
	}
	r.end = max(r.end, r.enter+takes)
	if r.end > after && r.end-after <= max(2*mostOverlap, takes/4) {
		r.end = max(r.enter, after)
	}
	return r
}

// capLast caps the entry time of the rank without a record that would be last in an operation: at the time when all others were waiting.
func capLast(stays []restoredStay, lost []lostRecord) {
	last := map[int32]*restoredStay{} // By joint.
	for i := range stays {
		r := &stays[i]
		if !r.placed || r.enter <= lost[i].seen {
			continue
		}
		if l := last[lost[i].job]; l == nil || r.latest-r.enter < l.latest-l.enter {
			last[lost[i].job] = r
		}
	}
	for _, r := range last {
		r.enter = max(r.enter, r.latest)
	}
}

// numbered is an operation of a rank on a communicator. Those of one communicator run one after another.
type numbered struct {
	comm   int32
	node   int32
	number int64
}

// numberedTimes gives when the collectives on record were entered, and when they ended.
func (t *timeline) numberedTimes() map[numbered][2]int64 {
	out := map[numbered][2]int64{}
	for i := range t.segs {
		if s := &t.segs[i]; !s.restored && s.number >= 0 && s.dir == 0 {
			out[numbered{s.comm, s.node, s.number}] = [2]int64{s.enter, s.end}
		}
	}
	return out
}

// places gives where every segment is among its rank's.
func (t *timeline) places() []int32 {
	out := make([]int32, len(t.segs))
	for _, list := range t.ranks {
		for k, i := range list {
			out[i] = int32(k)
		}
	}
	return out
}

// beside gives when what came before a lost record ended and what came after it was entered, on the same rank. The record's
// own times come from others' clocks, and so it may seem to overlap with either by as much as those are off, or as members leave
// at different times.
func (t *timeline) beside(s *seg, places []int32) (before, after int64) {
	const near = 32 // Operations that may be under way at once.
	list, at := t.ranks[s.node], int(places[s.id])
	before, after = t.segs[s.pred].end, math.MaxInt64
	for k := at - 1; k >= max(0, at-near); k-- {
		if p := &t.segs[list[k]]; p.enter < s.enter && p.end > before && p.end <= s.enter+mostOverlap {
			before = p.end
		}
	}
	for k := at + 1; k < len(list); k++ {
		if p := &t.segs[list[k]]; !p.restored && p.enter > s.enter {
			return before, p.enter
		}
	}
	return before, after
}

// batches are the group calls of sends and receives that are on record.
type batches struct {
	began map[commNode][]batch // Ascending.
	alone map[sequence]int     // How many more of a sequence were entered alone than in a group.
}

// batch is when a group call was entered, and when the last of it ended.
type batch struct{ enter, end int64 }

// findBatches looks for them: what was entered together on one communicator.
func (t *timeline) findBatches() *batches {
	b := &batches{began: map[commNode][]batch{}, alone: map[sequence]int{}}
	for n, list := range t.ranks {
		before := map[int32]int32{} // The last of each communicator.
		grouped := map[int32]bool{}
		for _, i := range list {
			s := &t.segs[i]
			ci, ok := s.in()
			if !ok || s.restored || s.dir == 0 {
				continue
			}
			k := commNode{ci, int32(n)}
			if p, ok := before[ci]; ok && s.enter-t.segs[p].enter < int64(time.Microsecond) {
				grouped[p], grouped[i] = true, true
				last := &b.began[k][len(b.began[k])-1]
				last.end = max(last.end, s.end)
			} else {
				b.began[k] = append(b.began[k], batch{s.enter, s.end})
			}
			before[ci] = i
		}
		for _, i := range list {
			if s := &t.segs[i]; !s.restored && s.dir != 0 {
				b.alone[sequenceOf(s)] += pick(grouped[i], -1, 1)
			}
		}
	}
	return b
}

// sequenceOf is the numbering of a rank's sends to, or receives from, one other rank.
func sequenceOf(s *seg) sequence {
	return sequence{comm: s.comm, fn: s.fn, peer: int32(s.peer), rank: int32(s.record.Rank)}
}

// of gives when the group call was entered that a lost send or receive was in, which would have been entered at some time were it
// alone; false where its kind is called alone, or the one before it had ended by then.
func (b *batches) of(s *seg, alone int64) (int64, bool) {
	if s.dir == 0 || b.alone[sequenceOf(s)] >= 0 {
		return 0, false
	}
	ci, ok := s.in()
	if !ok {
		return 0, false
	}
	list := b.began[commNode{ci, s.node}]
	k, _ := slices.BinarySearchFunc(list, s.enter+mostOverlap, func(x batch, at int64) int { return cmp.Compare(x.enter, at) })
	if k == 0 || list[k-1].end+mostOverlap < alone {
		return 0, false
	}
	return list[k-1].enter, true
}
