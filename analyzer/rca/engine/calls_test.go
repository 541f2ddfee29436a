// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// calls puts ranks into a call, or lets them return from it.
func (j *hungJob) calls(c rca.Call, ranks ...int) *hungJob {
	for i := range j.ev.Ranks {
		j.ev.Ranks[i].Caps |= rca.SeesInit
	}
	for _, r := range ranks {
		j.ev.Ranks[r].Calls = append(j.ev.Ranks[r].Calls, c)
	}
	return j
}

func initCall(size int) rca.Call {
	return rca.Call{Name: "ncclCommInitRank", ID: "7", Size: size, Makes: true, Since: 20 * time.Second}
}

func splitCall(on rca.CommID, size int) rca.Call {
	return rca.Call{Name: "ncclCommSplit", ID: "8", Size: size, On: on, Makes: true, Since: 20 * time.Second}
}

func back(c rca.Call) rca.Call {
	c.Returned, c.Done = true, true
	return c
}

// Only some ranks of a large job were asked, and the one that does not come is among them: as many ranks as the job has must make
// the call.
func TestC6H1InsideCallOfLargeJob(t *testing.T) {
	const world = 10_240
	for _, size := range []int{world, world / 2} { // Half of the job: it is not known which half.
		call := initCall(size)
		call.Since = 30 * time.Minute
		j := newHungJob(8).calls(call, 0, 1, 2, 4, 5, 6, 7)
		j.ev.WorldSize, j.ev.Partial = world, true
		v := Analyze(j.ev, rca.Options{})
		if named := v.Class == rca.NotEntered && len(v.Culprits) == 1 && v.Culprits[0].Rank == 3; named != (size == world) {
			t.Errorf("%d of %d ranks must call: %s %+v: %s", size, world, v.Class, v.Culprits, v.Summary)
		}
	}
}

// TestC6H1InsideCall is CCL-D's H1, a rank that does not come, for calls that make and end communicators: the ranks inside wait
// for the members that are not.
func TestC6H1InsideCall(t *testing.T) {
	for _, c := range []struct {
		name string
		job  func() *hungJob
		want want
	}{
		{
			"in user code", func() *hungJob { return newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 3) },
			want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true, phrase: "Rank 2 (node2, GPU 0) has not called ncclCommInitRank on a new communicator of 4 ranks; its process is running outside NCCL. 3 ranks have been waiting for it for 20 s."},
		},
		{
			"stopped", func() *hungJob {
				j := newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 3)
				j.rank(2).State = rca.ProcessStopped
				return j
			},
			want{class: rca.NotEntered, cause: rca.CauseProcessStopped, ranks: []int{2}, page: true, phrase: "3 ranks have been waiting for it in ncclCommInitRank on"},
		},
		{
			"died inside", func() *hungJob {
				j := newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 2, 3)
				j.rank(2).State = rca.ProcessGone
				return j
			},
			want{class: rca.Fault, cause: rca.CauseProcessGone, ranks: []int{2}, page: true},
		},
		{
			"blocked in storage", func() *hungJob {
				j := newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 3)
				j.rank(2).State = rca.ProcessDisk
				return j
			},
			want{class: rca.NotEntered, cause: rca.CauseStorage, ranks: []int{2}, page: true},
		},
		{
			"long past the first step, by a source that sees no end of operations", func() *hungJob {
				j := newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 3)
				for r := range 4 {
					j.rank(r).Caps, j.rank(r).Memberships[0].Completed = rca.SeesCalls|rca.SeesProcess|rca.SeesInit, 0
				}
				return j
			},
			want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true},
		},
		{
			"in the first step", func() *hungJob {
				j := newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 3)
				for r := range 4 {
					j.rank(r).Memberships[0].Called, j.rank(r).Memberships[0].Completed = 1, 1
				}
				return j
			},
			want{class: rca.Benign, cause: rca.CauseFirstStep, ranks: []int{2}},
		},
		{
			"stopped, the members are not known", func() *hungJob {
				j := newHungJob(6).comm("dp", 0, 1, 2, 3, 4, 5).calls(initCall(3), 1, 2)
				j.rank(4).State = rca.ProcessStopped
				return j
			},
			want{class: rca.NotEntered, cause: rca.CauseProcessStopped, ranks: []int{4}, page: true},
		},
		{
			"split of a part", func() *hungJob { return newHungJob(6).comm("dp", 1, 3, 5).calls(splitCall("dp", 3), 1, 5) },
			want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{3}, page: true, phrase: "has not called ncclCommSplit on dp; its process is running outside NCCL. 2 ranks have been waiting for it for 20 s."},
		},
		{
			"variants of the call, in a group and not", func() *hungJob {
				config, group := initCall(4), initCall(4)
				config.Name, group.Name = "ncclCommInitRankConfig", "ncclGroupEnd"
				return newHungJob(4).comm("dp", 0, 1, 2, 3).calls(config, 0).calls(group, 1).calls(initCall(4), 3)
			},
			want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true, phrase: "has not called ncclCommInitRank on"},
		},
		{
			"alone, the others are through", func() *hungJob {
				return newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 2).calls(back(initCall(4)), 0, 1, 3)
			},
			want{class: rca.NotEntered, cause: rca.CauseCPU, ranks: []int{2}, page: true, phrase: "does not return from ncclCommInitRank on a new communicator of 4 ranks, from which 3 other members have returned"},
		},
		{
			"end of a communicator", func() *hungJob {
				end := rca.Call{Name: "ncclCommDestroy", ID: "9", Size: 4, On: "dp", Since: time.Minute}
				return newHungJob(4).comm("dp", 0, 1, 2, 3).calls(end, 0, 1, 3)
			},
			want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{2}, page: true, phrase: "has not called ncclCommDestroy on dp"},
		},
		{
			"who comes too late for a call holds up an operation", func() *hungJob {
				// Ranks 2 and 3 make a communicator of their own, to which rank 3 does not come; ranks 0 and 1 wait for rank 2 in
				// dp.
				j := newHungJob(4).comm("dp", 0, 1, 2).comm("pp", 2, 3)
				return j.in("dp", "AllReduce", []int{0, 1}).calls(splitCall("pp", 2), 2)
			},
			want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{3}, page: true},
		},
		{
			"comes back without an end: nobody is missing", func() *hungJob {
				c := back(initCall(4))
				c.Done = false // NCCL makes it in the background.
				return newHungJob(4).comm("dp", 0, 1, 2, 3).calls(c, 0, 1, 2, 3)
			},
			want{class: rca.Healthy, cause: rca.CauseUnknown},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job().verdict()
			c.want.check(t, v)
			j := c.job()
			slices.Reverse(j.ev.Ranks)
			slices.Reverse(j.ev.Comms)
			if other := j.verdict(); other.Summary != v.Summary || other.Confidence != v.Confidence {
				t.Errorf("in another order: %s (%g)", other.Summary, other.Confidence)
			}
		})
	}
}

// TestC6InsideCallUntold: a rank whose calls are not recorded is not accused, and no rank is named where several could be meant.
func TestC6InsideCallUntold(t *testing.T) {
	for _, c := range []struct {
		name   string
		job    func() *hungJob
		phrase string
	}{
		{"members unknown", func() *hungJob { return newHungJob(6).comm("dp", 0, 1, 2, 3, 4, 5).calls(initCall(3), 1, 2) }, "2 of 3 ranks are inside ncclCommInitRank on a new communicator of 3 ranks and wait for the rest, which have not called it"},
		{"calls of one are not seen", func() *hungJob {
			j := newHungJob(4).comm("dp", 0, 1, 2, 3).calls(initCall(4), 0, 1, 3)
			j.rank(2).Caps &^= rca.SeesInit
			j.rank(2).Memberships[0].SinceCalled = time.Second
			return j
		}, "Rank 2"},
		{"all inside", func() *hungJob { return newHungJob(2).comm("dp", 0, 1).calls(initCall(2), 0, 1) }, "All 2 members are inside ncclCommInitRank on"},
		{"all devices of a process", func() *hungJob {
			return newHungJob(2).comm("dp", 0, 1).calls(rca.Call{Name: "ncclCommInitAll", Makes: true, Since: time.Minute}, 1)
		}, "ncclCommInitAll"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job().verdict()
			if v.Confidence > 0.6 || !strings.Contains(v.Summary, c.phrase) {
				t.Errorf("%s/%s %v (%g): %s; want %q", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Confidence, v.Summary, c.phrase)
			}
		})
	}
}

// BenchmarkCalls has 10,240 ranks in 1,280 calls at once; one rank does not come to its call.
func BenchmarkCalls(b *testing.B) {
	const world, group = 10240, 8
	j := newHungJob(world)
	everybody := make([]int, world)
	for r := range everybody {
		everybody[r] = r
	}
	j.comm("world", everybody...)
	for g := range world / group {
		name := "tp" + strconv.Itoa(g)
		members := everybody[g*group : (g+1)*group]
		c := splitCall(rca.CommID(name), group)
		c.ID = name
		j.comm(name, members...)
		for _, r := range members[1:] {
			j.ev.Ranks[r].Calls = append(j.ev.Ranks[r].Calls, c)
		}
		if g > 0 {
			j.ev.Ranks[members[0]].Calls = append(j.ev.Ranks[members[0]].Calls, c)
		}
	}
	for r := range world {
		j.ev.Ranks[r].Caps |= rca.SeesInit
	}
	for b.Loop() {
		if v := j.verdict(); !slices.Equal(rcatest.CulpritRanks(v), []int{0}) {
			b.Fatal(v.Summary)
		}
	}
}
