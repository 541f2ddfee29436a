// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/trace"
)

// TestProbesOfASlowLink (C2): one link of a ring at a fifth of its speed, so that each of its transfers takes more than a probe. Of many
// operations together the sending end has most probes that find SendCount changed, the receiving end most for RecvCount: the lowest
// SendRate and RecvRate. The other links go at the same pace and come close, which is why one operation alone proves nothing.
func TestProbesOfASlowLink(t *testing.T) {
	plugin, err := filepath.Abs("../../../bin/libnccl-profiler-culprit.so")
	if err != nil {
		t.Fatal(err)
	}
	const ranks, from, to, bytes = 4, 1, 2, 64 << 10
	j := start(t, spec{
		ranks: ranks, hosts: ranks,
		flags: fmt.Sprintf("--steps 150 --bytes %d --link-mbps 20 --compute-ms 1 --microbatches 1 --barrier-every 0 --check off --connect-ms 1 --poll-us 200"+
			" --fault link-slow=0.2:rank=%d:peer=%d:step=0:comm=dp", bytes, from, to),
		env: []string{"NCCL_PROFILER_PLUGIN=" + plugin},
	})
	j.succeed()
	var send, recv [ranks]uint64
	for rank := range ranks {
		ops := 0
		for _, c := range completionsOf(t, j, rank) {
			if c.Func != trace.AllReduce || c.Bytes != bytes {
				continue
			}
			ops++
			send[rank], recv[rank] = send[rank]+uint64(c.SendProbes), recv[rank]+uint64(c.RecvProbes)
			if c.SendProbes == 0 || c.SendProbes > c.Send.Steps || c.RecvProbes == 0 || c.RecvProbes > c.Recv.Steps {
				t.Fatalf("rank %d, operation %d: %d of %d and %d of %d steps changed a count", rank, c.Number, c.SendProbes, c.Send.Steps, c.RecvProbes, c.Recv.Steps)
			}
		}
		t.Logf("rank %d: %d operations, probes of each: send %.2f, receive %.2f", rank, ops, float64(send[rank])/float64(ops), float64(recv[rank])/float64(ops))
		if ops != 150 {
			t.Errorf("rank %d has %d operations, want 150", rank, ops)
		}
	}
	for rank := range ranks {
		if rank != from && send[rank] >= send[from] {
			t.Errorf("rank %d has %d probes of sending, the end of the slow link %d", rank, send[rank], send[from])
		}
		if rank != to && recv[rank] >= recv[to] {
			t.Errorf("rank %d has %d probes of receiving, the end of the slow link %d", rank, recv[rank], recv[to])
		}
	}
}

// completionsOf reads the records of a rank whose process has ended.
func completionsOf(t *testing.T, j *job, rank int) []trace.Completion {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(j.dir, fmt.Sprintf("host%d", rank), "u*", "*.trace"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("trace files of rank %d: %v, %v", rank, paths, err)
	}
	f, err := trace.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s trace.Snapshot // Whose the records are is known from it.
	if err := f.Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	done, span, err := f.LastCompletions(0, nil)
	if err != nil || span.Lost > 0 {
		t.Fatalf("rank %d: %d records lost, %v", rank, span.Lost, err)
	}
	return done
}
