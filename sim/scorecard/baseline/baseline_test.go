// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// standing is a rank in one communicator that has finished five operations, with so many called, and network steps done.
func standing(rank int, called int64, in, fn string, done int64) rca.Rank {
	const completed = 5
	m := rca.Membership{Comm: "c", CommRank: rank, Completed: completed, Called: called}
	if called > completed {
		op := rca.Op{Number: completed, Func: fn, Bytes: 1 << 20, State: rca.OpEnqueued, Stuck: 10 * time.Second}
		if in == "in" {
			op.State = rca.OpMoving
			op.Flows = []rca.Flow{{Send: true, Total: 64, Done: done}}
		}
		m.InFlight = []rca.Op{op}
	}
	return rca.Rank{ID: rank, Memberships: []rca.Membership{m}}
}

func TestHangBaselines(t *testing.T) {
	const ar = "AllReduce"
	for _, c := range []struct {
		name        string
		ranks       []rca.Rank
		missing     []rca.Missing
		last, asRAS int
	}{
		{
			"one has not called",
			[]rca.Rank{standing(0, 6, "in", ar, 9), standing(1, 6, "in", ar, 9), standing(2, 5, "", ar, 0), standing(3, 6, "in", ar, 9)},
			nil, 2, 2,
		},
		{
			"one has called and not entered",
			[]rca.Rank{standing(0, 6, "in", ar, 9), standing(1, 6, "", ar, 0), standing(2, 6, "in", ar, 9), standing(3, 6, "in", ar, 9)},
			nil, 1, -1,
		},
		{
			"another operation",
			[]rca.Rank{standing(0, 6, "in", ar, 9), standing(1, 6, "in", ar, 9), standing(2, 6, "in", ar, 9), standing(3, 6, "in", "AllGather", 9)},
			nil, -1, -1,
		},
		{
			"fewest steps",
			[]rca.Rank{standing(0, 6, "in", ar, 9), standing(1, 6, "in", ar, 4), standing(2, 6, "in", ar, 9), standing(3, 6, "in", ar, 9)},
			nil, -1, -1,
		},
		{
			"a silent node",
			[]rca.Rank{standing(0, 6, "in", ar, 9), standing(1, 6, "in", ar, 9), standing(2, 6, "in", ar, 9)},
			[]rca.Missing{{What: "exporter", Ranks: []int{3}}},
			-1, 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := &rca.Evidence{Ranks: c.ranks, Missing: c.missing, Comms: []rca.Comm{{ID: "c", Size: 4, Members: []int{0, 1, 2, -1}}}}
			b := newBench(ev)
			if b.stuck != "c" {
				t.Fatalf("stuck is %q", b.stuck)
			}
			for name, x := range map[string][2]int{"last arriver": {b.lastArriverHang(), c.last}, "ras": {b.ras(), c.asRAS}} {
				if x[0] != x[1] {
					t.Errorf("%s names %d, want %d", name, x[0], x[1])
				}
			}
		})
	}
}

// finished are rounds of a group of four: in the second half of them rank 2 is late, or all are slow because rank 1 is.
func finished(late, slow bool) *rca.Evidence {
	ev := &rca.Evidence{}
	for r := range 4 {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Memberships: []rca.Membership{{Comm: "c", CommRank: r}}})
	}
	const n = 40
	for i := range n {
		for r := range 4 {
			stay, active := int64(10e6)+int64(r)*1000, time.Millisecond
			if i >= n/2 && late {
				if stay = 110e6; r == 2 {
					stay = 10e6
				}
			}
			if i >= n/2 && slow {
				if stay = 110e6 + int64(r)*1000; r == 1 {
					active = 90 * time.Millisecond
				}
			}
			ev.Timeline = append(ev.Timeline, rca.Segment{
				Rank: r, Comm: "c", Number: int64(i), Func: "AllReduce", Peer: -1, Bytes: 1 << 20, Start: 1, Entered: int64(i)*1e9 + 1, End: int64(i)*1e9 + 1 + stay, Active: active, Steps: 10,
			})
		}
	}
	return ev
}

func TestSlowBaselines(t *testing.T) {
	for _, c := range []struct {
		name string
		ev   *rca.Evidence
		last int
	}{
		{"healthy", finished(false, false), 0},
		{"one late", finished(true, false), 2},
		{"one sends slowly", finished(false, true), 0},
	} {
		if got := newBench(c.ev).lastArriverSlow(); got != c.last {
			t.Errorf("%s: last arriver names %d, want %d", c.name, got, c.last)
		}
	}
}

func TestThreeSigma(t *testing.T) {
	ev := &rca.Evidence{}
	for r := range 16 {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Memberships: []rca.Membership{{Comm: "c", CommRank: r}}})
		ev.Timeline = append(ev.Timeline, rca.Segment{Rank: r, Comm: "c", Number: 0, Func: "AllReduce", Peer: -1, Bytes: 1 << 20, Entered: 1, End: 1 + 10e6})
	}
	if got := newBench(ev).threeSigma(); got != -1 {
		t.Errorf("nothing is slow, names %d", got)
	}
	ev.Timeline[len(ev.Timeline)-1].End *= 3
	if got := newBench(ev).threeSigma(); got != 15 {
		t.Errorf("names %d, want 15", got)
	}
}
