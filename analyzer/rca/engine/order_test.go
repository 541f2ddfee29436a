// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestStreamOrderWithoutKernels: the CPU calls a receive and, a moment later, a collective, and no kernel events show which of
// them the GPU is in. The older one takes the blame first: data that waits for the later one follows from the stream's order.
func TestStreamOrderWithoutKernels(t *testing.T) {
	for _, c := range []struct {
		name  string
		later time.Duration // Time from the receive's call to the collective's.
		lost  rca.Capability
	}{
		{"a millisecond and more apart", 5 * time.Millisecond, rca.SeesKernels},
		{"in one breath", 20 * time.Microsecond, rca.SeesKernels},
		{"in one breath, the receiver's readiness unseen", 20 * time.Microsecond, rca.SeesKernels | rca.SeesPeerWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Rank 1 waits for what rank 0 does not send; rank 3 waits for rank 1 in the gradients.
			j := newHungJob(4).comm("pp_0", 0, 1).comm("pp_1", 2, 3).comm("dp", 1, 3)
			for r := range 4 {
				j.rank(r).Caps &^= c.lost
			}
			unseen := func(_ int, o *rca.Op) { o.KernelStarted, o.KernelStopped = -1, -1 }
			j.in("pp_0", "Recv", []int{1}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq, o.State = 0, 40, rca.OpEnqueued }, flows(map[int][]rca.Flow{1: {recv(0, 4, 0, 0, 0)}}))
			j.in("dp", "AllReduce", []int{1, 3}, unseen, func(_ int, o *rca.Op) { o.Age -= c.later }, flows(map[int][]rca.Flow{
				1: {send(1, 4, 0, 0, 0), recv(1, 4, 2, 2, 0)},
				3: {send(0, 6, 2, 2, 2), recv(0, 4, 0, 0, 0)},
			}))
			v := j.verdict()
			if v.Class != rca.NotEntered || !slices.Equal(rcatest.Accused(v), []int{0}) {
				t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
			}
		})
	}
}

// TestReceiveBeforeSendInAPipeline: a rank has called its send behind a receive whose sender has posted nothing. Its own send is
// empty because of that.
func TestReceiveBeforeSendInAPipeline(t *testing.T) {
	j := newHungJob(3).comm("pp", 0, 1, 2)
	for r := range 3 {
		j.rank(r).Caps &^= rca.SeesKernels
	}
	unseen := func(_ int, o *rca.Op) { o.KernelStarted, o.KernelStopped, o.State = -1, -1, rca.OpEnqueued }
	j.in("pp", "Recv", []int{1}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 40 }, flows(map[int][]rca.Flow{1: {recv(0, 4, 0, 0, 0)}}))
	j.in("pp", "Send", []int{1}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq, o.Age = 2, 40, o.Age-100*time.Microsecond }, flows(map[int][]rca.Flow{1: {send(2, 4, 0, 0, 0)}}))
	j.in("pp", "Recv", []int{2}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq = 1, 40 }, flows(map[int][]rca.Flow{2: {recv(1, 4, 0, 0, 0)}}))
	v := j.verdict()
	if v.Class != rca.NotEntered || !slices.Equal(rcatest.Accused(v), []int{0}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}

// TestReceiveBehindASendInAPipeline: a rank has called a receive a moment after a send whose receiver is not there. Its GPU does not take what
// has arrived because of that.
func TestReceiveBehindASendInAPipeline(t *testing.T) {
	j := newHungJob(3).withoutKernels().comm("pp", 0, 1, 2)
	j.called(1, "pp", "Send", 2, 40, 0, send(2, 4, 1, 0, 0))
	j.called(1, "pp", "Recv", 0, 41, 25*time.Microsecond, recv(0, 4, 4, 4, 0))
	j.called(0, "pp", "Send", 1, 41, 0, send(1, 8, 5, 4, 4))
	v := j.verdict()
	if v.Class != rca.NotEntered || !slices.Equal(rcatest.Accused(v), []int{2}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}

// TestReceiveBehindASendInsideTheHost: the same behind a send that no network carries, so that nobody sees whether it waits.
func TestReceiveBehindASendInsideTheHost(t *testing.T) {
	j := newHungJob(4).withoutKernels().comm("pp", 0, 1, 2, 3)
	j.rank(1).Host, j.rank(2).Host = "b", "b"
	j.called(2, "pp", "Send", 3, 40, 0, send(3, 8, 8, 8, 0))
	j.called(3, "pp", "Recv", 2, 40, 0, recv(2, 8, 0, 0, 0))
	j.called(2, "pp", "Recv", 1, 41, 73*time.Microsecond)
	j.called(1, "pp", "Send", 2, 41, 0)
	j.called(1, "pp", "Recv", 0, 42, 73*time.Microsecond, recv(0, 4, 4, 4, 0))
	j.called(0, "pp", "Send", 1, 42, 0, send(1, 8, 5, 4, 4))
	if v := j.verdict(); v.Cause != rca.CauseNetworkSend || !slices.Equal(rcatest.Accused(v), []int{2}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}

// TestCollectiveBehindAReceive: two GPUs hold each other inside their host, where nothing is seen. Those of another host have given nothing to
// a collective that others are in, behind a receive that waits for the first two: they are victims.
func TestCollectiveBehindAReceive(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts []rca.Fact
		want  []int // Without errors their host.
	}{
		{"a GPU with errors", []rca.Fact{{Host: "d", Rank: 7, Component: "gpu", Kind: "nvlink_errors", Value: 250}}, []int{7}},
		{"no errors", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Two replicas of two stages of two ranks each: 0 and 1, 2 and 3 in front of 4 and 5, 6 and 7.
			j := newHungJob(8).withoutKernels()
			for r := range 8 {
				j.rank(r).Host = string(rune('a' + r/2))
			}
			for p := range 4 {
				j.comm(fmt.Sprint("tp_", p), 2*p, 2*p+1)
			}
			for t := range 4 {
				j.comm(fmt.Sprint("pp_", t), t, t+4)
			}
			for _, r := range []int{0, 1, 4, 5} {
				j.comm(fmt.Sprint("dp_", r), r, r+2)
			}
			j.comm("world", 0, 1, 2, 3, 4, 5, 6, 7)
			j.ev.Facts = c.facts
			later := time.Duration(0)
			call := func(r int, comm, fn string, peer int, seq int64, f ...rca.Flow) {
				later += 30 * time.Microsecond
				j.called(r, comm, fn, peer, seq, later, f...)
			}
			for r := range 8 {
				tp := fmt.Sprint("tp_", r/2)
				call(r, tp, "AllReduce", -1, -1)
				j.on(r, tp).InFlight[0].NoCompletion = true
			}
			for _, r := range []int{6, 7} {
				call(r, fmt.Sprint("dp_", r-2), "ReduceScatter", -1, -1, send(0, 8, 0, 0, 0), recv(0, 8, 1, 1, 0))
				call(r, fmt.Sprint("pp_", r-4), "Send", 0, 40, send(0, 8, 0, 0, 0))
				call(r-4, fmt.Sprint("pp_", r-4), "Recv", 1, 40, recv(1, 8, 0, 0, 0))
				call(r-4, fmt.Sprint("dp_", r-6), "AllGather", -1, -1, send(0, 8, 0, 0, 0), recv(0, 8, 1, 1, 0))
				call(r-6, fmt.Sprint("dp_", r-6), "AllGather", -1, -1, send(1, 9, 1, 1, 1), recv(1, 8, 0, 0, 0))
				call(r-2, fmt.Sprint("dp_", r-2), "ReduceScatter", -1, -1, send(1, 9, 1, 1, 1), recv(1, 8, 0, 0, 0))
			}
			for r := range 8 {
				call(r, "world", "AllReduce", -1, -1, send((r+1)%8, 1, 0, 0, 0), recv((r+7)%8, 1, 0, 0, 0))
			}
			v := j.verdict()
			if !slices.Equal(rcatest.Accused(v), c.want) || len(v.Culprits) != 1 || v.Culprits[0].Host != "d" {
				t.Errorf("%s/%s accuses %v %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Culprits, v.Summary)
			}
		})
	}
}

// TestOneOrderIsNoDeadlock: ranks that called two operations in the same order cannot deadlock, whichever operation each of them
// seems to be in where no kernels are seen. Ranks that called them in opposite orders can.
func TestOneOrderIsNoDeadlock(t *testing.T) {
	for _, opposite := range []bool{false, true} {
		j := newHungJob(4).comm("dp", 0, 2).comm("world", 0, 1, 2, 3)
		for r := range 4 {
			j.rank(r).Caps &^= rca.SeesKernels
		}
		at := func(a time.Duration) func(int, *rca.Op) {
			return func(_ int, o *rca.Op) {
				o.KernelStarted, o.KernelStopped, o.State, o.Age, o.Stuck = -1, -1, rca.OpEnqueued, a, a
			}
		}
		late, soon := 6*time.Second, 6*time.Second-10*time.Millisecond
		j.in("dp", "AllReduce", []int{0}, at(late), flows(map[int][]rca.Flow{0: {send(1, 4, 0, 0, 0), recv(1, 4, 0, 0, 0)}}))
		j.in("dp", "AllReduce", []int{2}, at(pick(opposite, soon, late)), flows(map[int][]rca.Flow{2: {send(0, 4, 0, 0, 0), recv(0, 4, 0, 0, 0)}}))
		world := func(r int) func(int, *rca.Op) {
			return flows(map[int][]rca.Flow{r: {send((r+1)%4, 4, 0, 0, 0), recv((r+3)%4, 4, 0, 0, 0)}})
		}
		for r := range 4 {
			seen := at(soon)
			if r == 2 {
				seen = at(pick(opposite, late, soon))
			}
			j.in("world", "AllReduce", []int{r}, seen, world(r))
		}
		if v := j.verdict(); (v.Cause == rca.CauseDeadlock) != opposite {
			t.Errorf("opposite %v: %s/%s %v: %s", opposite, v.Class, v.Cause, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestOppositeOrdersShownByDataThatArrived: one rank calls two operations in the opposite order within a millisecond. Its own
// record does not show which one its GPU is in. Data of others that has arrived for both operations does, because it shows where
// the others are.
func TestOppositeOrdersShownByDataThatArrived(t *testing.T) {
	j := newHungJob(4).comm("dp_0", 0, 2).comm("dp_1", 1, 3).comm("world", 0, 1, 2, 3)
	for r := range 4 {
		j.rank(r).Caps &^= rca.SeesKernels
	}
	for _, r := range []int{1, 3} {
		m := j.on(r, "dp_1")
		m.Called, m.Started, m.Completed = 101, 101, 101
	}
	const breath = 20 * time.Microsecond
	at := func(first int) func(int, *rca.Op) {
		return func(r int, o *rca.Op) {
			o.KernelStarted, o.KernelStopped, o.State = -1, -1, rca.OpEnqueued
			if r != first {
				o.Age -= breath
			}
		}
	}
	j.in("dp_0", "AllGather", []int{0, 2}, at(0), flows(map[int][]rca.Flow{
		0: {send(1, 4, 2, 2, 2), recv(1, 4, 0, 0, 0)},
		2: {send(0, 4, 0, 0, 0), recv(0, 4, 2, 2, 0)},
	}))
	tree := func(_ int, o *rca.Op) { o.Algo = "tree" }
	j.in("world", "AllReduce", []int{1, 2, 3}, at(2), tree, flows(map[int][]rca.Flow{
		1: {recv(2, 1, 0, 0, 0)}, // What it gave is no longer recorded.
		2: {send(0, 1, 0, 0, 0), recv(0, 1, 0, 0, 0), recv(1, 1, 1, 1, 0), recv(3, 1, 1, 1, 0)},
		3: {recv(2, 1, 0, 0, 0)},
	}))
	j.in("world", "AllReduce", []int{0}, at(-1), tree, flows(map[int][]rca.Flow{0: {send(2, 1, 0, 0, 0), recv(2, 1, 0, 0, 0)}}))
	v := j.verdict()
	if v.Cause != rca.CauseDeadlock || !slices.Equal(rcatest.Accused(v), []int{2}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}

// TestGPUThatFreezesInTheOldestOfThree follows a recording of the real library. All ranks have called three operations at once,
// no kernels are seen, and the only sign that earlier broadcasts ended is that later operations did. The rank that does not take
// its data in the oldest operation is named.
func TestGPUThatFreezesInTheOldestOfThree(t *testing.T) {
	j := newHungJob(4).comm("tp_0", 0, 1).comm("dp_0", 0, 2).comm("dp_1", 1, 3).comm("world", 0, 1, 2, 3)
	for r := range 4 {
		j.rank(r).Caps &^= rca.SeesKernels
	}
	for r := range 2 {
		m := j.on(r, "tp_0")
		m.Recent = []rca.Op{
			{Number: 98, Seq: -1, Func: "Broadcast", Peer: -1, State: rca.OpLeft, NoCompletion: true, Age: 11 * time.Second},
			{Number: 99, Seq: 95, Func: "AllReduce", Peer: -1, State: rca.OpLeft, Age: 10 * time.Second},
		}
	}
	step := time.Duration(0)
	call := func(comm string, r int, f ...rca.Flow) {
		step += time.Microsecond
		j.in(comm, "AllReduce", []int{r}, func(_ int, o *rca.Op) {
			o.KernelStarted, o.KernelStopped, o.Age, o.Stuck, o.Flows = -1, -1, 6*time.Second-step, 6*time.Second-step, f
		})
	}
	call("tp_0", 0, send(1, 4, 2, 2, 2), recv(1, 4, 0, 0, 0))
	call("dp_0", 0, send(1, 4, 0, 0, 0), recv(1, 4, 2, 2, 0))
	call("world", 0, send(2, 1, 0, 0, 0), recv(2, 1, 0, 0, 0))
	call("tp_0", 1, send(0, 4, 0, 0, 0), recv(0, 4, 2, 2, 0))
	call("dp_1", 1, send(1, 4, 0, 0, 0), recv(1, 4, 2, 2, 0))
	call("world", 1, send(2, 1, 0, 0, 0), recv(2, 1, 0, 0, 0))
	for r, dp := range map[int]string{2: "dp_0", 3: "dp_1"} {
		call(dp, r, send(0, 4, 2, 2, 2), recv(0, 4, 0, 0, 0))
	}
	call("world", 2, send(0, 1, 0, 0, 0), recv(0, 1, 0, 0, 0), send(1, 1, 0, 0, 0), recv(1, 1, 0, 0, 0), send(3, 1, 0, 0, 0), recv(3, 1, 0, 0, 0))
	call("world", 3, send(2, 1, 0, 0, 0), recv(2, 1, 0, 0, 0))
	v := j.verdict()
	if v.Cause != rca.CauseGPU || !slices.Equal(rcatest.Accused(v), []int{1}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}

// TestOneHostBehindAnotherOperation: data stops inside a host, at a GPU that nothing shows to have come to the operation. It may stand in an
// earlier one inside the host, with a rank that has no part in the later one. Without errors all of these are named, not only those in it.
func TestOneHostBehindAnotherOperation(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts []rca.Fact
		want  []int
		group string
	}{
		{"a GPU with errors", []rca.Fact{{Host: "a", Rank: 3, Component: "gpu", Kind: "ecc_uncorrectable", Value: 1}}, []int{3}, ""},
		{"no errors", nil, nil, "ranks 0, 2, 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The ring of dp goes 4, 0, 2, 5. Ranks 0 and 2 are on one host, as are the tensor-parallel 2 and 3.
			j := newHungJob(6).withoutKernels().comm("tp_1", 2, 3).comm("dp_0", 4, 0, 2, 5)
			for r, host := range []string{"a", "a", "a", "a", "b", "c"} {
				j.rank(r).Host = host
			}
			j.ev.Facts = c.facts
			for _, r := range []int{2, 3} {
				j.called(r, "tp_1", "AllReduce", -1, -1, 0)
				j.on(r, "tp_1").InFlight[0].NoCompletion = true
			}
			later := 500 * time.Microsecond
			j.called(4, "dp_0", "AllReduce", -1, -1, later, send(1, 14, 10, 10, 10), recv(3, 4, 0, 0, 0))
			j.called(0, "dp_0", "AllReduce", -1, -1, later, recv(0, 10, 10, 10, 6))
			j.called(2, "dp_0", "AllReduce", -1, -1, later, send(3, 4, 0, 0, 0))
			j.called(5, "dp_0", "AllReduce", -1, -1, later, recv(2, 4, 0, 0, 0), send(0, 4, 4, 4, 4))
			v := j.verdict()
			if len(v.Culprits) != 1 || v.Cause != rca.CauseGPU || v.Culprits[0].Host != "a" || v.Culprits[0].Group != c.group || c.want != nil && !slices.Equal(rcatest.Accused(v), c.want) {
				t.Errorf("%s/%s accuses %+v: %s", v.Class, v.Cause, v.Culprits, v.Summary)
			}
		})
	}
}
