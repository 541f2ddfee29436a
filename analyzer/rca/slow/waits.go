// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"
)

// Where a source records computations, time between its records in which nothing is recorded is the host being late,
// or waiting for something that the source does not show: a barrier, an operation of a library beside. The replay tells
// them apart: work that is taken away makes the job shorter, waiting does not, since what was waited for still has to
// come. Waiting that was taken for work would stand between the culprit and everything that its mending could gain.

// entrance is the kind of work that ranks begin after a gap.
type entrance struct {
	compute bool
	fn      string
}

// withoutWaits takes waiting that nothing recorded shows out of the gaps. Only the entrances with most idle time are asked about.
func (t *timeline) withoutWaits() (*timeline, repair) {
	if t.iters < 2 || !t.recordsWork() {
		return t, repair{}
	}
	idle, left := t.idleEntrances()
	gaps, changed := t.gaps(), 0
	r := newReplay(t)
	length := func(gaps []int64) float64 {
		return r.run(change{gap: func(s *seg, _ int64) int64 { return gaps[s.id] }})
	}
	for _, e := range idle {
		without := slices.Clone(gaps)
		for _, i := range e.segs {
			without[i] = min(without[i], e.quick)
		}
		if length(gaps)-length(without) < idleEffect*float64(e.total)/float64(e.ranks) {
			gaps, changed = without, changed+len(e.segs)
		}
	}
	if changed == 0 {
		return t, repair{left: left}
	}
	return t.withGaps(gaps), repair{changed: changed, left: left}
}

// idleEntrance is an entrance after a gap in which nothing is recorded.
type idleEntrance struct {
	entrance
	segs  []int32
	total int64 // Of the gaps, ns.
	quick int64 // The least usual gap of any rank.
	ranks int   // That come by.
}

// idleEntrances gives those with most idle time, that first, and how many segments begin at others.
func (t *timeline) idleEntrances() (idle []*idleEntrance, left int) {
	at := map[entrance]*idleEntrance{}
	ranks := map[entrance]map[int32]bool{}
	for p, segs := range t.beginnings() {
		e, usual := at[p.entrance], t.usualGap(segs)
		if e == nil {
			e = &idleEntrance{entrance: p.entrance, quick: usual}
			at[p.entrance], ranks[p.entrance] = e, map[int32]bool{}
		}
		ranks[p.entrance][p.node] = true
		e.quick, e.ranks = min(e.quick, usual), len(ranks[p.entrance])
		if usual <= rounding {
			continue // At most now and then: a record is lost, or the host was late.
		}
		e.segs = append(e.segs, segs...)
		for _, i := range segs {
			e.total += t.segs[i].gap
		}
	}
	all := int64(0)
	for i := range t.segs {
		all += t.segs[i].stay
	}
	for _, e := range at {
		if len(e.segs) > 0 && float64(e.total) >= idleShare*float64(all) {
			idle = append(idle, e)
		}
	}
	slices.SortFunc(idle, func(x, y *idleEntrance) int {
		return cmp.Or(cmp.Compare(y.total, x.total), cmp.Compare(x.fn, y.fn), cmp.Compare(pick(x.compute, 1, 0), pick(y.compute, 1, 0)))
	})
	for _, e := range idle[min(len(idle), idleEntrancesAsked):] {
		left += len(e.segs)
	}
	return idle[:min(len(idle), idleEntrancesAsked)], left
}

// recordsWork reports whether the source shows computations as such.
func (t *timeline) recordsWork() bool {
	bodies, gaps := 0.0, 0.0
	for i := range t.segs {
		s := &t.segs[i]
		if s.compute {
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
		if s := &t.segs[i]; s.works() {
			p := beginning{entrance{s.compute, t.FuncNames[s.fn]}, s.node, s.pos}
			at[p] = append(at[p], int32(i))
		}
	}
	return at
}

// usualGap gives the median gap of some segments.
func (t *timeline) usualGap(segs []int32) int64 {
	v := make([]int64, 0, len(segs))
	for _, i := range segs {
		v = append(v, t.segs[i].gap)
	}
	slices.Sort(v)
	return v[(len(v)-1)/2]
}
