// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"testing"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestLastOperation: a fault in a job's last step is paged for its rank, although ranks that need nothing from it finish and end.
func TestLastOperation(t *testing.T) {
	t.Parallel()
	const rank, last = 5, healthySteps - 1
	for _, name := range []string{"link-stall", "op-not-entered", "kill", "gpu-freeze"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, found := stack.FindFault(name)
			if !found {
				t.Fatalf("no fault %s", name)
			}
			job := startJob(t, stack.JobConfig{
				ID: "last-operation-" + name, Fault: fault.Name + ":comm=dp", Rank: rank, FaultAtStep: last,
				Args: []string{"--steps=" + strconv.Itoa(healthySteps), "--barrier-every=0"},
			})
			train(t, job, last)
			if _, err := job.WaitFault(within(t, injectTimeout)); err != nil {
				t.Fatal(err)
			}
			page, err := cluster.WaitPage(within(t, deadline+patience), job.Config.ID)
			if err != nil {
				t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
			}
			t.Logf("paged: %s", page.Annotations["summary"])
			checkPage(t, page, fault, rank)
		})
	}
}

// TestEndOfJob: a job that ends by itself pages nobody.
func TestEndOfJob(t *testing.T) {
	t.Parallel()
	job := startJob(t, stack.JobConfig{ID: "end-of-job", Rank: -1, FaultAtStep: -1, Args: []string{"--steps=" + strconv.Itoa(healthySteps)}})
	train(t, job, healthySteps)
	select {
	case <-job.Done():
	case <-within(t, deadline).Done():
		t.Fatal("the job did not end after its last step")
	}
	other := startJob(t, stack.JobConfig{ID: "after-the-end", Rank: -1, FaultAtStep: -1})
	train(t, other, 4*healthySteps) // Longer than any rule waits.
	if pages := cluster.Pages(job.Config.ID); len(pages) > 0 {
		t.Errorf("paged: %+v\n%s", pages, describe(t, cluster, job.Config.ID))
	}
}
