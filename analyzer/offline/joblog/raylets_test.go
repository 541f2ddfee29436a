// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

const sigkilled = "Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage."

// worker is what a raylet says of a worker that ended.
func worker(host string, pid int, kind, detail string) string {
	return fmt.Sprintf("(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff Worker ID: 3a Node ID: 1b Worker IP address: %s Worker port: 10045 Worker PID: %d Worker exit type: %s Worker exit detail: %s\n", host, pid, kind, detail)
}

func TestRaylets(t *testing.T) {
	var group strings.Builder
	group.WriteString("(TrainController pid=90) Started training worker group of size 4: \n")
	for r := range 4 {
		fmt.Fprintf(&group, "(TrainController pid=90) - (node_id=1b%d, ip=10.0.0.%d, pid=%d) world_rank=%d, local_rank=%d, node_rank=0\n", r, 5+r/2, 700+r, r, r%2)
	}
	said := func(ranks ...int) string {
		var b strings.Builder
		for _, r := range ranks {
			fmt.Fprintf(&b, "(RayTrainWorker pid=%d, ip=10.0.0.%d) [rank%d]:[W1122 10:00:00.1 x.cpp:1] hello\n", 700+r, 5+r/2, r)
		}
		return b.String()
	}
	gone := func(pid int) string {
		return fmt.Sprintf("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: RayTrainWorker\n\tactor_id: 6d\n\tpid: %d\n\tnamespace: x\n\tip: 10.0.0.6\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n", pid)
	}
	for _, tc := range []struct {
		name, text string
		ranks      []int
		said       string
	}{
		{"of a known rank", group.String() + worker("10.0.0.6", 702, "SYSTEM_ERROR", sigkilled), []int{2}, ""},
		{"named by its label", said(0, 1, 2, 3) + worker("10.0.0.5", 701, "SYSTEM_ERROR", sigkilled), []int{1}, ""},
		{"an actor", group.String() + gone(703), []int{3}, ""},
		{"of an unknown rank", worker("10.0.0.6", 702, "SYSTEM_ERROR", sigkilled), nil, "Process 702 on 10.0.0.6 was lost to Ray"},
		{"one number on two hosts", said(0, 1) + strings.ReplaceAll(said(2), "702", "701") + worker("10.0.0.5", 701, "SYSTEM_ERROR", sigkilled), nil, "Process 701 on 10.0.0.5 was lost to Ray"},
		{"a host", group.String() + "2026-11-22 10:00:00,412 WARNING worker.py:1799 -- The node with node id: c118 and address: 10.0.0.6 and node name: 10.0.0.6 has been marked dead because the detector has missed too many heartbeats from it. This can happen\n", nil, "Host 10.0.0.6 was lost to Ray"},
		{"on purpose", group.String() + worker("10.0.0.6", 702, "INTENDED_SYSTEM_EXIT", "Worker exits because it was idle"), nil, ""},
		{"one shown of several", group.String() + strings.TrimSuffix(worker("10.0.0.6", 702, "SYSTEM_ERROR", sigkilled), "\n") + " [repeated 3x across cluster]\n", nil, "Process 702 on 10.0.0.6 and 3 others were lost to Ray"},
		{"all alike", group.String() + worker("10.0.0.5", 700, "SYSTEM_ERROR", sigkilled) + worker("10.0.0.5", 701, "SYSTEM_ERROR", sigkilled) + worker("10.0.0.6", 702, "SYSTEM_ERROR", sigkilled), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !Sniff([]byte(tc.text)) && tc.name != "on purpose" {
				t.Fatal("not recognised")
			}
			l, err := Parse("x", []byte(tc.text), -1)
			if err != nil {
				if tc.name == "on purpose" {
					return
				}
				t.Fatal(err)
			}
			r := Evidence([]*Log{l}, nil, 0)
			v := engine.Analyze(r.Evidence, rca.Options{HangAfter: 1})
			if got := ranksOf(v); !slices.Equal(got, tc.ranks) || len(tc.ranks) > 0 && (v.Cause != rca.CauseProcessGone || !strings.Contains(strings.Join(v.Evidence, "\n"), "its Ray worker died")) {
				t.Errorf("%s %s %v, want %v: %s %q", v.Class, v.Cause, got, tc.ranks, v.Summary, v.Evidence)
			}
			if !strings.Contains(saidOf(r), tc.said) {
				t.Errorf("%q is not in %q", tc.said, saidOf(r))
			}
		})
	}
}
