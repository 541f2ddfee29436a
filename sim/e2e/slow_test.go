// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// steady makes a job of iterations of a third of a second that leave the processors to others: the fault is to be what is slow.
var steady = []string{"--compute-ms", "40"}

// startSteady launches one at once: the rules need a minute to know what is usual in a job, and it takes little of the processors.
func startSteady(t *testing.T, cfg stack.JobConfig) *job {
	t.Helper()
	cfg.Args = steady
	return launch(t, cluster, cfg, func() {})
}

// TestSlownessNamesItsRank injects every fault that only slows a job down and waits for the page. Nobody is paged before. It does not run
// beside other tests: what is usual would be learned from iterations that these make three times as long, and once they have ended a slow
// iteration is shorter than those.
func TestSlownessNamesItsRank(t *testing.T) {
	for i, fault := range stack.Faults {
		if !fault.Slow {
			continue
		}
		t.Run(fault.Kind(), func(t *testing.T) {
			t.Parallel()
			rank := (2 + 3*i) % ranks
			j := startSteady(t, stack.JobConfig{ID: "slow-" + fault.Kind(), Fault: fault.Name, Rank: rank, FaultAtStep: -1})
			known := fmt.Sprintf("job_id:culprit_nccl_iteration_seconds:mean_short_baseline{job_id=%q} < Inf", j.Config.ID)
			if err := cluster.WaitSeries(waiting(t), known, 1); err != nil {
				t.Fatalf("%v\n%s", err, j.describe(t))
			}
			j.pagesNobody(t)
			at := j.inject(t)
			page := j.page(t)
			t.Logf("paged after %.1f s", page.At.Sub(at).Seconds())
			checkPage(t, page, fault, j, rank)
		})
	}
}

// TestSlowFromTheFirstStep: a job that was never faster is looked at after its first iterations.
func TestSlowFromTheFirstStep(t *testing.T) {
	t.Parallel()
	const rank = 5
	fault, _ := stack.FindFault("gpu-slow=3")
	j := startSteady(t, stack.JobConfig{ID: "slow-from-the-start", Fault: fault.Name, Rank: rank, FaultAtStep: 0})
	checkPage(t, j.page(t), fault, j, rank)
	incident := j.incident(t, func(v *rca.Verdict) bool { return v.Page })
	// Where others use the machine as well, iterations may get slower by themselves before the look at the new job.
	if len(incident.Triggers) == 0 || incident.Triggers[0].Name != "CulpritFirstLook" {
		t.Logf("told by %+v, not by CulpritFirstLook", incident.Triggers)
	}
}
