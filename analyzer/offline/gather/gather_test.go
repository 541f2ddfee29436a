// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package gather_test

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Ranks, communicators and pieces of work come in order, whatever order they were read in, and who is not shown is missing.
func TestEvidence(t *testing.T) {
	j := gather.New(rca.SeesCalls)
	gather.Place(j.Comm("b/2", "second", 2), 1, 4)
	gather.Place(j.Comm("a/2", "first", 2), 0, 0)
	j.Comm("a/2", "another name", 3)
	j.Rank(4).Host = "gpu-b"
	j.Rank(4).PID = 7
	j.Rank(0)
	j.Rank(2)
	j.Hide(2)
	j.Timeline = append(j.Timeline, gather.Segment(4, rca.SegmentOp, "x", 5, 6), gather.Segment(0, rca.SegmentOp, "x", 9, 10), gather.Segment(4, rca.SegmentOp, "y", 1, 2))
	j.World = 6
	j.Silent(1, "its file is %s", "empty")
	j.Rest("no file")
	j.Count(0, "files were left out")
	j.Count(2, "files of %s were left out", "another job")
	ev := j.Evidence()
	if len(ev.Ranks) != 2 || ev.Ranks[0].ID != 0 || ev.Ranks[1].Host != "gpu-b" || ev.Ranks[1].PID != 7 || ev.Ranks[1].Caps != rca.SeesCalls || ev.Ranks[1].CPUCores != -1 {
		t.Errorf("ranks %+v", ev.Ranks)
	}
	if len(ev.Comms) != 2 || ev.Comms[0].Name != "first" || ev.Comms[0].Size != 3 || !slices.Equal(ev.Comms[1].Members, []int{-1, 4}) {
		t.Errorf("communicators %+v", ev.Comms)
	}
	if ev.Timeline[0].Rank != 0 || ev.Timeline[1].Func != "y" {
		t.Errorf("timeline %+v", ev.Timeline)
	}
	var missing []int
	for _, m := range ev.Missing {
		missing = append(missing, m.Ranks...)
	}
	if slices.Sort(missing); !slices.Equal(missing, []int{1, 2, 3, 5}) || ev.WorldSize != 6 {
		t.Errorf("%d ranks, missing %v", ev.WorldSize, ev.Missing)
	}
	if !slices.Equal(j.Notes, []string{"2 files of another job were left out"}) {
		t.Errorf("notes %q", j.Notes)
	}
}
