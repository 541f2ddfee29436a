// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// waitingSender is a rank whose Send to another rank hangs, on a communicator of two.
func waitingSender(partial bool) rca.Evidence {
	op := rca.Op{Number: 7, Seq: 3, Func: "Send", Peer: 1, Bytes: 1 << 20, State: rca.OpMoving, Age: 10 * time.Second, Stuck: 9 * time.Second}
	op.Flows = []rca.Flow{{Send: true, Peer: 1, Total: 8, Posted: 8, Ready: 1, Stuck: 9 * time.Second, PeerPolls: 1000}}
	return rca.Evidence{
		JobID: "j", WorldSize: 2, Partial: partial,
		Comms: []rca.Comm{{ID: "pp", Name: "pp", Size: 2, Members: []int{0, 1}}},
		Ranks: []rca.Rank{
			{ID: 0, Host: "a", State: rca.ProcessRunning, Caps: rcatest.AllCaps, Memberships: []rca.Membership{{Comm: "pp", CommRank: 0, Called: 8, Started: 8, Completed: 7, SinceCalled: op.Age, SinceCompleted: op.Age, InFlight: []rca.Op{op}}}},
			{ID: 1, Host: "b", Caps: rca.SeesCalls, Memberships: []rca.Membership{{Comm: "pp", CommRank: 1, Called: 8, Started: 8, Completed: 8, SinceCalled: -1, SinceCompleted: -1}}},
		},
	}
}

// TestCountsTellNothingOfMessages: of a rank that the search has not visited only counts are known (H6). They do not show that a
// receive is missing, so the rank is asked and not accused.
func TestCountsTellNothingOfMessages(t *testing.T) {
	v := Analyze(waitingSender(true), rca.Options{})
	if slices.Contains(rcatest.CulpritRanks(v), 1) {
		t.Errorf("accused by its counts: %s", v.Summary)
	}
	if !slices.Contains(v.Ask, 1) {
		t.Errorf("asks for %v, want rank 1: %s %s", v.Ask, v.Class, v.Summary)
	}
	if whole := Analyze(waitingSender(false), rca.Options{}); len(whole.Ask) != 0 {
		t.Errorf("asks for %v though nobody is left to be asked", whole.Ask)
	}
}
