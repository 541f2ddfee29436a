// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestC6H2LargerThanSent: one member wants more data than there is; the others have finished and gone on. The calls of the others
// are no longer on record. That they have sent all their data is.
func TestC6H2LargerThanSent(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []int
	}{{"of four", []int{0, 1, 2, 3}}, {"of two", []int{2, 3}}} {
		j := newHungJob(4).comm("dp", c.members...)
		last := len(c.members) - 1
		j.in("dp", "AllReduce", []int{3}, func(_ int, o *rca.Op) { o.Bytes *= 3 }, flows(map[int][]rca.Flow{3: {send(0, 18, 14, 14, 14), recv(last-1, 16, 12, 12, 12)}}))
		for i, r := range c.members[:last] {
			m := j.on(r, "dp")
			m.Called, m.Started, m.Completed = 101, 101, 101
			ready := int64(4) + int64(pick(i+1 == last, 1, 0)) // The member before the odd one has more data than that one takes.
			j.in("dp", "AllReduce", []int{r}, flows(map[int][]rca.Flow{r: {send(i+1, 8, ready, 4, 4), recv((i+last)%len(c.members), 8, 4, 4, 4)}}))
		}
		if v := j.verdict(); v.Class != rca.Inconsistent || !slices.Equal(rcatest.CulpritRanks(v), []int{3}) {
			t.Errorf("%s: %s %v: %s", c.name, v.Class, rcatest.CulpritRanks(v), v.Summary)
		}
	}
}

// TestC6H2StrangeFunction: two members disagree on the order; one of them called a function that no other rank ever calls.
func TestC6H2StrangeFunction(t *testing.T) {
	j := newHungJob(4).comm("dp_0", 0, 1).comm("dp_1", 2, 3)
	for r := range 4 {
		j.on(r, []string{"dp_0", "dp_1"}[r/2]).FuncCalled = map[string]int64{"AllReduce": 101}
	}
	m := j.on(1, "dp_0")
	m.Called, m.Started, m.Completed, m.FuncCalled = 101, 101, 101, map[string]int64{"AllReduce": 101, "AllGather": 1}
	j.in("dp_0", "AllReduce", []int{0, 1}, func(_ int, o *rca.Op) { o.Seq = 100 })
	if v := j.verdict(); v.Class != rca.Inconsistent || !slices.Equal(rcatest.CulpritRanks(v), []int{1}) {
		t.Errorf("%s %v: %s", v.Class, rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestH1GroupCallThatStaysOpen: a receive without a known peer is inside a group call that was never closed.
func TestH1GroupCallThatStaysOpen(t *testing.T) {
	j := newHungJob(2).comm("pp", 0, 1)
	j.in("pp", "Send", []int{0}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 1, 40 }, flows(map[int][]rca.Flow{0: {send(1, 2, 2, 0, 0)}}))
	j.in("pp", "Recv", []int{1}, func(_ int, o *rca.Op) { o.State, o.Peer, o.Seq, o.KernelStarted = rca.OpCalled, -1, 0, 0 })
	j.rank(1).GroupOpen = 6 * time.Second
	if v := j.verdict(); v.Class != rca.NotEntered || v.Cause != rca.CauseCPU || !slices.Equal(rcatest.CulpritRanks(v), []int{1}) {
		t.Errorf("%s/%s %v: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestBufferedSendThatNeverArrives: the sender has finished, because its data fits into the buffers; the link is the culprit.
func TestBufferedSendThatNeverArrives(t *testing.T) {
	j := newHungJob(2).comm("pp", 0, 1)
	j.on(0, "pp").Recent = []rca.Op{{Number: 99, Seq: 40, Func: "Send", Peer: 1}}
	j.in("pp", "Recv", []int{1}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 40 }, flows(map[int][]rca.Flow{1: {recv(0, 2, 0, 0, 0)}}))
	j.in("pp", "Recv", []int{0}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 1, 40 }, flows(map[int][]rca.Flow{0: {recv(1, 2, 0, 0, 0)}}))
	v := j.verdict()
	if slices.Sort(v.RestsOn); !slices.Equal(v.RestsOn, []int{0, 1}) {
		t.Errorf("the accusation rests on ranks %v, want both ends of the link", v.RestsOn)
	}
	if v.Class != rca.Fault || v.Cause != rca.CauseNetworkSend || len(v.Culprits) != 1 || v.Culprits[0].Group != "link 0->1" {
		t.Errorf("%s/%s %+v: %s", v.Class, v.Cause, v.Culprits, v.Summary)
	}
}

// TestOneDiedAndTheLauncherEndedTheRest: orderly ends of all other processes do not turn a death into the end of a job.
func TestOneDiedAndTheLauncherEndedTheRest(t *testing.T) {
	for _, stuck := range []bool{true, false} {
		j := newHungJob(4).comm("dp", 0, 1, 2, 3)
		if stuck {
			j.in("dp", "AllReduce", []int{0, 2, 3})
		}
		for r := range 4 {
			j.rank(r).State = rca.ProcessExited
		}
		j.rank(1).State = rca.ProcessGone
		if v := j.verdict(); v.Cause != rca.CauseProcessGone || !slices.Equal(rcatest.CulpritRanks(v), []int{1}) {
			t.Errorf("stuck %v: %s/%s %v: %s", stuck, v.Class, v.Cause, rcatest.CulpritRanks(v), v.Summary)
		}
	}
}

// TestLinkWhoseEndsExplainEquallyMuch: between two hosts' ranks that share a NIC, neither direction delivers. Only the host's own
// evidence can show which end it is.
func TestLinkWhoseEndsExplainEquallyMuch(t *testing.T) {
	build := func() *hungJob {
		j := newHungJob(4).comm("pp_0", 0, 2).comm("pp_1", 1, 3)
		for r := range 4 {
			j.rank(r).Host = []string{"a", "a", "b", "b"}[r]
			comm, peer := []string{"pp_0", "pp_1"}[r%2], 1-r/2
			seq := int64(40 + r/2)
			j.in(comm, "Send", []int{r}, func(_ int, o *rca.Op) { o.Peer, o.Seq = peer, seq }, flows(map[int][]rca.Flow{r: {send(peer, 7, 7, 7, 0)}}))
			j.in(comm, "Recv", []int{r}, func(_ int, o *rca.Op) { o.Peer, o.Seq = peer, 81-seq }, flows(map[int][]rca.Flow{r: {recv(peer, 7, 0, 0, 0)}}))
		}
		return j
	}
	j := build()
	if v := j.verdict(); len(rcatest.Accused(v)) != 0 {
		t.Errorf("without the node's word ranks are named: %v", rcatest.Accused(v))
	}
	j = build()
	j.ev.Facts = []rca.Fact{{Host: "b", Rank: -1, Component: "nic", Device: "mlx5_0", Kind: "port_down", Expected: 1}}
	if v := j.verdict(); v.Cause != rca.CauseNetworkSend || !slices.Equal(rcatest.Accused(v), []int{2, 3}) {
		t.Errorf("with it %v: %s", rcatest.Accused(v), v.Summary)
	}
}

// TestHostLostBehindGroupedSends: neighbours exchange data with a lost host and with each other. What they exchanged with each
// other is done, and ends only with the group.
func TestHostLostBehindGroupedSends(t *testing.T) {
	j := newHungJob(4).comm("world", 0, 1, 2, 3)
	j.ev.Comms[0].Members = []int{0, 1, -1, 3} // Which rank member 2 is was not recorded.
	for _, r := range []int{0, 1, 3} {
		for _, peer := range []int{(r + 1) % 4, (r + 2) % 4, (r + 3) % 4} {
			p2p := func(_ int, o *rca.Op) { o.Peer, o.Seq = peer, 336 }
			none := func(int, *rca.Op) {}
			out, in := none, none
			if peer == 2 {
				out = flows(map[int][]rca.Flow{r: {send(peer, 74, 74, 74, 66)}})
				in = flows(map[int][]rca.Flow{r: {recv(peer, 74, 66, 66, 66)}})
			}
			j.in("world", "Send", []int{r}, p2p, out)
			j.in("world", "Recv", []int{r}, p2p, in)
		}
	}
	j.ev.Ranks = slices.Delete(j.ev.Ranks, 2, 3)
	j.ev.Missing = []rca.Missing{{What: "exporter", Name: "node2", Ranks: []int{2}, Why: "no answer"}}
	if v := j.verdict(); v.Cause != rca.CauseHostLost || !slices.Equal(rcatest.CulpritRanks(v), []int{2}) || v.Confidence < 0.8 {
		t.Errorf("%s/%s %v (%g): %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Confidence, v.Summary)
	}
}
