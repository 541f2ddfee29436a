// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestOlderProfilerVersions: an NCCL that knows only version 4 or 5 of the profiler interface shows less, and still
// enough for the name.
func TestOlderProfilerVersions(t *testing.T) {
	for _, abi := range []int{4, 5} {
		t.Run(fmt.Sprintf("v%d", abi), func(t *testing.T) {
			const rank = 6
			job := startJob(t, stack.JobConfig{ID: fmt.Sprintf("abi-%d", abi), Fault: "link-stall", Rank: rank, FaultAtStep: -1, ABI: abi})
			train(t, job, healthySteps)
			if _, err := job.Inject(within(t, injectTimeout)); err != nil {
				t.Fatal(err)
			}
			page, err := cluster.WaitPage(within(t, deadline), job.Config.ID)
			if err != nil {
				t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
			}
			fault, ok := stack.FindFault("link-stall")
			if !ok {
				t.Fatal("no fault link-stall")
			}
			checkPage(t, page, fault, rank)
		})
	}
}
