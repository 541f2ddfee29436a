// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// window is a span of time in which a resource works at a factor of its nominal rate; 0 is dead.
type window struct {
	from, to Time
	factor   float64
}

// profile is a resource's rate over time relative to nominal: the product of the windows that cover the moment. The nil
// and the empty profile are always 1.
type profile struct {
	windows []window
	steps   []step // The windows flattened, ascending by time; the factor before the first step is 1.
}

type step struct {
	at     Time
	factor float64
}

func (p *profile) empty() bool { return p == nil || len(p.windows) == 0 }

func (p *profile) add(w window) {
	if w.to <= w.from {
		return
	}
	p.windows = append(p.windows, w)
	var cuts []Time
	for _, w := range p.windows {
		cuts = append(cuts, w.from, w.to)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	p.steps = p.steps[:0]
	for _, c := range cuts {
		if c >= Never {
			continue
		}
		f := 1.0
		for _, w := range p.windows {
			if w.from <= c && c < w.to {
				f *= w.factor
			}
		}
		p.steps = append(p.steps, step{c, f})
	}
}

// at gives the factor at t and the time of the next change.
func (p *profile) at(t Time) (factor float64, until Time) {
	if p == nil {
		return 1, Never
	}
	i := len(p.steps)
	for i > 0 && p.steps[i-1].at > t {
		i--
	}
	factor, until = 1, Never
	if i > 0 {
		factor = p.steps[i-1].factor
	}
	if i < len(p.steps) {
		until = p.steps[i].at
	}
	return factor, until
}

// finish gives the time at which work that takes the given time at factor 1 is done when begun at start.
func (p *profile) finish(start, work Time) Time {
	if start >= Never {
		return Never
	}
	if p == nil || len(p.steps) == 0 || start+work <= p.steps[0].at {
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
