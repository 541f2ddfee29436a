// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Dumps of real PyTorch jobs (testdata/torch/record.py), read as they are: each archive holds the pickled and the JSON
// form of the same ranks.
func TestRealPyTorch(t *testing.T) {
	for _, version := range []string{"torch-2.8.0", "torch-2.9.1", "torch-2.10.0", "torch-2.15.0"} {
		for _, tc := range []struct {
			scenario string
			class    rca.Class
			cause    rca.Cause
			ranks    []int // Accused.
			missing  []int // Ranks without a dump.
		}{
			// gloo's recorder sees no sends and no waits for the store: that nothing is pending in it is no health.
			{"healthy", rca.Unknown, rca.CauseUnknown, nil, nil},
			{"hang", rca.NotEntered, rca.CauseNotCalled, []int{2}, nil},
			{"op_mismatch", rca.Inconsistent, rca.CauseOtherOp, []int{3}, nil},
			// The process with the other size crashes, as the killed one does: it leaves no dump, and is a suspect, not a
			// culprit.
			{"size_mismatch", rca.Unknown, rca.CauseUnknown, nil, []int{1}},
			{"killed", rca.Unknown, rca.CauseUnknown, nil, []int{1}},
			// gloo's recorder does not say who is in the two groups.
			{"opposite_order", rca.Unknown, rca.CauseUnknown, nil, nil},
			// Nor does it record receives: the rank that waits in one looks as absent as the one it waits for.
			{"unmatched_receive", rca.Unknown, rca.CauseUnknown, nil, nil},
			// Nor times of completion: a slow rank does not show.
			{"slow", rca.Unknown, rca.CauseUnknown, nil, nil},
		} {
			t.Run(version+"/"+tc.scenario, func(t *testing.T) {
				r := analyze(t, filepath.Join("testdata", "torch", version, tc.scenario+".tar.gz"))
				wantVerdict(t, r, tc.class, tc.cause, tc.ranks...)
				if finished := tc.scenario == "healthy" || tc.scenario == "slow"; finished != slices.ContainsFunc(r.Sources[0].Notes, func(n string) bool { return strings.Contains(n, "no recorded operation is pending") }) {
					t.Errorf("notes %q", r.Sources[0].Notes)
				}
				var missing []int
				for _, m := range r.Evidence.Missing {
					missing = append(missing, m.Ranks...)
				}
				if !slices.Equal(missing, tc.missing) {
					t.Errorf("missing %v, want %v", missing, tc.missing)
				}
			})
		}
	}
}

// Dumps of real PyTorch programs in the form of NCCL's process groups (testdata/torch/record_nccl.py).
func TestRealPyTorchLikeNCCL(t *testing.T) {
	for _, tc := range []struct {
		scenario string
		class    rca.Class
		cause    rca.Cause
		ranks    []int // Accused.
	}{
		{"mesh", rca.NotEntered, rca.CauseNotCalled, []int{7}},
		{"pipeline", rca.NotEntered, rca.CauseNotCalled, []int{3}},
		{"ring", rca.NotEntered, rca.CauseNotCalled, []int{2}},
		{"ring_healthy", rca.Healthy, rca.CauseUnknown, nil},
		{"experts", rca.NotEntered, rca.CauseNotCalled, []int{6}},
		{"ddp", rca.NotEntered, rca.CauseNotCalled, []int{2}},
		{"fsdp", rca.NotEntered, rca.CauseNotCalled, []int{0}},
		{"opposite_order", rca.Inconsistent, rca.CauseDeadlock, []int{1, 4}},
		// One call too many of rank 0, or something that holds all others: dumps do not tell.
		{"extra_call", rca.Unknown, rca.CauseUnknown, nil},
	} {
		t.Run(tc.scenario, func(t *testing.T) {
			wantVerdict(t, analyze(t, filepath.Join("testdata", "torch", "nccl-torch-2.9.1", tc.scenario+".tar.gz")), tc.class, tc.cause, tc.ranks...)
		})
	}
}
