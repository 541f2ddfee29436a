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

// TestHostThatWasAlwaysShortOfCPU: a thread that waited for a CPU before the job became slow is not why it did (issue D11).
func TestHostThatWasAlwaysShortOfCPU(t *testing.T) {
	for _, c := range []struct {
		name       string
		now, usual float64
		others     float64 // On all other hosts, now.
		cause      rca.Cause
	}{
		{"no past known", 0.5, 0, 0, rca.CauseProxy},
		{"as ever", 0.5, 0.45, 0, rca.CauseNetworkSend},
		{"much more than before", 0.5, 0.12, 0, rca.CauseProxy},
		{"for less than a third of what its transfers take longer", 0.22, 0.05, 0, rca.CauseNetworkSend},
		{"a little more than all others", 0.66, 0, 0.57, rca.CauseNetworkSend},
	} {
		for _, fact := range []bool{false, true} {
			if c.others > longDelay && !fact {
				continue // Nobody is named: TestHostsThatAreAllShortOfCPU.
			}
			t.Run(c.name+pick(fact, ", the node complains", ""), func(t *testing.T) {
				j := rcatest.NewSlowJob(4, 2, 2)
				j.Send = rcatest.One(5, 4)
				if fact {
					j.Facts = []rca.Fact{{Host: "node2", Rank: 5, Component: "cpu", Kind: "cpu_pressure", Value: c.now}}
				}
				ev := j.Evidence()
				for i := range ev.Ranks {
					ev.Ranks[i].ProxyRunDelay = c.others
				}
				ev.Ranks[5].ProxyRunDelay, ev.Ranks[5].UsualRunDelay = c.now, c.usual
				v := verdictOf(ev, rca.Options{})
				cause := c.cause
				if fact && cause == rca.CauseProxy {
					cause = rca.CauseCPU
				}
				if v.Class != rca.SlowComm || v.Cause != cause || !slices.Equal(rcatest.CulpritRanks(v), []int{5}) {
					t.Errorf("%s/%s %v, want %s of rank 5: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), cause, v.Summary)
				}
			})
		}
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

// TestSlowNICOnBusyHosts: where threads wait for a CPU on all hosts, times in flight hold that waiting, and no NIC is accused by them, unless
// its node complains.
func TestSlowNICOnBusyHosts(t *testing.T) {
	errors := []rca.Fact{{Host: "node2", Rank: 5, Component: "nic", Kind: "port_rate_reduced"}}
	for _, c := range []struct {
		name  string
		delay float64
		facts []rca.Fact
		named bool
	}{
		{"busy", 0.6, nil, false},
		{"busy, and its port is slower", 0.6, errors, true},
		{"not busy", 0.01, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(4, 2, 2)
			j.Send, j.Facts = rcatest.One(5, 4), c.facts
			ev := j.Evidence()
			for i := range ev.Ranks {
				ev.Ranks[i].ProxyRunDelay = c.delay
			}
			v := verdictOf(ev, rca.Options{})
			if named := slices.Contains(rcatest.Accused(v), 5); named != c.named || v.Page != c.named {
				t.Errorf("%s/%s %v page %v: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Page, v.Summary)
			}
		})
	}
}

// TestReceiverShortOfCPU: of a sender and its receiver, between which nothing decides, the receiver is named for want of a CPU only where that
// may be why the transfers take as much longer.
func TestReceiverShortOfCPU(t *testing.T) {
	const sender, receiver = 5, 7
	for _, c := range []struct {
		name   string
		slower float64
		delay  float64
		named  int
	}{
		{"enough", 2, 0.33, receiver},
		{"too little", 10, 0.33, sender},
		{"not at all", 10, 0, sender},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ev rca.Evidence
			ringOf(ring{slower: func(r int) float64 { return pick(r == sender, c.slower, behind(r)) }})(&ev)
			for i := range ev.Ranks {
				ev.Ranks[i].Caps |= rca.SeesProcess
			}
			ev.Ranks[receiver].ProxyRunDelay = c.delay
			if v := verdictOf(ev, rca.Options{}); v.Class != rca.SlowComm || !slices.Equal(rcatest.CulpritRanks(v), []int{c.named}) {
				t.Errorf("%s/%s %v, want rank %d: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), c.named, v.Summary)
			}
		})
	}
}
