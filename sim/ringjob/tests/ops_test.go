// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestOperations: every operation gives right results for awkward sizes, on a job and on a split of it.
func TestOperations(t *testing.T) {
	for _, s := range []spec{
		{ranks: 2, flags: "--channels 1"},
		{ranks: 2, flags: "--channels 3 --step-bytes 64"},
		{ranks: 3, flags: "--channels 2 --step-bytes 1024"},
		{ranks: 3, flags: "--channels 2 --net socket"},
		{ranks: 4, hosts: 2, flags: "--channels 2 --intra shm"},
		{ranks: 4, flags: "--channels 2 --shared-proxy"},
		{ranks: 5, flags: "--channels 7 --p2p-channels 5 --link-mbps 0"},
		{ranks: 8, hosts: 4, flags: "--channels 1"},
	} {
		t.Run(fmt.Sprintf("%d%s", s.ranks, s.flags), func(t *testing.T) {
			s.flags += " --selftest ops"
			start(t, s).succeed()
		})
	}
}

// TestOperationsRecorded: the callbacks of all operations keep the rules, too.
func TestOperationsRecorded(t *testing.T) {
	for _, s := range []spec{
		{ranks: 3, flags: "--step-bytes 4096", env: []string{"NCCL_ALLGATHERV_ENABLE=0"}},
		{ranks: 2, flags: "--step-bytes 1024 --channels 3 --shared-proxy --net socket", env: []string{"NCCL_ALLGATHERV_ENABLE=0"}},
	} {
		t.Run(s.flags, func(t *testing.T) {
			s.flags += " --selftest ops"
			s.record = true
			j := start(t, s)
			j.succeed()
			for rank := range s.ranks {
				checkOrderly(t, mustRecord(t, j.dir, rank), s.flags != "--step-bytes 4096 --selftest ops")
			}
		})
	}
}

// TestLateProxy: a proxy thread that comes late to everything after it has said that its work is done finds its communicators freed,
// and touches none of them.
func TestLateProxy(t *testing.T) {
	for _, ranks := range []int{2, 4} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			start(t, spec{ranks: ranks, flags: "--shared-proxy --selftest ops", env: []string{
				"LD_PRELOAD=" + filepath.Join(buildDir, "liblate.so"), "MALLOC_PERTURB_=165",
			}}).succeed()
		})
	}
}

// TestTraining: whole jobs end with right results in every layout and schedule.
func TestTraining(t *testing.T) {
	for _, s := range []spec{
		{ranks: 1, flags: ""},
		{ranks: 2, flags: "--layout dp2"},
		{ranks: 3, flags: "--layout pp3 --microbatches 5"},
		{ranks: 4, flags: "--layout tp2,pp2 --schedule gpipe --microbatches 3"},
		{ranks: 4, flags: "--layout pp4 --microbatches 2"},
		{ranks: 4, hosts: 2, flags: "--layout dp2,tp2 --dp-op rs-ag --dp-buckets 3 --intra shm"},
		{ranks: 8, hosts: 4, flags: "--layout dp2,pp2,tp2 --algo tree --barrier-every 2"},
		{ranks: 8, hosts: 2, flags: "--layout dp8 --net socket --bytes 1M"},
	} {
		t.Run(fmt.Sprintf("%d%s", s.ranks, s.flags), func(t *testing.T) {
			s.flags += " --steps 6 --compute-ms 1"
			start(t, s).succeed()
		})
	}
}

// TestBadFlags: nonsense is refused, and nobody waits for anybody.
func TestBadFlags(t *testing.T) {
	for _, flags := range []string{
		"--layout dp3", "--bytes x", "--fault gpu-freeze", "--fault nonsense:rank=0", "--abi 2", "--abi 8", "--step-bytes 100", "stray",
		"--fault link-slow=2:rank=0", "--fault-rank 1", "--fault stop:rank=0:when=1",
	} {
		t.Run(flags, func(t *testing.T) {
			start(t, spec{flags: flags}).exit(2)
		})
	}
}
