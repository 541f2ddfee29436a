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
	slow  int // Seeds of what is slow, where that differs.
	// to is how far the severities go: the first, which the design's floors are set at where it is half; the papers' harshest as
	// well; or also all between them, those that are milder, and Holmes' shapes.
	to position
	// few: only some scenarios.
	few bool
}

// planned says what the full matrix runs: everything several times where a run costs seconds; less often, and less of what
// lies between a fault's ends, where it costs a minute. Every kind of fault, healthy and benign runs are at every scale but
// one: 8,192 ranks are nearly as many as 10,240, which cost less.
func planned(w *workload) plan {
	switch n := w.ranks(); {
	case n < 512:
		return plan{seeds: 3, to: between}
	case w.name == "gpt-512":
		return plan{seeds: 2, to: between}
	case n == 512: // The second job of its size.
		return plan{seeds: 1, to: harshest}
	case n == 2048:
		return plan{seeds: 2, slow: 1, to: harshest}
	case n == 8192:
		return plan{seeds: 1, to: harshest, few: true}
	}
	return plan{seeds: 1, to: harshest}
}

// atScale are the scenarios of 8,192 ranks.
var atScale = []string{
	string(cluster.NICDown), string(cluster.GPUError), string(cluster.ProcessStopped), string(cluster.NotEntered), string(cluster.SkippedOp),
	string(cluster.GPUThrottle), string(cluster.NICBandwidth), "healthy", "checkpoint_one",
}

// runs is how often a scenario is run by the plan.
func (p plan) runs(sc *scenario) int {
	switch {
	case sc.at > p.to, p.few && !slices.Contains(atScale, sc.name):
		return 0
	case sc.group == GroupSlow && p.slow > 0:
		return p.slow
	}
	return p.seeds
}
