// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Progress estimates how long the rest of a matrix takes from what its runs have taken so far, by size.
type Progress struct {
	start time.Time
	total int
	left  map[int]int     // Runs by ranks.
	spent map[int]float64 // Seconds by ranks,
	runs  map[int]int     // of so many runs.
}

// NewProgress starts with nothing done at a moment.
func NewProgress(cases []matrix.Case, start time.Time) *Progress {
	p := &Progress{start: start, total: len(cases), left: map[int]int{}, spent: map[int]float64{}, runs: map[int]int{}}
	for i := range cases {
		p.left[cases[i].Ranks]++
	}
	return p
}

// Done notes a run.
func (p *Progress) Done(o *judge.Outcome) {
	p.left[o.Ranks]--
	p.runs[o.Ranks]++
	p.spent[o.Ranks] += o.Seconds
}

// each is the expected seconds of a run: the mean of those of its size; before there is one, what is usual, by how the
// runs so far compare with that.
func (p *Progress) each(ranks int) float64 {
	if n := p.runs[ranks]; n > 0 {
		return p.spent[ranks] / float64(n)
	}
	spent, expected := 0.0, 0.0
	for r, n := range p.runs {
		spent += p.spent[r]
		expected += float64(n) * usualOf(r)
	}
	if expected == 0 {
		return usualOf(ranks)
	}
	return usualOf(ranks) * spent / expected
}

// usualSeconds are what a run takes on one of two cores, by ranks, for a first estimate: hangs less, slowness more.
var usualSeconds = map[int]float64{8: 0.4, 16: 0.4, 32: 0.5, 64: 0.6, 512: 4, 2048: 12, 8192: 65, 10240: 50}

// usualOf is what a run of a size usually takes: as the nearest size that is known, by proportion.
func usualOf(ranks int) float64 {
	best, near := 0.0, math.Inf(1)
	for r, s := range usualSeconds {
		if d := math.Abs(math.Log(float64(r) / float64(ranks))); d < near {
			near, best = d, s*float64(ranks)/float64(r)
		}
	}
	return best
}

// Left is the expected time until all is done. Whatever runs beside each other, and what is not counted in the runs'
// own time, is in the ratio of the time passed to the time spent.
func (p *Progress) Left(now time.Time) time.Duration {
	spent, rest := 0.0, 0.0
	for r := range p.left {
		spent += p.spent[r]
		rest += float64(p.left[r]) * p.each(r)
	}
	if spent == 0 {
		return 0
	}
	return time.Duration(rest * float64(now.Sub(p.start)) / spent)
}

// Line says how far it is.
func (p *Progress) Line(now time.Time) string {
	done := p.total
	for _, n := range p.left {
		done -= n
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%d of %d runs in %v, about %v left", done, p.total, now.Sub(p.start).Round(time.Second), p.Left(now).Round(time.Second))
	for _, r := range slices.Sorted(maps.Keys(p.left)) {
		if n := p.left[r]; n > 0 {
			fmt.Fprintf(&line, "; %d ranks: %d of %d, %.1f s each", r, p.runs[r], p.runs[r]+n, p.each(r))
		}
	}
	return line.String()
}
