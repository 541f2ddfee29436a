// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// sends starts a process that posts to a queue pair on each of its channels, of which the last loses a send, and an exporter.
func sends(t *testing.T, channels int) *job {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	programs, libraries := filepath.Join(root, "build", "ncclshim", "tests"), filepath.Join(root, "bin")
	traces := t.TempDir()
	cmd := exec.Command(filepath.Join(programs, "sender"), "2", strconv.Itoa(channels))
	cmd.Env = append(os.Environ(),
		"CULPRIT_DIR="+traces, "CULPRIT_JOB_ID=verbs", "CULPRIT_ADDRESS=10.9.8.7", "RANK=0", "WORLD_SIZE=2", "LD_LIBRARY_PATH="+programs,
		"PLUGIN="+filepath.Join(libraries, "libnccl-profiler-culprit.so"), "VERBS="+filepath.Join(libraries, "libculprit-ibverbs.so"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &job{t: t, addr: startExporter(t, traces)}
}

// TestP2QueuePairStands: of three queue pairs to a peer one loses a send. A second later its series tell so, and those of its sisters that they have
// none outstanding, before the communicator has stood for long enough to show its flows; the node API names it.
func TestP2QueuePairStands(t *testing.T) {
	t.Parallel()
	buildJob(t)
	j := sends(t, 3)
	standing := regexp.MustCompile(`(?m)^culprit_nccl_qp_standing_seconds\{comm="5e4d",device="mlx5_7",.*peer="1",qp="(\d+)",rank="0"\} (\S+)$`)
	j.eventually(func() string {
		got := map[string]bool{}
		for _, m := range standing.FindAllStringSubmatch(j.body("/metrics"), -1) {
			got[m[1]] = m[2] != "0"
		}
		return cmp.Diff(map[string]bool{"1000": false, "1001": false, "1002": true}, got)
	})
	j.eventually(func() string {
		var s nodeapi.State
		if err := json.Unmarshal([]byte(j.body(nodeapi.StatePath)), &s); err != nil || len(s.Processes) != 1 {
			return fmt.Sprintf("%d processes, %v", len(s.Processes), err)
		}
		// M1: the records have IP and queue pair: of flows in progress, and of operations the one that was last.
		p := &s.Processes[0]
		if p.Identity.Address != "10.9.8.7" {
			return "the process gives the address " + p.Identity.Address
		}
		for i := range p.Flows {
			if f := &p.Flows[i]; f.IsSend && f.QPNum != 999+uint32(f.Channel) {
				return fmt.Sprintf("channel %d has queue pair %d", f.Channel, f.QPNum)
			}
		}
		if n := len(p.Completions); n == 0 || p.Completions[n-1].SendQP != 1002 || p.Completions[n-1].Send.SlowestChannel != 3 {
			return fmt.Sprintf("%d operations completed, %+v", n, p.Completions)
		}
		var got []string
		for _, l := range p.Lagging {
			for _, q := range p.QPs {
				if q.Index == l.QPIndex {
					got = append(got, fmt.Sprintf("%d %s beside %d", q.QPNum, l.Kind, l.Sisters))
				}
			}
		}
		return cmp.Diff([]string{"1002 standing beside 2"}, got)
	})
	// M2: the record of an operation leads to its local and remote NIC, in the history too.
	j.eventually(func() string {
		nics := map[uint32]string{}
		var last string
		for line := range strings.Lines(j.body(nodeapi.TracePath + "?samples=0")) {
			var l nodeapi.TraceLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				return err.Error()
			}
			if l.Process != nil {
				for _, q := range l.Process.QPs {
					nics[q.QPNum] = q.Device + " to " + q.Remote
				}
			}
			if l.Completion != nil {
				last = nics[uint32(l.Completion.SendQP)]
			}
		}
		return cmp.Diff("mlx5_7 to 10.1.2.3", last)
	})
}

// TestQueuePairs follows a queue pair from a process that posts to it, by way of the verbs interposer, the plugin and the trace
// file, to the exporter's series, where it is seen to carry the communicator that waits.
func TestQueuePairs(t *testing.T) {
	t.Parallel()
	buildJob(t)
	j := sends(t, 1)
	// Five operations of four steps of 4096 bytes, and one step more.
	owner := fmt.Sprintf(`owner="%d"`, os.Getuid())
	which := `{comm="5e4d",device="mlx5_7",job_id="verbs",` + owner + `,peer="1",qp="1000",rank="0"} `
	want := []string{
		`culprit_nccl_process_info nic="mlx5_7"`,
		`culprit_nccl_qp_errors_total` + which + `0`,
		`culprit_nccl_qp_info{comm="5e4d",dest_qp="77",device="mlx5_7",job_id="verbs",` + owner + `,peer="1",qp="1000",rank="0",remote="10.1.2.3",state="rts"} 1`,
		`culprit_nccl_qp_outstanding_sends` + which + `1`,
		`culprit_nccl_qp_send_bytes_total` + which + `86016`,
	}
	line, nic := regexp.MustCompile(`(?m)^culprit_nccl_qp_(?:errors|info|outstanding|send).*$`), regexp.MustCompile(`(?m)^(culprit_nccl_process_info)\{.*(nic="[^"]*")`)
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
