// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
)

// maxOps bounds how many operations of all ranks of a group are compared: the newest.
const maxOps = 1 << 21

// Thresholds of matching operations between ranks.
const (
	clockShare = 0.25 // Of the time from one operation to the next: by more the clocks cannot differ, or which is which is open.
	endShare   = 0.2  // Of that time: members of a collective leave it together.
)

// matched are the operations of a stream, by instance and rank. Begun is false for a rank that has no such operation.
type matched struct {
	ops    []map[int]pulse.Operation
	offset map[int]time.Duration // What each rank's clock is ahead of the others, as far as ends tell.
	period time.Duration         // From one operation's end to the next; 0 of one operation.
	ok     bool
}

// match numbers the operations of all ranks alike. A recording may begin within an operation that some ranks have left:
// then these have one less. Ends are compared, since all members leave a collective together.
func (s *stream) match() matched {
	m := matched{offset: map[int]time.Duration{}}
	reference := s.ranks[0]
	for _, r := range s.ranks {
		if len(s.ops[r]) > len(s.ops[reference]) {
			reference = r
		}
	}
	if n := max(recurs, maxOps/len(s.ranks)); len(s.ops[reference]) > n {
		s.forget(s.ops[reference][len(s.ops[reference])-n].Start - s.delta/2)
	}
	ref := s.ops[reference]
	if len(ref) == 0 {
		return m
	}
	m.ops = make([]map[int]pulse.Operation, len(ref))
	for k := range m.ops {
		m.ops[k] = map[int]pulse.Operation{}
	}
	var steps []time.Duration
	for k := 1; k < len(ref); k++ {
		steps = append(steps, ref[k].End-ref[k-1].End)
	}
	m.period = middle(steps)
	for _, r := range s.ranks {
		ops := s.ops[r]
		shift, apart := 0, time.Duration(-1)
		for _, try := range []int{0, 1} {
			if d, ok := distance(ops, ref, try); ok && (apart < 0 || d < apart) {
				shift, apart = try, d
			}
		}
		if len(ops) > 0 && m.period > 0 && (apart < 0 || float64(apart) > clockShare*float64(m.period)) {
			return m
		}
		for k, o := range ops {
			if k+shift >= len(m.ops) {
				return m
			}
			m.ops[k+shift][r] = o
		}
	}
	m.align()
	m.ok = m.together(s)
	return m
}

// forget drops operations that began before a time.
func (s *stream) forget(before time.Duration) {
	for r, ops := range s.ops {
		from, _ := slices.BinarySearchFunc(ops, before, func(o pulse.Operation, at time.Duration) int { return cmp.Compare(o.Start, at) })
		s.ops[r] = ops[from:]
	}
}

// distance is how far the ends of a rank's operations are from those of the reference, which are shift further on. The
// last of each may be under way.
func distance(ops, ref []pulse.Operation, shift int) (time.Duration, bool) {
	var d []time.Duration
	for k := 0; k < len(ops) && k+shift < len(ref); k++ {
		if k+shift == len(ref)-1 && len(d) > 0 {
			break
		}
		d = append(d, (ops[k].End - ref[k+shift].End).Abs())
	}
	if len(d) == 0 || len(ops)+shift > len(ref) {
		return 0, false
	}
	return middle(d), true
}

// finished are the instances in which all take part, without the first, which may have begun before the recording, and the
// last, which may not have ended.
func (m *matched) finished() []map[int]pulse.Operation {
	if len(m.ops) < 3 {
		return nil
	}
	return m.ops[1 : len(m.ops)-1]
}

// align finds what the clocks differ by.
func (m *matched) align() {
	off := map[int][]time.Duration{}
	for _, at := range m.finished() {
		var ends []time.Duration
		for _, o := range at {
			ends = append(ends, o.End)
		}
		mid := middle(ends)
		for r, o := range at {
			off[r] = append(off[r], o.End-mid)
		}
	}
	for r, d := range off {
		m.offset[r] = middle(d)
	}
}

// together says that the numbering holds: in most instances all ranks take part and leave together. Before the first that
// shows so the recording has begun within operations; these are left out.
func (m *matched) together(s *stream) bool {
	const most = 0.8
	done := m.finished()
	fits := make([]bool, len(done))
	for i, at := range done {
		var ends []time.Duration
		for r, o := range at {
			ends = append(ends, o.End-m.offset[r])
		}
		fits[i] = len(at) == len(s.ranks) && float64(slices.Max(ends)-slices.Min(ends)) <= max(endShare*float64(m.period), float64(s.delta)) && (s.shape.next == nil || alikeVolumes(at))
	}
	from := max(0, slices.Index(fits, true))
	if from > len(fits)/2 {
		return false
	}
	m.ops = m.ops[from:]
	fit := 0
	for _, ok := range fits[from:] {
		fit += pick(ok, 1, 0)
	}
	return float64(fit) >= most*float64(len(fits)-from)
}

// alikeVolumes says that no rank's operation is two, or a piece of one: in a ring all send as much.
func alikeVolumes(at map[int]pulse.Operation) bool {
	least, most := int64(math.MaxInt64), int64(0)
	for _, o := range at {
		least, most = min(least, o.Volume), max(most, o.Volume)
	}
	return float64(least) >= (1-2*likeVolume)*float64(most)
}

func middle(v []time.Duration) time.Duration {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[(len(v)-1)/2]
}
