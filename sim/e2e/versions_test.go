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
	versions := []int{3, 5}
	if *long {
		versions = []int{3, 4, 5, 7} // Of 4 and 7, TestLevelsOfEvidence has other faults.
	}
	for _, abi := range versions {
		t.Run(fmt.Sprintf("v%d", abi), func(t *testing.T) {
			t.Parallel()
			const rank = 6
			j := startJob(t, stack.JobConfig{ID: fmt.Sprintf("abi-%d", abi), Fault: "link-stall", Rank: rank, FaultAtStep: -1, ABI: abi})
			j.train(t, healthySteps)
			j.inject(t)
			fault, ok := stack.FindFault("link-stall")
			if !ok {
				t.Fatal("no fault link-stall")
			}
			checkPage(t, j.page(t), fault, j, rank)
		})
	}
}
