// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"testing"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/ncclrun/runtest"
)

// TestOperations: every operation gives right results for awkward sizes, on a job and on a split of it.
func TestOperations(t *testing.T) {
	eachLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, s := range []runtest.Spec{
			{Ranks: 3},
			{Ranks: 4, Hosts: 2, Flags: "--intra shm --channels 0"},
		} {
			t.Run(fmt.Sprintf("%d%s", s.Ranks, s.Flags), func(t *testing.T) {
				s.Flags += " --selftest ops"
				j := start(t, lib, s)
				j.Succeed()
				ended := 0
				for _, e := range j.Events() {
					if e.Event == "selftest" {
						ended++
					}
				}
				if ended != s.Ranks {
					t.Errorf("%d of %d ranks did all operations", ended, s.Ranks)
				}
			})
		}
	})
}

// TestTraining: whole jobs end with right results in every layout and schedule.
func TestTraining(t *testing.T) {
	eachLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, s := range []runtest.Spec{
			{Ranks: 8, Hosts: 4, Flags: "--layout dp2,pp2,tp2 --intra shm --jitter 0.3"},
			{Ranks: 4, Hosts: 2, Flags: "--layout dp4,ep2 --dp-op rs-ag --dp-buckets 3 --ahead 1"},
			{Ranks: 3, Flags: "--layout pp3 --microbatches 4 --schedule gpipe --broadcast-every 1"},
			{Ranks: 4, Hosts: 2, Flags: "--layout dp2,tp2", Launch: "--ranks-per-process 2"},
			{Ranks: 4, Hosts: 2, Flags: "--layout dp4,ep2,cp2 --ep-skew 0.8"},
			{Ranks: 4, Hosts: 4, Flags: "--layout dp4,cp4 --dp-op fsdp --dp-buckets 3 --ahead 2"},
			{Ranks: 3, Flags: "--layout pp3 --microbatches 6 --schedule interleaved"},
			{Ranks: 3, Flags: "--layout pp3 --microbatches 3 --schedule interleaved --chunks 3"},
			{Ranks: 4, Hosts: 2, Flags: "--layout dp4,ep2 --dp-op fsdp --dp-buckets 3 --graphs --ahead 1", Launch: "--ranks-per-process 2"},
			{Ranks: 3, Flags: "--layout pp3 --microbatches 6 --schedule interleaved --graphs"},
			{Ranks: 2, Hosts: 1, Flags: "--layout dp2", Launch: "--ranks-per-process 2"},
			{Ranks: 4, Hosts: 2, Flags: "--layout dp2,tp2 --cliques dp,tp,world --ahead 1", Launch: "--ranks-per-process 2"},
			{Ranks: 4, Hosts: 2, Flags: "--layout dp2,tp2 --cliques dp", Launch: "--ranks-per-process 2"},
			{Ranks: 2, Hosts: 1, Flags: "--layout tp2 --algo Tree --proto Simple --check off"},
		} {
			t.Run(fmt.Sprintf("%d%s%s", s.Ranks, s.Flags, s.Launch), func(t *testing.T) {
				s.Flags += " --steps 6 --compute-ms 1 --barrier-every 2"
				j := start(t, lib, s)
				j.Succeed()
				if got := j.LastStep(); got != 5 {
					t.Errorf("the last step is %d, want 5", got)
				}
			})
		}
	})
}

// TestShrink: a communicator without the last rank, beside the others.
func TestShrink(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Ranks: 4, Hosts: 2, Flags: "--layout dp2,tp2 --shrink --steps 6 --compute-ms 1"})
		j.Succeed()
		if got := j.LastStep(); got != 5 {
			t.Errorf("the last step is %d, want 5", got)
		}
	})
}

// TestSelftestList: operations by name, as often as asked for.
func TestSelftestList(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Flags: "--selftest allreduce:4K,alltoall:1K,pause:1,split,allreduce,world,broadcast:8 --steps 2"})
		j.Succeed()
		var names []string
		for _, e := range j.Events() {
			if e.Event == "op" {
				names = append(names, e.Name)
			}
		}
		// A split of two ranks has one member each: nothing to reduce.
		if got, want := fmt.Sprint(names), "[allreduce alltoall broadcast allreduce alltoall broadcast]"; got != want {
			t.Errorf("operations %s, want %s", got, want)
		}
	})
}

// TestBadFlags: nonsense is refused, and nobody waits for anybody. Without it the job would run until its timeout.
func TestBadFlags(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, flags := range []string{
			"--layout dp3", "--layout dp2,ep3", "--layout dp2,cp3", "--layout pp2 --schedule interleaved", "--layout dp2 --shrink", "--cliques dp --shrink", "--schedule pipe", "--fault stop:rank=0:moment=2", "--cliques dp,xp", "--layout pp2 --cliques dp", "--selftest ops --cliques dp", "--bytes x", "--jitter 1", "stray", "--nccl /nowhere/libnccl.so.2", "--nccl-layout /nowhere/layout",
			"--fault gpu-freeze", "--fault flush-stall:rank=0", "--fault link-slow=2:rank=0", "--fault gpu-slow=0:rank=0",
			"--fault control=lost:rank=0",
		} {
			t.Run(flags, func(t *testing.T) {
				start(t, lib, runtest.Spec{Flags: flags}).Exit(2)
			})
		}
	})
}

// TestForeignLibrary: a library that cannot be played is named, with the reason.
func TestForeignLibrary(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		lib.Layout = "/dev/null"
		j := start(t, lib, runtest.Spec{})
		j.Exit(5)
		for _, e := range j.Events() {
			if e.Event == "rank_ready" {
				t.Errorf("rank %d is ready without a layout", e.Rank)
			}
		}
	})
}
