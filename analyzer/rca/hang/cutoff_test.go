// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestCutOffByADeath: the counters of the ranks of a real GPU after one of four was killed (PyTorch 2.11, NCCL 2.28.9, one H200).
// The rank before the dead one had data of its own to go on with when its connection broke. So had a GPU that stopped; of that its
// host would tell.
func TestCutOffByADeath(t *testing.T) {
	flow := func(send bool, channel, peer int, posted, ready, transmitted, done int64) rca.Flow {
		return rca.Flow{Send: send, Channel: channel, Peer: peer, Total: 12, Posted: posted, Ready: ready, Transmitted: transmitted, Done: done, Stuck: 3 * time.Second}
	}
	s := ranks(4).comm("dp", 101, 0, 1, 2, 3)
	s.in(0, "dp", "AllReduce", flow(true, 0, 1, 6, 2, 2, 2), flow(false, 0, 3, 4, 0, 0, 0), flow(true, 1, 1, 6, 2, 2, 2), flow(false, 1, 3, 4, 0, 0, 0))
	s.in(1, "dp", "AllReduce", flow(true, 0, 2, 4, 1, 1, 0), flow(false, 0, 0, 4, 2, 2, 0), flow(true, 1, 2, 4, 2, 2, 0), flow(false, 1, 0, 4, 2, 2, 2))
	o := s.in(3, "dp", "AllReduce", flow(true, 0, 0, 4, 0, 0, 0), flow(false, 0, 2, 4, 0, 0, 0), flow(true, 1, 0, 4, 0, 0, 0), flow(false, 1, 2, 4, 0, 0, 0))
	o.KernelStarted = 0
	for i := range s.ev.Ranks {
		for k := range s.ev.Ranks[i].Memberships {
			s.ev.Ranks[i].Memberships[k].Nodes = 4
		}
	}
	s.set(2, func(r *rca.Rank) {
		r.State, r.Ended, r.SeenAlive = rca.ProcessGone, 2300*time.Millisecond, 3400*time.Millisecond
	})
	v, ok := Analyze(job.NewIndex(&s.ev, rca.Options{}.WithDefaults()))
	if !ok || v.Cause != rca.CauseProcessGone || !slices.Equal(rcatest.CulpritRanks(v), []int{2}) {
		t.Errorf("%s/%s %v: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestNotCutOffByAStop: a process that is stopped keeps its connections: what the rank before it shows still counts.
func TestNotCutOffByAStop(t *testing.T) {
	s := toMiddle(send(1, 8, 6, 6, 6), recv(0, 8, 6, 6, 4), send(2, 8, 4, 4, 4)).set(2, func(r *rca.Rank) { r.State = rca.ProcessStopped })
	v, _ := Analyze(job.NewIndex(&s.ev, rca.Options{}.WithDefaults()))
	if !slices.Contains(rcatest.CulpritRanks(v), 1) {
		t.Errorf("%s/%s %v: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Summary)
	}
}

// TestBesideOneCutOff: an RDMA write needs no thread of its receiver. What arrived after a receiver's transfers were cut off is not in its
// counters, and nothing was lost between it and the sender.
func TestBesideOneCutOff(t *testing.T) {
	for name, sent := range map[string]rca.Flow{"delivered": send(1, 8, 6, 6, 6), "not delivered": send(1, 8, 6, 6, 4), "not sent": send(1, 8, 6, 4, 4)} {
		s := ranks(4).comm("dp", 100, 0, 1, 2, 3)
		s.in(0, "dp", "AllReduce", sent, recv(3, 8, 4, 4, 4))
		s.in(1, "dp", "AllReduce", send(2, 8, 4, 4, 2), recv(0, 8, 4, 4, 4))
		s.in(3, "dp", "AllReduce", send(0, 8, 4, 4, 4), recv(2, 8, 2, 2, 2))
		s.set(2, func(r *rca.Rank) { r.State, r.Ended, r.SeenAlive = rca.ProcessGone, 6*time.Second, 7*time.Second })
		v, _ := Analyze(job.NewIndex(&s.ev, rca.Options{}.WithDefaults()))
		if v.Cause != rca.CauseProcessGone || !slices.Equal(rcatest.CulpritRanks(v), []int{2}) || len(v.Contradictions) > 0 {
			t.Errorf("%s: %s/%s %v %v: %s", name, v.Class, v.Cause, rcatest.CulpritRanks(v), v.Contradictions, v.Summary)
		}
	}
}
