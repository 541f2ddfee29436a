// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestRepairsChangeNoTimeline: a step gives a new timeline and says so, or the one that it got. What it got stays as it is.
func TestRepairsChangeNoTimeline(t *testing.T) {
	lossy := rcatest.NewSlowJob(4, 2, 2).Evidence()
	lossy.Timeline, _ = without(lossy.Timeline, 1)
	pausing := rcatest.NewSlowJob(4, 2, 2)
	pausing.Iters = 24
	pausing.Host = func(r, it int) time.Duration { return pick(r == 2 && it%6 == 5, 20*time.Second, 0) }
	stops := pausing.Evidence()
	changed := map[string]bool{}
	for _, ev := range []rca.Evidence{lossy, stops} {
		tl := timelineOf(&ev)
		for _, s := range slices.Concat(mendRecords, mendWork) {
			before := slices.Clone(tl.segs)
			next, did := s.mend(tl)
			if !slices.Equal(before, tl.segs) {
				t.Errorf("%s changes the timeline that it was given", s.name)
			}
			if (did.changed > 0) != (next != tl) {
				t.Errorf("%s says that it changed %d segments, and gives another timeline: %v", s.name, did.changed, next != tl)
			}
			changed[s.name] = changed[s.name] || did.changed > 0
			tl = next
		}
		for _, r := range verdictOf(ev, rca.Options{}).Repairs {
			if r.Changed+r.Left == 0 || r.Changed > 0 && !changed[r.Step] {
				t.Errorf("the verdict tells of %d segments changed by %s", r.Changed, r.Step)
			}
		}
	}
	for _, name := range []string{"lost_records", "pauses"} {
		if !changed[name] {
			t.Errorf("nothing was changed by %s", name)
		}
	}
}

// TestSpellsAreWeighedInTheirOwnWindow: what is noticeable in the iterations since the job became slower is not so in all that were
// seen, which are several times as many.
func TestSpellsAreWeighedInTheirOwnWindow(t *testing.T) {
	j := rcatest.NewSlowJob(8, 1, 1)
	j.Iters = 40
	j.Compute = func(_, it int) float64 { return pick(it >= 34, 1.5, 1.0) }
	ev := j.Evidence()
	a := analysisOf(&ev)
	if a.past == nil {
		t.Fatal("the job did not become slower")
	}
	all := a.overall()
	if all.now != a.whole || all.replay.t != a.whole || all.base.t != a.whole {
		t.Error("the whole is not judged by itself")
	}
	if short := a.replay.base; all.replay.base < 3*short {
		t.Errorf("the window of all iterations is %v long, that of the late ones %v", time.Duration(all.replay.base), time.Duration(short))
	}
}
