// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
)

// TestRealGPU: what the service had before it when it judged jobs on a real GPU (sim/gpu/run.sh): PyTorch 2.11 on NCCL 2.28.9, four
// ranks of two played hosts on one H200, faults at rank 2. Every exporter rightly says that others compute on its GPU: the
// engine once named rank 1 for that beside the killed rank (dp4-kill), and the GPU of the rank whose data came late (dp4-data-late). With
// experts (ep4), kernel events are not to be trusted.
func TestRealGPU(t *testing.T) {
	answers := answersOf(t, "gpu")
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		t.Run(name, func(t *testing.T) {
			got := analyze(t, filepath.Join("testdata", "gpu", name+".tar.gz"))
			a := answers[name]
			switch accused := diagnosis.Accused(got.Verdict); {
			case len(a.Ranks) > 0:
				wantVerdict(t, got, a.Class, a.Cause, a.Ranks...)
			case len(accused) > 0:
				t.Errorf("accuses %v: %s", accused, got.Verdict.Summary)
			}
		})
	}
}
