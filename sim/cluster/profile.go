// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"sort"
)

// window is a span of time in which a resource works at a factor of its nominal rate; 0 is dead. With a wobble the
// factor varies by that share of itself, from one wobblePeriod to the next.
type window struct {
	from, to Time
	factor   float64
	wobble   float64
}

// profile is a resource's rate over time relative to nominal: the product of the windows that cover the moment. The nil
// and the empty profile are always 1.
type profile struct {
	windows  []window
	steps    []step // The windows flattened, ascending by time; the factor before the first step is 1.
	compiled int    // Windows that steps are of.
	seed     uint64
}

type step struct {
	at     Time
	factor float64
	wobble float64
}

// wobblePeriod is how often an unsteady resource changes its rate.
const wobblePeriod = Time(250e6)

func (p *profile) empty() bool { return p == nil || len(p.windows) == 0 }

func (p *profile) add(w window) {
	if w.to > w.from {
		p.windows = append(p.windows, w)
	}
}

// compile flattens the windows.
func (p *profile) compile() {
	if p.compiled == len(p.windows) {
		return
	}
	p.compiled, p.steps = len(p.windows), p.steps[:0]
	byStart := slices.Clone(p.windows)
	slices.SortFunc(byStart, func(a, b window) int { return int(min(1, max(-1, a.from-b.from))) })
	var cuts []Time
	for _, w := range byStart {
		cuts = append(cuts, w.from)
		if w.to < Never {
			cuts = append(cuts, w.to)
		}
	}
	slices.Sort(cuts)
	var open []window
	next := 0
	for _, c := range slices.Compact(cuts) {
		for next < len(byStart) && byStart[next].from <= c {
			open = append(open, byStart[next])
			next++
		}
		open = slices.DeleteFunc(open, func(w window) bool { return w.to <= c })
		st := step{at: c, factor: 1}
		for _, w := range open {
			st.factor *= w.factor
			st.wobble = max(st.wobble, w.wobble)
		}
		p.steps = append(p.steps, st)
	}
}

// at gives the factor at t and the time of the next change.
func (p *profile) at(t Time) (factor float64, until Time) {
	if p == nil {
		return 1, Never
	}
	p.compile()
	i := sort.Search(len(p.steps), func(i int) bool { return p.steps[i].at > t })
	factor, until = 1, Never
	if i < len(p.steps) {
		until = p.steps[i].at
	}
	if i == 0 {
		return factor, until
	}
	st := &p.steps[i-1]
	if factor = st.factor; st.wobble > 0 {
		n := int64(t / wobblePeriod)
		factor *= 1 + st.wobble*(2*uniform(p.seed, forWobble, n, 0, 0)-1)
		until = min(until, Time(n+1)*wobblePeriod)
	}
	return factor, until
}

// finish gives the time at which work that takes the given time at factor 1 is done when begun at start.
func (p *profile) finish(start, work Time) Time {
	if start >= Never {
		return Never
	}
	if p.empty() {
		return start + work
	}
	if p.compile(); start+work <= p.steps[0].at {
		return start + work
	}
	left := float64(work)
	for t := start; ; {
		f, until := p.at(t)
		if f > 0 {
			need := Time(left / f)
			if until >= Never || need <= until-t {
				return t + need
			}
			left -= float64(until-t) * f
		}
		if until >= Never {
			return Never
		}
		t = until
	}
}
