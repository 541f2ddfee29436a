// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestRealLibrary: what the service had before it when it judged jobs on the real NCCL library with a played GPU (culprit-nccl test), and was
// wrong. Each name says layout, fault and release.
func TestRealLibrary(t *testing.T) {
	for _, tc := range []struct {
		name    string
		class   rca.Class
		cause   rca.Cause
		culprit int
	}{
		// Experts in pairs, kernel events not to be trusted after sends to oneself: the other of the pair was named too, since its proxy had
		// posted buffers for the next all-to-all.
		{"ep2-gpu-freeze-2.28.9", rca.Fault, rca.CauseGPU, 1},
		{"ep2-link-stall-2.28.9", rca.Fault, rca.CauseNetworkSend, 3},
		// Two that waited for their own group of experts were named beside the rank that had not called.
		{"ep4-broadcast-not-entered-2.28.9", rca.NotEntered, rca.CauseNotCalled, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantVerdict(t, analyze(t, filepath.Join("testdata", "nccl", tc.name+".tar.gz")), tc.class, tc.cause, tc.culprit)
		})
	}
}
