// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// median64 gives the upper median, 0 of nothing. It sorts v: who needs its order hands in a copy.
func median64(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// mediansOf gives the upper median of each key's values. It sorts them.
func mediansOf[K comparable](by map[K][]int64) map[K]int64 {
	out := make(map[K]int64, len(by))
	for k, v := range by {
		out[k] = median64(v)
	}
	return out
}

// medianOfOthers gives the lower median of sorted values without one that is own.
func medianOfOthers(sorted []int64, own int64) int64 {
	at, _ := slices.BinarySearch(sorted, own)
	k := (len(sorted) - 2) / 2
	if k >= at {
		k++
	}
	return sorted[k]
}

// mostFrequent gives the key with the highest count, of several the first in their order, and its count; 0 of nothing.
func mostFrequent[K comparable](counts map[K]int, order func(x, y K) int) (best K, most int) {
	for k, n := range counts {
		if n > most || n == most && n > 0 && order(k, best) < 0 {
			best, most = k, n
		}
	}
	return best, most
}

// heaviestFirst sorts keys by what they carry, then in their order.
func heaviestFirst[K comparable, V cmp.Ordered](carries map[K]V, order func(x, y K) int) []K {
	return slices.SortedFunc(maps.Keys(carries), func(x, y K) int { return cmp.Or(cmp.Compare(carries[y], carries[x]), order(x, y)) })
}

// center gives the median and the median distance from it (scaled to a standard deviation).
func center(v []float64) (mid, spread float64) {
	if len(v) == 0 {
		return 0, 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	mid = s[(len(s)-1)/2]
	for i := range s {
		s[i] -= mid
		if s[i] < 0 {
			s[i] = -s[i]
		}
	}
	slices.Sort(s)
	return mid, 1.4826 * s[(len(s)-1)/2]
}

// distance gives the sum of distances from the median.
func distance(v []float64) (sum float64) {
	mid, _ := center(v)
	for _, x := range v {
		sum += max(x-mid, mid-x)
	}
	return sum
}

func sumOf(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum
}

func toFloats(v []int64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// countFunc counts the elements for which is holds.
func countFunc[T any](v []T, is func(T) bool) (n int) {
	for _, e := range v {
		if is(e) {
			n++
		}
	}
	return n
}

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}

// known leaves out what is not a number.
func known(v []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(v), math.IsNaN)
}

// meanOf gives the mean of the numbers among values, NaN of none.
func meanOf(v []float64) float64 {
	v = known(v)
	return sumOf(v) / float64(len(v))
}

// scaled gives values times a factor.
func scaled(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * by
	}
	return out
}

// moments are the mean of values and the variance of what they were drawn from. n is how many they are worth: of values that resemble the ones
// before (autocorrelation r at lag 1) each adds (1-r)/(1+r).
type moments struct{ n, mean, variance float64 }

func momentsOf(v []float64) moments {
	m := moments{n: float64(len(v))}
	if len(v) == 0 {
		return m
	}
	m.mean = sumOf(v) / m.n
	squares, products := 0.0, 0.0
	for i, x := range v {
		squares += (x - m.mean) * (x - m.mean)
		if i > 0 {
			products += (x - m.mean) * (v[i-1] - m.mean)
		}
	}
	m.variance = squares / max(1, m.n-1)
	if products > 0 && m.variance > 1e-12 { // Less is rounding.
		m.n *= (squares - products) / (squares + products)
	}
	return m
}

// studentT gives the value that Student's t exceeds with probability p, by its expansion about the normal distribution (Abramowitz and
// Stegun, 26.7.5).
func studentT(p, free float64) float64 {
	z := math.Sqrt2 * math.Erfinv(1-2*p)
	z3, z5, z7 := z*z*z, math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*free) + (5*z5+16*z3+3*z)/(96*free*free) + (3*z7+19*z5+17*z3-15*z)/(384*free*free*free)
}

// binomialTail gives the probability of at least k hits in n draws that hit with probability p each.
func binomialTail(k, n int, p float64) float64 {
	sum := 0.0
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}
