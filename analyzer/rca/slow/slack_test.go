// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// ring is a job whose ranks, one to a NIC and two to a host, are one ring: each sends to the next but one, and at every operation's
// pace. From the middle on an operation takes pace times as long, and a rank's sends are outstanding slower times as long.
type ring struct {
	hosts  int
	pace   float64
	slower func(rank int) float64
	facts  []rca.Fact
	spared func(it int) bool   // Iterations in which they are not; nil none.
	late   func(rank int) bool // Who hands on late from the middle on what arrives; nil nobody.
	unseen int                 // So many ranks, the last ones, were not asked.
}

func (r *ring) evidence() rca.Evidence {
	const iters, ops = 16, 6
	world := 2 * r.hosts
	ev := rca.Evidence{JobID: "ring", WorldSize: world, Facts: r.facts}
	c := rca.Comm{ID: "world", Name: "world", Size: world}
	for n := range world {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: n, Host: fmt.Sprintf("node%d", n/2), State: rca.ProcessRunning, Caps: rcatest.AllCaps})
		c.Members = append(c.Members, n)
	}
	ev.Comms = []rca.Comm{c}
	at, number := time.Duration(0), int64(0)
	for it := range iters {
		at += 100 * time.Millisecond // Everybody computes as long as ever.
		for op := range ops {
			long, fn := 50*time.Millisecond, "AllGather"
			if op == ops-1 {
				fn = "ReduceScatter"
			}
			out := func(int) float64 { return 1 }
			if it >= iters/2 {
				long = time.Duration(float64(long) * r.pace)
				if r.spared == nil || !r.spared(it) {
					out = r.slower
				}
			}
			for n := range world - r.unseen {
				handed := time.Millisecond
				if r.late != nil && it >= iters/2 && r.late(n) {
					handed *= 20
				}
				sent := time.Duration(45e6 * out(n))
				ev.Timeline = append(ev.Timeline, rca.Segment{
					Rank: n, Kind: rca.SegmentOp, Iteration: -1, Comm: "world", Number: number, Seq: number, Func: fn, Peer: -1, Bytes: 64 << 20,
					Start: int64(at), Entered: int64(at), End: int64(at + long), Steps: 100, SendFlows: 1, SendActive: sent, SendPeer: (n + 2) % world,
					SendWait: [3]time.Duration{0, 0, sent}, RecvWait: [3]time.Duration{0, handed, handed / 2}, Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1,
				})
			}
			number++
			at += long + time.Millisecond
		}
	}
	return ev
}

// behind is by what factor a rank's flows look slower because of another's: those near it wait longest.
func behind(rank int) float64 { return 1.1 + 0.24*float64(rank%8)/8 }

// TestOneRing: one slow link makes every flow of a ring look slower, by up to a third in what was measured of a simulated one. The
// slow one alone is busy as long as the operation lasts; where all are, the network is slow; where none is, something else.
func TestOneRing(t *testing.T) {
	for _, c := range []struct {
		name string
		ring ring
		want slowWant
	}{
		{"one end", ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r == 5, 2.0, behind(r)) }, facts: []rca.Fact{
			{Host: "node2", Rank: 5, Component: "pcie", Kind: "link_width_reduced"},
		}}, slowWant{rca.SlowComm, rca.CausePCIe, []int{5}, "in flight 1.9× longer"}},
		{
			"one link, and nothing tells its ends apart but that it is one direction",
			ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r == 5, 2.0, behind(r)) }},
			slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "or the receiving end at rank 7"},
		},
		{
			"one link, and its flows hold a part of the delay",
			ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r == 5, 1.3, 1.0) }},
			slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "or the receiving end at rank 7"},
		},
		{
			"one end, and who waits for single steps hands each on by itself",
			ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r == 5, 2.0, behind(r)) }, late: func(r int) bool { return r >= 4 && r < 12 }, facts: []rca.Fact{
				{Host: "node2", Rank: 5, Component: "nic", Kind: "port_rate_reduced"},
			}},
			slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{5}, "its NIC, link or PCIe"},
		},
		{
			"one end, and it alone hands on late",
			ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r == 5, 2.0, behind(r)) }, late: func(r int) bool { return r == 5 }, facts: []rca.Fact{
				{Host: "node2", Rank: 5, Component: "nic", Kind: "port_rate_reduced"},
			}},
			slowWant{rca.SlowComm, rca.CauseProxy, []int{5}, "handed on late"},
		},
		{
			"a path with several NICs at either end",
			ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r/2 == 2, 2.0, behind(r)) }},
			slowWant{rca.SlowComm, rca.CauseNetworkSend, []int{-1}, "Path node2->node3"},
		},
		{"the whole network", ring{hosts: 8, pace: 2, slower: func(int) float64 { return 2 }}, slowWant{rca.GlobalSlow, rca.CauseUnknown, nil, "alike"}},
		{
			"the whole network, one host of two asked",
			ring{hosts: 2, unseen: 2, pace: 2, slower: func(int) float64 { return 2 }},
			slowWant{rca.GlobalSlow, rca.CauseUnknown, nil, "alike"},
		},
		{
			"a link inside a host, by its GPU's errors, not all asked",
			ring{hosts: 8, unseen: 4, pace: 2, slower: behind, facts: []rca.Fact{{Host: "node3", Rank: 6, Component: "gpu", Kind: "nvlink_errors", Value: 9}}},
			slowWant{rca.SlowComm, rca.CauseGPU, []int{6}, "no network flow holds them up"},
		},
	} {
		t.Run(c.name, func(t *testing.T) { c.want.check(t, verdictOf(c.ring.evidence(), rca.Options{})) })
	}
}

// TestHiddenLinkIsNotEverybodys: where something slow has no counters, that everybody's transfers look a little slower makes no
// verdict on the network that could be believed.
func TestHiddenLinkIsNotEverybodys(t *testing.T) {
	r := ring{hosts: 8, pace: 2, slower: func(int) float64 { return 1.3 }}
	v := verdictOf(r.evidence(), rca.Options{})
	if v.Class == rca.GlobalSlow && v.Confidence > 0.4 || len(rcatest.CulpritRanks(v)) > 0 && slices.Max(rcatest.CulpritRanks(v)) >= 0 {
		t.Errorf("%s %v with %v: %s", v.Class, rcatest.CulpritRanks(v), v.Confidence, v.Summary)
	}
}
