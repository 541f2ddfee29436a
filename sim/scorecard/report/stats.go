// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// Share is a proportion with its 95% Wilson interval.
type Share struct {
	Hits int     `json:"hits"`
	Of   int     `json:"of"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Value is the proportion, 0 of nothing.
func (s Share) Value() float64 {
	if s.Of == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Of)
}

func (s Share) String() string {
	if s.Of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f%% (%d/%d, %.0f–%.0f)", 100*s.Value(), s.Hits, s.Of, 100*s.Low, 100*s.High)
}

// Short is the proportion without its interval.
func (s Share) Short() string {
	if s.Of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f%% of %d", 100*s.Value(), s.Of)
}

// share counts what holds among the outcomes.
func share(list []judge.Outcome, holds func(*judge.Outcome) bool) Share {
	s := Share{Of: len(list)}
	for i := range list {
		if holds(&list[i]) {
			s.Hits++
		}
	}
	s.Low, s.High = wilson(s.Hits, s.Of)
	return s
}

// wilson is the 95% score interval of a proportion.
func wilson(hits, of int) (low, high float64) {
	if of == 0 {
		return 0, 1
	}
	const z = 1.959964
	n, p := float64(of), float64(hits)/float64(of)
	mid := p + z*z/(2*n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	den := 1 + z*z/n
	return max(0, (mid-half)/den), min(1, (mid+half)/den)
}

// percentile of unsorted values, by nearest rank; NaN-free: 0 of nothing.
func percentile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(q*float64(len(v)))) - 1
	return v[min(len(v)-1, max(0, i))]
}

// collect gives a value of every outcome.
func collect(list []judge.Outcome, value func(*judge.Outcome) float64) []float64 {
	out := make([]float64, 0, len(list))
	for i := range list {
		out = append(out, value(&list[i]))
	}
	return out
}

func filter(list []judge.Outcome, keep func(*judge.Outcome) bool) []judge.Outcome {
	var out []judge.Outcome
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// groupBy gives the distinct keys of the outcomes in order of first appearance, and the outcomes of each.
func groupBy(list []judge.Outcome, key func(*judge.Outcome) string) ([]string, map[string][]judge.Outcome) {
	var order []string
	by := map[string][]judge.Outcome{}
	for i := range list {
		k := key(&list[i])
		if _, ok := by[k]; !ok {
			order = append(order, k)
		}
		by[k] = append(by[k], list[i])
	}
	return order, by
}
