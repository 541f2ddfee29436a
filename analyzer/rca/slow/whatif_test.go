// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func answer(t *testing.T, v rca.Verdict, kind, name string) rca.WhatIf {
	t.Helper()
	for _, w := range v.WhatIf {
		if w.Kind == kind && (name == "" || w.Name == name) {
			return w
		}
	}
	t.Fatalf("no what-if %s %q in %+v", kind, name, v.WhatIf)
	return rca.WhatIf{}
}

// stagedEvidence is an unevenly cut pipeline whose source numbers stages and data-parallel ranks.
func stagedEvidence() rca.Evidence {
	j := rcatest.NewSlowJob(2, 4, 1)
	j.Computations = true
	j.Compute = func(r, _ int) float64 { return pick(r/2 == 3, 1.6, 1.0) }
	ev := j.Evidence()
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		s.Stage, s.DataRank = s.Rank/2, s.Rank%2
	}
	return ev
}

func TestWhatIfNamesTheStage(t *testing.T) {
	v := verdictOf(stagedEvidence(), rca.Options{})
	stage := answer(t, v, "stage", "")
	if stage.Name != "stage 3" || !slices.Equal(stage.Ranks, []int{6, 7}) || stage.Saved < 0.05 {
		t.Errorf("best stage %+v", stage)
	}
	if w := answer(t, v, "rank", ""); w.Saved > stage.Saved/2 {
		t.Errorf("one rank of the stage saves %g, the stage %g", w.Saved, stage.Saved)
	}
	if w := answer(t, v, "transfers", ""); math.Abs(w.Saved) > 0.01 {
		t.Errorf("transfers save %g", w.Saved)
	}
	if w := answer(t, v, "op_type", ""); w.Name != "compute" {
		t.Errorf("best kind of operation %+v", w)
	}
	answer(t, v, "data_parallel_rank", "data-parallel rank 1")
	if all := answer(t, v, "all", ""); math.Abs(1/(1-all.Saved)-v.Slowdown) > 0.03 {
		t.Errorf("everything ideal saves %g, the verdict says %gx", all.Saved, v.Slowdown)
	}
	if v.Class != rca.Imbalance || !strings.Contains(strings.Join(v.Evidence, "\n"), "network is not the cause") {
		t.Errorf("%s %v", v.Class, v.Evidence)
	}
}

// TestHiddenSynchronisation: a computation that all leave together, however early they begin it, is waiting.
func TestHiddenSynchronisation(t *testing.T) {
	withNorm := func(ev rca.Evidence) rca.Evidence {
		// At the end of each iteration everybody computes until the last one is there.
		last := map[int][]int{}
		for i, s := range ev.Timeline {
			if s.Func == "ReduceScatter" {
				last[s.Rank] = append(last[s.Rank], i)
			}
		}
		for it := range last[0] {
			end := int64(0)
			for r := range last {
				end = max(end, ev.Timeline[last[r][it]].End)
			}
			for r := range last {
				s := ev.Timeline[last[r][it]]
				s.Kind, s.Func, s.Start, s.Entered, s.End, s.Comm, s.Number = rca.SegmentCompute, "norm", s.End, 0, end, "", -1
				ev.Timeline = append(ev.Timeline, s)
			}
		}
		return ev
	}
	ev := withNorm(stagedEvidence())
	x := job.NewIndex(&ev, rca.Options{}.WithDefaults())
	hidden := newTimeline(x, ev.Timeline).hiddenSyncs()
	if !hidden["norm"] || hidden["compute"] {
		t.Errorf("hidden %v, want norm alone", hidden)
	}
	v := verdictOf(ev, rca.Options{})
	if v.Class != rca.Imbalance || v.Cause != rca.CauseStage || !strings.Contains(v.Summary, "anks 6, 7") {
		t.Errorf("%s %s", v.Class, v.Summary)
	}
}

// TestLostRecordsOfLastArrivers: a tenth of the records lost leaves the stage named and most of its number.
func TestLostRecordsOfLastArrivers(t *testing.T) {
	whole := verdictOf(stagedEvidence(), rca.Options{})
	for seed := range uint64(5) {
		ev := stagedEvidence()
		n := seed
		ev.Timeline = slices.DeleteFunc(ev.Timeline, func(rca.Segment) bool {
			n = n*6364136223846793005 + 1442695040888963407
			return n>>33%10 == 0
		})
		v := verdictOf(ev, rca.Options{})
		if v.Class != rca.Imbalance || v.Cause != rca.CauseStage || !strings.Contains(v.Summary, "anks 6, 7") {
			t.Errorf("seed %d: %s/%s %s", seed, v.Class, v.Cause, v.Summary)
		}
		if v.Slowdown < 1+(whole.Slowdown-1)/3 || v.Slowdown > 1.2*whole.Slowdown {
			t.Errorf("seed %d: %gx, with all records %gx", seed, v.Slowdown, whole.Slowdown)
		}
	}
}

func TestRestoreAddsTheLastArriver(t *testing.T) {
	j := rcatest.NewSlowJob(4, 1, 1)
	j.Compute = rcatest.One(2, 1.5)
	ev := j.Evidence()
	gone := -1
	for i, s := range ev.Timeline {
		if s.Rank == 2 && s.Func == "ReduceScatter" && s.Number == 5 {
			gone = i
		}
	}
	lost := ev.Timeline[gone]
	ev.Timeline = slices.Delete(slices.Clone(ev.Timeline), gone, gone+1)
	x := job.NewIndex(&ev, rca.Options{}.WithDefaults())
	tl, _ := newTimeline(x, ev.Timeline).restore()
	if len(tl.segs) != len(ev.Timeline)+1 {
		t.Fatalf("%d segments, want %d", len(tl.segs), len(ev.Timeline)+1)
	}
	for i := range tl.segs {
		if s := &tl.segs[i]; s.record.Rank == 2 && s.number == 5 {
			if d := time.Duration(s.end - lost.End).Abs(); d > time.Millisecond {
				t.Errorf("ends %v off", d)
			}
			return
		}
	}
	t.Error("not added")
}

// TestWhatIfAgreesWithTheVerdict: without recorded computations, too, what a slow rank's mending would win back is what the
// verdict says it costs.
func TestWhatIfAgreesWithTheVerdict(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 1)
	j.Compute = rcatest.One(5, 2)
	v := verdictOf(j.Evidence(), rca.Options{})
	if v.Class != rca.SlowCompute || len(v.Culprits) != 1 || v.Culprits[0].Rank != 5 {
		t.Fatalf("%s %s", v.Class, v.Summary)
	}
	for _, kind := range []string{"rank", "all"} {
		if w := answer(t, v, kind, ""); math.Abs(1/(1-w.Saved)-v.Slowdown) > 0.1 {
			t.Errorf("%s ideal is %.2fx, the verdict says %gx", w.Name, 1/(1-w.Saved), v.Slowdown)
		}
	}
}
