// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/analyzer/offline"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// hookedRanks is the size of the jobs here. Before step callAt of some they make one more communicator; a step has hookedOps
// operations.
const (
	hookedRanks   = 4
	hookedCulprit = hookedRanks - 2
	callAt        = 40
	hookedOps     = 3
)

// startHooked runs a job of four processes with the preload hooks alone: no plugin reports what becomes of the operations. The
// last rank but one stays away from NCCL before step away, unless that is 0. call is one that all make before step callAt, ""
// none. flags are clone's.
func startHooked(t *testing.T, away int, call string, flags uintptr) (traces string, ranks []*exec.Cmd) {
	t.Helper()
	buildJob(t)
	programs, err := filepath.Abs("../build/ncclshim/tests")
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := filepath.Abs("../bin/libculprit-preload.so")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	traces = filepath.Join(dir, "traces")
	if err := os.Mkdir(traces, 0o700); err != nil {
		t.Fatal(err)
	}
	meet := filepath.Join(dir, "meet")
	if err := os.Mkdir(meet, 0o700); err != nil {
		t.Fatal(err)
	}
	for rank := range hookedRanks {
		step := 0
		if rank == hookedCulprit {
			step = away
		}
		args := []string{strconv.Itoa(rank), strconv.Itoa(hookedRanks), filepath.Join(dir, "steps"), strconv.Itoa(step)}
		if call != "" {
			args = append(args, call, strconv.Itoa(callAt))
		}
		cmd := exec.Command(filepath.Join(programs, "trainer"), args...)
		cmd.Env = append(os.Environ(),
			"CULPRIT_DIR="+traces, "CULPRIT_JOB_ID=hooked", fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", hookedRanks),
			"LD_LIBRARY_PATH="+programs, "LD_PRELOAD="+hooks, "FAKENCCL_MEET="+meet)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		ranks = append(ranks, cmd)
	}
	return traces, ranks
}

// verdict is what analyze says of files.
type verdict struct {
	Class, Cause, Op string
	Culprits         []struct{ Rank int }
}

// names says that one rank is accused, and no other.
func (v *verdict) names(rank int) bool { return len(v.Culprits) == 1 && v.Culprits[0].Rank == rank }

// harm sends a rank a signal, 0 none.
func harm(t *testing.T, rank *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	if signal == 0 {
		return
	}
	if err := rank.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if signal == syscall.SIGKILL {
		_ = rank.Wait() // Nobody is to take a zombie for a process.
	}
}

// eventuallySaid waits until analyze says the right thing of the trace files and of what the exporter says of them.
func (j *job) eventuallySaid(traces string, right func(v *verdict) bool) {
	j.t.Helper()
	state := filepath.Join(j.t.TempDir(), "state.json")
	j.eventually(func() string {
		if err := os.WriteFile(state, []byte(j.body(nodeapi.StatePath)), 0o600); err != nil {
			j.t.Fatal(err)
		}
		for _, path := range []string{traces, state} {
			if v := analyze(j.t, path); !right(&v) {
				return fmt.Sprintf("%s says %+v", filepath.Base(path), v)
			}
		}
		return ""
	})
}

func analyze(t *testing.T, path string) verdict {
	t.Helper()
	var out, errs bytes.Buffer
	if code := offline.Main(t.Context(), []string{"--json", path}, &out, &errs); code > offline.ExitUnknown {
		t.Fatalf("analyze ended with %d: %s", code, errs.String())
	}
	var a struct{ Verdict verdict }
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	return a.Verdict
}

// TestHooksAlone has the rank found that holds up a job of which only the API's calls are known, from its trace files and
// from what the exporter says of them.
func TestHooksAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		away   int
		signal syscall.Signal
		class  string
		cause  string
	}{
		{"operation not entered", 40, 0, "not_entered", "op_not_called"},
		{"killed", 0, syscall.SIGKILL, "not_entered", "process_gone"},
		{"stopped", 0, syscall.SIGSTOP, "not_entered", "process_stopped"},
		{"healthy", 0, 0, "healthy", "unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			traces, ranks := startHooked(t, tc.away, "", 0)
			j := &job{t: t, addr: startExporter(t, traces)}
			j.eventually(func() string {
				for rank := range hookedRanks {
					if n := j.metrics("culprit_nccl_ops_started_total")[strconv.Itoa(rank)]; n < 60 {
						return fmt.Sprintf("rank %d has called %g operations", rank, n)
					}
				}
				return ""
			})
			harm(t, ranks[hookedCulprit], tc.signal)
			j.eventuallySaid(traces, func(v *verdict) bool {
				if tc.class == "healthy" {
					return v.Class == tc.class && len(v.Culprits) == 0
				}
				return v.Class == tc.class && v.Cause == tc.cause && v.names(hookedCulprit)
			})
		})
	}
}

// TestHooksCalls has the rank found that does not come to a communicator which the others are making: they are inside NCCL's
// call, no operation is in flight anywhere, and all have called as many.
func TestHooksCalls(t *testing.T) {
	t.Parallel()
	const inInit = "ncclCommInitRank"
	for _, tc := range []struct {
		name   string
		call   string
		signal syscall.Signal
		cause  string
		op     string
	}{
		{"in user code", "init", 0, "op_not_called", inInit},
		{"in user code, inside a group", "group", 0, "op_not_called", "ncclGroupEnd"},
		{"stopped", "init", syscall.SIGSTOP, "process_stopped", inInit},
		{"split", "split", 0, "op_not_called", "ncclCommSplit"},
		{"killed before a split", "split", syscall.SIGKILL, "process_gone", "ncclCommSplit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			traces, ranks := startHooked(t, callAt, tc.call, 0)
			j := &job{t: t, addr: startExporter(t, traces)}
			j.eventually(func() string {
				for rank := range hookedRanks {
					if n := j.metrics("culprit_nccl_ops_started_total")[strconv.Itoa(rank)]; n < hookedOps*(callAt-1) {
						return fmt.Sprintf("rank %d has called %g operations", rank, n)
					}
				}
				return ""
			})
			harm(t, ranks[hookedCulprit], tc.signal)
			j.eventuallySaid(traces, func(v *verdict) bool {
				return v.Class == "not_entered" && v.Cause == tc.cause && v.Op == tc.op && v.names(hookedCulprit)
			})
		})
	}
}

// TestCopiedTraceFile puts a copy of a living process's trace file beside it: by the kernel's word it is refused, and what the
// process writes stays.
func TestCopiedTraceFile(t *testing.T) {
	t.Parallel()
	traces, _ := startHooked(t, 0, "", 0)
	j := &job{t: t, addr: startExporter(t, traces)}
	j.eventually(func() string {
		if n := len(j.state("").Processes); n != hookedRanks {
			return fmt.Sprintf("%d processes", n)
		}
		return ""
	})
	original := j.state("").Processes[0].File
	content, err := os.ReadFile(filepath.Join(traces, original))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(traces, "0-copy.trace"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	j.eventually(func() string {
		if !strings.Contains(j.body("/metrics"), `culprit_exporter_trace_read_errors_total{reason="identity"} 1`) {
			return "the copy is not refused"
		}
		return ""
	})
	var files []string
	for _, p := range j.state("").Processes {
		files = append(files, p.File)
	}
	if len(files) != hookedRanks || !slices.Contains(files, original) {
		t.Errorf("files %v, without %s", files, original)
	}
}

// TestPIDNamespaces has each process of a job in a PID namespace of its own, where it is number 1, as in containers. The
// exporter finds it by its number here.
func TestPIDNamespaces(t *testing.T) {
	t.Parallel()
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := probe.Run(); errors.Is(err, syscall.EPERM) {
		t.Skip("making PID namespaces is not permitted here")
	}
	traces, ranks := startHooked(t, 0, "", syscall.CLONE_NEWPID)
	j := &job{t: t, addr: startExporter(t, traces)}
	const stopped = 1
	want := map[int32]nodeapi.Kernel{}
	for rank, cmd := range ranks {
		want[int32(rank)] = nodeapi.Kernel{HostPID: cmd.Process.Pid, Verified: true, State: nodeapi.ProcessSleep}
	}
	look := func() string {
		got := map[int32]nodeapi.Kernel{}
		for _, p := range j.state("").Processes {
			if p.Identity.PID != 1 {
				return fmt.Sprintf("rank %d is number %d", p.Rank, p.Identity.PID)
			}
			if p.Kernel.State == nodeapi.ProcessRunning {
				p.Kernel.State = nodeapi.ProcessSleep // It does both in turn.
			}
			got[p.Rank] = nodeapi.Kernel{HostPID: p.Kernel.HostPID, Verified: p.Kernel.Verified, State: p.Kernel.State}
		}
		return cmp.Diff(want, got)
	}
	j.eventually(look)
	if err := ranks[stopped].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	want[stopped] = nodeapi.Kernel{HostPID: ranks[stopped].Process.Pid, Verified: true, State: nodeapi.ProcessStopped}
	j.eventually(look)
	if err := ranks[stopped].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ranks[stopped].Wait()
	want[stopped] = nodeapi.Kernel{HostPID: ranks[stopped].Process.Pid, Verified: true, State: nodeapi.ProcessGone}
	j.eventually(look)
}
