// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"slices"

	"github.com/culprit-project/culprit/sim/cluster"
)

// Scales are the sizes of job that the design asks the full matrix for.
var Scales = []int{8, 64, 512, 2048, 8192, 10240}

// plan is what is run of every scenario on a workload.
type plan struct {
	seeds int
	// to is how far the severities go: the first, which the design's floors are set at where it is half; the papers' harshest as
	// well; or also all between them, those that are milder, and Holmes' shapes.
	to position
	// only: no scenarios but these; nil: all.
	only []string
}

// planned says what the full matrix runs: every severity where a run costs seconds, and of larger jobs less the longer they take.
func planned(w *workload) plan {
	switch n := w.ranks(); {
	case n < 512:
		return plan{seeds: 1, to: between}
	case w.name == "gpt-512":
		return plan{seeds: 1, to: harshest}
	case n < 8192:
		return plan{seeds: 1, to: first, only: atScale}
	}
	return plan{seeds: 1, to: first, only: largest}
}

// Scenarios of hundreds and thousands of ranks, and of the largest jobs.
var (
	atScale = []string{
		string(cluster.NICDown), string(cluster.GPUError), string(cluster.ProcessStopped), string(cluster.NotEntered), string(cluster.SkippedOp),
		string(cluster.GPUThrottle), string(cluster.NICBandwidth), "healthy", "checkpoint_one",
	}
	largest = []string{string(cluster.NICDown), string(cluster.ProcessStopped), string(cluster.GPUThrottle), string(cluster.NICBandwidth), "healthy"}
)

// runs is how often a scenario is run by the plan.
func (p plan) runs(sc *scenario) int {
	if sc.at > p.to || p.only != nil && !slices.Contains(p.only, sc.name) {
		return 0
	}
	return p.seeds
}
