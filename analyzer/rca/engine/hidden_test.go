// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// hidden lets ranks call an operation of the world whose call alone is recorded, as NCCL from 2.29 on does for Broadcast.
func (j *hungJob) hidden(ranks ...int) *hungJob {
	for _, r := range ranks {
		m := j.on(r, "world")
		m.InFlight = append(m.InFlight, rca.Op{
			Number: m.Called, Seq: -1, Func: "Broadcast", Peer: -1, Root: 1, Bytes: 300_000, Count: 75_000, Datatype: "float32",
			State: rca.OpCalled, Age: 7 * time.Second, Stuck: 7 * time.Second, KernelStarted: 0, NoCompletion: true,
		})
		m.Called++
		m.SinceCalled = 7 * time.Second
	}
	return j
}

// past ends the hidden operation of some ranks: a later one runs on the same communicator.
func (j *hungJob) past(ranks ...int) *hungJob {
	for _, r := range ranks {
		m := j.on(r, "world")
		o := m.InFlight[0]
		o.State = rca.OpLeft
		m.Recent, m.InFlight = append(m.Recent, o), m.InFlight[1:]
		m.Completed++
	}
	return j
}

// TestHiddenBroadcast: the end of an operation whose call alone is recorded is unknown. A rank that has called it may still be
// inside, and is never said to be outside while another member has called less. A rank that only such an operation accuses is no
// more than a suspect.
func TestHiddenBroadcast(t *testing.T) {
	ring := flows(map[int][]rca.Flow{1: {send(2, 6, 2, 2, 2), recv(0, 4, 0, 0, 0)}})
	for _, c := range []struct {
		name    string
		job     func() *hungJob
		culprit []int // Empty: no rank may be accused.
		cause   rca.Cause
	}{
		{"one rank does not enter it, its root has gone on", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 3).past(1)
			return j.in("world", "AllReduce", []int{1}, ring)
		}, []int{2}, rca.CauseNotCalled},
		{"one rank is stopped before it, its root has gone on", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 3).past(1)
			j.rank(2).State = rca.ProcessStopped
			return j.in("world", "AllReduce", []int{1}, ring)
		}, []int{2}, rca.CauseProcessStopped},
		{"one rank is stopped inside it, its root has gone on", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3).past(1)
			j.rank(2).State = rca.ProcessStopped
			return j.in("world", "AllReduce", []int{1}, ring)
		}, []int{2}, rca.CauseProcessStopped},
		{"one rank does not enter it and nothing else is called", func() *hungJob {
			return newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 3)
		}, []int{2}, rca.CauseNotCalled},
		{"the others have called the next one behind it", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 3)
			j.queued("world", "AllReduce", 0, 1, 3)
			return j
		}, []int{2}, rca.CauseNotCalled},
		{"the others have called the next one behind it, no kernels seen", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 3)
			j.in("world", "AllReduce", []int{0, 1, 3}, func(_ int, o *rca.Op) { o.State, o.KernelStarted = rca.OpEnqueued, -1 },
				flows(map[int][]rca.Flow{
					0: {send(1, 4, 0, 0, 0), recv(3, 4, 0, 0, 0)}, 1: {send(2, 4, 0, 0, 0), recv(0, 4, 0, 0, 0)}, 3: {send(0, 4, 0, 0, 0), recv(2, 4, 0, 0, 0)},
				}))
			for r := range 4 {
				j.rank(r).Caps &^= rca.SeesKernels
			}
			return j
		}, []int{2}, rca.CauseNotCalled},
		{"its data stops between two members", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3).past(1, 2)
			return j.in("world", "AllReduce", []int{1, 2}, flows(map[int][]rca.Flow{
				1: {send(2, 6, 2, 2, 2), recv(0, 4, 0, 0, 0)}, 2: {send(3, 6, 2, 2, 2), recv(1, 6, 2, 2, 2)},
			}))
		}, nil, rca.CauseUnknown},
		{"its data stops before the last member", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3).past(1, 2, 3)
			return j.in("world", "AllReduce", []int{1, 2, 3}, flows(map[int][]rca.Flow{
				1: {send(2, 6, 2, 2, 2), recv(0, 4, 0, 0, 0)}, 2: {send(3, 6, 2, 2, 2), recv(1, 6, 2, 2, 2)}, 3: {send(0, 6, 2, 0, 0), recv(2, 6, 2, 2, 2)},
			}))
		}, nil, rca.CauseUnknown},
		{"all have called it and the job rests", func() *hungJob {
			return newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3)
		}, nil, rca.CauseUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job().verdict()
			if !slices.Equal(rcatest.Accused(v), c.culprit) || v.Cause != c.cause {
				t.Errorf("%s/%s (%g) accuses %v, want %v %s: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), c.culprit, c.cause, v.Summary)
			}
			if len(c.culprit) == 0 && (v.Page || v.Class == rca.Healthy) {
				t.Errorf("%s, page %v: %s", v.Class, v.Page, v.Summary)
			}
		})
	}
}

// TestHiddenBroadcastHeldOnTheWay: a member that went on has data and room, and its proxy has not begun to send, because its
// earlier data blocks the connection. Its GPU is not at fault.
func TestHiddenBroadcastHeldOnTheWay(t *testing.T) {
	j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3).past(1)
	j.in("world", "AllReduce", []int{1, 2}, flows(map[int][]rca.Flow{
		1: {send(2, 6, 2, 2, 2), recv(0, 4, 0, 0, 0)}, 2: {send(3, 0, 0, 0, 0), recv(1, 4, 2, 2, 0)},
	}))
	v := j.verdict()
	if len(rcatest.Accused(v)) > 0 || v.Page || len(v.Culprits) != 1 || !strings.Contains(v.Culprits[0].Group, "link 2->3") {
		t.Errorf("%s/%s %+v: %s", v.Class, v.Cause, v.Culprits, v.Summary)
	}
}

// TestHiddenBroadcastLongPast: a rank has finished operations that it called after a hidden one, so it has left the hidden one.
func TestHiddenBroadcastLongPast(t *testing.T) {
	j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3).past(0, 1, 3)
	m := j.on(2, "world")
	for range 3 {
		m.Recent = append(m.Recent, rca.Op{Number: m.Called, Seq: m.Called, Func: "AllReduce", Peer: -1, State: rca.OpLeft, Age: 6900 * time.Millisecond})
		for r := range 4 {
			j.on(r, "world").Called++
			j.on(r, "world").Completed++
		}
	}
	m.Completed, m.SinceCompleted = m.Called-1, 6800*time.Millisecond
	v := j.in("world", "AllReduce", []int{0, 1, 3}).verdict()
	if v.Cause != rca.CauseNotCalled || !slices.Equal(rcatest.Accused(v), []int{2}) {
		t.Errorf("%s/%s accuses %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Summary)
	}
}

// TestHiddenBroadcastSaysWhatWouldDecide: where no rank can be named, the verdict says why and what would show more.
func TestHiddenBroadcastSaysWhatWouldDecide(t *testing.T) {
	j := newHungJob(4).comm("world", 0, 1, 2, 3).hidden(0, 1, 2, 3).past(1, 2, 3)
	v := j.in("world", "AllReduce", []int{1, 2, 3}).verdict()
	if !strings.Contains(v.Summary, "Broadcast") || !strings.Contains(v.Action, "NCCL_ALLGATHERV_ENABLE=0") {
		t.Errorf("summary %q, action %q", v.Summary, v.Action)
	}
}

// without removes kernel events from all ranks, and the end of their last operation from some.
func (j *hungJob) without(comm string, called time.Duration, ranks ...int) *hungJob {
	for i := range j.ev.Ranks {
		j.ev.Ranks[i].Caps &^= rca.SeesKernels
	}
	for _, r := range ranks {
		m := j.on(r, comm)
		m.SinceCalled = called
		m.InFlight = append(m.InFlight, rca.Op{
			Number: m.Called - 1, Seq: m.Called - 1, Func: "AllReduce", Peer: -1, Root: -1, Bytes: 1 << 20, State: rca.OpEnqueued,
			Age: called, Stuck: called, KernelStarted: -1, KernelStopped: -1, NoCompletion: true,
		})
	}
	return j
}

// receives puts a rank into its 41st receive from another rank.
func (j *hungJob) receives(comm string, rank, peer int) *hungJob {
	return j.in(comm, "Recv", []int{rank}, func(_ int, o *rca.Op) { o.Peer, o.Seq, o.KernelStarted = peer, 40, -1 },
		flows(map[int][]rca.Flow{rank: {recv(peer, 4, 0, 0, 0)}}))
}

// TestEndsInsideAHostAreUnseen: without kernel events, only the calls of what a host's ranks do among themselves are recorded.
func TestEndsInsideAHostAreUnseen(t *testing.T) {
	for _, c := range []struct {
		name    string
		job     func() *hungJob
		accused []int
		cause   rca.Cause
	}{
		{"a GPU freezes in what two called last", func() *hungJob {
			j := newHungJob(4).comm("dp", 0, 1).comm("pp_0", 0, 2).comm("pp_1", 1, 3).without("dp", 7*time.Second, 0, 1)
			return j.receives("pp_0", 2, 0).receives("pp_1", 3, 0)
		}, nil, rca.CauseUnknown},
		{"one does not call what follows, its mate has gone on", func() *hungJob {
			j := newHungJob(4).comm("tp", 0, 1).comm("pp_0", 0, 2).comm("pp_1", 1, 3).without("tp", 7*time.Second, 0, 1)
			j.on(0, "pp_0").SinceCalled = 6 * time.Second
			return j.receives("pp_1", 3, 0)
		}, []int{1}, rca.CauseNotCalled},
		{"a rank whose edges are all inside the host, in what the others have left", func() *hungJob {
			j := newHungJob(4).comm("world", 0, 1, 2, 3).comm("pp_0", 0, 2).comm("pp_1", 1, 3).without("world", 0)
			for r := range 4 {
				m := j.on(r, "world")
				o := rca.Op{Number: 100, Seq: 100, Func: "AllReduce", Peer: -1, Root: -1, State: rca.OpEnqueued, Age: 8 * time.Second, Stuck: 8 * time.Second, KernelStarted: -1, KernelStopped: -1}
				m.Called++
				if r < 2 {
					m.InFlight = append(m.InFlight, o)
				} else {
					o.State = rca.OpLeft
					m.Recent = append(m.Recent, o)
				}
			}
			return j.receives("pp_0", 2, 0).receives("pp_1", 1, 1)
		}, []int{0, 3}, rca.CauseNotCalled},
		{"a job past its first step of which nobody sees an end", func() *hungJob {
			j := newHungJob(4).comm("dp", 0, 1, 2, 3)
			for r := range 4 {
				m := j.on(r, "dp")
				m.Called, m.Started, m.Completed, m.SinceCompleted = 15, 15, 0, -1
			}
			j.without("dp", 9*time.Second, 0, 1, 2, 3)
			return j.in("dp", "AllReduce", []int{0, 2, 3}, func(_ int, o *rca.Op) { o.State, o.KernelStarted, o.NoCompletion = rca.OpEnqueued, -1, true })
		}, []int{1}, rca.CauseNotCalled},
		{"a rank stops inside what two have left and a third cannot leave", func() *hungJob {
			j := newHungJob(4).comm("dp", 0, 1, 2, 3).without("dp", 7*time.Second, 0, 1, 2, 3)
			j.rank(1).State = rca.ProcessStopped
			return j.in("dp", "AllReduce", []int{0, 3}, func(_ int, o *rca.Op) { o.State, o.KernelStarted, o.NoCompletion = rca.OpEnqueued, -1, true })
		}, []int{1}, rca.CauseProcessStopped},
		{"a rank stops that has called ahead of its data, and a third cannot leave", func() *hungJob {
			j := newHungJob(4).comm("dp", 0, 1, 2, 3).comm("pp", 1, 3).without("dp", 7*time.Second, 0, 1, 2, 3)
			j.rank(1).State = rca.ProcessStopped
			j.on(1, "pp").SinceCalled = 6900 * time.Millisecond
			return j.in("dp", "AllReduce", []int{0, 3}, func(_ int, o *rca.Op) { o.State, o.KernelStarted, o.NoCompletion = rca.OpEnqueued, -1, true })
		}, []int{1}, rca.CauseProcessStopped},
		{"two have called collectives after a broadcast, and one of them the next", func() *hungJob {
			j := newHungJob(4).comm("tp", 0, 1).comm("dp", 1, 3).without("tp", 0)
			for r := range 2 {
				m := j.on(r, "tp")
				for i, fn := range []string{"Broadcast", "AllReduce", "AllReduce"} {
					age := 7*time.Second - time.Duration(i)*20*time.Millisecond
					m.InFlight = append(m.InFlight, rca.Op{
						Number: m.Called, Seq: m.Called, Func: fn, Peer: -1, Root: -1, Bytes: 1 << 20, State: rca.OpEnqueued, Age: age, Stuck: age,
						KernelStarted: -1, KernelStopped: -1, NoCompletion: true,
					})
					m.Called++
				}
				m.SinceCalled = 6900 * time.Millisecond
			}
			return j.in("tp", "AllReduce", []int{0}, func(_ int, o *rca.Op) { o.State, o.KernelStarted, o.NoCompletion = rca.OpEnqueued, -1, true })
		}, []int{1}, rca.CauseNotCalled},
		{"a receive inside the host whose sender has sent all but this", func() *hungJob {
			j := newHungJob(4).comm("pp_0", 0, 1).comm("dp", 1, 3).without("pp_0", 0)
			j.on(0, "pp_0").Recent = []rca.Op{{Number: 99, Seq: 39, Func: "Send", Peer: 1, State: rca.OpLeft, NoCompletion: true}}
			j.in("pp_0", "Recv", []int{1}, func(_ int, o *rca.Op) {
				o.Peer, o.Seq, o.KernelStarted, o.State, o.NoCompletion = 0, 40, -1, rca.OpEnqueued, true
			})
			return j.in("dp", "AllReduce", []int{3}, func(_ int, o *rca.Op) { o.KernelStarted = -1 }, flows(map[int][]rca.Flow{3: {send(0, 6, 2, 2, 2), recv(0, 4, 0, 0, 0)}}))
		}, []int{0}, rca.CauseNotCalled},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job().verdict()
			if !slices.Equal(rcatest.Accused(v), c.accused) || v.Cause != c.cause {
				t.Errorf("%s/%s (%g) accuses %v, want %v %s: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), c.accused, c.cause, v.Summary)
			}
		})
	}
}

// TestBehindAMemberThatStands: two of a tree's four ranks have a later operation in flight. The third stands still in the first
// operation. The fourth gets its data from the third inside the host, where no ends are recorded, so it may be inside as well: it
// is not outside.
func TestBehindAMemberThatStands(t *testing.T) {
	j := newHungJob(4).comm("world", 0, 1, 2, 3).comm("dp_0", 0, 2).comm("dp_1", 1, 3)
	for r := range 4 {
		j.rank(r).Host = []string{"node0", "node0", "node1", "node1"}[r]
	}
	unseen := func(r int, o *rca.Op) {
		o.Algo, o.State, o.KernelStarted, o.KernelStopped = "tree", rca.OpEnqueued, -1, -1
		o.NoCompletion = r == 3
		if r == 2 {
			o.State, o.KernelStarted, o.KernelStopped = rca.OpMoving, 1, 0
			o.Flows = []rca.Flow{recv(0, 1, 1, 1, 0)}
		}
	}
	j.in("world", "AllReduce", []int{2, 3}, unseen)
	for _, r := range []int{0, 1} {
		m := j.on(r, "world")
		m.Called, m.Started, m.Completed = m.Called+1, m.Started+1, m.Completed+1
	}
	waiting := func(_ int, o *rca.Op) { o.KernelStarted, o.KernelStopped = -1, -1 }
	j.in("dp_0", "AllReduce", []int{0}, waiting).in("dp_1", "AllReduce", []int{1}, waiting).in("world", "AllReduce", []int{0, 1}, waiting)
	if v := j.verdict(); len(rcatest.Accused(v)) > 0 || v.Class != rca.Fault || !strings.HasPrefix(v.Summary, "Ranks 2 and 3 on node1") {
		t.Errorf("%s %v (%g): %s", v.Class, rcatest.CulpritRanks(v), v.Confidence, v.Summary)
	}
}

// TestDeadBehindWeakEvidence: the process of one rank is gone. Its neighbour shows a kernel that has not started, behind
// operations inside the host whose ends are not recorded. That is too weak to name the neighbour, and no reason to leave out the
// dead process.
func TestDeadBehindWeakEvidence(t *testing.T) {
	j := newHungJob(4).comm("dp", 1, 3).comm("tp", 2, 3)
	for r := range 4 {
		j.rank(r).Host = []string{"node0", "node0", "node1", "node1"}[r]
	}
	j.rank(2).State = rca.ProcessGone
	j.in("tp", "AllReduce", []int{2, 3}, func(_ int, o *rca.Op) {
		o.State, o.KernelStarted, o.KernelStopped, o.NoCompletion = rca.OpEnqueued, -1, -1, true
	})
	j.in("dp", "AllReduce", []int{1, 3}, func(r int, o *rca.Op) {
		if r == 3 {
			o.KernelStarted, o.State = 0, rca.OpEnqueued
		}
	})
	want{class: rca.NotEntered, cause: rca.CauseProcessGone, ranks: []int{2}, page: true}.check(t, j.verdict())
}

// TestSeveralThatStoppedCallingAtOnce: only calls are recorded, and two ranks have called nothing since an operation that the
// others have left. That operation holds both of them, as a link does that delivers nothing further down a tree. Neither is said
// to be outside.
func TestSeveralThatStoppedCallingAtOnce(t *testing.T) {
	for _, held := range [][]int{{1, 3}, {3}} {
		j := newHungJob(4).comm("world", 0, 1, 2, 3).comm("tp_0", 0, 1).comm("tp_1", 2, 3)
		calls := func(_ int, o *rca.Op) {
			o.State, o.KernelStarted, o.KernelStopped, o.NoCompletion = rca.OpEnqueued, -1, -1, true
		}
		j.in("world", "AllReduce", []int{0, 1, 2, 3}, calls)
		for r := range 4 {
			j.rank(r).Caps = rca.SeesCalls | rca.SeesProcess
			if slices.Contains(held, r) {
				continue
			}
			name := []string{"tp_0", "tp_0", "tp_1", "tp_1"}[r]
			j.in(name, "AllReduce", []int{r}, calls, func(_ int, o *rca.Op) { o.Age, o.Stuck = 5*time.Second, 5*time.Second })
			j.on(r, name).SinceCalled = 5 * time.Second
		}
		v := j.verdict()
		if named := slices.Equal(rcatest.Accused(v), held); named != (len(held) == 1) || !named && len(rcatest.Accused(v)) > 0 {
			t.Errorf("%v: %s %v (%g): %s", held, v.Class, rcatest.CulpritRanks(v), v.Confidence, v.Summary)
		}
	}
}
