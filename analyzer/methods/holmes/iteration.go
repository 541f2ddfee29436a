// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"math"
	"slices"
)

// Irregular gives the iterations that last longer than delta times the mean of the window before them (H2). The window contains
// regular iterations only, so that a degradation does not become the norm at once.
func Irregular(lengths []float64, window int, delta float64) []int {
	var out []int
	var recent []float64
	for i, l := range lengths {
		if len(recent) >= min(window, 3) {
			sum := 0.0
			for _, r := range recent {
				sum += r
			}
			if l > delta*sum/float64(len(recent)) {
				out = append(out, i)
				continue
			}
		}
		if recent = append(recent, l); len(recent) > window {
			recent = recent[1:]
		}
	}
	return out
}

// Pattern is the kind of irregularity (H7).
type Pattern int

// Patterns.
const (
	Regular     Pattern = iota
	Spike               // At irregular intervals.
	Fluctuation         // Periodically.
	Degradation         // From some iteration on.
)

func (p Pattern) String() string {
	return [...]string{"regular", "spikes", "fluctuation", "degradation"}[p]
}

// Classify tells the three kinds apart by the positions of the irregular iterations among n.
func Classify(irregular []int, n int) Pattern {
	if len(irregular) == 0 || n == 0 {
		return Regular
	}
	// From the first one on, nearly all are irregular: the change lasts.
	if tail := n - irregular[0]; tail >= 3 && float64(len(irregular)) >= 0.8*float64(tail) {
		return Degradation
	}
	if len(irregular) < 3 || float64(len(irregular)) < 0.05*float64(n) {
		return Spike
	}
	var gaps []int
	for i := 1; i < len(irregular); i++ {
		gaps = append(gaps, irregular[i]-irregular[i-1])
	}
	slices.Sort(gaps)
	mid := gaps[len(gaps)/2]
	near := 0
	for _, g := range gaps {
		if 2*g >= mid && g <= 2*mid {
			near++
		}
	}
	if float64(near) >= 0.6*float64(len(gaps)) {
		return Fluctuation
	}
	return Spike
}

// Period gives the period of a series in iterations, by the strongest amplitude of its Fourier transform (appendix B), 0
// when none stands out. Periods of more than half the series are trends.
func Period(series []float64) float64 {
	n := len(series)
	const least = 16
	if n < least {
		return 0
	}
	mean := 0.0
	for _, v := range series {
		mean += v / float64(n)
	}
	best, most, total := 0, 0.0, 0.0
	for k := 2; k <= n/2; k++ {
		var re, im float64
		for i, v := range series {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) * float64(i) / float64(n))
			re += (v - mean) * cos
			im += (v - mean) * sin
		}
		power := re*re + im*im
		total += power
		if power > most {
			best, most = k, power
		}
	}
	// The strongest of this many frequencies of noise is about their logarithm times the average.
	if bins := float64(n/2 - 1); total == 0 || most < 3*math.Log(bins)*total/bins {
		return 0
	}
	return float64(n) / float64(best)
}
