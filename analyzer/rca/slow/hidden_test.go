// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestUnrecordedBarrierAccusesNobody: a rank whose gap ends when others' do has waited, however long it is.
func TestUnrecordedBarrierAccusesNobody(t *testing.T) {
	const ms, ranks, iters = int64(1_000_000), 6, 12
	ev := rca.Evidence{JobID: "barrier", WorldSize: ranks, Comms: []rca.Comm{{ID: "dp", Name: "dp", Size: ranks, Members: []int{0, 1, 2, 3, 4, 5}}}}
	for r := range ranks {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, State: rca.ProcessRunning})
	}
	now := int64(1e12)
	for it := range iters {
		ends := make([]int64, ranks)
		last := int64(0)
		for r := range ranks {
			// Rank 5 has much the least to do, and so the longest gap.
			ends[r] = now + 200*ms + 30*ms*int64((r*5+it*3)%4)
			if r == 5 {
				ends[r] = now + 60*ms
			}
			last = max(last, ends[r])
		}
		for r := range ranks {
			work := rca.Segment{Rank: r, Kind: rca.SegmentCompute, Func: "work", Iteration: it, Number: -1, Peer: -1, Start: now, End: ends[r], Stage: -1, DataRank: -1, Layer: -1}
			op := work
			op.Kind, op.Func, op.Comm, op.Seq, op.Start, op.End = rca.SegmentOp, "AllReduce", "dp", 0, last+ms, last+11*ms
			ev.Timeline = append(ev.Timeline, work, op)
		}
		now = last + 11*ms
	}
	if v := verdictOf(ev, rca.Options{}); len(rcatest.Accused(v)) > 0 && (v.Class == rca.SlowCompute || v.Class == rca.SlowComm || v.Class == rca.SlowMixed) {
		t.Errorf("accuses %v: %s", rcatest.Accused(v), v.Summary)
	}
}
