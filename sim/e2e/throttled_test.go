// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// TestThrottledGPU has a GPU that gets hot and computes slower: whoever asks about the job is told the rank and the clock.
func TestThrottledGPU(t *testing.T) {
	t.Parallel()
	gpus.Lock()
	defer gpus.Unlock()
	const rank = 3
	for r := range ranks {
		controlGPU(t, r, "utilization 100")
	}
	controlGPU(t, rank, "utilization 100", "throttle hw_thermal", "speed 0.33")
	j := startJob(t, stack.JobConfig{ID: "gpu-throttled", Group: gpuHosts, Fault: "gpu-slow=3", Rank: rank, FaultAtStep: 0})
	j.train(t, healthySteps)
	fault, ok := stack.FindFault("gpu-slow")
	if !ok {
		t.Fatal("no fault gpu-slow")
	}
	told := func(v *rca.Verdict) bool {
		return fault.Named(v, rank) && v.Cause == rca.CauseGPU &&
			strings.Contains(strings.Join(v.Evidence, "\n"), "GPU 1 runs at 465 MHz instead of 1410 MHz: hw_slowdown, hw_thermal")
	}
	// Whoever asks too early asks again, and so does whoever got no answer on a busy machine.
	for ctx := waiting(t); ; {
		incident := analyze(t, cluster, j.Config.ID)
		switch {
		case incident.Verdict != nil && told(incident.Verdict):
			t.Log(incident.Verdict.Summary)
			return
		case ctx.Err() != nil:
			t.Fatal(j.describe(t))
		}
	}
}
