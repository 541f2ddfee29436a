// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
)

// Thresholds of cutting.
const (
	shortestGap = time.Millisecond // Between operations; those inside are of microseconds (Pulse, 5.2).
	gapEpochs   = 3                // A gap is so many times as long as the time between two lines with traffic: one may be lost, and it varies.
	largeSlice  = 1 << 20          // Bytes of NCCL's largest slice.
	straggler   = 2                // A link of 1/2 of its bandwidth should be seen.
	likeVolume  = 0.1              // Volumes that differ by no more are of the same operation: headers, retransmissions.
	gapStep     = 0.25             // By which lengths of gaps are tried.
	recurShare  = 0.5              // Of the bytes that must come in one volume.
	asGood      = 0.98             // Of the best share.
	recurs      = 3                // So often a volume must come on a rank to be the operation's.
	busyShare   = 0.5              // Of an operation that some rank must be seen to send in: else the counters move in steps too large.
	lower       = 0.99             // Of the volume learned: the least that an operation moves.
	minorPeer   = 0.01             // Of a rank's bytes; less to a peer is synchronisation (Pulse, 5.2).
	usualPeak   = 0.9              // Share of intervals that move no more than a link can.
	usualJitter = 0.1              // Share of lines that come earlier than the recording's interval says.
)

// table is all recordings of one job.
type table struct {
	flows   []Flow
	ends    map[int]time.Duration // By rank: its last line.
	end     time.Duration         // The last line of all.
	length  time.Duration         // The recording's interval.
	gbps    float64               // Stated, or 0.
	zeros   bool
	streams []*stream
}

// stream is what the ranks of one group move for one kind of operation.
type stream struct {
	Label
	ranks    []int // That send, in order.
	missing  []int // That are sent to and of which nothing is recorded.
	shape    shape
	channels int
	curves   map[int][]pulse.Epoch
	delta    time.Duration
	expected int64 // Bytes a rank sends in an operation, at least; 0 unknown.
	stated   bool  // The recording says what the operation is (P3); else the volume is learned.
	unfit    bool  // The flows move less than what it states.
	speed    float64
	ops      map[int][]pulse.Operation
}

func newTable(recs []*Recording) *table {
	t := &table{ends: map[int]time.Duration{}}
	for _, r := range recs {
		t.flows = append(t.flows, r.Flows...)
		t.zeros = t.zeros || r.Zeros
		t.gbps = max(t.gbps, r.LinkGbps)
	}
	slices.SortStableFunc(t.flows, func(a, b Flow) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Operation, b.Operation), cmp.Compare(a.Size, b.Size),
			cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Peer, b.Peer), strings.Compare(a.Channel, b.Channel), cmp.Compare(a.First, b.First))
	})
	t.end = math.MinInt64
	for i := range t.flows {
		f := &t.flows[i]
		if last, ok := t.ends[f.Rank]; !ok || f.Last > last {
			t.ends[f.Rank] = f.Last
		}
		t.end = max(t.end, f.Last)
	}
	t.length = t.interval()
	for from := 0; from < len(t.flows); {
		to := from
		for to < len(t.flows) && t.flows[to].Label == t.flows[from].Label {
			to++
		}
		t.streams = append(t.streams, t.divide(t.flows[from:to])...)
		from = to
	}
	for _, s := range t.streams {
		s.cut(t.length, t.gbps)
	}
	return t
}

// interval is how far apart the recording's lines are: lines without traffic may be left out, so it is what the closest
// ones have in common.
func (t *table) interval() time.Duration {
	var all []time.Duration
	for i := range t.flows {
		if d := t.flows[i].gaps.share(usualJitter); d > 0 {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return shortestGap
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// divide parts flows of one label into those whose ranks are connected.
func (t *table) divide(flows []Flow) []*stream {
	root := map[int]int{}
	var find func(int) int
	find = func(r int) int {
		p, ok := root[r]
		if !ok || p == r {
			root[r] = r
			return r
		}
		root[r] = find(p)
		return root[r]
	}
	for i := range flows {
		a := find(flows[i].Rank)
		if flows[i].Peer >= 0 {
			root[a] = find(flows[i].Peer)
		}
	}
	parts := map[int][]*Flow{}
	for i := range flows {
		k := find(flows[i].Rank)
		parts[k] = append(parts[k], &flows[i])
	}
	var out []*stream
	for _, part := range parts {
		if s := t.stream(part); s != nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *stream) int { return cmp.Compare(a.ranks[0], b.ranks[0]) })
	return out
}

// stream joins each rank's flows into one curve; nil where nothing moves.
func (t *table) stream(part []*Flow) *stream {
	s := &stream{Label: part[0].Label, curves: map[int][]pulse.Epoch{}, ops: map[int][]pulse.Operation{}}
	sent := map[int]map[int]int64{}
	channels := map[[2]int]int{}
	for _, f := range part {
		if sent[f.Rank] == nil {
			sent[f.Rank] = map[int]int64{}
		}
		for _, e := range f.Epochs {
			sent[f.Rank][f.Peer] += e.Bytes
			s.curves[f.Rank] = append(s.curves[f.Rank], pulse.Epoch{At: e.At - t.length, Bytes: e.Bytes})
		}
		channels[[2]int{f.Rank, f.Peer}]++
		s.channels = max(s.channels, channels[[2]int{f.Rank, f.Peer}])
	}
	if len(s.curves) == 0 {
		return nil
	}
	for r, c := range s.curves {
		s.curves[r] = together(c, t.length)
	}
	s.ranks = slices.Sorted(maps.Keys(sent))
	missing := map[int]bool{}
	for _, to := range sent {
		for p := range to {
			if _, recorded := t.ends[p]; p >= 0 && !recorded {
				missing[p] = true
			}
		}
	}
	s.missing = slices.Sorted(maps.Keys(missing))
	s.shape = shapeOf(s.ranks, sent)
	return s
}

// together makes one curve of several: what two flows move in one interval is in one epoch.
func together(c []pulse.Epoch, length time.Duration) []pulse.Epoch {
	slices.SortStableFunc(c, func(a, b pulse.Epoch) int { return cmp.Compare(a.At, b.At) })
	out := c[:0]
	for _, e := range c {
		if n := len(out); n > 0 && e.At-out[n-1].At < length/2 {
			out[n-1].Bytes += e.Bytes
			continue
		}
		out = append(out, e)
	}
	return out
}

// cut divides each rank's curve into operations (P4).
func (s *stream) cut(length time.Duration, gbps float64) {
	s.speed = gbps * 1e9
	if s.speed == 0 {
		s.speed = s.fastest(length)
	}
	s.delta = max(shortestGap, gapEpochs*s.rhythm(length))
	volume := s.volumeOf()
	learned := s.learn(length)
	s.stated = volume > 0 && !(learned > 0 && float64(learned) < (1-likeVolume)*float64(volume))
	s.unfit = volume > 0 && !s.stated
	if !s.stated {
		volume = learned
	}
	s.delta = max(s.delta, pulse.Granularity(s.slice(volume), s.speed, s.channels, straggler))
	s.expected = volume
	if !s.stated {
		s.expected = int64(lower * float64(volume))
	}
	for _, r := range s.ranks {
		s.ops[r] = pulse.Segment(s.curves[r], length, s.expected, s.delta)
	}
}

// rhythm is how far apart intervals with traffic mostly are: the recording's interval, or where counters move in steps, as they do
// for each transfer, the time of one.
func (s *stream) rhythm(length time.Duration) time.Duration {
	var h histogram
	for _, c := range s.curves {
		for i := 1; i < len(c); i++ {
			h.add(c[i].At - c[i-1].At)
		}
	}
	const half = 0.5
	return max(length, h.share(half))
}

// volumeOf is what a rank sends at least in the operation that the recording states (P3); 0 where it states none. A tree
// takes least, so an algorithm that the peers do not tell counts as one.
func (s *stream) volumeOf() int64 {
	algorithm := s.shape.algorithm()
	if algorithm == pulse.UnknownAlgorithm {
		algorithm = pulse.Tree
	}
	return pulse.ExpectedVolume(canonical(s.Operation), algorithm, s.Size, len(s.ranks)+len(s.missing))
}

// slice is the most that is sent at once on a channel: NCCL's largest slice, or what one step of the ring leaves for it.
func (s *stream) slice(volume int64) int64 {
	steps := int64(max(1, len(s.ranks)+len(s.missing)-1) * s.channels)
	if volume <= 0 {
		return largeSlice
	}
	return max(1, min(largeSlice, volume/steps))
}

// fastest is the highest rate of a rank in an interval, in bits per second: its link has at least that speed. The few
// intervals that count for more, as samples come late, are left aside.
func (s *stream) fastest(length time.Duration) float64 {
	var all []int64
	for _, c := range s.curves {
		for _, e := range c {
			all = append(all, e.Bytes)
		}
	}
	slices.Sort(all)
	return max(1, 8*float64(all[int(usualPeak*float64(len(all)-1))])/length.Seconds())
}

// granularity is how fine the recording must be to show the gaps that a link of half its bandwidth makes on the others.
func (s *stream) granularity() time.Duration {
	return pulse.Granularity(s.slice(s.expected), s.speed, s.channels, straggler)
}

// learn finds the volume that comes again and again between gaps, on all ranks alike; 0 where none does. Operations come
// periodically, and each moves the same again (Pulse, 5.2): so of all lengths of a gap that one tells the volume between which
// most of the bytes come in portions alike. Of several that do as well it is a long one: a short one may cut an operation
// into its slices, which are alike too. It tells the volume only: who waits for a late rank has sent its first chunk, and the
// gap until the rank comes may be longer than the one between operations.
func (s *stream) learn(length time.Duration) int64 {
	floor, widest := s.delta, time.Duration(0)
	var total int64
	for _, c := range s.curves {
		for i, e := range c {
			total += e.Bytes
			if i > 0 {
				widest = max(widest, e.At-c[i-1].At)
			}
		}
	}
	type try struct {
		volume int64
		share  float64
	}
	var tries []try
	best := 0.0
	for d := floor; d <= widest; d += max(1, time.Duration(gapStep*float64(d))) {
		v, sum := s.recurring(length, d)
		tries = append(tries, try{v, sum / float64(total)})
		best = max(best, sum/float64(total))
	}
	if best < recurShare {
		return 0
	}
	// The middle of the last run that is as good: gaps between operations and within them vary.
	last := len(tries) - 1
	for tries[last].share < asGood*best {
		last--
	}
	first := last
	for first > 0 && tries[first-1].share >= asGood*best {
		first--
	}
	return tries[(first+last)/2].volume
}

// recurring is the volume that moves most bytes, of those that recur between gaps of a length, and how many it moves.
func (s *stream) recurring(length, delta time.Duration) (volume int64, moved float64) {
	var all []int64
	for _, r := range s.ranks {
		for _, o := range pulse.Segment(s.curves[r], length, 0, delta) {
			all = append(all, o.Volume)
		}
	}
	slices.Sort(all)
	to, sum := 0, 0.0
	for from := range all {
		for to < len(all) && float64(all[to]) <= (1+2*likeVolume)*float64(all[from]) {
			sum += float64(all[to])
			to++
		}
		if sum > moved && to-from >= recurs*len(s.ranks) {
			volume, moved = all[from+(to-from)/4], sum // Rather one without retransmissions.
		}
		sum -= float64(all[from])
	}
	return volume, moved
}

// canonical gives the name that a collective has in NCCL.
func canonical(name string) string {
	switch strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name)) {
	case "allreduce":
		return "AllReduce"
	case "allgather":
		return "AllGather"
	case "reducescatter":
		return "ReduceScatter"
	case "send":
		return "Send"
	}
	return ""
}
