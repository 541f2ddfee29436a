// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// pairs is a job of four ranks, of which two and two exchange gradients in each step. Of the operations of all of them only ranks 0 and 2 show
// anything, one in each step and another one in every tenth: the others are connected to them within their hosts.
func pairs(steps int, step func(k int) time.Duration) (rca.Evidence, []rca.Segment) {
	ev := rca.Evidence{JobID: "job", WorldSize: 4}
	for r := range 4 {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: []string{"node0", "node1"}[r/2], State: rca.ProcessRunning})
	}
	var tl []rca.Segment
	at, reports := time.Second, int64(0)
	for k := range steps {
		end := at + step(k)
		for r := range 4 {
			op := func(comm string, bytes, number int64, from, to time.Duration) {
				tl = append(tl, rca.Segment{
					Rank: r, Kind: rca.SegmentOp, Iteration: -1, Comm: rca.CommID(comm), Func: "AllReduce", Peer: -1, Number: number, Bytes: bytes,
					Start: int64(from), End: int64(to),
				})
			}
			op([]string{"even", "odd"}[r%2], 262144, int64(k), at, end-2*time.Millisecond)
			tl[len(tl)-1].Entered = int64(end - 4*time.Millisecond)
			if r%2 == 1 {
				continue
			}
			if k%10 == 9 {
				op("all", 4, int64(k)+reports, at+100*time.Microsecond, end-1*time.Millisecond)
			}
			op("all", 8, int64(k)+reports+int64(k%10/9), at+200*time.Microsecond, end-500*time.Microsecond)
		}
		if k%10 == 9 {
			reports++
		}
		at = end
	}
	return ev, tl
}

// TestIterationsOfAll: iterations are of the whole job. What some ranks are seen to do in every tenth step does not cut theirs into longer ones
// than the others', so that the step at which the job became slower is the same for all.
func TestIterationsOfAll(t *testing.T) {
	const steps, slowFrom = 200, 150
	ev, tl := pairs(steps, func(k int) time.Duration { return pick(k >= slowFrom, 120*time.Millisecond, 40*time.Millisecond) })
	h := repaired(newTimeline(job.NewIndex(&ev, rca.Options{}.WithDefaults()), tl))
	if h.whole.iters < steps-1 || h.whole.iters > steps {
		t.Errorf("%d iterations in %d steps", h.whole.iters, steps)
	}
	if h.past == nil || h.past.iters < slowFrom-2 || h.past.iters > slowFrom+2 || h.onset < 2.5 {
		t.Errorf("became slower by %.2f, past %v", h.onset, h.past != nil)
	}
	for k, length := range h.series {
		if length > int64(pick(k >= slowFrom-2, 150*time.Millisecond, 60*time.Millisecond)) {
			t.Errorf("iteration %d takes %v", k, time.Duration(length))
		}
	}
}

// TestPartlyUnrecorded: where some ranks have no records of operations in which others have, the replay does not know who waits for them.
func TestPartlyUnrecorded(t *testing.T) {
	ev, tl := pairs(20, func(int) time.Duration { return 40 * time.Millisecond })
	for _, callers := range [][]int{{0, 2}, {0, 1, 2, 3}} { // Of the operations of all, which 0 and 2 record.
		for r := range ev.Ranks {
			ev.Ranks[r].Memberships = []rca.Membership{{Comm: []rca.CommID{"even", "odd"}[r%2], CommRank: r / 2, Called: 20}}
			if slices.Contains(callers, r) {
				ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, rca.Membership{Comm: "all", CommRank: r, Called: 22})
			}
		}
		h := repaired(newTimeline(job.NewIndex(&ev, rca.Options{}.WithDefaults()), tl))
		if seen := newAnalysis(h).seenWhole(); seen != (len(callers) == 2) {
			t.Errorf("called by %v, seen whole: %v", callers, seen)
		}
	}
}
