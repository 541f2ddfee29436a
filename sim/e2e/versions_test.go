// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestProfilerVersions: an NCCL that speaks another version of the profiler interface than 6 shows more or less, and each enough
// for the name. Version 3 is as NCCL 2.26 has it itself: receive steps without ends, sums that begin with rubbish.
func TestProfilerVersions(t *testing.T) {
	t.Parallel()
	for _, abi := range []int{3, 4, 5, 7} {
		t.Run(fmt.Sprintf("v%d", abi), func(t *testing.T) {
			t.Parallel()
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
