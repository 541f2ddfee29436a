// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"slices"
)

// Where a source records computations, time between its records in which nothing is recorded is the host being late,
// or waiting for something that the source does not show: a barrier, an operation of a library beside. The replay tells
// them apart: work that is taken away makes the job shorter, waiting does not, since what was waited for still has to
// come. Waiting that was taken for work would stand between the culprit and everything that its mending could gain.

const (
	idleShare    = 0.002 // Of all ranks' time, from which an entrance's idle time is asked about.
	idleEffect   = 0.5   // Of its mean: what taking it away must gain to be work.
	idleEntrance = 16    // Entrances asked about, those with most idle time first.
	recordedWork = 0.5   // Of a rank's own work, from which on a source records computations.
)

// entrance is what ranks begin after a gap.
type entrance struct {
	kind SegmentKind
	fn   string
}

// withoutWaits takes waiting that nothing recorded shows out of the gaps, and says whether there was any.
func (t *timeline) withoutWaits() bool {
	if t.iters < 2 || !t.recordsWork() {
		return false
	}
	gaps, total := map[entrance][]int32{}, map[entrance]int64{}
	all := int64(0)
	for i := range t.segs {
		s := &t.segs[i]
		all += s.stay
		if s.pred >= 0 && !s.also && s.iter != noIteration {
			e := entrance{s.Kind, s.Func}
			gaps[e] = append(gaps[e], int32(i))
			total[e] += s.gap
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
		usual := t.quickGap(gaps[e])
		r := newReplay(t)
		without := r.run(change{gap: func(s *seg, was int64) int64 {
			if s.Kind == e.kind && s.Func == e.fn {
				return min(was, usual)
			}
			return was
		}})
		mean := float64(total[e]) / float64(max(1, t.seenRanks(gaps[e])))
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
		if s.Kind == SegmentCompute {
			bodies += float64(s.stay)
		}
		if s.pred >= 0 && !s.also {
			gaps += float64(s.gap)
		}
	}
	return bodies > 0 && bodies >= recordedWork*(bodies+gaps)
}

// quickGap gives the gap that nine in ten of the segments exceed.
func (t *timeline) quickGap(segs []int32) int64 {
	v := make([]int64, 0, len(segs))
	for _, i := range segs {
		v = append(v, t.segs[i].gap)
	}
	slices.Sort(v)
	return v[len(v)/10]
}

// seenRanks counts the ranks of segments.
func (t *timeline) seenRanks(segs []int32) int {
	seen := make([]bool, len(t.nodes))
	n := 0
	for _, i := range segs {
		if !seen[t.segs[i].node] {
			seen[t.segs[i].node] = true
			n++
		}
	}
	return n
}
