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
	const rank, steps = 5, 2 * healthySteps // Long enough for the rules to know the job.
	const last = steps - 1
	for _, name := range []string{"link-stall", "op-not-entered", "kill", "gpu-freeze"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, found := stack.FindFault(name)
			if !found {
				t.Fatalf("no fault %s", name)
			}
			j := startJob(t, stack.JobConfig{
				ID: "last-operation-" + name, Fault: fault.Name + ":comm=dp", Rank: rank, FaultAtStep: last,
				Args: []string{"--steps=" + strconv.Itoa(steps), "--barrier-every=0"},
			})
			j.train(t, last)
			if _, err := j.WaitFault(waiting(t)); err != nil {
				t.Fatal(err)
			}
			j.rest()
			checkPage(t, j.page(t), fault, j, rank)
		})
	}
}

// TestEndOfJob: a job that ends by itself pages nobody.
func TestEndOfJob(t *testing.T) {
	t.Parallel()
	j := startJob(t, stack.JobConfig{ID: "end-of-job", Rank: -1, FaultAtStep: -1, Args: []string{"--steps=" + strconv.Itoa(healthySteps)}})
	j.train(t, healthySteps)
	select {
	case <-j.Done():
	case <-waiting(t).Done():
		t.Fatal("the job did not end after its last step")
	}
	j.rest()
	// Longer than any rule for a job that stands still waits, by Prometheus's own count.
	const later = 15
	if err := cluster.WaitScrapes(waiting(t), later); err != nil {
		t.Fatal(err)
	}
	j.pagesNobody(t)
}
