// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// TestRealLibrary: what the service had before it when it judged jobs on the real NCCL library with a played GPU (culprit-nccl test), and was
// wrong. Each name says layout, fault and release.
//
// Of experts in pairs (ep2), whose kernel events are not to be trusted after sends to oneself, the other of the pair was named too, since its
// proxy had posted buffers for the next all-to-all. In ep4, two that waited for their own group of experts were named beside the rank that had
// not called.
func TestRealLibrary(t *testing.T) {
	answers := answersOf(t, "nccl")
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		t.Run(name, func(t *testing.T) {
			a := answers[name]
			wantVerdict(t, analyze(t, filepath.Join("testdata", "nccl", name+".tar.gz")), a.Class, a.Cause, a.Ranks...)
		})
	}
}
