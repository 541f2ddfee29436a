// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import "testing"

// TestHeldTogether: ranks that enter at one moment after work that ended far apart were held by something unrecorded.
func TestHeldTogether(t *testing.T) {
	const ms = 1_000_000
	at := func(node int32, left, enter int64) arrival {
		return arrival{node: node, left: left * ms, enter: enter * ms}
	}
	for _, c := range []struct {
		name string
		as   []arrival
		want []int // Sizes.
	}{
		{"three held, one on its way", []arrival{at(0, 100, 900), at(1, 300, 900), at(2, 700, 901), at(3, 400, 410)}, []int{3}},
		{"two sets", []arrival{at(0, 100, 900), at(1, 300, 900), at(2, 700, 901), at(3, 100, 600), at(4, 200, 600), at(5, 300, 600)}, []int{3, 3}},
		{"all come at once", []arrival{at(0, 899, 900), at(1, 899, 900), at(2, 899, 901)}, nil},
		{"a pair is chance", []arrival{at(0, 100, 900), at(1, 300, 900), at(2, 310, 320)}, nil},
		{"nobody", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := heldTogether(c.as)
			if len(got) != len(c.want) {
				t.Fatalf("%d sets, want %v", len(got), c.want)
			}
			sizes := map[int]int{}
			for _, h := range got {
				sizes[len(h)]++
			}
			for _, n := range c.want {
				sizes[n]--
			}
			for n, k := range sizes {
				if k != 0 {
					t.Errorf("sets of %d: off by %d", n, k)
				}
			}
		})
	}
}

// TestUnrecordedBarrierAccusesNobody: a rank whose gap ends when others' do has waited, however long it is.
func TestUnrecordedBarrierAccusesNobody(t *testing.T) {
	const ms, ranks, iters = int64(1_000_000), 6, 12
	ev := Evidence{JobID: "barrier", WorldSize: ranks, Comms: []Comm{{ID: "dp", Name: "dp", Size: ranks, Members: []int{0, 1, 2, 3, 4, 5}}}}
	for r := range ranks {
		ev.Ranks = append(ev.Ranks, Rank{ID: r, State: ProcessRunning})
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
			work := Segment{Rank: r, Kind: SegmentCompute, Func: "work", Iteration: it, Number: -1, Peer: -1, Start: now, End: ends[r], Stage: -1, DataRank: -1, Layer: -1}
			op := work
			op.Kind, op.Func, op.Comm, op.Seq, op.Start, op.End = SegmentOp, "AllReduce", "dp", 0, last+ms, last+11*ms
			ev.Timeline = append(ev.Timeline, work, op)
		}
		now = last + 11*ms
	}
	x := newIndex(&ev, Options{}.withDefaults())
	if w := newTimeline(x, ev.Timeline).hiddenWaits(); len(w) != ranks*iters {
		t.Errorf("%d hidden waits, want %d", len(w), ranks*iters)
	}
	if v := Analyze(ev, Options{}); len(accused(v)) > 0 && (v.Class == SlowCompute || v.Class == SlowComm || v.Class == SlowMixed) {
		t.Errorf("accuses %v: %s", accused(v), v.Summary)
	}
}

func TestNothingHidden(t *testing.T) {
	j := newSlowJob(8, 1, 1)
	j.jitter = 0.03
	ev := j.evidence()
	x := newIndex(&ev, Options{}.withDefaults())
	if w := newTimeline(x, ev.Timeline).hiddenWaits(); len(w) > 0 {
		t.Errorf("%d waits found where nothing is hidden", len(w))
	}
}
