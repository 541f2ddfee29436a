// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// A log's author may make its numbers up. What reading it takes grows with its length, not with the numbers in it, nor with ranks times
// operations.
func TestMadeUpNumbers(t *testing.T) {
	for name, line := range map[string]func(i int) string{
		"operations of one group": func(i int) string {
			return fmt.Sprintf("[rank%d]:[E101 10:00:00.1 P.cpp:689] [PG ID 0 PG GUID 0(default_pg) Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600093 milliseconds before timing out.", i, i, 1+i*7919)
		},
		"operations without a group": func(i int) string {
			return fmt.Sprintf("[rank%d]:[E101 10:00:00.1 P.cpp:689] [Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600093 milliseconds before timing out.", i, i, 1+i*7919)
		},
		"counters": func(i int) string {
			return fmt.Sprintf("[rank%d]:[E101 10:00:00.1 P.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank %d] Timeout at NCCL work: %d, last enqueued NCCL work: %d, last completed NCCL work: %d.", i, i, i*31, i*31+5, i*31-1)
		},
		"groups": func(i int) string {
			return fmt.Sprintf("[rank1]:[E101 10:00:00.1 P.cpp:1895] [PG ID %d PG GUID %d Rank 131000] Timeout at NCCL work: 8, last enqueued NCCL work: 8, last completed NCCL work: 7.", i, i)
		},
		"groups of all": func(i int) string {
			return fmt.Sprintf("[rank131000]:[E101 10:00:00.1 P.cpp:1895] [PG ID %d PG GUID %d(default_pg) Rank 3] Timeout at NCCL work: 8, last enqueued NCCL work: 8, last completed NCCL work: 7.", i, i)
		},
		"keys": func(i int) string {
			return fmt.Sprintf("[rank%d]: torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /rank_%d", i, i+7)
		},
		"barriers": func(i int) string {
			return fmt.Sprintf("[Rank %d]: Ranks 1, 2, %d failed to pass monitoredBarrier in 20000 ms", i, i+9)
		},
		"communicators": func(i int) string {
			return fmt.Sprintf("h:%d:9 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 7 nranks 131071 cudaDev 0 nvmlDev 0 busId 1000 commId 0x%x - Init START", i, i)
		},
		"ends": func(i int) string { return fmt.Sprintf("Process %d exit with status code 3.", i) },
		"findings": func(i int) string {
			return fmt.Sprintf("E0 api.py:869] failed (exitcode: -9) local_rank: %d (pid: %d) of binary: python", i, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			spent := func(n int) float64 {
				var b bytes.Buffer
				for i := range n {
					b.WriteString(line(i) + "\n")
				}
				path := writeFile(t, "", b.String())
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				Main(t.Context(), []string{"--json", path}, io.Discard, io.Discard)
				runtime.ReadMemStats(&after)
				return float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
			}
			const few, times, most = 200, 4, 9
			small, large := spent(few), spent(times*few)
			const fixed = 256 // MiB: of a few groups with as many members as there may be.
			if large > most*small+fixed {
				t.Errorf("%d lines take %.0f MiB, %d lines %.0f MiB", few, small, times*few, large)
			}
		})
	}
}
