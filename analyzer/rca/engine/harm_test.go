// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// accusesNobody fails the test where the verdict names a rank as guilty.
func accusesNobody(t *testing.T, v rca.Verdict) {
	t.Helper()
	switch v.Class {
	case rca.Healthy, rca.Benign, rca.Unknown, rca.Imbalance, rca.GlobalSlow:
		if v.Page {
			t.Errorf("pages: %s/%s (%g)\n%s", v.Class, v.Cause, v.Confidence, v.Summary)
		}
	default:
		t.Errorf("accuses %v: %s/%s (%g)\n%s", v.Culprits, v.Class, v.Cause, v.Confidence, v.Summary)
	}
}

// grid is a job of tensor-parallel pairs, one pair per host, and data-parallel groups across the hosts.
func grid(hosts int) *hungJob {
	j := newHungJob(2 * hosts)
	var dp [2][]int
	for h := range hosts {
		j.comm("tp_"+string(rune('0'+h)), 2*h, 2*h+1)
		for k := range 2 {
			j.rank(2*h + k).Host = "node" + string(rune('0'+h))
			dp[k] = append(dp[k], 2*h+k)
		}
	}
	return j.comm("dp_0", dp[0]...).comm("dp_1", dp[1]...)
}

// TestRobustRunAhead: hosts call an iteration ahead. An operation that waits for its turn is not a kernel that never started
// while its GPU makes progress, even if one host claims to have finished what no other host has begun.
func TestRobustRunAhead(t *testing.T) {
	j := grid(3)
	for h := range 3 {
		tp := "tp_" + string(rune('0'+h))
		j.queued(tp, "AllReduce", 2*h, 2*h+1)
		for k := range 2 {
			j.on(2*h+k, tp).SinceCompleted = 20 * time.Millisecond
		}
	}
	j.queued("dp_0", "ReduceScatter", 2, 4)
	j.queued("dp_1", "ReduceScatter", 3, 5)
	j.in("dp_0", "ReduceScatter", []int{0}, flows(map[int][]rca.Flow{0: {send(1, 100, 100, 100, 100), recv(2, 100, 100, 100, 100)}}))
	j.in("dp_1", "ReduceScatter", []int{1}, flows(map[int][]rca.Flow{1: {send(1, 100, 100, 100, 100), recv(2, 100, 100, 100, 100)}}))
	accusesNobody(t, j.verdict())

	for h := range 3 {
		for k := range 2 {
			j.on(2*h+k, "tp_"+string(rune('0'+h))).SinceCompleted = 5 * time.Second
		}
	}
	if v := j.verdict(); v.Class != rca.NotEntered && v.Class != rca.Fault {
		t.Errorf("nothing completes any more: %s\n%s", v.Class, v.Summary)
	}
}

// TestRobustOneClock: one host reports that it has made no progress for an hour in an operation in which its peers on other hosts
// do.
func TestRobustOneClock(t *testing.T) {
	moving := func(_ int, o *rca.Op) {
		o.Stuck = time.Millisecond
		for i := range o.Flows {
			o.Flows[i].Stuck = time.Millisecond
		}
	}
	j := newHungJob(6)
	for p, name := range []string{"dp_0", "dp_1", "dp_2"} {
		j.comm(name, 2*p, 2*p+1)
		j.in(name, "AllReduce", []int{2 * p, 2*p + 1}, flows(map[int][]rca.Flow{
			2 * p: {send(1, 8, 6, 6, 5), recv(1, 8, 5, 5, 5)}, 2*p + 1: {send(0, 8, 6, 6, 5), recv(0, 8, 5, 5, 5)},
		}), moving)
	}
	o := &j.on(0, "dp_0").InFlight[0]
	o.Age, o.Stuck = time.Hour, time.Hour
	for i := range o.Flows {
		o.Flows[i].Stuck = time.Hour
	}
	accusesNobody(t, j.verdict())

	// A second host without progress confirms that the job stands still.
	for _, r := range []int{2, 3} {
		o := &j.on(r, "dp_1").InFlight[0]
		o.Stuck, o.Flows[0].Stuck, o.Flows[1].Stuck = 6*time.Second, 6*time.Second, 6*time.Second
	}
	if v := j.verdict(); v.Class == rca.Healthy {
		t.Errorf("two hosts stand still: %s\n%s", v.Class, v.Summary)
	}
}

// TestRobustOneClockWithinAHost: one host says that its ranks have been in an operation of their own for a day. The others, with which they
// have completed operations since, know better.
func TestRobustOneClockWithinAHost(t *testing.T) {
	const wrong = 1
	j := grid(3)
	for r := range j.ev.Ranks {
		h := r / 2
		age := pick(h == wrong, 24*time.Hour, time.Millisecond)
		j.in("tp_"+string(rune('0'+h)), "AllReduce", []int{r}, func(_ int, o *rca.Op) { o.Age, o.Stuck = age, age })
		for i := range j.rank(r).Memberships {
			m := &j.rank(r).Memberships[i]
			m.SinceCalled, m.SinceCompleted = age, max(age, 200*time.Millisecond)
		}
	}
	accusesNobody(t, j.verdict())

	// Where nothing was completed since, the host is right.
	for r := range j.ev.Ranks {
		for i := range j.rank(r).Memberships {
			j.rank(r).Memberships[i].SinceCompleted = 24 * time.Hour
		}
	}
	if v := j.verdict(); v.Class != rca.Fault {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
}

// halfSeen is a job of two hosts with four ranks each. The second host does not answer. Each rank of the first shares a
// communicator with one of the second, and all ranks share the world.
func halfSeen() *hungJob {
	j := newHungJob(8)
	for h := range 2 {
		j.comm([]string{"tp_0", "tp_1"}[h], 4*h, 4*h+1, 4*h+2, 4*h+3)
	}
	for k := range 4 {
		j.comm([]string{"dp_0", "dp_1", "dp_2", "dp_3"}[k], k, 4+k)
		j.rank(k).Host, j.rank(4+k).Host = "node0", "node1"
	}
	return j.comm("world", 0, 1, 2, 3, 4, 5, 6, 7)
}

func (j *hungJob) silence(host string) *hungJob {
	m := rca.Missing{What: "exporter", Name: host, Why: "no answer"}
	j.ev.Ranks = slices.DeleteFunc(j.ev.Ranks, func(r rca.Rank) bool {
		if r.Host == host {
			m.Ranks = append(m.Ranks, r.ID)
		}
		return r.Host == host
	})
	j.ev.Missing = append(j.ev.Missing, m)
	return j
}

// TestRobustSilentHost: a silent host is lost if all ranks that share a communicator with it wait for it. Where one rank alone
// waits and its neighbours moved past that place, that rank may have made a wrong call, and is named if its calls show it.
func TestRobustSilentHost(t *testing.T) {
	mates := []int{1, 2, 3}
	gotOn := func(j *hungJob) { // The mates have finished #100 with the silent host and wait for the rest of the world.
		for i, k := range mates {
			m := j.on(k, []string{"dp_1", "dp_2", "dp_3"}[i])
			m.Called, m.Completed = 101, 101
		}
		j.in("world", "AllReduce", mates)
	}
	recent := func(m *rca.Membership, fn string, bytes int64) {
		m.Recent = append(m.Recent, rca.Op{Number: 99, Seq: 99, Func: fn, Peer: -1, Root: -1, Bytes: bytes, Datatype: "float32", State: rca.OpLeft})
	}
	for _, c := range []struct {
		name  string
		build func(j *hungJob)
		want  want
		group string
	}{
		{
			name: "all wait", build: func(j *hungJob) {
				for k, dp := range []string{"dp_0", "dp_1", "dp_2", "dp_3"} {
					j.in(dp, "ReduceScatter", []int{k})
				}
			},
			want: want{class: rca.Fault, cause: rca.CauseHostLost, ranks: []int{4, 5, 6, 7}, page: true},
		},
		{
			name: "one waits", build: func(j *hungJob) {
				gotOn(j)
				j.in("dp_0", "ReduceScatter", []int{0})
				j.queued("world", "AllReduce", 0)
			},
			want:  want{class: rca.Unknown, cause: rca.CauseUnknown, ranks: []int{-1}},
			group: "suspects: rank 0 or ranks 4, 5, 6, 7 of node1",
		},
		{
			name: "one waits after another size", build: func(j *hungJob) {
				gotOn(j)
				recent(j.on(0, "dp_0"), "ReduceScatter", 1<<19)
				for i, k := range mates {
					recent(j.on(k, []string{"dp_1", "dp_2", "dp_3"}[i]), "ReduceScatter", 1<<20)
				}
				j.in("dp_0", "ReduceScatter", []int{0})
				j.queued("world", "AllReduce", 0)
			},
			want: want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0}, page: true, phrase: "524288 bytes at place 99"},
		},
		{
			name: "one left a call out", build: func(j *hungJob) {
				gotOn(j)
				j.in("world", "AllReduce", []int{0})
			},
			want: want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0}, page: true, phrase: "has called 100 operations on dp_0"},
		},
		{
			name: "one went on first", build: func(j *hungJob) {
				gotOn(j)
				j.in("world", "AllReduce", []int{0})
				j.in("dp_0", "AllGather", []int{0}, func(_ int, o *rca.Op) {
					o.State, o.KernelStarted = rca.OpEnqueued, 0
					o.Flows = []rca.Flow{send(1, 4, 0, 0, 0), recv(1, 4, 2, 2, 0)}
				})
			},
			want: want{class: rca.Inconsistent, cause: rca.CauseDeadlock, ranks: []int{0}, page: true, phrase: "has not begun AllGather #100 of dp_0"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := halfSeen()
			c.build(j)
			v := j.silence("node1").verdict()
			c.want.check(t, v)
			if c.group != "" && (len(v.Culprits) != 1 || v.Culprits[0].Group != c.group) {
				t.Errorf("culprits %+v, want %q", v.Culprits, c.group)
			}
		})
	}
}

// TestRobustHeard: a host that was lost when the job stopped was heard of until then. A host that fell silent earlier, or was
// heard of since, does not answer for another reason; beside such a host, a lost one is told apart.
func TestRobustHeard(t *testing.T) {
	lost := want{class: rca.Fault, cause: rca.CauseHostLost, ranks: []int{4, 5, 6, 7}, page: true}
	unknown := want{class: rca.Unknown, cause: rca.CauseUnknown, ranks: []int{-1}, phrase: "It is not lost"}
	for _, c := range []struct {
		name  string
		heard time.Duration
		want  want
	}{
		{"nobody knows", 0, lost},
		{"until the job stopped", 12 * time.Second, lost},
		{"long silent", time.Hour, unknown},
		{"heard since", 2 * time.Second, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := halfSeen()
			for k, dp := range []string{"dp_0", "dp_1", "dp_2", "dp_3"} {
				j.in(dp, "ReduceScatter", []int{k})
			}
			j.silence("node1").ev.Missing[0].Heard = c.heard
			c.want.check(t, j.verdict())
		})
	}
	j := newHungJob(12)
	for h := range 3 {
		for k := range 4 {
			j.rank(4*h + k).Host = []string{"node0", "node1", "node2"}[h]
		}
	}
	for k, dp := range []string{"dp_0", "dp_1", "dp_2", "dp_3"} {
		j.comm(dp, k, 4+k, 8+k).in(dp, "ReduceScatter", []int{k})
	}
	j.silence("node1").silence("node2")
	j.ev.Missing[0].Heard, j.ev.Missing[1].Heard = 12*time.Second, time.Hour
	lost.check(t, j.verdict())
}

// TestRobustGroupWithoutKernels: sends and receives of one group run in one kernel, so they have no order. Without kernel events,
// a send that moved data is known to run, and a receive that got nothing is not.
func TestRobustGroupWithoutKernels(t *testing.T) {
	j := newHungJob(3).comm("ep", 0, 1, 2)
	for r := range 3 {
		j.rank(r).Caps &^= rca.SeesKernels
	}
	call := func(r, peer int, fn string, f rca.Flow) {
		j.in("ep", fn, []int{r}, func(_ int, o *rca.Op) {
			o.Peer, o.Seq, o.KernelStarted, o.KernelStopped, o.Flows = peer, 50, -1, -1, []rca.Flow{f}
			if o.State = rca.OpMoving; f.Ready == 0 {
				o.State = rca.OpEnqueued
			}
		})
	}
	// Nothing crosses rank 2's network in either direction.
	call(2, 0, "Send", send(0, 8, 8, 8, 0))
	call(2, 0, "Recv", recv(0, 8, 0, 0, 0))
	call(2, 1, "Send", send(1, 8, 8, 8, 0))
	call(2, 1, "Recv", recv(1, 8, 0, 0, 0))
	for r := range 2 {
		call(r, 2, "Send", send(2, 8, 8, 8, 0))
		call(r, 2, "Recv", recv(2, 8, 0, 0, 0))
	}
	v := j.verdict()
	want{class: rca.Fault, cause: rca.CauseNetworkSend, ranks: []int{2}, page: v.Page}.check(t, v)
}

// TestRobustTreeAcrossHosts: two trees over four hosts. One ends at rank 0, which does not take what has arrived. In the other,
// rank 1 on the same host sends nothing up. Ranks whose data was not taken wait for that.
func TestRobustTreeAcrossHosts(t *testing.T) {
	j := newHungJob(8)
	for r := range 8 {
		j.rank(r).Host = []string{"node0", "node1", "node2", "node3"}[r/2]
	}
	on := func(ch int, f rca.Flow) rca.Flow { f.Channel, f.Total = ch, 1; return f }
	j.comm("world", 0, 1, 2, 3, 4, 5, 6, 7).in("world", "AllReduce", []int{0, 1, 2, 3, 4, 5, 6, 7}, flows(map[int][]rca.Flow{
		0: {on(0, send(2, 1, 0, 0, 0)), on(0, recv(2, 1, 1, 1, 0))},
		1: {on(1, send(3, 1, 0, 0, 0)), on(1, recv(3, 1, 0, 0, 0))},
		2: {on(0, send(4, 1, 0, 0, 0)), on(0, send(6, 1, 0, 0, 0)), on(0, recv(0, 1, 0, 0, 0))},
		3: {
			on(1, send(1, 1, 0, 0, 0)), on(1, send(5, 1, 0, 0, 0)), on(1, send(7, 1, 0, 0, 0)),
			on(1, recv(1, 1, 0, 0, 0)), on(1, recv(5, 1, 0, 0, 0)), on(1, recv(7, 1, 1, 1, 0)),
		},
		4: {on(0, recv(2, 1, 0, 0, 0))},
		5: {on(1, send(3, 1, 0, 0, 0)), on(1, recv(3, 1, 0, 0, 0))},
		6: {on(0, recv(2, 1, 0, 0, 0))},
		7: {on(1, recv(3, 1, 0, 0, 0))},
	}), func(_ int, o *rca.Op) { o.Algo, o.Channels, o.KernelStarted = "tree", 2, 2 })
	v := j.verdict()
	if v.Class != rca.Fault || v.Culprits[0].Host != "node0" {
		t.Errorf("got %s %+v\n%s", v.Class, v.Culprits, v.Summary)
	}
	j.ev.Facts = []rca.Fact{{Host: "node0", Rank: 1, Component: "gpu", Device: "1", Kind: "nvlink_errors", Value: 250}}
	want{class: rca.Fault, cause: rca.CauseGPU, ranks: []int{1}, page: true}.check(t, j.verdict())
}

// TestRobustEndsUnseen: where no end is recorded, an operation in flight shows nothing. What a member has not called cannot have
// ended. Where all members have called it, it is not known whether any rank stands still.
func TestRobustEndsUnseen(t *testing.T) {
	unseen := func(_ int, o *rca.Op) {
		o.State, o.KernelStarted, o.KernelStopped, o.NoCompletion = rca.OpEnqueued, -1, -1, true
	}
	j := newHungJob(4).comm("dp", 0, 1, 2, 3)
	for r := range 4 {
		j.rank(r).Caps &^= rca.SeesKernels | rca.SeesSteps
	}
	j.in("dp", "AllReduce", []int{0, 1, 3}, unseen).in("dp", "AllReduce", []int{0, 1, 3}, unseen)
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true, phrase: "has not called AllReduce #100"}.check(t, j.verdict())

	j.in("dp", "AllReduce", []int{2}, unseen).in("dp", "AllReduce", []int{2}, unseen)
	v := j.verdict()
	want{class: rca.Unknown, cause: rca.CauseUnknown, phrase: "this source records no completions"}.check(t, v)
	if v.Standstill < 2 {
		t.Errorf("has lasted for %g s", v.Standstill)
	}
	larger := &j.on(0, "dp").InFlight[1]
	larger.Bytes *= 2
	want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0}, page: true, phrase: "2097152 bytes"}.check(t, j.verdict())
	j.on(2, "dp").SinceCalled = time.Second // It makes progress all the same.
	if v := j.verdict(); v.Class == rca.Inconsistent {
		t.Errorf("while ranks call: %s", v.Summary)
	}
	j.on(2, "dp").SinceCalled = 9 * time.Second
	larger.Bytes /= 2

	j.ev.Facts = []rca.Fact{{Host: "node3", Rank: 3, Component: "gpu", Kind: "xid", Value: 79, Text: "GPU has fallen off the bus"}}
	shown := j.verdict()
	want{class: rca.Fault, cause: rca.CauseGPU, ranks: []int{3}, page: true, phrase: "has a GPU that shows an error"}.check(t, shown)
	if !shown.MayGetOn || shown.Standstill < 2 {
		t.Errorf("pages at once: %+v", shown)
	}
	j.ev.Facts = append(j.ev.Facts, rca.Fact{Host: "node0", Rank: 0, Component: "gpu", Kind: "xid", Value: 79})
	if v := j.verdict(); v.Class != rca.Unknown {
		t.Errorf("of two GPUs with errors: %s", v.Summary)
	}
	j.rank(3).NIC = "mlx5_0"
	j.ev.Facts = []rca.Fact{{Host: "node3", Rank: -1, Component: "nic", Device: "mlx5_0", Kind: "port_down"}}
	want{class: rca.Fault, cause: rca.CauseNetworkSend, ranks: []int{3}, page: true, phrase: "The NIC mlx5_0 of node3 is down"}.check(t, j.verdict())
	j.ev.Facts = nil

	lost := newHungJob(4)
	*lost = *j
	lost.ev.Ranks = j.ev.Ranks[:3]
	lost.ev.Missing = []rca.Missing{{What: "exporter", Name: "node3:9400", Ranks: []int{3}, Why: "no answer in 2 s", Heard: 10 * time.Second}}
	want{class: rca.Fault, cause: rca.CauseHostLost, ranks: []int{3}, page: true, phrase: "It fell silent when the job stopped"}.check(t, lost.verdict())
	for _, spoil := range []func(m *rca.Missing){
		func(m *rca.Missing) { m.Alive = true },
		func(m *rca.Missing) { m.Heard = time.Hour },
		func(m *rca.Missing) { m.Heard = 0 },
	} {
		m := lost.ev.Missing[0]
		spoil(&lost.ev.Missing[0])
		if v := lost.verdict(); v.Class != rca.Unknown {
			t.Errorf("%+v: %s", lost.ev.Missing[0], v.Summary)
		}
		lost.ev.Missing[0] = m
	}
	j.ev.Facts = []rca.Fact{{Host: "node3", Rank: 3, Component: "gpu", Kind: "xid", Value: 79}}
	j.rank(1).WriteBytesPerSec = 50e6 // A rank that all wait for elsewhere writes a checkpoint.
	if v := j.verdict(); v.Class != rca.Unknown || v.Standstill != 0 {
		t.Errorf("while bytes move: %s, has lasted for %g s", v.Class, v.Standstill)
	}
	j.rank(1).WriteBytesPerSec = 0

	for r := range 4 {
		j.on(r, "dp").SinceCalled = 100 * time.Millisecond
	}
	want{class: rca.Healthy, cause: rca.CauseUnknown}.check(t, j.verdict())
}

// TestRobustLostRecord: a rank whose record at a place was lost did call something there. It shows a later call that others have
// at this place, and that does not make it odd. Only the rank whose order differs from all others is odd.
func TestRobustLostRecord(t *testing.T) {
	j := newHungJob(5).comm("dp", 0, 1, 2, 3, 4)
	numbered := func(number, seq int64) func(int, *rca.Op) {
		return func(_ int, o *rca.Op) { o.Number, o.Seq = number, seq }
	}
	j.in("dp", "ReduceScatter", []int{0}, numbered(100, 50))
	j.in("dp", "AllGather", []int{1, 2, 3, 4}, numbered(100, 50))
	j.in("dp", "AllGather", []int{0}, numbered(101, 50))
	j.in("dp", "ReduceScatter", []int{1, 2, 3, 4}, numbered(101, 50))
	m := j.on(3, "dp")
	m.InFlight = m.InFlight[1:]
	j.rank(3).Lost = 1
	want{class: rca.Inconsistent, cause: rca.CauseOtherOp, ranks: []int{0}, page: true}.check(t, j.verdict())
}

// TestRobustNothingLostOfOperations: a source may have lost records and still show every operation that was called and not
// finished. Then it is certain that nothing else runs on the GPU. If one of those is missing, it may run.
func TestRobustNothingLostOfOperations(t *testing.T) {
	j := newHungJob(3).comm("dp", 0, 1, 2).comm("tp", 1, 2)
	j.in("dp", "AllReduce", []int{0, 1})
	j.queued("dp", "AllReduce", 2)
	j.rank(2).Lost = 1
	want{class: rca.NotEntered, cause: rca.CauseKernelNotRunning, ranks: []int{2}, page: true}.check(t, j.verdict())

	j.on(2, "tp").Called++
	accusesNobody(t, j.verdict())
}
