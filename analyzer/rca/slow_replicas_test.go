// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"slices"
	"testing"
)

// seenOnly leaves of evidence what a search has that asked for some ranks.
func seenOnly(ev Evidence, seen func(rank int) bool) Evidence {
	ev.Partial = true
	ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r Rank) bool { return !seen(r.ID) })
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s Segment) bool { return !seen(s.Rank) })
	return ev
}

// TestH6PartialViews: what a search sees of a job in which something has become slower.
func TestH6PartialViews(t *testing.T) {
	const dp, pp, tp, onset = 8, 4, 2, 6
	j := newSlowJob(dp, pp, tp)
	rank := func(stage, replica int) int { return j.at(stage, replica, 0) }
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
		class   Class
		culprit int // -1 none.
		asks    bool
	}{
		{
			"a rank among its replicas", slower(func(r int) bool { return r == rank(1, 3) }),
			func(r int) bool { return replica(r)%2 == 1 }, SlowCompute, rank(1, 3), false,
		},
		{
			"a rank whose replicas were not seen is compared first", slower(func(r int) bool { return r == rank(1, 3) }),
			func(r int) bool { return stage(r) != 1 && replica(r) < 2 || stage(r) == 1 && replica(r) == 3 }, SlowCompute, rank(1, 3), true,
		},
		{
			"a stage in the middle", slower(func(r int) bool { return stage(r) == 1 }),
			func(r int) bool { return replica(r) < 3 }, Imbalance, -1, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := newSlowJob(dp, pp, tp)
			job.compute = c.compute
			v := Analyze(seenOnly(job.evidence(), c.seen), Options{})
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
