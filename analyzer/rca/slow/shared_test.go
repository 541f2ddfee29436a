// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestSpikesOfComputePageNobody: what a rank computed longer now and then is said, and wakes nobody.
func TestSpikesOfComputePageNobody(t *testing.T) {
	for _, c := range []struct {
		name    string
		iters   int
		compute func(rank, iter int) float64
		page    bool
	}{
		{"once in forty", 40, func(r, it int) float64 { return pick(r == 3 && it == 20, 20.0, 1) }, false},
		{"in three of eleven", 12, func(r, it int) float64 { return pick(r == 3 && it%4 == 1, 3.0, 1) }, false},
		{"in every iteration", 12, rcatest.One(3, 1.5), true},
		{"in every other of forty", 40, func(r, it int) float64 { return pick(r == 3 && it%2 == 1, 2.0, 1) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(2, 1, 4)
			j.Iters, j.Compute = c.iters, c.compute
			v := verdictOf(j.Evidence(), rca.Options{})
			if v.Page != c.page {
				t.Errorf("page %v: %s %v %g: %s", v.Page, v.Class, rcatest.CulpritRanks(v), v.Confidence, v.Summary)
			}
		})
	}
}

// TestHostsThatAreAllShortOfCPU: a thread that waits for a CPU tells of its host only as far as others' wait less.
func TestHostsThatAreAllShortOfCPU(t *testing.T) {
	late := func(r, _ int) time.Duration { return pick(r == 3, 150*time.Millisecond, 0) }
	for _, c := range []struct {
		name  string
		delay func(rank int) float64
		named bool
	}{
		{"all", func(int) float64 { return 0.6 }, false},
		{"nearly all, as facts of the nodes", nil, false},
		{"one host", func(r int) float64 { return pick(r/2 == 1, 0.6, 0.01) }, true},
		{"none", func(int) float64 { return 0.01 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(2, 1, 4)
			j.Host = late
			ev := j.Evidence()
			for i := range ev.Ranks {
				ev.Ranks[i].ProxyRunDelay = -1
				if c.delay != nil {
					ev.Ranks[i].ProxyRunDelay = c.delay(ev.Ranks[i].ID)
				} else if i%2 == 0 && i > 0 {
					ev.Facts = append(ev.Facts, rca.Fact{Host: ev.Ranks[i].Host, Rank: -1, Component: "cpu", Kind: "pressure", Value: 0.6})
				}
			}
			v := verdictOf(ev, rca.Options{})
			if named := slices.Contains(rcatest.Accused(v), 3); named != c.named || v.Page && !c.named {
				t.Errorf("%s/%s %v page %v: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Page, v.Summary)
			}
		})
	}
}
