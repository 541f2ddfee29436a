// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestH7SpikesOfTheNetwork: transfers that are slow in few iterations of many are too little in the mean of all; laid beside the
// usual iterations they show whose they are. What was so once pages nobody (C5), and what all show is nobody's.
func TestH7SpikesOfTheNetwork(t *testing.T) {
	at := func(its ...int) func(it int) bool { return func(it int) bool { return slices.Contains(its, it) } }
	for _, c := range []struct {
		name string
		in   func(it int) bool
		send func(rank int) float64
		want slowWant
		page bool
	}{
		{"two iterations of 200", at(168, 171), func(r int) float64 { return pick(r == 5, 10.0, 1.0) }, slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "in spikes (2 of"}, false},
		{"so long that it pages", at(188, 189), func(r int) float64 { return pick(r == 5, 18.0, 1.0) }, slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "in spikes (2 of"}, true},
		{"so long ago that it matters no more", at(10, 12), func(r int) float64 { return pick(r == 5, 10.0, 1.0) }, slowWant{class: rca.Healthy, cause: rca.CauseUnknown}, false},
		{"once", at(193), func(r int) float64 { return pick(r == 5, 10.0, 1.0) }, slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "once (1 of"}, false},
		{"everybody's", at(40, 41), func(int) float64 { return 10 }, slowWant{class: rca.Healthy, cause: rca.CauseUnknown}, false},
		{"once, and everybody's", at(40), func(int) float64 { return 10 }, slowWant{class: rca.Healthy, cause: rca.CauseUnknown}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(4, 1, 2)
			j.Iters = 200
			j.Send = func(r, it int) float64 { return pick(c.in(it), c.send(r), 1.0) }
			v := verdictOf(j.Evidence(), rca.Options{})
			c.want.check(t, v)
			if c.want.class == rca.Healthy && !slices.ContainsFunc(v.Evidence, func(e string) bool { return strings.Contains(e, "no rank stands out in them") }) {
				t.Errorf("does not say that iterations took longer: %q", v.Evidence)
			}
			if v.Page != c.page {
				t.Errorf("pages: %v, want %v (slowdown %v)", v.Page, c.page, v.Slowdown)
			}
		})
	}
}

// TestSpellsAreOfTransfers: iterations that took longer because somebody computed longer leave the network alone.
func TestSpellsAreOfTransfers(t *testing.T) {
	j := rcatest.NewSlowJob(4, 1, 2)
	j.Iters = 60
	j.Host = func(r, it int) time.Duration { return pick(it == 20+r || it == 50, 200*time.Millisecond, 0) }
	if v := verdictOf(j.Evidence(), rca.Options{}); v.Class == rca.SlowComm {
		t.Errorf("%s %v: %s", v.Class, rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestLeavesMost: an explanation that accounts for less than half of what a job without kernels lost is no reason not to look at its spells.
func TestLeavesMost(t *testing.T) {
	ev := rcatest.NewSlowJob(4, 1, 2).Evidence()
	ev.Slowdown = 1.4
	little, much, everybody := finding{nodes: []int32{5}, gain: 1.1}, finding{nodes: []int32{5}, gain: 1.3}, finding{gain: 1.1}
	if a := analysisOf(&ev); a.leavesMost(&little) {
		t.Error("with kernels the replay knows what it gains")
	}
	withoutKernels(&ev)
	if a := analysisOf(&ev); !a.leavesMost(&little) || a.leavesMost(&much) || a.leavesMost(&everybody) {
		t.Errorf("little %v, much %v, everybody %v", a.leavesMost(&little), a.leavesMost(&much), a.leavesMost(&everybody))
	}
}

func TestSpellOf(t *testing.T) {
	for _, c := range []struct {
		name    string
		lengths []int64
		long    int // -1: no spell.
		times   float64
		extra   float64
		since   float64
	}{
		{"one of six", []int64{100, 100, 300, 100, 100, 100, 0}, 1, 3, 200, 600},
		{"neither usual nor long", []int64{100, 115, 100, 130, 100, 100, 0}, 1, 1.3, 30, 330},
		{"none", []int64{100, 102, 100, 99, 100, 0}, -1, 0, 0, 0},
		{"more than a few", []int64{100, 300, 100, 300, 300, 100, 300, 0}, -1, 0, 0, 0},
		{"too few to tell what is usual", []int64{100, 300, 100, 0}, -1, 0, 0, 0},
		{"nothing known", []int64{0, 0, 0}, -1, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spellOf(c.lengths)
			if s == nil {
				if c.long >= 0 {
					t.Fatal("no spell")
				}
				return
			}
			if count(s.long) != c.long || s.times != c.times || s.extra != c.extra || s.since != c.since {
				t.Errorf("%d long, times %v, extra %v, since %v; want %d, %v, %v, %v", count(s.long), s.times, s.extra, s.since, c.long, c.times, c.extra, c.since)
			}
		})
	}
}
