// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

type want struct {
	class  rca.Class
	cause  rca.Cause
	ranks  []int
	page   bool
	phrase string // In the summary.
}

func (w want) check(t *testing.T, v rca.Verdict) {
	t.Helper()
	if v.Class != w.class || v.Cause != w.cause || !slices.Equal(rcatest.CulpritRanks(v), w.ranks) || v.Page != w.page {
		t.Errorf("got %s/%s %v page=%v (%g), want %s/%s %v page=%v\n%s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Page, v.Confidence, w.class, w.cause, w.ranks, w.page, v.Summary)
	}
	if !strings.Contains(v.Summary, w.phrase) {
		t.Errorf("summary %q lacks %q", v.Summary, w.phrase)
	}
	if v.Code != v.Class.Code() {
		t.Errorf("code %q for %s", v.Code, v.Class)
	}
	checkWaits(t, &v)
	rcatest.CheckPair(t, &v)
	checkHypotheses(t, &v)
}

// checkHypotheses checks that the verdict rests on the explanations that name the accused ranks.
func checkHypotheses(t *testing.T, v *rca.Verdict) {
	t.Helper()
	chosen := map[int]bool{}
	for _, h := range v.Hypotheses {
		for _, r := range h.Ranks {
			chosen[r] = chosen[r] || h.Chosen
		}
	}
	for _, c := range v.Culprits {
		if len(v.Hypotheses) > 0 && c.Rank >= 0 && c.Group == "" && !chosen[c.Rank] && v.Class != rca.Unknown {
			t.Errorf("rank %d is accused, and no hypothesis about it is chosen: %+v", c.Rank, v.Hypotheses)
		}
	}
}

// checkWaits checks that the graph draws only accused ranks as roots, and no rank twice.
func checkWaits(t *testing.T, v *rca.Verdict) {
	t.Helper()
	accused, seen := map[int]bool{}, map[int]bool{}
	for _, c := range v.Culprits {
		accused[c.Rank] = true
	}
	for i, g := range v.Waits {
		if g.On >= i {
			t.Errorf("group %d waits for group %d, which is not before it", i, g.On)
		}
		for _, r := range g.Ranks {
			if seen[r] || g.Root && !accused[r] && !accused[-1] {
				t.Errorf("rank %d of %+v: drawn before %t, accused %t", r, g, seen[r], accused[r])
			}
			seen[r] = true
		}
	}
}

// TestM8StateTable is Mycroft's table 4 on a ring of two ranks: the same state of the sender with different states of the
// receiver, and the rank that both states together accuse.
func TestM8StateTable(t *testing.T) {
	for _, c := range []struct {
		name                 string
		send0, recv1         rca.Flow // Rank 0 sends to rank 1.
		send1, recv0         rca.Flow // And back.
		cond                 rca.Condition
		class                rca.Class
		cause                rca.Cause
		rank                 int
		stopped, notStarted1 bool
	}{
		{
			name: "not delivered, receiver waits: the wire", send0: send(1, 8, 6, 6, 5), recv1: recv(0, 9, 5, 5, 5), send1: send(0, 8, 6, 6, 6), recv0: recv(1, 9, 6, 6, 6),
			cond: rca.NotDelivered, class: rca.Fault, cause: rca.CauseNetworkSend, rank: 0,
		},
		{
			name: "not delivered, receiver 1=2=3: the receiver", send0: send(1, 8, 6, 6, 5), recv1: recv(0, 5, 5, 5, 5), send1: send(0, 8, 6, 6, 6), recv0: recv(1, 9, 6, 6, 6),
			cond: rca.NotDelivered, class: rca.Fault, cause: rca.CauseReceiver, rank: 1,
		},
		{
			name: "not transmitted, no buffer posted: the receiver", send0: send(1, 8, 6, 5, 5), recv1: recv(0, 5, 5, 5, 5), send1: send(0, 8, 6, 6, 6), recv0: recv(1, 9, 6, 6, 6),
			cond: rca.NotTransmitted, class: rca.Fault, cause: rca.CauseReceiver, rank: 1,
		},
		{
			name: "not transmitted, buffer posted: the sender", send0: send(1, 8, 6, 5, 5), recv1: recv(0, 8, 5, 5, 5), send1: send(0, 8, 6, 6, 6), recv0: recv(1, 9, 6, 6, 6),
			cond: rca.NotTransmitted, class: rca.Fault, cause: rca.CauseNetworkSend, rank: 0,
		},
		{
			name: "GPU not ready", send0: send(1, 8, 5, 5, 5), recv1: recv(0, 8, 5, 5, 5), send1: send(0, 8, 8, 7, 6), recv0: recv(1, 6, 6, 6, 4),
			cond: rca.GPUNotReady, class: rca.Fault, cause: rca.CauseGPU, rank: 0,
		},
		{
			name: "not started, kernel runs: its GPU", send0: send(1, 4, 0, 0, 0), recv1: recv(0, 4, 0, 0, 0), send1: send(0, 4, 4, 4, 4), recv0: recv(1, 4, 4, 4, 0),
			cond: rca.NotStarted, class: rca.Fault, cause: rca.CauseGPU, rank: 0,
		},
		{
			name: "not started, peer blocked: not entered", send0: send(1, 4, 0, 0, 0), recv1: recv(0, 4, 0, 0, 0), notStarted1: true,
			cond: rca.NotStarted, class: rca.NotEntered, cause: rca.CauseKernelNotRunning, rank: 1,
		},
		{
			name: "flush does not end", send0: send(1, 8, 5, 5, 5), recv1: recv(0, 8, 5, 5, 5), send1: send(0, 8, 8, 8, 8), recv0: recv(1, 8, 8, 4, 4),
			cond: rca.GPUNotReady, class: rca.Fault, cause: rca.CausePCIe, rank: 0,
		},
		{
			name: "several hold at once", send0: send(1, 8, 8, 7, 5), recv1: recv(0, 9, 5, 5, 5), send1: send(0, 8, 6, 6, 6), recv0: recv(1, 9, 6, 6, 6),
			cond: rca.NotTransmitted | rca.NotDelivered, class: rca.Fault, cause: rca.CauseNetworkSend, rank: 0,
		},
		{
			name: "receiver stopped", send0: send(1, 8, 6, 6, 5), recv1: recv(0, 9, 5, 5, 5), send1: send(0, 8, 6, 6, 6), recv0: recv(1, 9, 6, 6, 6), stopped: true,
			cond: rca.NotDelivered, class: rca.Fault, cause: rca.CauseProcessStopped, rank: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.send0.Conditions(); got != c.cond {
				t.Errorf("conditions %v, want %v", got, c.cond)
			}
			j := newHungJob(2).comm("dp", 0, 1)
			by := flows(map[int][]rca.Flow{0: {c.send0, c.recv0}, 1: {c.recv1, c.send1}})
			j.in("dp", "AllReduce", []int{0}, by)
			if c.notStarted1 {
				j.queued("dp", "AllReduce", 1)
			} else {
				j.in("dp", "AllReduce", []int{1}, by)
			}
			if c.stopped {
				j.rank(1).State = rca.ProcessStopped
			}
			want{class: c.class, cause: c.cause, ranks: []int{c.rank}, page: true}.check(t, j.verdict())
		})
	}
}

// TestM10CrossGroup is Mycroft's figure 5: the DP group {1,2,3} and the PP group {2,4} both stand still; rank 1 alone is the
// cause.
func TestM10CrossGroup(t *testing.T) {
	j := newHungJob(5).comm("dp", 1, 2, 3).comm("pp", 2, 4)
	j.in("dp", "AllReduce", []int{2, 3}, flows(map[int][]rca.Flow{
		2: {send(2, 8, 8, 8, 8), recv(0, 8, 0, 0, 0)},
		3: {send(0, 8, 4, 3, 3), recv(1, 12, 8, 8, 8)},
	}))
	j.in("pp", "Recv", []int{4}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 7; o.Flows = []rca.Flow{recv(0, 8, 0, 0, 0)} })
	v := j.verdict()
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{1}, page: true, phrase: "Rank 1 (node1, GPU 0) has not called AllReduce #100 on dp; its process is running outside NCCL."}.check(t, v)
	if len(v.Chain) < 2 || v.Chain[0].From != 4 || v.Chain[0].To != 2 || v.Chain[len(v.Chain)-1].To != 1 {
		t.Errorf("chain %+v, want 4 to 2 to 1", v.Chain)
	}
}

func TestC6H2Inconsistent(t *testing.T) {
	set := func(f func(o *rca.Op)) func(int, *rca.Op) { return func(_ int, o *rca.Op) { f(o) } }
	for _, c := range []struct {
		name   string
		change func(o *rca.Op)
		phrase string
	}{
		{"type", func(o *rca.Op) { o.Func = "AllGather" }, "operation differs"},
		{"size", func(o *rca.Op) { o.Bytes /= 2 }, "size differs"},
		{"datatype", func(o *rca.Op) { o.Datatype = "float16" }, "datatype differs"},
		{"algorithm", func(o *rca.Op) { o.Algo = "tree" }, "algorithm differs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newHungJob(4).comm("dp", 0, 1, 2, 3)
			j.in("dp", "AllReduce", []int{0, 1, 3}).in("dp", "AllReduce", []int{2}, set(c.change))
			want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{2}, page: true, phrase: c.phrase}.check(t, j.verdict())
		})
	}
	t.Run("root", func(t *testing.T) {
		root := func(n int) func(int, *rca.Op) { return func(_ int, o *rca.Op) { o.Root = n } }
		j := newHungJob(4).comm("dp", 0, 1, 2, 3)
		j.in("dp", "Broadcast", []int{0, 1, 3}, root(0)).in("dp", "Broadcast", []int{2}, root(1))
		want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{2}, page: true, phrase: "root differs"}.check(t, j.verdict())
	})
	t.Run("two disagree", func(t *testing.T) {
		j := newHungJob(2).comm("dp", 0, 1).in("dp", "AllReduce", []int{0}).in("dp", "AllGather", []int{1})
		want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0, 1}, page: true, phrase: "does not show which side is wrong"}.check(t, j.verdict())
	})
	t.Run("two disagree, the sibling group knows", func(t *testing.T) {
		j := newHungJob(4).comm("dp_0", 0, 1).comm("dp_1", 2, 3).comm("tp", 0, 1, 2, 3)
		j.in("dp_0", "AllReduce", []int{0}).in("dp_0", "AllGather", []int{1}).in("tp", "AllReduce", []int{2, 3})
		for _, r := range []int{2, 3} {
			j.on(r, "dp_1").Called++
			j.on(r, "dp_1").Recent = []rca.Op{{Number: 100, Func: "AllReduce", Peer: -1, State: rca.OpLeft}}
		}
		want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{1}, page: true}.check(t, j.verdict())
	})
	t.Run("one finished a smaller operation and left", func(t *testing.T) {
		j := newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 3})
		j.on(2, "dp").Called = 101
		j.on(2, "dp").Recent = []rca.Op{{Number: 100, Func: "AllReduce", Peer: -1, Bytes: 4, State: rca.OpLeft}}
		want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{2}, page: true}.check(t, j.verdict())
	})
	t.Run("all-to-all sizes may differ", func(t *testing.T) {
		j := newHungJob(3).comm("ep", 0, 1, 2)
		j.in("ep", "AlltoAll", []int{0, 1}, func(r int, o *rca.Op) { o.Bytes += int64(r) })
		want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true}.check(t, j.verdict())
	})
	t.Run("send and receive of different size", func(t *testing.T) {
		j := newHungJob(2).comm("pp", 0, 1)
		j.in("pp", "Send", []int{0}, func(_ int, o *rca.Op) { o.Peer = 1 }).in("pp", "Recv", []int{1}, func(_ int, o *rca.Op) { o.Peer, o.Bytes = 0, 8 })
		want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0, 1}, page: true}.check(t, j.verdict())
	})
}

// TestM12Deadlock: groups entered in opposite orders, as in Mycroft's case three (b).
func TestM12Deadlock(t *testing.T) {
	t.Run("across communicators, called behind each other", func(t *testing.T) {
		j := newHungJob(4).comm("a", 0, 1, 2, 3).comm("b", 0, 1, 2, 3)
		j.in("a", "AllReduce", []int{0, 1, 2}).queued("b", "AllGather", 0, 1, 2)
		j.in("b", "AllGather", []int{3}).queued("a", "AllReduce", 3)
		want{class: rca.Inconsistent, cause: rca.CauseDeadlock, ranks: []int{3}, page: true, phrase: "AllGather #100 on b first"}.check(t, j.verdict())
	})
	t.Run("blocking calls, equal camps", func(t *testing.T) {
		j := newHungJob(4).comm("a", 0, 1, 2, 3).comm("b", 0, 1, 2, 3)
		j.in("a", "AllReduce", []int{0, 1}).in("b", "AllGather", []int{2, 3})
		want{class: rca.Inconsistent, cause: rca.CauseDeadlock, ranks: []int{0, 1, 2, 3}, page: true}.check(t, j.verdict())
	})
	t.Run("equal camps, the others know the order", func(t *testing.T) {
		j := newHungJob(4).comm("dp_0", 0, 2).comm("dp_1", 1, 3).comm("world", 0, 1, 2, 3)
		j.on(0, "dp_0").Called, j.on(2, "dp_0").Called = 100, 100
		j.in("dp_0", "AllReduce", []int{2}).queued("world", "AllReduce", 2)
		j.in("world", "AllReduce", []int{0, 1, 3}).queued("dp_0", "AllReduce", 0)
		for _, r := range []int{1, 3} {
			j.on(r, "dp_1").Called, j.on(r, "dp_1").Completed = 101, 101
		}
		want{class: rca.Inconsistent, cause: rca.CauseDeadlock, ranks: []int{0}, page: true, phrase: "rank 0 (node0, GPU 0) entered AllReduce #100 on world first"}.check(t, j.verdict())
	})
	t.Run("two sends meet", func(t *testing.T) {
		j := newHungJob(2).comm("pp", 0, 1)
		j.in("pp", "Send", []int{0}, func(_ int, o *rca.Op) { o.Peer = 1 }).in("pp", "Send", []int{1}, func(_ int, o *rca.Op) { o.Peer = 0 })
		want{class: rca.Inconsistent, cause: rca.CauseDeadlock, ranks: []int{0, 1}, page: true}.check(t, j.verdict())
	})
}

func TestCallDoesNotReturn(t *testing.T) {
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1})
	j.in("dp", "AllReduce", []int{2}, func(_ int, o *rca.Op) { o.State, o.KernelStarted = rca.OpCalled, 0 })
	j.rank(2).GroupOpen = 6 * time.Second
	want{class: rca.NotEntered, cause: rca.CauseCPU, ranks: []int{2}, page: true, phrase: "does not return from the call"}.check(t, j.verdict())
}

func TestKernelNotStartedThoughTheProxyReceives(t *testing.T) {
	// Without a kernel the proxy still posts buffers and receives into them: the rank has not entered.
	j := newHungJob(2).comm("dp", 0, 1)
	by := flows(map[int][]rca.Flow{0: {send(1, 8, 5, 4, 4), recv(1, 8, 0, 0, 0)}, 1: {send(0, 4, 0, 0, 0), recv(0, 4, 4, 4, 0)}})
	j.in("dp", "AllReduce", []int{0, 1}, by)
	j.on(1, "dp").InFlight[0].KernelStarted = 0
	want{class: rca.NotEntered, cause: rca.CauseKernelNotRunning, ranks: []int{1}, page: true}.check(t, j.verdict())
}

func TestFullBuffersAreNoFrozenGPU(t *testing.T) {
	// Rank 1's kernel takes nothing because rank 2 takes nothing from it; only the head of the full buffers shows.
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1}, flows(map[int][]rca.Flow{
		0: {send(1, 14, 10, 10, 10), recv(2, 12, 0, 0, 0)},
		1: {send(2, 8, 5, 4, 4), recv(0, 10, 10, 10, 6)},
	}))
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true}.check(t, j.verdict())
}

func TestOneOperationTooMany(t *testing.T) {
	// Rank 1 called something in between and is a place ahead; its record of that call is gone.
	j := newHungJob(4).comm("dp_0", 0, 1).comm("dp_1", 2, 3)
	j.in("dp_0", "AllReduce", []int{0})
	j.on(1, "dp_0").Called++
	j.in("dp_0", "AllReduce", []int{1}, func(_ int, o *rca.Op) { o.Seq = 100 })
	v := j.verdict()
	want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0, 1}, page: true}.check(t, v)
	for _, r := range []int{2, 3} {
		j.on(r, "dp_1").Called++
		j.on(r, "dp_1").Recent = []rca.Op{{Number: 100, Seq: 100, Func: "AllReduce", Peer: -1, State: rca.OpLeft}}
	}
	want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{1}, page: true, phrase: "one operation too many or too few"}.check(t, j.verdict())
}

func TestX2EvidenceOfTheNode(t *testing.T) {
	link := func() *hungJob {
		return newHungJob(2).comm("dp", 0, 1).in("dp", "AllReduce", []int{0, 1}, flows(map[int][]rca.Flow{
			0: {send(1, 8, 6, 6, 5), recv(1, 9, 6, 6, 6)}, 1: {send(0, 8, 6, 6, 6), recv(0, 9, 5, 5, 5)},
		}))
	}
	t.Run("the sender's own link by default", func(t *testing.T) {
		want{class: rca.Fault, cause: rca.CauseNetworkSend, ranks: []int{0}, page: true}.check(t, link().verdict())
	})
	t.Run("the receiver's port is down", func(t *testing.T) {
		j := link()
		j.ev.Facts = []rca.Fact{{Host: "node1", Rank: -1, Component: "nic", Kind: "port_down"}}
		want{class: rca.Fault, cause: rca.CauseNetworkSend, ranks: []int{1}, page: true}.check(t, j.verdict())
	})
	t.Run("one GPU of a host has an error", func(t *testing.T) {
		j := newHungJob(4).comm("tp", 0, 1, 2, 3).in("tp", "AllReduce", []int{0, 1, 2, 3})
		for r := range 4 {
			j.rank(r).Host = "node0"
		}
		j.ev.Facts = []rca.Fact{{Host: "node0", Rank: 2, Component: "gpu", Kind: "xid", Value: 79, Text: "GPU has fallen off the bus"}}
		v := j.verdict()
		want{class: rca.Fault, cause: rca.CauseGPU, ranks: []int{2}, page: true}.check(t, v)
		if !slices.ContainsFunc(v.Evidence, func(e string) bool { return strings.Contains(e, "fallen off the bus") }) {
			t.Errorf("evidence %q lacks the node's own", v.Evidence)
		}
	})
	t.Run("an ailment elsewhere accuses nobody", func(t *testing.T) {
		j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1})
		j.ev.Facts = []rca.Fact{{Host: "node0", Rank: 0, Component: "gpu", Kind: "xid", Value: 79}}
		want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true}.check(t, j.verdict())
	})
}

func TestX1SeveralCulprits(t *testing.T) {
	j := newHungJob(6).comm("dp", 0, 1, 2, 3, 4, 5).in("dp", "AllReduce", []int{0, 1, 2, 5})
	j.rank(3).State = rca.ProcessStopped
	v := j.verdict()
	if got := rcatest.CulpritRanks(v); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("got %v, want both 3 and 4\n%s", got, v.Summary)
	}
}

func TestSharedNICOfSeveralLinks(t *testing.T) {
	// Neither what rank 1 sends nor what is sent to it makes progress: its NIC is at fault, not its neighbour.
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}, flows(map[int][]rca.Flow{
		0: {send(1, 8, 6, 6, 5), recv(2, 9, 5, 5, 5)},
		1: {send(2, 8, 5, 5, 4), recv(0, 9, 5, 5, 5)},
		2: {send(0, 8, 5, 5, 5), recv(1, 9, 4, 4, 4)},
	}))
	want{class: rca.Fault, cause: rca.CauseNetworkSend, ranks: []int{1}, page: true}.check(t, j.verdict())
}

func TestBenign(t *testing.T) {
	hang := func(age time.Duration) *hungJob {
		return newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 3}, func(_ int, o *rca.Op) { o.Age, o.Stuck = age, age })
	}
	first := func(j *hungJob) *hungJob {
		for r := range 4 {
			m := j.on(r, "dp")
			m.Completed, m.Started, m.Called = 0, 0, m.Called-100
			for i := range m.InFlight {
				m.InFlight[i].Number, m.InFlight[i].Seq = 0, 0
			}
		}
		return j
	}
	for _, c := range []struct {
		name string
		job  *hungJob
		edit func(*hungJob)
		want want
	}{
		{"checkpoint", hang(60 * time.Second), func(j *hungJob) { j.rank(2).WriteBytesPerSec = 500e6 }, want{rca.Benign, rca.CauseCheckpoint, []int{2}, false, "writing a checkpoint"}},
		{"checkpoint by stack", hang(60 * time.Second), func(j *hungJob) {
			j.rank(2).WriteBytesPerSec = -1
			j.rank(2).Stack = []string{"train", "save_checkpoint", "write"}
		}, want{rca.NotEntered, rca.CauseNotCalled, []int{2}, true, "in save_checkpoint"}},
		{"checkpoint with storage stuck", hang(60 * time.Second), func(j *hungJob) { j.rank(2).State = rca.ProcessDisk }, want{rca.NotEntered, rca.CauseStorage, []int{2}, true, "blocked in storage"}},
		{"checkpoint stack with no bytes", hang(60 * time.Second), func(j *hungJob) { j.rank(2).Stack = []string{"save_checkpoint"} }, want{rca.NotEntered, rca.CauseStorage, []int{2}, true, ""}},
		{"checkpoint does not hide a stopped process", hang(60 * time.Second), func(j *hungJob) {
			j.rank(2).WriteBytesPerSec = 500e6
			j.rank(2).State = rca.ProcessStopped
		}, want{rca.NotEntered, rca.CauseProcessStopped, []int{2}, true, ""}},
		{"first step, busy", first(hang(5 * time.Minute)), func(*hungJob) {}, want{rca.Benign, rca.CauseFirstStep, []int{2}, false, "hardly begun"}},
		{"first step, idle for short", first(hang(30 * time.Second)), func(j *hungJob) { j.rank(2).CPUCores = 0 }, want{rca.Benign, rca.CauseFirstStep, []int{2}, false, ""}},
		{"first step, idle for long", first(hang(5 * time.Minute)), func(j *hungJob) { j.rank(2).CPUCores = 0 }, want{rca.NotEntered, rca.CauseNotCalled, []int{2}, true, ""}},
		{"first step, stopped", first(hang(30 * time.Second)), func(j *hungJob) { j.rank(2).State = rca.ProcessStopped }, want{rca.NotEntered, rca.CauseProcessStopped, []int{2}, true, ""}},
		{"job end", hang(10 * time.Second), func(j *hungJob) { j.rank(2).State, j.rank(1).State = rca.ProcessExited, rca.ProcessExited }, want{rca.Benign, rca.CauseJobEnd, []int{1, 2}, false, ""}},
		{"one exits early", hang(10 * time.Second), func(j *hungJob) { j.rank(2).State = rca.ProcessExited }, want{rca.NotEntered, rca.CauseProcessGone, []int{2}, true, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.edit(c.job)
			c.want.check(t, c.job.verdict())
		})
	}
	t.Run("all exited", func(t *testing.T) {
		j := newHungJob(2).comm("dp", 0, 1)
		j.rank(0).State, j.rank(1).State = rca.ProcessExited, rca.ProcessExited
		want{class: rca.Benign, cause: rca.CauseJobEnd}.check(t, j.verdict())
	})
}

// TestSizeIsNoPatience: an AllReduce of four bytes, once an iteration over the world, gets the same treatment as any other. The
// service decides how long a live rank may stay away before it pages.
func TestSizeIsNoPatience(t *testing.T) {
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1}, func(_ int, o *rca.Op) { o.Barrier, o.Bytes, o.Age, o.Stuck = true, 4, 10*time.Second, 10*time.Second })
	v := j.verdict()
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true}.check(t, v)
	if v.Waited != 10 {
		t.Errorf("the others have waited %g s, want 10", v.Waited)
	}
}

// TestKernelBehindAnotherFault: a kernel that has not started is no second fault where a link failed as early: its GPU may wait
// for what the link holds. A kernel that has waited for much longer is one.
func TestKernelBehindAnotherFault(t *testing.T) {
	for _, tc := range []struct {
		age  time.Duration // Age of the operation whose kernel has not started; the link failed 6 s ago.
		want []int
	}{{6 * time.Second, []int{1}}, {7 * time.Second, []int{1}}, {30 * time.Second, []int{1, 2}}} {
		j := newHungJob(4).comm("dp", 0, 1).comm("pp", 2, 3)
		j.in("dp", "AllReduce", []int{0, 1}, flows(map[int][]rca.Flow{
			0: {send(1, 8, 5, 5, 5), recv(1, 8, 0, 0, 0)}, 1: {send(0, 8, 5, 5, 0), recv(0, 8, 5, 5, 5)},
		}))
		j.in("pp", "AllReduce", []int{2, 3}, func(r int, o *rca.Op) {
			o.Age, o.Stuck = tc.age, tc.age
			if r == 2 {
				o.State, o.KernelStarted = rca.OpEnqueued, 0
			}
		}, flows(map[int][]rca.Flow{2: {send(3, 4, 0, 0, 0), recv(3, 4, 0, 0, 0)}, 3: {send(2, 4, 0, 0, 0), recv(2, 4, 0, 0, 0)}}))
		v := j.verdict()
		got := rcatest.Accused(v)
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("a kernel waits for %s beside a link: accuses %v, want %v: %s", tc.age, got, tc.want, v.Summary)
		}
	}
}

// TestCulpritsKeepTheirCauses: of two faults at once each culprit carries its own class, cause and action.
func TestCulpritsKeepTheirCauses(t *testing.T) {
	j := newHungJob(8).comm("left", 0, 1, 2, 3).comm("right", 4, 5, 6, 7)
	j.in("left", "AllReduce", []int{0, 1, 2}).in("right", "AllReduce", []int{4, 5, 6})
	j.rank(7).State = rca.ProcessGone
	v := j.verdict()
	if len(v.Culprits) != 2 {
		t.Fatalf("%d culprits, want 2: %+v", len(v.Culprits), v.Culprits)
	}
	got := map[int]rca.Cause{}
	for _, c := range v.Culprits {
		got[c.Rank] = cmp.Or(c.Cause, v.Cause)
		if class := cmp.Or(c.Class, v.Class); class != rca.NotEntered && class != rca.Fault {
			t.Errorf("rank %d is of class %s", c.Rank, class)
		}
		if action := cmp.Or(c.Action, v.Action); action != rca.ActionFor(cmp.Or(c.Class, v.Class), got[c.Rank]) {
			t.Errorf("rank %d: action %q", c.Rank, action)
		}
	}
	if got[3] != rca.CauseNotCalled || got[7] != rca.CauseProcessGone {
		t.Errorf("causes are %v, want rank 3 not called, rank 7 gone", got)
	}
}

func TestHealthySkewIsNoHang(t *testing.T) {
	j := newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 2, 3}, func(_ int, o *rca.Op) { o.Age, o.Stuck = 40*time.Millisecond, 10*time.Millisecond })
	want{class: rca.Healthy, cause: rca.CauseUnknown}.check(t, j.verdict())
}

func TestMinorityAheadIsInnocent(t *testing.T) {
	// Two of eight are ahead (NVIDIA/nccl#1911). They wait for those behind, and among these for the rank that is outside.
	j := newHungJob(8).comm("dp", 0, 1, 2, 3, 4, 5, 6, 7).comm("tp", 2, 3, 4, 5, 6, 7)
	j.in("dp", "AllReduce", []int{0, 1}).in("tp", "AllReduce", []int{2, 3, 4, 5, 6})
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{7}, page: true}.check(t, j.verdict())
}

func TestHostLost(t *testing.T) {
	j := newHungJob(8).comm("dp", 0, 1, 2, 3, 4, 5, 6, 7).comm("tp", 0, 1, 2, 3, 6, 7)
	j.in("dp", "AllReduce", []int{0, 1, 2, 3, 4, 5})
	j.ev.Ranks = j.ev.Ranks[:6]
	j.ev.Missing = []rca.Missing{{What: "exporter", Name: "node3:9400", Ranks: []int{6, 7}, Why: "connection refused"}}
	v := j.verdict()
	want{class: rca.Fault, cause: rca.CauseHostLost, ranks: []int{6, 7}, page: true, phrase: "node3:9400"}.check(t, v)
	if !slices.Equal(v.Ask, []int{6, 7}) {
		t.Errorf("asks for %v, want 6 and 7", v.Ask)
	}
}

func TestIntraHostGroup(t *testing.T) {
	// All members of an NVLink group are inside and no flow is seen: the host is named, not a rank.
	j := newHungJob(4).comm("tp", 0, 1, 2, 3).in("tp", "AllReduce", []int{0, 1, 2, 3})
	for r := range 4 {
		j.rank(r).Host = "node0"
	}
	want{class: rca.Fault, cause: rca.CauseGPU, ranks: []int{-1}, page: true}.check(t, func() rca.Verdict {
		v := j.verdict()
		if v.Class == rca.Fault && v.Culprits[0].Host != "node0" {
			t.Errorf("host %q, want node0", v.Culprits[0].Host)
		}
		v.Page = true
		return v
	}())
}

func TestFlightRecorderOnlyPendingEntries(t *testing.T) {
	// Ranks 9 and 14 have empty lists; their peers wait in an all-to-all of a group (as in the GIL sample).
	j := newHungJob(16).comm("72", 1, 9, 14, 6)
	for r := range 16 {
		rk := j.rank(r)
		rk.State, rk.Caps, rk.CPUCores, rk.WriteBytesPerSec, rk.ReadBytesPerSec = rca.ProcessUnknown, rca.SeesCalls, -1, -1, -1
		for i := range rk.Memberships {
			m := &rk.Memberships[i]
			m.SinceCalled, m.SinceCompleted, m.Started, m.Completed, m.Called = -1, -1, -1, -1, 45265
		}
	}
	j.in("72", "AlltoAll", []int{1, 6}, func(_ int, o *rca.Op) {
		o.State, o.KernelStarted, o.KernelStopped, o.Age, o.Stuck, o.Bytes = rca.OpEnqueued, -1, -1, -1, -1, -1
	})
	v := j.verdict()
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{9, 14}, page: true}.check(t, v)
}
