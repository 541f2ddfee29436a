// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/pace"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	// slowDeadline is from the fault to the page: a window of 10 s has to fill with slow iterations.
	slowDeadline = 40 * time.Second
	// baselineAfter is when the rules know what is usual in a job that starts: 20 s of warming up, 20 s behind, ten samples.
	baselineAfter = 2 * time.Minute
)

// steady makes a job of iterations of a third of a second that leave the processors to others: the fault is to be what is slow.
var steady = []string{"--compute-ms", "40"}

// TestSlownessNamesItsRank injects every fault that only slows a job down, each into a job of its own, and waits for the pages. Nobody
// is paged before.
func TestSlownessNamesItsRank(t *testing.T) {
	t.Parallel()
	type slowed struct {
		*stack.Job
		fault stack.Fault
		rank  int
	}
	var jobs []slowed
	for i, fault := range stack.Faults {
		if fault.Slow {
			rank := (2 + 3*i) % ranks
			jobs = append(jobs, slowed{startJob(t, stack.JobConfig{ID: "slow-" + fault.Kind(), Fault: fault.Name, Rank: rank, FaultAtStep: -1, Args: steady}), fault, rank})
		}
	}
	for _, j := range jobs {
		known := fmt.Sprintf("job_id:culprit_nccl_iteration_seconds:mean_short_baseline{job_id=%q} < Inf", j.Config.ID)
		if err := cluster.WaitSeries(within(t, baselineAfter), known, 1); err != nil {
			t.Fatalf("%v\n%s", err, describe(t, cluster, j.Config.ID))
		}
		if pages := cluster.Pages(j.Config.ID); len(pages) > 0 {
			t.Fatalf("%s is paged before its fault: %+v\n%s", j.Config.ID, pages, describe(t, cluster, j.Config.ID))
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, j := range jobs {
		at, err := j.Inject(within(t, injectTimeout))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			page, err := cluster.WaitPage(within(t, slowDeadline), j.Config.ID)
			if err != nil {
				t.Errorf("%s: %v\n%s", j.Config.ID, err, describe(t, cluster, j.Config.ID))
				return
			}
			t.Logf("%s is paged after %.1f s: %s", j.fault.Name, page.At.Sub(at).Seconds(), page.Annotations["summary"])
			checkPage(t, page, j.fault, j.rank)
		})
	}
}

// TestSlowFromTheFirstStep: a job that was never faster is looked at after its first iterations, and the page stands while it is slow.
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
	triggers, err := cluster.Triggers(within(t, 5*time.Second), job.Config.ID)
	if err != nil || !slices.ContainsFunc(triggers, func(a stack.Alert) bool { return a.Labels["alertname"] == "CulpritFirstLook" }) {
		t.Errorf("triggers %+v (%v), want CulpritFirstLook", triggers, err)
	}
	// The window of the look is over after 30 s of iterations.
	over := fmt.Sprintf("job_id:culprit_nccl_iteration_seconds_sum:min{job_id=%q} > 110", job.Config.ID)
	if err := cluster.WaitSeries(within(t, time.Minute), over, 1); err != nil {
		t.Fatal(err)
	}
	standing := func(v *rca.Verdict) bool { return v.Page }
	if _, err := cluster.WaitIncident(within(t, pace.Stretch(5*time.Second)), job.Config.ID, standing); err != nil {
		t.Errorf("the page did not stand: %v\n%s", err, describe(t, cluster, job.Config.ID))
	}
}
