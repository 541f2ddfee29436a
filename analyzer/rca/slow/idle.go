// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Where a source records computations, time between its records in which nothing is recorded is the host being late,
// or waiting for something that the source does not show: a barrier, an operation of a library beside. The replay tells
// them apart: work that is taken away makes the job shorter, waiting does not, since what was waited for still has to
// come. Waiting that was taken for work would stand between the culprit and everything that its mending could gain.

// entrance is what ranks begin after a gap.
type entrance struct {
	kind rca.SegmentKind
	fn   string
}

// withoutWaits takes waiting that nothing recorded shows out of the gaps, and says whether there was any.
func (t *timeline) withoutWaits() bool {
	if t.iters < 2 || !t.recordsWork() {
		return false
	}
	gaps, total := map[entrance][]int32{}, map[entrance]int64{}
	quick := map[entrance]int64{}          // The least of any rank.
	ranks := map[entrance]map[int32]bool{} // That come by.
	all := int64(0)
	for i := range t.segs {
		all += t.segs[i].stay
	}
	for p, segs := range t.beginnings() {
		e, usual := p.entrance, t.gapAt(segs, 0.5)
		if ranks[e] == nil {
			ranks[e] = map[int32]bool{}
		}
		ranks[e][p.node] = true
		if least, ok := quick[e]; !ok || usual < least {
			quick[e] = usual
		}
		if usual <= rounding {
			continue // At most now and then: a record is lost, or the host was late.
		}
		gaps[e] = append(gaps[e], segs...)
		for _, i := range segs {
			total[e] += t.segs[i].gap
		}
	}
	var entrances []entrance
	for e, sum := range total {
		if float64(sum) >= idleShare*float64(all) {
			entrances = append(entrances, e)
		}
	}
	slices.SortFunc(entrances, func(x, y entrance) int {
		return cmp.Or(cmp.Compare(total[y], total[x]), cmp.Compare(x.fn, y.fn), cmp.Compare(x.kind, y.kind))
	})
	found := false
	for _, e := range entrances[:min(len(entrances), idleEntrance)] {
		slices.Sort(gaps[e])
		usual := quick[e]
		r := newReplay(t)
		without := r.run(change{gap: func(s *seg, was int64) int64 {
			if _, ok := slices.BinarySearch(gaps[e], s.id); ok {
				return min(was, usual)
			}
			return was
		}})
		mean := float64(total[e]) / float64(len(ranks[e]))
		if r.base-without >= idleEffect*mean {
			continue
		}
		found = true
		for _, i := range gaps[e] {
			s := &t.segs[i]
			s.gap = min(s.gap, usual)
			s.host = min(s.host, s.gap)
		}
	}
	return found
}

// recordsWork says whether the source shows computations as such.
func (t *timeline) recordsWork() bool {
	bodies, gaps := 0.0, 0.0
	for i := range t.segs {
		s := &t.segs[i]
		if s.Kind == rca.SegmentCompute {
			bodies += float64(s.stay)
		}
		if s.pred >= 0 && !s.also {
			gaps += float64(s.gap)
		}
	}
	return bodies > 0 && bodies >= recordedWork*(bodies+gaps)
}

// beginning is where a rank begins something after a gap, in every iteration.
type beginning struct {
	entrance
	node, pos int32
}

// beginnings gives the segments that begin after a gap, by where they do.
func (t *timeline) beginnings() map[beginning][]int32 {
	at := map[beginning][]int32{}
	for i := range t.segs {
		if s := &t.segs[i]; s.pred >= 0 && !s.also && s.iter != noIteration {
			p := beginning{entrance{s.Kind, s.Func}, s.node, s.pos}
			at[p] = append(at[p], int32(i))
		}
	}
	return at
}

// gapAt gives the gap that the share of the segments do not exceed.
func (t *timeline) gapAt(segs []int32, share float64) int64 {
	v := make([]int64, 0, len(segs))
	for _, i := range segs {
		v = append(v, t.segs[i].gap)
	}
	slices.Sort(v)
	return v[int(share*float64(len(v)-1))]
}
