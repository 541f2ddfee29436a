// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build slow

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	// slowDeadline is from the fault to the page: a window of 10 s has to fill with slow iterations, and on a machine that others use the
	// job's usual iterations vary as much.
	slowDeadline = 90 * time.Second
	// baselineAfter is when the rules know what is usual in a job that starts: 20 s of warming up, 20 s behind, ten samples.
	baselineAfter = 2 * time.Minute
)

// steady makes a job of iterations of a third of a second that leave the processors to others: the fault is to be what is slow.
var steady = []string{"--compute-ms", "40"}

// TestSlownessNamesItsRank injects every fault that only slows a job down and waits for the page. Nobody is paged before.
func TestSlownessNamesItsRank(t *testing.T) {
	t.Parallel()
	for i, fault := range stack.Faults {
		if !fault.Slow {
			continue
		}
		t.Run(fault.Kind(), func(t *testing.T) {
			t.Parallel()
			rank := (2 + 3*i) % ranks
			job := startJob(t, stack.JobConfig{ID: "slow-" + fault.Kind(), Fault: fault.Name, Rank: rank, FaultAtStep: -1, Args: steady})
			known := fmt.Sprintf("job_id:culprit_nccl_iteration_seconds:mean_short_baseline{job_id=%q} < Inf", job.Config.ID)
			if err := cluster.WaitSeries(within(t, baselineAfter), known, 1); err != nil {
				t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
			}
			if pages := cluster.Pages(job.Config.ID); len(pages) > 0 {
				t.Fatalf("paged before the fault: %+v\n%s", pages, describe(t, cluster, job.Config.ID))
			}
			at, err := job.Inject(within(t, injectTimeout))
			if err != nil {
				t.Fatal(err)
			}
			page, err := cluster.WaitPage(within(t, slowDeadline), job.Config.ID)
			if err != nil {
				t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
			}
			t.Logf("paged after %.1f s: %s", page.At.Sub(at).Seconds(), page.Annotations["summary"])
			checkPage(t, page, fault, rank)
		})
	}
}

// TestSlowFromTheFirstStep: a job that was never faster is looked at after its first iterations.
func TestSlowFromTheFirstStep(t *testing.T) {
	t.Parallel()
	const rank = 5
	fault, _ := stack.FindFault("gpu-slow=3")
	job := startJob(t, stack.JobConfig{ID: "slow-from-the-start", Fault: fault.Name, Rank: rank, FaultAtStep: 0, Args: steady})
	page, err := cluster.WaitPage(within(t, baselineAfter), job.Config.ID)
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
	}
	t.Logf("paged: %s", page.Annotations["summary"])
	checkPage(t, page, fault, rank)
	incident, err := cluster.WaitIncident(within(t, 5*time.Second), job.Config.ID, func(v *rca.Verdict) bool { return v.Page })
	if err != nil {
		t.Fatal(err)
	}
	// Where others use the machine as well, iterations may get slower by themselves before the look at the new job.
	if len(incident.Triggers) == 0 || incident.Triggers[0].Name != "CulpritFirstLook" {
		t.Logf("told by %+v, not by CulpritFirstLook", incident.Triggers)
	}
}
