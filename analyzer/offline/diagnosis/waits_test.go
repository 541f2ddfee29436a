// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/joblog"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// A wait that the log and a dump tell of is one wait; that of a rank without a dump has its place in the group of the others.
func TestPlaceWaits(t *testing.T) {
	wait := func(comm rca.CommID, fn string, number int64) rca.Membership {
		return rca.Membership{Comm: comm, CommRank: -1, Called: number + 1, Started: -1, Completed: number, SinceCalled: -1, SinceCompleted: -1, InFlight: []rca.Op{{
			Number: number, Seq: -1, Func: fn, Peer: -1, Root: -1, Count: -1, Bytes: -1, State: rca.OpEnqueued, Age: 1, Stuck: -1, KernelStarted: -1, KernelStopped: -1,
		}}}
	}
	rank := func(id int, ms ...rca.Membership) rca.Rank {
		return rca.Rank{ID: id, Caps: rca.SeesCalls | rca.SeesCompletion, Memberships: ms, ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1}
	}
	ev := rca.Evidence{
		WorldSize: 4,
		Comms:     []rca.Comm{{ID: "dp", Name: "dp", Size: 4, Members: []int{0, 1, 2, 3}}, {ID: joblog.Waits, Size: 4, Members: []int{0, 1, 2, 3}}},
		Ranks: []rca.Rank{
			rank(0, wait("dp", "all_gather", 7), wait(joblog.Waits, "all_gather_into_tensor", 0)),
			rank(1, wait("dp", "all_gather", 7)),
			rank(2, wait(joblog.Waits, "all_gather_into_tensor", 0)),
			rank(3, rca.Membership{Comm: "dp", CommRank: 3, Called: 7, Started: -1, Completed: 7, SinceCalled: -1, SinceCompleted: -1}),
		},
	}
	placeWaits(&ev)
	for _, r := range ev.Ranks[:3] {
		if len(r.Memberships) != 1 || r.Memberships[0].Comm != "dp" || r.Memberships[0].InFlight[0].Number != 7 {
			t.Errorf("rank %d: %+v", r.ID, r.Memberships)
		}
	}
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
	if v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 3 {
		t.Errorf("%s %+v: %s", v.Class, v.Culprits, v.Summary)
	}
}

// Evidence in which nothing stands still takes nothing from the source that names somebody; evidence that does, does.
func TestOnlyWord(t *testing.T) {
	names := SourceVerdict{Verdict: rca.Verdict{Class: rca.NotEntered, Culprits: []rca.Culprit{{Rank: 2}}}}
	silent := SourceVerdict{Verdict: rca.Verdict{Class: rca.Unknown}}
	pending := silent
	pending.Evidence.Ranks = []rca.Rank{{ID: 1, Memberships: []rca.Membership{{InFlight: []rca.Op{{}}}}}}
	gone := silent
	gone.Evidence.Ranks = []rca.Rank{{ID: 1, State: rca.ProcessGone}}
	suspects := silent
	suspects.Verdict.Culprits = []rca.Culprit{{Rank: -1}}
	healthy := SourceVerdict{Verdict: rca.Verdict{Class: rca.Healthy}}
	local := silent
	local.Local = true
	for name, tc := range map[string]struct {
		joint   rca.Verdict
		sources []SourceVerdict
		want    bool
	}{
		"the others are silent":   {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{silent, names}, true},
		"something is pending":    {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{pending, names}, false},
		"a process is gone":       {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{gone, names}, false},
		"another has suspects":    {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{suspects, names}, false},
		"another says healthy":    {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{healthy, names}, false},
		"ranks are not the job's": {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{local, names}, false},
		"two name somebody":       {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{names, names}, false},
		"nobody is named":         {rca.Verdict{Class: rca.Unknown}, []SourceVerdict{silent}, false},
		"all together decide":     {rca.Verdict{Class: rca.Healthy}, []SourceVerdict{silent, names}, false},
	} {
		r := Result{Verdict: tc.joint, Sources: tc.sources}
		if v, ok := r.onlyWord(); ok != tc.want || ok && Accused(v)[0] != 2 {
			t.Errorf("%s: %v %v", name, ok, v)
		}
	}
}
