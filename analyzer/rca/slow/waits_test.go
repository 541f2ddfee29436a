// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// slowFirst is a pipelined job with recorded computations and numbered iterations whose rank 0 computes more slowly.
func slowFirst() rca.Evidence {
	j := rcatest.NewSlowJob(4, 4, 1)
	j.Computations = true
	j.Compute = rcatest.One(0, 2.3)
	ev := j.Evidence()
	at := make([]int, j.World())
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		s.Iteration = at[s.Rank]
		if s.Func == "ReduceScatter" {
			at[s.Rank]++
		}
	}
	return ev
}

// TestUnrecordedWaitingIsNoWork: what the first stage waits for at the end of an iteration is not in the table.
// Its time must not stand between the slow rank and what its mending would win back.
func TestUnrecordedWaitingIsNoWork(t *testing.T) {
	whole := verdictOf(slowFirst(), rca.Options{})
	ev := slowFirst()
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return s.Func == "ReduceScatter" && s.Rank < 4 })
	v := verdictOf(ev, rca.Options{})
	if v.Class != rca.SlowCompute || len(v.Culprits) != 1 || v.Culprits[0].Rank != 0 {
		t.Fatalf("%s %s", v.Class, v.Summary)
	}
	want := answer(t, whole, "rank", "rank 0").Saved
	if got := answer(t, v, "rank", "rank 0").Saved; got < 0.9*want || want < 0.2 {
		t.Errorf("rank 0 would win back %g, with all records %g", got, want)
	}
}

// TestLateHostIsWork: time in which a rank's host is late is taken for work although nothing is recorded in it: without
// it the job would be shorter.
func TestLateHostIsWork(t *testing.T) {
	j := rcatest.NewSlowJob(2, 4, 1)
	j.Computations = true
	j.Host = func(r, _ int) time.Duration { return pick(r == 5, 400*time.Millisecond, 0) }
	v := verdictOf(j.Evidence(), rca.Options{})
	if v.Class != rca.SlowCompute || v.Cause != rca.CauseCPU || len(v.Culprits) != 1 || v.Culprits[0].Rank != 5 {
		t.Fatalf("%s/%s %s", v.Class, v.Cause, v.Summary)
	}
}

// TestOverlapsOfRecords: records of one rank that overlap a little, as different clocks of a GPU give them, still follow
// each other.
func TestOverlapsOfRecords(t *testing.T) {
	want := verdictOf(slowFirst(), rca.Options{})
	ev := slowFirst()
	for i := range ev.Timeline {
		if s := &ev.Timeline[i]; s.Kind == rca.SegmentOp {
			s.End += min((s.End-s.Start)/30, int64(150*time.Microsecond))
		}
	}
	v := verdictOf(ev, rca.Options{})
	if v.Class != want.Class || len(v.Culprits) != 1 || v.Culprits[0].Rank != 0 || v.Slowdown < 0.97*want.Slowdown {
		t.Errorf("%s %s, without overlaps %s", v.Class, v.Summary, want.Summary)
	}
}

// The receive of a group whose data waits for its kernel begins with the send of the group: the time before is the rank's own, not a wait.
func TestReceiveBeginsWithItsGroup(t *testing.T) {
	const ms = int64(time.Millisecond)
	op := func(fn string, number, entered, end int64) rca.Segment {
		return rca.Segment{Comm: "ep", Number: number, GroupOrdinal: 1 + number%2, Seq: number / 2, Func: fn, Peer: 1, Iteration: -1, Start: 1 + number, Entered: entered, End: end}
	}
	for _, c := range []struct {
		name             string
		entered, receive int64 // When the send's data was ready, and when the receive ended.
		enter            int64
	}{
		{"the data was there", 50 * ms, 50*ms + 1000, 50 * ms},
		{"its end is seen first", 50 * ms, 50*ms - 1000, 50*ms - 1000},
		{"the data comes late", 50 * ms, 90 * ms, 50 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops := []rca.Segment{
				op("Send", 0, 10*ms, 11*ms), op("Recv", 1, 0, 20*ms),
				op("Send", 2, c.entered, 51*ms), op("Recv", 3, 0, c.receive),
			}
			tl := newTimeline(job.NewIndex(&rca.Evidence{Ranks: []rca.Rank{{ID: 0, Caps: rca.SeesKernels}, {ID: 1}}}, rca.Options{}), ops)
			for i := range tl.segs {
				s := &tl.segs[i]
				if gap := c.enter - 20*ms; s.number >= 2 && (s.enter != c.enter || s.gap != gap) {
					t.Errorf("%s enters at %d, %d after the one before; want %d, %d", s.record.Func, s.enter, s.gap, c.enter, gap)
				}
			}
		})
	}
}
