// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestMajorityOutside: a minority is not right because it waits, and a majority is not guilty because it is outside. One call too
// many explains the same as many ranks that are held up at once.
func TestMajorityOutside(t *testing.T) {
	for _, c := range []struct {
		name   string
		inside []int
		edit   func(*hungJob)
		class  rca.Class
		ranks  []int
	}{
		{"one of four is ahead", []int{0}, func(*hungJob) {}, rca.Unknown, []int{-1}},
		{"two of five are ahead", []int{0, 3}, func(*hungJob) {}, rca.Unknown, []int{-1}},
		{"half of them", []int{0, 1}, func(*hungJob) {}, rca.NotEntered, []int{2, 3}},
		{"all the others are stopped", []int{0}, func(j *hungJob) {
			for _, r := range []int{1, 2, 3} {
				j.rank(r).State = rca.ProcessStopped
			}
		}, rca.NotEntered, []int{1, 2, 3}},
		{"of the others one is further behind", []int{0}, func(j *hungJob) { j.on(2, "dp").Called-- }, rca.NotEntered, []int{1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := []int{0, 1, 2, 3}
			if len(c.inside) == 2 && c.inside[1] == 3 {
				members = append(members, 4)
			}
			j := newHungJob(len(members)).comm("dp", members...).in("dp", "AllReduce", c.inside)
			c.edit(j)
			v := j.verdict()
			if v.Class != c.class || !slices.Equal(rcatest.CulpritRanks(v), c.ranks) {
				t.Errorf("%s %v (%.2f): %s", v.Class, rcatest.CulpritRanks(v), v.Confidence, v.Summary)
			}
			if (c.class == rca.Unknown) != (v.Standstill > 0) {
				t.Errorf("%s, and nobody is named for %g s", v.Class, v.Standstill)
			}
			if c.class == rca.Unknown && !strings.Contains(v.Summary, "one call too many") {
				t.Errorf("does not tell both stories: %s", v.Summary)
			}
		})
	}
}

// TestFirstMissedOperationIsNamed: a rank is missing in everything its peers do after the operation that it did not call. The
// first one shows where in its program the rank stands.
func TestFirstMissedOperationIsNamed(t *testing.T) {
	j := newHungJob(4).comm("world", 0, 1, 2, 3).comm("tp_0", 0, 1).comm("tp_1", 2, 3)
	j.in("tp_0", "AllReduce", []int{0}).in("world", "AllReduce", []int{2, 3})
	if v := j.verdict(); v.Comm != "tp_0" || !slices.Equal(rcatest.CulpritRanks(v), []int{1}) {
		t.Errorf("%v in %s of %s: %s", rcatest.CulpritRanks(v), v.Op, v.Comm, v.Summary)
	}
}

// TestMissedHalfIsNamed: the verdict names the half of a send/recv pair that is missing: rank 2 waits to receive, so rank 1 has
// not called a Send.
func TestMissedHalfIsNamed(t *testing.T) {
	j := newHungJob(3).comm("pp", 0, 1, 2).in("pp", "Recv", []int{2}, func(_ int, o *rca.Op) { o.Peer, o.Number = 1, -1 })
	if v := j.verdict(); !strings.Contains(v.Summary, "the Send that rank 2's Recv") || !slices.Equal(rcatest.CulpritRanks(v), []int{1}) {
		t.Errorf("%v: %s", rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestWhoGetsOnIsAskedForItsPast: a rank that others wait for and that makes progress is slow at most, which finished work must
// show.
func TestWhoGetsOnIsAskedForItsPast(t *testing.T) {
	j := newHungJob(3).comm("dp", 0, 1).comm("tp", 1, 2).in("dp", "AllReduce", []int{0})
	j.in("tp", "AllReduce", []int{1, 2}, func(_ int, o *rca.Op) { o.Stuck, o.Age = 0, 0 })
	if v := j.verdict(); !v.Moving || v.Class != rca.Unknown || v.Standstill != 0 {
		t.Errorf("%s, moving %v: %s", v.Class, v.Moving, v.Summary)
	}
	j.on(1, "tp").InFlight[0].Stuck, j.on(2, "tp").InFlight[0].Stuck = 9e9, 9e9
	if v := j.verdict(); v.Moving {
		t.Errorf("nobody gets on: %s", v.Summary)
	}
}

// TestUnseenSenderHasNoStandIn: where only sends and receives run between two ranks, a rank that is done and waits for nobody is
// not the one that an unseen rank waits for.
func TestUnseenSenderHasNoStandIn(t *testing.T) {
	j := newHungJob(4).comm("pp", 0, 1, 2, 3).in("pp", "Recv", []int{3}, func(_ int, o *rca.Op) { o.Peer, o.Number = 2, -1 })
	for r := range 4 {
		j.on(r, "pp").FuncCalled = map[string]int64{"Send": 5, "Recv": 5}
	}
	j.ev.Ranks = slices.Delete(j.ev.Ranks, 2, 3)
	j.ev.Missing = []rca.Missing{{What: "rank", Name: "2", Ranks: []int{2}, Why: "no dump"}}
	if v := j.verdict(); slices.Contains(rcatest.CulpritRanks(v), 0) || slices.Contains(rcatest.CulpritRanks(v), 1) {
		t.Errorf("%v: %s", rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestHealthyOfThoseSeen: where no seen rank stands still and others were not seen, the verdict says so.
func TestHealthyOfThoseSeen(t *testing.T) {
	j := newHungJob(4).comm("dp", 0, 1, 2, 3)
	whole := j.verdict()
	j.ev.Ranks = j.ev.Ranks[:2] // Prometheus knows only two ranks.
	half := j.verdict()
	if whole.Class != rca.Healthy || strings.Contains(whole.Summary, "seen") || len(whole.Missing) > 0 {
		t.Errorf("all seen: %s %q, missing %q", whole.Class, whole.Summary, whole.Missing)
	}
	if !strings.Contains(half.Summary, "2 of 4 were not seen") || len(half.Missing) != 1 || half.Confidence >= whole.Confidence {
		t.Errorf("half seen: %s %q, missing %q, %g of %g", half.Class, half.Summary, half.Missing, half.Confidence, whole.Confidence)
	}
	j.ev.Partial = true // In a large job only a few ranks are asked, on purpose.
	if v := j.verdict(); strings.Contains(v.Summary, "seen") {
		t.Errorf("a part asked: %q", v.Summary)
	}
}

// TestNoPastIsNotHealthy: that no rank stands still shows nothing about slowness.
func TestNoPastIsNotHealthy(t *testing.T) {
	j := newHungJob(2).comm("dp", 0, 1)
	if v := j.verdict(); v.Class != rca.Healthy {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
	j.ev.PastAsked = true
	if v := j.verdict(); v.Class != rca.Unknown || !strings.Contains(v.Summary, "no finished work") {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
}
