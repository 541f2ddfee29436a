// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQueuePairs follows a queue pair from a process that posts to it, by way of the verbs interposer, the plugin and the trace
// file, to the exporter's series, where it is seen to carry the communicator that waits.
func TestQueuePairs(t *testing.T) {
	t.Parallel()
	buildJob(t)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	programs, libraries := filepath.Join(root, "build", "ncclshim", "tests"), filepath.Join(root, "bin")
	traces := t.TempDir()
	cmd := exec.Command(filepath.Join(programs, "sender"), "2")
	cmd.Env = append(os.Environ(),
		"CULPRIT_DIR="+traces, "CULPRIT_JOB_ID=verbs", "RANK=0", "WORLD_SIZE=2", "LD_LIBRARY_PATH="+programs,
		"PLUGIN="+filepath.Join(libraries, "libnccl-profiler-culprit.so"), "VERBS="+filepath.Join(libraries, "libculprit-ibverbs.so"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	j := &job{t: t, addr: startExporter(t, traces)}
	// Five operations of four steps of 4096 bytes, and one step more.
	owner := fmt.Sprintf(`owner="%d"`, os.Getuid())
	want := []string{
		`culprit_nccl_process_info nic="mlx5_7"`,
		`culprit_nccl_qp_errors_total{comm="5e4d",device="mlx5_7",job_id="verbs",` + owner + `,qp="1000",rank="0"} 0`,
		`culprit_nccl_qp_info{comm="5e4d",dest_qp="77",device="mlx5_7",job_id="verbs",` + owner + `,peer="1",qp="1000",rank="0",remote="10.1.2.3",state="rts"} 1`,
		`culprit_nccl_qp_outstanding_sends{comm="5e4d",device="mlx5_7",job_id="verbs",` + owner + `,qp="1000",rank="0"} 1`,
		`culprit_nccl_qp_send_bytes_total{comm="5e4d",device="mlx5_7",job_id="verbs",` + owner + `,qp="1000",rank="0"} 86016`,
	}
	line, nic := regexp.MustCompile(`(?m)^culprit_nccl_qp_.*$`), regexp.MustCompile(`(?m)^(culprit_nccl_process_info)\{.*(nic="[^"]*")`)
	j.eventually(func() string {
		body := j.body("/metrics")
		got := line.FindAllString(body, -1)
		if m := nic.FindStringSubmatch(body); m != nil {
			got = append(got, m[1]+" "+m[2])
		}
		slices.Sort(got)
		return cmp.Diff(want, got)
	})
}
