// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// without loses a tenth of a timeline's records, and gives what is lost.
func without(tl []rca.Segment, seed uint64) (kept, lost []rca.Segment) {
	rng := rand.New(rand.NewPCG(seed, 10))
	for _, s := range tl {
		if rng.IntN(10) == 0 {
			lost = append(lost, s)
		} else {
			kept = append(kept, s)
		}
	}
	return kept, lost
}

// timelineOf is the evidence's timeline.
func timelineOf(ev *rca.Evidence) *timeline {
	return newTimeline(job.NewIndex(ev, rca.Options{}.WithDefaults()), ev.Timeline)
}

// TestSlownessWithoutATenthOfTheRecords: the same is said of the same jobs, or nothing; never is somebody else accused.
func TestSlownessWithoutATenthOfTheRecords(t *testing.T) {
	seeds := rcatest.Draws(4)
	right, runs := 0, 0
	for _, c := range slowCases {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				j := rcatest.NewSlowJob(c.dp, c.pp, c.tp)
				c.edit(j)
				ev := j.Evidence()
				ev.Timeline, _ = without(ev.Timeline, seed)
				v := verdictOf(ev, rca.Options{})
				runs++
				if v.Class == c.want.class && slices.Equal(rcatest.CulpritRanks(v), c.want.ranks) {
					right++
					continue
				}
				for _, r := range rcatest.Accused(v) {
					if !slices.Contains(c.want.ranks, r) {
						t.Errorf("seed %d: rank %d is accused: %s", seed, r, v.Summary)
					}
				}
				t.Logf("seed %d: %s %s", seed, v.Class, v.Summary)
			}
		})
	}
	t.Logf("right %d of %d", right, runs)
	if 10*right < 9*runs {
		t.Errorf("right %d of %d", right, runs)
	}
}

// TestLostRecordsArePutBack: a lost operation is put back where it was, by clocks that disagree by half an hour; what the rank
// computed before it is inferred.
func TestLostRecordsArePutBack(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Compute = rcatest.One(5, 1.5)
	j.Offset = func(r int) int64 { return int64(r) * int64(2*time.Minute) }
	ev := j.Evidence()
	whole := timelineOf(&ev)
	kept, lost := without(ev.Timeline, 1)
	ev.Timeline = kept
	tl, did := timelineOf(&ev).restore()
	type key struct {
		rank, peer int
		comm       rca.CommID
		fn         string
		seq        int64
	}
	put := map[key]*seg{}
	for i := range tl.segs {
		if s := &tl.segs[i]; s.restored {
			put[key{s.record.Rank, s.peer, s.record.Comm, s.record.Func, s.seq}] = s
		}
	}
	found, ends, enters := 0, 0, 0
	for _, l := range lost {
		s := put[key{l.Rank, l.Peer, l.Comm, l.Func, l.Seq}]
		if s == nil {
			continue
		}
		found++
		const near = 500 * time.Microsecond
		if time.Duration(s.end-l.End).Abs() < near {
			ends++
		}
		if time.Duration(s.enter-l.Entered).Abs() < 4*near {
			enters++
		}
	}
	if did.changed != len(put) {
		t.Errorf("restore says that it put %d back, and did %d", did.changed, len(put))
	}
	t.Logf("of %d lost %d are put back, %d end right and %d are entered right", len(lost), found, ends, enters)
	if len(put) > found {
		t.Errorf("%d were put in that never were", len(put)-found)
	}
	if 10*found < 9*len(lost) || 10*ends < 9*found || 10*enters < 9*found {
		t.Errorf("of %d lost %d are put back, %d end right and %d are entered right", len(lost), found, ends, enters)
	}
	if tl.iters != whole.iters || tl.roles != whole.roles {
		t.Errorf("%d iterations of %d roles, with all records %d of %d", tl.iters, tl.roles, whole.iters, whole.roles)
	}
}

// TestUsualWorkDespiteHoles: what a rank computes in an iteration is the same with a tenth of the records lost.
func TestUsualWorkDespiteHoles(t *testing.T) {
	for _, tp := range []int{1, 2} {
		j := rcatest.NewSlowJob(4, 2, tp)
		j.Compute = rcatest.One(3, 1.5)
		ev := j.Evidence()
		want, _ := usualWork(timelineOf(&ev))
		ev.Timeline, _ = without(ev.Timeline, 2)
		restored, _ := timelineOf(&ev).restore()
		got, _ := usualWork(restored)
		for n := range want {
			if r := got[n] / want[n]; math.Abs(r-1) > 0.03 {
				t.Errorf("tp %d, rank %d: %.4g ms, with all records %.4g ms", tp, n, got[n]/1e6, want[n]/1e6)
			}
		}
	}
}

// exchanges are iterations in which each of three ranks computes, and then sends to and receives from both others in one group
// call. What comes from rank 2 takes twice as long.
func exchanges(iters int) rca.Evidence {
	ev := rca.Evidence{WorldSize: 3, Comms: []rca.Comm{{ID: "ep", Name: "ep", Size: 3, Members: []int{0, 1, 2}}}}
	for r := range 3 {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprint("node", r), Caps: rca.SeesCalls | rca.SeesCompletion | rca.SeesKernels})
	}
	ms := int64(time.Millisecond)
	now := int64(time.Hour)
	for it := range iters {
		now += 30 * ms
		for r := range 3 {
			number := int64(4 * it)
			for d := 1; d < 3; d++ {
				p := (r + d) % 3
				takes := func(from int) int64 { return pick(from == 2, 20*ms, 10*ms) + int64(r+d)*int64(time.Microsecond) }
				s := rca.Segment{
					Rank: r, Kind: rca.SegmentOp, Iteration: -1, Comm: "ep", Number: number, Seq: int64(it), Func: "Send", Peer: p, Bytes: 1 << 20,
					Start: now, Entered: now + 1000, End: now + takes(r), Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1,
				}
				ev.Timeline = append(ev.Timeline, s)
				s.Func, s.Number, s.End = "Recv", number+1, now+takes(p)
				ev.Timeline = append(ev.Timeline, s)
				number += 2
			}
		}
		now += 20 * ms
	}
	return ev
}

// TestLostPartOfAGroupCall: a lost send or receive of a group call was entered with the rest of it, and shifts no other.
func TestLostPartOfAGroupCall(t *testing.T) {
	ev := exchanges(40)
	whole := timelineOf(&ev)
	kept, lost := without(ev.Timeline, 3)
	ev.Timeline = kept
	tl, _ := timelineOf(&ev).restore()
	entered := map[int64]bool{}
	for _, s := range whole.segs {
		entered[s.enter] = true
	}
	n := 0
	for i := range tl.segs {
		s := &tl.segs[i]
		if !s.restored {
			continue
		}
		n++
		if !entered[s.enter] {
			t.Errorf("%s %d of rank %d with %d is entered %v off", s.record.Func, s.seq, s.record.Rank, s.peer, time.Duration(s.enter-int64(time.Hour))%(50*time.Millisecond))
		}
	}
	if n < len(lost)/2 {
		t.Errorf("%d of %d put back", n, len(lost))
	}
	if tl.iters != whole.iters {
		t.Errorf("%d iterations, with all records %d", tl.iters, whole.iters)
	}
	// A place is the same work in every iteration: its segments have one partner and one function.
	type work struct {
		fn   string
		peer int
	}
	at := map[[2]int32]work{}
	for i := range tl.segs {
		s := &tl.segs[i]
		k, w := [2]int32{s.node, s.pos}, work{s.record.Func, s.peer}
		if was, ok := at[k]; ok && was != w {
			t.Fatalf("place %d of rank %d is %v and %v", s.pos, s.record.Rank, was, w)
		}
		at[k] = w
	}
}

// TestNoOwnWorkWithoutStarts: where kernels were not watched, the time between two operations is no computation, and who did not
// enter in time is not told by it.
func TestNoOwnWorkWithoutStarts(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Iters = 16
	j.Compute = func(r, it int) float64 { return pick(r%4 < 2 && it >= 8, 1.6, 1.0) }
	ev := j.Evidence()
	for i := range ev.Ranks {
		ev.Ranks[i].Caps &^= rca.SeesKernels
	}
	for i := range ev.Timeline {
		ev.Timeline[i].Entered = 0
	}
	v := verdictOf(ev, rca.Options{})
	if len(rcatest.Accused(v)) > 0 {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
	if v.Class != rca.Unknown && v.Confidence > 0.6 {
		t.Errorf("%s is said with %g", v.Class, v.Confidence)
	}
}

// TestSilentCulpritIsNoGlobalSlowness: that all who were seen got slower says nothing of everybody while some were not.
func TestSilentCulpritIsNoGlobalSlowness(t *testing.T) {
	j := rcatest.NewSlowJob(4, 1, 2)
	j.Iters = 16
	j.Compute = func(r, it int) float64 { return pick(r == 2 && it >= 8, 1.6, 1.0) }
	ev := j.Evidence()
	gone := func(r int) bool { return r == 2 || r == 3 }
	ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool { return gone(r.ID) })
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return gone(s.Rank) })
	slowWant{class: rca.Unknown, cause: rca.CauseUnknown, phrase: "2 of 8 ranks were not seen"}.check(t, verdictOf(ev, rca.Options{}))
}

// TestUnknownPeersAreNoMembers: of a pipeline only the first, a middle and the last stage are asked, so that nobody knows to whom they send and from
// whom they receive. Each rank numbers what it calls on the pipeline's communicator by itself: what has the same number on two ranks was not
// done together, and that the last stage has half as many numbers as a middle one is no loss of records.
func TestUnknownPeersAreNoMembers(t *testing.T) {
	const slow, stages = 1, 8
	j := rcatest.NewSlowJob(2, stages, 2)
	j.Compute = rcatest.One(slow, 1.6)
	ev := j.Evidence()
	seen := func(r int) bool { return slices.Contains([]int{0, 4, stages - 1}, r/4) }
	ev.Partial = true
	ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool { return !seen(r.ID) })
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return !seen(s.Rank) })
	for i := range ev.Comms {
		for k, r := range ev.Comms[i].Members {
			ev.Comms[i].Members[k] = pick(seen(r), r, -1)
		}
	}
	type caller struct {
		rank int
		comm rca.CommID
	}
	calls := map[caller]int64{}
	for i := range ev.Timeline {
		if s := &ev.Timeline[i]; direction(s.Func) != 0 {
			c := caller{s.Rank, s.Comm}
			s.Number = calls[c]
			calls[c]++
			s.Peer = pick(s.Peer >= 0 && seen(s.Peer), s.Peer, -1)
		}
	}
	v := verdictOf(ev, rca.Options{})
	if got := rcatest.Accused(v); !slices.Equal(got, []int{slow}) || len(v.Repairs) > 0 {
		t.Errorf("%s accuses %v, want %d; repairs %+v: %s", v.Row, got, slow, v.Repairs, v.Summary)
	}
}
