// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ccld is CCL-D's decision analyzer: the decision tree of figure 7 for hangs (C6), the baseline, the slowdown ratio R and the share P
// of waiting in it for slowness (C5, C6), and which ranks of a ring or a tree may be compared (C7).
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
	Layer      []int         // Ranks are compared within a layer of the tree; empty: all with each other, as in a ring.
	Barrier    bool          // Left out: waiting is its purpose.
	At         time.Duration // Since the job's start, for the baseline's two minutes.
}

func (r *Round) bounds() (least, most time.Duration) {
	return slices.Min(r.Duration), slices.Max(r.Duration)
}

// What the first rounds are: at most so many, of so long (equation 1).
const (
	most  = 100
	first = 2 * time.Minute
)

// Baseline is T_base (equation 1): the mean of the longest durations of the first m rounds, where m is the smaller of 100 and the number of
// rounds in the first two minutes. Until they have passed, it is the configured value: a job that is slow against that was slow from the
// start.
func Baseline(rounds []Round, initial time.Duration) (base time.Duration, configured bool) {
	m, sum := 0, time.Duration(0)
	for i := range rounds {
		r := &rounds[i]
		if r.Barrier || len(r.Duration) == 0 || m == most || r.At-rounds[0].At >= first {
			continue
		}
		_, t := r.bounds()
		sum += t
		m++
	}
	if m == 0 || initial > 0 && m < most && rounds[len(rounds)-1].At-rounds[0].At < first {
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
// pace of the slowest, and rates differ by a few probes (docs/papers.md): one round alone shows where its probes happened to fall.
func lowestRate(window []Round, probes func(*Round) []int) int {
	rounds, lowest := 0, map[int]int{}
	for i := range window {
		r := &window[i]
		if r.Barrier || len(probes(r)) == 0 {
			continue
		}
		rounds++
		if at := r.mostProbes(probes(r)); at >= 0 {
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

// mostProbes gives the place of the number that is the largest of its layer, by itself; of several layers, that which exceeds the next most.
// -1: two have it in every layer, or no layer has two ranks with any.
func (r *Round) mostProbes(probes []int) int {
	best, ahead := -1, 1.0
	for i, n := range probes {
		next := 0
		for k, m := range probes {
			if k != i && (len(r.Layer) == 0 || r.Layer[k] == r.Layer[i]) {
				next = max(next, m)
			}
		}
		if next > 0 && float64(n)/float64(next) > ahead {
			best, ahead = i, float64(n)/float64(next)
		}
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
