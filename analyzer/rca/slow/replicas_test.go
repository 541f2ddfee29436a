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

// seenOnly leaves of evidence what a search has that asked for some ranks.
func seenOnly(ev rca.Evidence, seen func(rank int) bool) rca.Evidence {
	ev.Partial = true
	ev.Ranks = slices.DeleteFunc(slices.Clone(ev.Ranks), func(r rca.Rank) bool { return !seen(r.ID) })
	ev.Timeline = slices.DeleteFunc(slices.Clone(ev.Timeline), func(s rca.Segment) bool { return !seen(s.Rank) })
	return ev
}

// TestH6PartialViews: what a search sees of a job in which something has become slower.
func TestH6PartialViews(t *testing.T) {
	const dp, pp, tp, onset = 8, 4, 2, 6
	j := rcatest.NewSlowJob(dp, pp, tp)
	rank := func(stage, replica int) int { return j.At(stage, replica, 0) }
	slower := func(is func(r int) bool) func(r, it int) float64 {
		return func(r, it int) float64 {
			if it >= onset && is(r) {
				return 1.6
			}
			return 1
		}
	}
	stage, replica := func(r int) int { return r / tp / dp }, func(r int) int { return r / tp % dp }
	for _, c := range []struct {
		name    string
		compute func(r, it int) float64
		seen    func(r int) bool
		class   rca.Class
		culprit int // -1 none.
		asks    bool
	}{
		{
			"a rank among its replicas", slower(func(r int) bool { return r == rank(1, 3) }),
			func(r int) bool { return replica(r)%2 == 1 }, rca.SlowCompute, rank(1, 3), false,
		},
		{
			"a rank whose replicas were not seen is compared first", slower(func(r int) bool { return r == rank(1, 3) }),
			func(r int) bool { return stage(r) != 1 && replica(r) < 2 || stage(r) == 1 && replica(r) == 3 }, rca.SlowCompute, rank(1, 3), true,
		},
		{
			"a stage in the middle", slower(func(r int) bool { return stage(r) == 1 }),
			func(r int) bool { return replica(r) < 3 }, rca.Imbalance, -1, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sj := rcatest.NewSlowJob(dp, pp, tp)
			sj.Compute = c.compute
			v := verdictOf(seenOnly(sj.Evidence(), c.seen), rca.Options{})
			if v.Class != c.class || (len(v.Ask) > 0) != c.asks {
				t.Errorf("%s, asks %v; want %s; %s", v.Class, v.Ask, c.class, v.Summary)
			}
			if c.culprit >= 0 && (len(v.Culprits) != 1 || v.Culprits[0].Rank != c.culprit) {
				t.Errorf("accuses %v, want rank %d", v.Culprits, c.culprit)
			}
			for _, r := range v.Ask {
				if stage(r) != stage(c.culprit) || c.seen(r) {
					t.Errorf("asks rank %d, of stage %d", r, stage(r))
				}
			}
		})
	}
}

// TestWholeStagesAreNobodysFault: ranks of the stages in the middle run the same program, but two whole stages on several hosts that take longer
// have been given more to do.
func TestWholeStagesAreNobodysFault(t *testing.T) {
	const dp, pp, tp = 8, 8, 2
	sj := rcatest.NewSlowJob(dp, pp, tp)
	sj.Compute = func(r, _ int) float64 {
		if stage := r / tp / dp; stage == 2 || stage == 3 {
			return 2
		}
		return 1
	}
	if v := verdictOf(sj.Evidence(), rca.Options{}); v.Page || slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return c.Rank >= 0 }) {
		t.Errorf("%s, %v: %s", v.Class, v.Culprits, v.Summary)
	}
}

// TestH6OtherEndsAreSeenFirst: before a rank's network is accused, those it sends to and receives from are looked at.
func TestH6OtherEndsAreSeenFirst(t *testing.T) {
	const onset, culprit = 6, 6
	sj := rcatest.NewSlowJob(8, 1, 2)
	sj.Iters = 16
	sj.Send = func(r, it int) float64 { return pick(r == culprit && it >= onset, 4.0, 1.0) }
	ev := sj.Evidence()
	for i := range ev.Ranks {
		if ev.Ranks[i].ID == culprit {
			ev.Ranks[i].Memberships = []rca.Membership{{Comm: "dp_0", CommRank: 3, Called: 17, Started: 17, Completed: 16, InFlight: []rca.Op{{
				Number: 16, Func: "ReduceScatter", Peer: -1, State: rca.OpMoving, Age: time.Millisecond, Flows: []rca.Flow{{Send: true, Peer: 4}, {Peer: 2}, {Peer: 3000}},
			}}}}
		}
	}
	for _, c := range []struct {
		name string
		seen []int
		asks []int
	}{
		{"neither", []int{0, 1, 6, 7, 12, 13}, []int{8, 4}},
		{"both", []int{4, 5, 6, 7, 8, 9, 12, 13}, nil},
	} {
		v := verdictOf(seenOnly(ev, func(r int) bool { return slices.Contains(c.seen, r) }), rca.Options{})
		if v.Class != rca.SlowComm || !slices.Equal(v.Ask, c.asks) {
			t.Errorf("%s seen: %s asks %v, want %v; %s", c.name, v.Class, v.Ask, c.asks, v.Summary)
		}
	}
}

// TestH6AccusedIsSeenFirst: a rank that only others' flows speak of is looked at itself before it is accused.
func TestH6AccusedIsSeenFirst(t *testing.T) {
	ev := rca.Evidence{WorldSize: 2, Ranks: []rca.Rank{{ID: 0, Host: "node0"}}, Comms: []rca.Comm{{ID: "dp", Size: 2, Members: []int{0, 1}}}}
	x := job.NewIndex(&ev, rca.Options{}.WithDefaults())
	a := unseenWork(&ev)
	if got := a.unseenEnds([]int32{x.NodeOf(1)}); !slices.Equal(got, []int{1}) {
		t.Errorf("asks %v, want rank 1", got)
	}
}
