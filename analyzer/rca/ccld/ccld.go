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

// Round is one collective operation: how long each rank was in it, and how its sends and receives were spread over that time.
type Round struct {
	Ranks    []int
	Duration []time.Duration
	// Send and Recv are how many probes, one a millisecond, found a rank's SendCount or RecvCount changed (C2): SendRate and RecvRate are
	// their reciprocals. 0: it sends or receives nothing that is seen. Empty where the rates cannot be compared.
	Send, Recv []int
	Barrier    bool          // Left out: waiting is its purpose.
	At         time.Duration // Since the job's start, for the baseline's two minutes.
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
	Second     int // Mixed: the rank suspected of slow communication, beside Rank. Comm: the receiving end beside the sending one. Else -1.
	R, P       float64
	TMax, TMin time.Duration
	TBase      time.Duration
}

// Analyze judges one window against the baseline (equations 2 to 4). It takes the round with the largest spread. The round is
// slow when R exceeds Theta. P near 1 means that most of the round is waiting for a late rank, which was in the round shortest. P
// near 0 means that all ranks were in it long, and the ranks with the lowest SendRate and RecvRate are the ends of the cause.
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
	late := widest.latest()
	sends := lowestRate(window, func(r *Round) []int { return r.Send })
	switch {
	case res.P > o.Beta:
		res.Kind, res.Rank = Compute, late
	case res.P < o.Alpha:
		res.Kind, res.Rank = Comm, sends
		res.Second = lowestRate(window, func(r *Round) []int { return r.Recv })
	default:
		res.Kind, res.Rank, res.Second = Mixed, late, sends
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

// lowestRate gives the rank whose rate is the lowest, by itself, in most of the window's rounds; -1 none. In a ring all links go at the
// pace of the slowest, and rates differ by a few probes (docs/rca.md): one round alone shows where its probes happened to fall.
func lowestRate(window []Round, probes func(*Round) []int) int {
	rounds, lowest := 0, map[int]int{}
	for i := range window {
		r := &window[i]
		if r.Barrier || len(probes(r)) == 0 {
			continue
		}
		rounds++
		if at := mostProbes(probes(r)); at >= 0 {
			lowest[r.Ranks[at]]++
		}
	}
	for rank, n := range lowest {
		if 2*n > rounds {
			return rank
		}
	}
	return -1
}

// mostProbes gives the place of the largest number, -1 where two have it or fewer than two ranks have any.
func mostProbes(probes []int) int {
	best, ranks, alone := 0, 0, false
	for i, n := range probes {
		if n > 0 {
			ranks++
		}
		switch {
		case n > probes[best] || i == best:
			best, alone = i, true
		case n == probes[best]:
			alone = false
		}
	}
	if ranks < 2 || !alone {
		return -1
	}
	return best
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
