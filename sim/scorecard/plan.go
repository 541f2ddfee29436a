// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

// Scales are the sizes of job that the design asks the full matrix for.
var Scales = []int{8, 64, 512, 2048, 8192, 10240}

// plan is what is run of every scenario on a workload.
type plan struct {
	seeds int
	// to is how far the severities go: the first, which the design's floors are set at where it is half; the last of the papers'
	// as well; or all between them and Holmes' shapes.
	to position
}

// planned says what the full matrix runs: everything three times where a run costs a second or two; less often, and less of
// what lies between a fault's ends, where it costs a minute. Every kind of fault, healthy and benign runs are at every scale.
func planned(w *workload) plan {
	switch n := w.ranks(); {
	case n < 512 || w.name == "gpt-512":
		return plan{seeds: 3, to: between}
	case n == 2048:
		return plan{seeds: 2, to: last}
	case n == 8192: // As large as the largest, and the dearer one: what it says of severities, that one says.
		return plan{seeds: 1, to: first}
	}
	return plan{seeds: 1, to: last}
}

// runs tells whether a scenario is part of the plan.
func (p plan) runs(sc *scenario) bool { return sc.at <= p.to }

// usualSeconds are what a run takes on one of two cores, by ranks, for a first estimate: hangs less, slowness more.
var usualSeconds = map[int]float64{8: 0.4, 16: 0.4, 32: 0.5, 64: 0.8, 512: 4, 2048: 15, 8192: 55, 10240: 50}
