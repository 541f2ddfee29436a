// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestP2Lags finds the queue pair that stands or is slow beside its sisters, and none where all are alike, where nothing compares, and where
// what looks slow only sends less at a time.
func TestP2Lags(t *testing.T) {
	t.Parallel()
	const now, second, mib = 100e9, 1e9, 1 << 20
	// In the window each sent 1,024 blocks; epochs says how many of 32.768 µs that took.
	pair := func(index uint32, epochs uint32, change func(*QP)) QP {
		q := QP{
			Index: index, Generation: 1, QPNum: 1000 + index, CommIndex: 3, CommGeneration: 1, Peer: 5, Epochs: epochs, SendBytes: 1024 * mib,
			SendsPosted: 1024, SendsCompleted: 1024, LastPostNS: now - second/1000, LastCompletionNS: now - second/2000,
		}
		if change != nil {
			change(&q)
		}
		return q
	}
	stands := func(q *QP) { q.SendsCompleted, q.LastPostNS, q.LastCompletionNS = 1020, now-4*second, now-5*second }
	small := func(q *QP) { q.SendBytes /= 64 }
	rate := func(epochs uint32) float64 { return 1024 * mib / (float64(epochs) * EpochNS / 1e9) }
	for _, c := range []struct {
		name   string
		before []QP
		now    []QP
		want   []Lag
	}{
		{"alike", nil, []QP{pair(0, 1000, nil), pair(1, 1100, nil), pair(2, 900, nil)}, nil},
		{
			"a third", nil,
			[]QP{pair(0, 1000, nil), pair(1, 3000, nil), pair(2, 1100, nil)},
			[]Lag{{QPIndex: 1, Kind: LagSlow, Sisters: 2, BytesPerSecond: rate(3000), SistersBytesPerSecond: rate(1100)}},
		},
		{
			"two", nil,
			[]QP{pair(0, 1000, nil), pair(1, 2100, nil)},
			[]Lag{{QPIndex: 1, Kind: LagSlow, Sisters: 1, BytesPerSecond: rate(2100), SistersBytesPerSecond: rate(1000)}},
		},
		{"less at a time", nil, []QP{pair(0, 1000, nil), pair(1, 3000, small), pair(2, 1000, nil)}, nil},
		{"another peer", nil, []QP{pair(0, 1000, nil), pair(1, 3000, func(q *QP) { q.Peer = 6 })}, nil},
		{"another communicator", nil, []QP{pair(0, 1000, nil), pair(1, 3000, func(q *QP) { q.CommGeneration = 2 })}, nil},
		{"nobody's", nil, []QP{pair(0, 1000, func(q *QP) { q.CommIndex = -1 }), pair(1, 3000, func(q *QP) { q.CommIndex = -1 })}, nil},
		{"too little", nil, []QP{pair(0, 8, nil), pair(1, 31, nil)}, nil},
		{
			"long ago",
			[]QP{pair(0, 0, func(q *QP) { q.SendBytes, q.SendsPosted = 0, 0 }), pair(1, 2000, func(q *QP) { q.SendBytes, q.SendsPosted = 0, 0 })},
			[]QP{pair(0, 1000, nil), pair(1, 3000, nil)},
			nil,
		},
		{
			"made again",
			[]QP{pair(0, 0, func(q *QP) { q.SendBytes, q.SendsPosted = 0, 0 }), pair(1, 2000, func(q *QP) { q.Generation = 0 })},
			[]QP{pair(0, 1000, nil), pair(1, 3000, nil)},
			[]Lag{{QPIndex: 1, Kind: LagSlow, Sisters: 1, BytesPerSecond: rate(3000), SistersBytesPerSecond: rate(1000)}},
		},
		{"stands", nil, []QP{pair(0, 1000, nil), pair(1, 1000, stands), pair(2, 1000, nil)}, []Lag{{QPIndex: 1, Kind: LagStanding, Sisters: 2, StuckNS: 4 * second}}},
		{"all stand", nil, []QP{pair(0, 1000, stands), pair(1, 1000, stands)}, nil},
		{
			"all but one stand", nil,
			[]QP{pair(0, 1000, stands), pair(1, 1000, stands), pair(2, 1000, nil)},
			[]Lag{{QPIndex: 0, Kind: LagStanding, Sisters: 2, StuckNS: 4 * second}, {QPIndex: 1, Kind: LagStanding, Sisters: 2, StuckNS: 4 * second}},
		},
		{"a pause", nil, []QP{pair(0, 1000, func(q *QP) { q.LastPostNS, q.LastCompletionNS = 1, 1 }), pair(1, 1000, nil)}, nil},
		{"completed more than posted", nil, []QP{pair(0, 1000, func(q *QP) { q.SendsCompleted, q.LastPostNS, q.LastCompletionNS = 1<<63, 1, 1 }), pair(1, 1000, nil)}, nil},
		{"many", nil, slices.Collect(func(yield func(QP) bool) {
			for i := range uint32(1 << 14) { // One of them is slow.
				if !yield(pair(i, 1000+2000*(i/(1<<14-1)), nil)) {
					return
				}
			}
		}), []Lag{{QPIndex: 1<<14 - 1, Kind: LagSlow, Sisters: mostSisters, BytesPerSecond: rate(3000), SistersBytesPerSecond: rate(1000)}}},
	} {
		if diff := cmp.Diff(c.want, Lags(c.before, c.now, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
