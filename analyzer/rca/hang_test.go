// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"fmt"
	"slices"
	"testing"
)

func culpritRanks(v Verdict) []int {
	var out []int
	for _, c := range v.Culprits {
		out = append(out, c.Rank)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestLiveFaults(t *testing.T) {
	for _, fault := range []struct {
		kind  string
		class Class
		cause Cause
	}{
		{"link", Fault, CauseNetworkSend},
		{"gpu", Fault, CauseGPU},
		{"skip", NotEntered, CauseNotCalled},
		{"other", Inconsistent, CauseOtherOp},
		{"size", Inconsistent, CauseOtherOp},
		{"stop", Fault, CauseProcessStopped},
		{"stop_outside", NotEntered, CauseProcessStopped},
		{"kill", NotEntered, CauseProcessGone},
		{"kernel", NotEntered, CauseKernelNotRunning},
	} {
		for rank := range 8 {
			for after := 20; after < 30; after++ {
				t.Run(fmt.Sprintf("%s/rank%d/after%d", fault.kind, rank, after), func(t *testing.T) {
					m := newModel(2, 2, 2)
					m.fault = mfault{kind: fault.kind, rank: rank, after: after, step: 1}
					if (fault.kind == "other" || fault.kind == "size") && m.ranks[rank].program[after%len(m.ranks[rank].program)].peer >= 0 {
						return
					}
					if !m.run(100000) {
						t.Fatal("the model does not hang")
					}
					v := Analyze(m.evidence(), Options{})
					if v.Class != fault.class || v.Cause != fault.cause || !slices.Contains(culpritRanks(v), rank) {
						t.Fatalf("got %s/%s %v, want %s/%s [%d]\n%s", v.Class, v.Cause, culpritRanks(v), fault.class, fault.cause, rank, v.Summary)
					}
					if len(v.Culprits) > 1 && fault.class != Inconsistent {
						t.Fatalf("names %v, want %d alone\n%s", culpritRanks(v), rank, v.Summary)
					}
					if !v.Page {
						t.Errorf("does not page: %s (%g)", v.Summary, v.Confidence)
					}
				})
			}
		}
	}
}
