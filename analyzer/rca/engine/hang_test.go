// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func TestLiveFaults(t *testing.T) {
	for _, fault := range []struct {
		kind  string
		class rca.Class
		cause rca.Cause
	}{
		{"link", rca.Fault, rca.CauseNetworkSend},
		{"gpu", rca.Fault, rca.CauseGPU},
		{"skip", rca.NotEntered, rca.CauseNotCalled},
		{"other", rca.Inconsistent, rca.CauseOtherOp},
		{"size", rca.Inconsistent, rca.CauseOtherOp},
		{"stop", rca.Fault, rca.CauseProcessStopped},
		{"stop_outside", rca.NotEntered, rca.CauseProcessStopped},
		{"kill", rca.NotEntered, rca.CauseProcessGone},
		{"kernel", rca.NotEntered, rca.CauseKernelNotRunning},
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
					v := Analyze(m.evidence(), rca.Options{})
					rcatest.CheckPair(t, &v)
					if v.Class != fault.class || v.Cause != fault.cause || !slices.Contains(rcatest.CulpritRanks(v), rank) {
						t.Fatalf("got %s/%s %v, want %s/%s [%d]\n%s", v.Class, v.Cause, rcatest.CulpritRanks(v), fault.class, fault.cause, rank, v.Summary)
					}
					if len(v.Culprits) > 1 && fault.class != rca.Inconsistent {
						t.Fatalf("names %v, want %d alone\n%s", rcatest.CulpritRanks(v), rank, v.Summary)
					}
					if !v.Page {
						t.Errorf("does not page: %s (%g)", v.Summary, v.Confidence)
					}
				})
			}
		}
	}
}
