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

// paired puts two ranks on each host.
func (j *hungJob) paired() *hungJob {
	for i := range j.ev.Ranks {
		j.ev.Ranks[i].Host = []string{"node0", "node1"}[i/2]
	}
	return j
}

// tree is the downward half of a tree over four ranks, as NCCL builds it for as many nodes: rank 0 at the top, rank 2 below it,
// ranks 1 and 3 below rank 2. Ranks in out have left; rank stuck has received data and does not go on.
func (j *hungJob) tree(stuck int, out ...int) *hungJob {
	of := func(f rca.Flow) rca.Flow {
		f.Total = 1
		return f
	}
	down := map[int][]rca.Flow{
		0: {of(send(2, 1, 1, 1, 1))},
		1: {of(recv(2, 1, 0, 0, 0))},
		2: {of(recv(0, 1, 1, 1, 1)), of(send(1, 1, 1, 1, 1)), of(send(3, 1, 1, 1, 1))},
		3: {of(recv(2, 1, 0, 0, 0))},
	}
	down[stuck][0] = of(recv(down[stuck][0].Peer, 1, 1, 1, 0))
	if stuck == 2 {
		down[2] = []rca.Flow{down[2][0], of(send(1, 1, 0, 0, 0)), of(send(3, 1, 0, 0, 0))}
	}
	return j.in("world", "AllReduce", []int{0, 1, 2, 3}, func(_ int, o *rca.Op) { o.Algo = "tree" }, flows(down)).left("world", out...)
}

// unseen removes the flows between two ranks, as if they used NVLink.
func (j *hungJob) unseen(comm string, a, b int) *hungJob {
	for _, ends := range [][2]int{{a, b}, {b, a}} {
		m := j.on(ends[0], comm)
		for i := range m.InFlight {
			o := &m.InFlight[i]
			o.Flows = slices.DeleteFunc(o.Flows, func(f rca.Flow) bool { return f.Peer == ends[1] })
		}
	}
	return j
}

// behindInATree is tree(3) as NCCL before 2.27 shows it, without kernels: the proxies of the others have finished the operation,
// and these ranks wait in the next one.
func behindInATree() *hungJob {
	j := newHungJob(4).paired().comm("world", 0, 1, 2, 3)
	for r := range 4 {
		j.rank(r).Caps &^= rca.SeesKernels | rca.SeesCompletion
	}
	j.tree(3, 0, 1, 2)
	for r := range 3 {
		j.on(r, "world").Recent = nil
	}
	j.on(3, "world").InFlight[0].KernelStarted = -1
	next := map[int][]rca.Flow{2: {send(0, 1, 0, 0, 0), recv(0, 1, 0, 0, 0)}, 0: {recv(2, 1, 0, 0, 0)}, 1: {recv(2, 1, 0, 0, 0)}}
	for _, peer := range []int{1, 3} {
		next[2] = append(next[2], send(peer, 1, 0, 0, 0), recv(peer, 1, 0, 0, 0))
	}
	return j.in("world", "AllReduce", []int{0, 1, 2}, func(_ int, o *rca.Op) { o.Algo, o.KernelStarted = "tree", -1 }, flows(next))
}

// waitsForKernel is a job that has done this many operations and in which the next kernel of rank 2 does not run.
func waitsForKernel(completed int64) *hungJob {
	j := newHungJob(4).comm("world", 0, 1, 2, 3)
	for r := range 4 {
		m := j.on(r, "world")
		m.Called, m.Started, m.Completed = completed, completed, completed
	}
	return j.in("world", "AllReduce", []int{0, 1, 2, 3}, func(r int, o *rca.Op) {
		if r == 2 {
			o.State, o.KernelStarted = rca.OpEnqueued, 0
		}
	})
}

// beforeTheirSends is a pipeline of two hosts without kernel events. Both ranks of the first host have called an operation
// between them, over NVLink, and then a send to the second host and a receive from it. Nothing is given, and what has arrived is
// not taken.
func beforeTheirSends() *hungJob {
	j := newHungJob(4).paired().comm("tp_0", 0, 1).comm("tp_1", 2, 3).comm("pp_0", 0, 2).comm("pp_1", 1, 3)
	for r := range 4 {
		j.rank(r).Caps &^= rca.SeesKernels
	}
	unseen := func(_ int, o *rca.Op) { o.State, o.KernelStarted, o.KernelStopped = rca.OpEnqueued, -1, -1 }
	all := func(f rca.Flow) rca.Flow {
		f.Total = f.Posted
		return f
	}
	j.in("tp_0", "AllReduce", []int{0, 1}, unseen, func(_ int, o *rca.Op) { o.Age, o.NoCompletion = 7*time.Second, true })
	for r, comm := range []string{"pp_0", "pp_1"} {
		j.in(comm, "Send", []int{r}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq = 1, 40 }, flows(map[int][]rca.Flow{r: {send(1, 4, 0, 0, 0)}}))
		j.in(comm, "Recv", []int{r}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq = 1, 40 }, flows(map[int][]rca.Flow{r: {all(recv(1, 4, 4, 4, 0))}}))
		j.in(comm, "Send", []int{r + 2}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 40 }, flows(map[int][]rca.Flow{r + 2: {all(send(0, 4, 4, 4, 4))}}))
		j.in(comm, "Recv", []int{r + 2}, unseen, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 40 }, flows(map[int][]rca.Flow{r + 2: {recv(0, 4, 0, 0, 0)}}))
	}
	return j
}

// TestSiblingsWithoutNames: NCCL gives communicators no names unless it is told them. The other groups of the same kind still
// show which of two ranks called something else.
func TestSiblingsWithoutNames(t *testing.T) {
	j := newHungJob(4).comm("1f", 0, 1).comm("7c", 2, 3).comm("90", 0, 2).comm("e4", 1, 3)
	for r := range 4 {
		j.on(r, []string{"1f", "7c"}[r/2]).Order = 1
		j.on(r, []string{"90", "e4"}[r%2]).Order = 2
	}
	j.in("90", "AllReduce", []int{0, 2}).left("90", 0, 2)
	j.in("e4", "AllReduce", []int{1}).in("e4", "AllGather", []int{3})
	if v := j.verdict(); v.Cause != rca.CauseOtherOp || !slices.Equal(rcatest.Accused(v), []int{3}) {
		t.Errorf("%s/%s (%g) accuses %v: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), v.Summary)
	}
}

// TestInsideAHost: what ranks of a host exchange over NVLink or shared memory is not recorded. So a GPU that stops is told from
// its neighbours only where nothing can still be under way between them.
func TestInsideAHost(t *testing.T) {
	world := func() *hungJob { return newHungJob(4).paired().comm("world", 0, 1, 2, 3) }
	for _, c := range []struct {
		name    string
		job     func() *hungJob
		accused []int
		cause   rca.Cause
	}{
		{"its neighbour on the host is in it, below it over NVLink", func() *hungJob {
			return world().tree(2, 0).unseen("world", 2, 3)
		}, nil, rca.CauseGPU},
		{"all edges of the tree go over the network", func() *hungJob { return world().tree(2, 0) }, []int{2}, rca.CauseGPU},
		{"the library takes each rank for a node", func() *hungJob {
			j := world()
			for r := range 4 {
				j.on(r, "world").Nodes = 4
			}
			return j.tree(2, 0)
		}, []int{2}, rca.CauseGPU},
		{"the others have left", func() *hungJob { return world().tree(3, 0, 1, 2) }, []int{3}, rca.CauseGPU},
		{"the others wait in the next operation, which shows the whole tree", behindInATree, []int{3}, rca.CauseGPU},
		{"the same, its edge to rank 3 over NVLink", func() *hungJob { return behindInATree().unseen("world", 2, 3) }, nil, rca.CauseUnknown},
		{"kernels that wait behind operations whose ends nobody sees", func() *hungJob {
			j := newHungJob(4).paired().comm("tp", 0, 1).comm("dp_0", 0, 2).comm("dp_1", 1, 3)
			j.in("tp", "AllReduce", []int{0, 1}, func(_ int, o *rca.Op) {
				o.State, o.KernelStarted, o.NoCompletion, o.Age = rca.OpEnqueued, -1, true, 7*time.Second
			})
			for r, comm := range []string{"dp_0", "dp_1"} {
				j.on(r, comm).SinceCalled = 6 * time.Second
				j.on(r, "tp").KernelUntrusted = true
				j.in(comm, "AllReduce", []int{r}, func(_ int, o *rca.Op) { o.State, o.KernelStarted = rca.OpEnqueued, 0 }, flows(map[int][]rca.Flow{r: {send(1, 4, 0, 0, 0), recv(1, 4, 2, 2, 0)}}))
				j.in(comm, "AllReduce", []int{r + 2}, flows(map[int][]rca.Flow{r + 2: {send(0, 4, 2, 2, 2), recv(0, 4, 0, 0, 0)}}))
			}
			return j
		}, nil, rca.CauseUnknown},
		{"sends behind an operation that nobody sees the end of: they may still compute", beforeTheirSends, nil, rca.CauseUnknown},
		{"the same, and one GPU shows an error", func() *hungJob {
			j := beforeTheirSends()
			j.ev.Facts = []rca.Fact{{Host: "node0", Rank: 1, Component: "nvlink", Kind: "nvlink_down", Value: 1}}
			return j
		}, []int{1}, rca.CauseGPU},
		{"a kernel that does not start", func() *hungJob { return waitsForKernel(100) }, []int{2}, rca.CauseKernelNotRunning},
		{"a job's first kernel", func() *hungJob { return waitsForKernel(0) }, nil, rca.CauseUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job().verdict()
			if !slices.Equal(rcatest.Accused(v), c.accused) || v.Cause != c.cause || len(v.Culprits) > 1 {
				t.Errorf("%s/%s (%g) accuses %v, want %v %s: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), c.accused, c.cause, v.Summary)
			}
		})
	}
}

// TestBeginning: a GPU without progress in one of a job's first operations may still load its kernels.
func TestBeginning(t *testing.T) {
	broken := []rca.Fact{{Host: "node1", Rank: 2, Component: "gpu", Kind: "xid", Value: 79}}
	for _, c := range []struct {
		completed int64
		facts     []rca.Fact
		want      bool
	}{{0, nil, true}, {1000, nil, false}, {0, broken, false}} {
		j := newHungJob(4).paired().comm("world", 0, 1, 2, 3)
		for r := range 4 {
			m := j.on(r, "world")
			m.Called, m.Started, m.Completed = c.completed, c.completed, c.completed
		}
		j.ev.Facts = c.facts
		v := j.tree(2).verdict()
		if !slices.Equal(rcatest.Accused(v), []int{2}) || v.Cause != rca.CauseGPU || v.MayGetOn != c.want {
			t.Errorf("after %d operations, facts %v: %s/%s accuses %v, may get on %t: %s", c.completed, c.facts, v.Class, v.Cause, rcatest.Accused(v), v.MayGetOn, v.Summary)
		}
	}
}
