// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTruncatedTraceFiles has somebody truncate the trace files of a job under load. Writing behind a mapped file's end would
// end its process by SIGBUS; the job goes on and ends in order.
func TestTruncatedTraceFiles(t *testing.T) {
	plugin, err := filepath.Abs("../../../bin/libnccl-profiler-culprit.so")
	if err != nil {
		t.Fatal(err)
	}
	const ranks = 4
	j := start(t, spec{
		ranks: ranks, hosts: ranks, flags: "--layout dp2,pp2 --channels 4 --bytes 64K --step-bytes 1K --link-mbps 0 --link-latency-us 0",
		env: []string{"NCCL_PROFILER_PLUGIN=" + plugin, "CULPRIT_EVENTS=all", "CULPRIT_TRANSFERS=1"},
	})
	j.awaitStep(3)
	for rank, size := range []int64{0, 4096, 1 << 20, 0} {
		files, err := filepath.Glob(filepath.Join(j.dir, fmt.Sprintf("host%d", rank), "u*", "*.trace"))
		if err != nil || len(files) != 1 {
			t.Fatalf("trace files of rank %d: %v, %v", rank, files, err)
		}
		if err := os.Truncate(files[0], size); err != nil {
			t.Fatal(err)
		}
	}
	j.awaitStep(j.lastStep() + 20)
	j.signal(syscall.SIGTERM)
	j.succeed()
}
