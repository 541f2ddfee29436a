// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// TestEndSeenLate: what waits for a long operation may begin before its end is seen. It follows that operation however short it is
// itself, so that the wait is not taken for its rank's own work. What begins well before the end runs beside it.
func TestEndSeenLate(t *testing.T) {
	const wait = 20 * time.Millisecond
	for _, c := range []struct {
		name    string
		early   time.Duration // Before the end of the operation waited in.
		lasts   time.Duration
		follows bool
	}{
		{"after the end", -5 * time.Microsecond, 250 * time.Microsecond, true},
		{"29 us before it, and short", 29 * time.Microsecond, 250 * time.Microsecond, true},
		{"over before the end is seen", 36 * time.Microsecond, 14 * time.Microsecond, true},
		{"half a millisecond before it", 500 * time.Microsecond, time.Millisecond, false},
		{"long before it", 10 * time.Millisecond, time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			op := func(fn string, number int64, enter, end time.Duration) rca.Segment {
				return rca.Segment{
					Rank: 0, Kind: rca.SegmentOp, Iteration: -1, Comm: rca.CommID(fn), Func: fn, Peer: -1, Number: number,
					Start: int64(time.Second), Entered: int64(time.Second + enter), End: int64(time.Second + end),
				}
			}
			ev := rca.Evidence{JobID: "job", WorldSize: 1, Ranks: []rca.Rank{{ID: 0, Host: "node0", State: rca.ProcessRunning}}}
			first, waits := op("AllGather", 1, time.Millisecond, 2*time.Millisecond), op("AllReduce", 1, 12*time.Millisecond, 12*time.Millisecond+wait)
			at := 12*time.Millisecond + wait - c.early
			next := op("ReduceScatter", 1, at, at+c.lasts)
			tl := newTimeline(job.NewIndex(&ev, rca.Options{}.WithDefaults()), []rca.Segment{first, waits, next})
			var before string
			for i := range tl.segs {
				if s := &tl.segs[i]; s.record.Func == next.Func && s.pred >= 0 {
					before = tl.segs[s.pred].record.Func
				}
			}
			if want := pick(c.follows, waits.Func, first.Func); before != want {
				t.Errorf("it follows %q, want %q", before, want)
			}
		})
	}
}
