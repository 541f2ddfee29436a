// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ccld has CCL-D's decisions on slowness (C5, C6): the baseline, the slowdown ratio R, the share P of waiting in it, and
// the ranks they point at. All are pure functions of plain numbers.
package ccld

import (
	"math"
	"slices"
	"time"
)

// Round is one collective operation: how long each rank was in it, and at what rate it sent (0 unknown).
type Round struct {
	Ranks    []int
	Duration []time.Duration
	Rate     []float64
	Barrier  bool          // Left out: waiting is its purpose.
	At       time.Duration // Since the job's start, for the baseline's two minutes.
}

func (r *Round) bounds() (least, most time.Duration) {
	return slices.Min(r.Duration), slices.Max(r.Duration)
}

// Baseline is T_base (equation 1). Until enough rounds were seen, it is the configured value. Then it is the mean of the longest
// durations of the first m rounds, where m is the smaller of 100 and the number of rounds in the first two minutes. configured
// tells the two apart: a job that is slow against the configured value was slow from the start.
func Baseline(rounds []Round, initial time.Duration) (base time.Duration, configured bool) {
	const most, first = 100, 2 * time.Minute
	m := 0
	sum := time.Duration(0)
	seen := 0
	for i := range rounds {
		r := &rounds[i]
		if r.Barrier || len(r.Duration) == 0 {
			continue
		}
		seen++
		if m < most && r.At < first {
			_, t := r.bounds()
			sum += t
			m++
		}
	}
	if m == 0 || seen <= m && initial > 0 {
		return initial, true
	}
	return sum / time.Duration(m), false
}

// Kind is the class of slowness.
type Kind int

// Kinds.
const (
	Normal  Kind = iota
	Compute      // S1.
	Comm         // S2.
	Mixed        // S3.
)

// Options are CCL-D's parameters.
type Options struct {
	Alpha, Beta float64 // Bounds of P, 0.4 and 0.6.
	Theta       float64 // Bound of R, near 3.
	Repeat      int     // How many windows must be slow before a rank is named; a single blip is not enough.
}

// Result is what a window shows.
type Result struct {
	Kind       Kind
	Rank       int // Culprit, -1 none.
	Second     int // Mixed: the rank suspected of slow communication, beside Rank, else -1.
	R, P       float64
	TMax, TMin time.Duration
	TBase      time.Duration
}

// Analyze judges one window against the baseline (equations 2 to 4). It takes the round with the largest spread. The round is
// slow when R exceeds Theta. P near 1 means that most of the round is waiting for a late rank, which was in the round shortest. P
// near 0 means that all ranks were in it long, and the rank with the lowest rate is the cause.
func Analyze(window []Round, base time.Duration, o Options) Result {
	res := Result{Rank: -1, Second: -1, TBase: base}
	widest := widestRound(window)
	if widest == nil || base <= 0 {
		return res
	}
	res.TMin, res.TMax = widest.bounds()
	res.R = float64(res.TMax-base) / float64(base)
	if res.R <= o.Theta || res.TMax <= base {
		return res
	}
	res.P = float64(res.TMax-res.TMin) / float64(res.TMax-base)
	late, slow := widest.latest(), widest.slowest()
	switch {
	case res.P > o.Beta:
		res.Kind, res.Rank = Compute, late
	case res.P < o.Alpha:
		res.Kind, res.Rank = Comm, slow
	default:
		res.Kind, res.Rank, res.Second = Mixed, late, slow
	}
	return res
}

// widestRound gives the round with the largest spread between its ranks: the longest round may just be a large one.
func widestRound(window []Round) *Round {
	var widest *Round
	spread := time.Duration(-1)
	for i := range window {
		r := &window[i]
		if r.Barrier || len(r.Duration) < 2 {
			continue
		}
		if lo, hi := r.bounds(); hi-lo > spread {
			widest, spread = r, hi-lo
		}
	}
	return widest
}

// latest gives the rank with the least communication time.
func (r *Round) latest() int {
	best := 0
	for i := range r.Duration {
		if r.Duration[i] < r.Duration[best] {
			best = i
		}
	}
	return r.Ranks[best]
}

// slowest gives the rank with the lowest rate, -1 where no rates are known.
func (r *Round) slowest() int {
	best := -1
	for i := range r.Rate {
		if r.Rate[i] > 0 && (best < 0 || r.Rate[i] < r.Rate[best]) {
			best = i
		}
	}
	if best < 0 {
		return -1
	}
	return r.Ranks[best]
}

// Repeated judges several windows: slowness in fewer than Repeat of them is a blip. The result is the rank named most often.
func Repeated(windows [][]Round, base time.Duration, o Options) Result {
	var hits []Result
	count := map[int]int{}
	for _, w := range windows {
		if r := Analyze(w, base, o); r.Kind != Normal {
			hits = append(hits, r)
			count[r.Rank]++
		}
	}
	if len(hits) < max(1, o.Repeat) {
		return Result{Rank: -1, Second: -1, TBase: base}
	}
	best := hits[0]
	for _, h := range hits {
		if count[h.Rank] > count[best.Rank] {
			best = h
		}
	}
	return best
}

// Theta is the bound of R from the statistics of healthy windows: their mean plus three standard deviations. Fewer than 30
// windows are too few; then it gives usual, the bound that CCL-D found on its clusters (near 3).
func Theta(healthy []float64, usual float64) float64 {
	const enough, sigmas = 30, 3
	if len(healthy) < enough {
		return usual
	}
	mean, square := 0.0, 0.0
	for _, r := range healthy {
		mean += r / float64(len(healthy))
	}
	for _, r := range healthy {
		square += (r - mean) * (r - mean) / float64(len(healthy))
	}
	return mean + sigmas*math.Sqrt(square)
}
