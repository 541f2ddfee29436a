// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestRealGPU: what the service had before it when it judged jobs on a real GPU (sim/gpu/run.sh): PyTorch 2.11 on NCCL 2.28.9, four
// ranks of two played hosts on one H200, faults at rank 2. Every exporter rightly says that others compute on its GPU.
func TestRealGPU(t *testing.T) {
	for _, tc := range []struct {
		name  string
		class rca.Class
		cause rca.Cause
	}{
		{"dp4-op-not-entered", rca.NotEntered, rca.CauseNotCalled},
		{"dp4-stop", rca.NotEntered, rca.CauseProcessStopped},
		{"dp4-kill", rca.NotEntered, rca.CauseProcessGone}, // Rank 1 was named too, for its GPU.
		{"dp4-kernel-stall", rca.NotEntered, rca.CauseKernelNotRunning},
		{"dp4-gpu-slow", rca.SlowCompute, rca.CauseGPU},
		{"dp4-data-late", rca.SlowCompute, rca.CauseCPU}, // Its GPU was named, for the others that compute on it.
		{"dp4-ep4-op-not-entered", rca.NotEntered, rca.CauseNotCalled},
		{"dp4-ep4-stop", rca.NotEntered, rca.CauseProcessStopped},
		{"dp4-ep4-kill", rca.NotEntered, rca.CauseProcessGone},
		{"dp4-ep4-kernel-stall", rca.Fault, rca.CauseGPU}, // Of these operations kernel events are not to be trusted.
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantVerdict(t, analyze(t, filepath.Join("testdata", "gpu", tc.name+".tar.gz")), tc.class, tc.cause, 2)
		})
	}
	for _, name := range []string{"dp4-none", "dp4-checkpoint"} {
		if v := analyze(t, filepath.Join("testdata", "gpu", name+".tar.gz")).Verdict; len(diagnosis.Accused(v)) > 0 {
			t.Errorf("%s: %s", name, v.Summary)
		}
	}
}
