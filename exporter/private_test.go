// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestPrivateTmpfs has a job's trace files on a file system that only the job sees, as with Slurm's job_container/tmpfs. The exporter
// finds them by the processes' mappings, on the real kernel.
func TestPrivateTmpfs(t *testing.T) {
	t.Parallel()
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := probe.Run(); errors.Is(err, syscall.EPERM) {
		t.Skip("making mount namespaces is not permitted here")
	}
	ringjob, shim := buildJob(t)
	dir := t.TempDir()
	launcher := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs "$0" && exec "$@"`, dir, ringjob,
		"launch", "--ranks", "2", "--hosts", "1", "--dir", dir, "--job", "private", "--timeout", "300", "--grace", "1", "--",
		"--layout", "dp2,pp1,tp1", "--compute-ms", "10", "--report-every", "0")
	launcher.Env = append(os.Environ(), "NCCL_PROFILER_PLUGIN="+shim)
	launcher.Stderr = os.Stderr
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = launcher.Process.Signal(syscall.SIGTERM)
		_ = launcher.Wait()
	})
	j := &job{t: t, addr: startExporterWith(t, nil, t.TempDir())}
	j.eventually(func() string {
		ranks := map[int32]bool{}
		for _, p := range j.state("").Processes {
			if p.JobID == "private" && p.Kernel.Verified {
				ranks[p.Rank] = true
			}
		}
		if len(ranks) != 2 {
			return fmt.Sprintf("ranks %v are seen", ranks)
		}
		return ""
	})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the job's files are seen outside of its mount namespace: %v, %v", entries, err)
	}
	if !strings.Contains(j.body("/metrics"), fmt.Sprintf(`culprit_nccl_process_up{job_id="private",owner="%d",rank="1"} 1`, os.Getuid())) {
		t.Error("rank 1 has no series")
	}
}
