// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/ncclrun/runtest"
	"github.com/culprit-project/culprit/lab/train/jobtest"
)

// TestOrderlyEnd: SIGTERM ends all ranks after the same step, whoever gets it.
func TestOrderlyEnd(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, who := range []string{"launcher", "rank"} {
			t.Run(who, func(t *testing.T) {
				j := start(t, lib, runtest.Spec{Flags: "--compute-ms 1"})
				j.AwaitStep(3)
				if who == "launcher" {
					j.Signal(syscall.SIGTERM)
				} else {
					signalFaulty(t, j, syscall.SIGTERM)
				}
				j.Succeed()
			})
		}
	})
}

// TestEndWithKernelEvents: a job whose kernels are reported ends. NCCL waits for every kernel that it was asked to report.
func TestEndWithKernelEvents(t *testing.T) {
	eachLibrary(t, func(t *testing.T, lib nccl.Library) {
		bin, err := filepath.Abs(filepath.Join(root, "bin"))
		if err != nil {
			t.Fatal(err)
		}
		start(t, lib, runtest.Spec{Flags: "--steps 2 --compute-ms 1", Env: []string{
			"NCCL_PROFILER_PLUGIN=libnccl-profiler-culprit.so", "LD_LIBRARY_PATH=" + bin, "CULPRIT_DIR=" + t.TempDir(), "CULPRIT_EVENTS=+kernelch",
		}}).Succeed()
	})
}

// TestNobodyOutlives: ranks die with their launcher, however it dies.
func TestNobodyOutlives(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Flags: "--compute-ms 1"})
		j.AwaitStep(2)
		j.Signal(syscall.SIGKILL)
		j.Wait()
		for rank := range 2 {
			pid := j.PID(rank)
			jobtest.Poll(t, fmt.Sprintf("the end of rank %d", rank), func() error {
				// An orphan that nobody reaps is dead, too.
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
					return nil
				}
				return fmt.Errorf("process %d lives: %w", pid, err)
			})
		}
	})
}

var segment = regexp.MustCompile(`/dev/shm/nccl-\S+`)

// TestNothingIsLeft: a rank that is killed leaves no segment in /dev/shm.
func TestNothingIsLeft(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Ranks: 2, Hosts: 1, Launch: "--grace 3", Flags: "--compute-ms 1 --intra shm --grace 1 --fault stop:rank=1"})
		j.AwaitStep(2)
		var names []string
		for rank := range 2 {
			maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", j.PID(rank)))
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, segment.FindAllString(string(maps), -1)...)
		}
		if len(names) == 0 {
			t.Fatal("no segment is mapped: this shows nothing")
		}
		signalFaulty(t, j, syscall.SIGUSR1)
		j.Await("the stop", func(e jobtest.Event) bool { return e.Event == "rank_stopped" })
		j.Signal(syscall.SIGTERM)
		j.Exit(4)
		for _, name := range names {
			if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", name, err)
			}
		}
	})
}

// TestEnvironment: a rank is told who it is, and each host has its directories.
func TestEnvironment(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Ranks: 4, Hosts: 2, Launch: "--job train-7 --host-prefix n --ranks-per-process 2", Flags: "--compute-ms 1"})
		j.AwaitStep(1)
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", j.PID(3)))
		if err != nil {
			t.Fatal(err)
		}
		have := "\x00" + string(environ)
		for _, want := range []string{
			"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "NODE_RANK=1", "CULPRIT_HOSTNAME=n1", "CULPRIT_GPU=0",
			"CULPRIT_JOB_ID=train-7", "CULPRIT_DIR=" + filepath.Join(j.Dir, "host1"),
			"FAKEGPU_DIR=" + filepath.Join(j.Dir, "fakegpu", "host1"), "CUDA_VISIBLE_DEVICES=0,1", "NCCL_HOSTID=n1",
		} {
			if !strings.Contains(have, "\x00"+want+"\x00") {
				t.Errorf("no %s in the environment", want)
			}
		}
		node, err := os.ReadFile(filepath.Join(j.Dir, "fakegpu", "host1", "node"))
		if err != nil || string(node) != "name n1\ngpus 2\n" {
			t.Errorf("the played host is %q: %v", node, err)
		}
		j.Signal(syscall.SIGTERM)
		j.Succeed()
	})
}

// TestRAS: RAS is off unless asked for, and then on a port of each process's own.
func TestRAS(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Flags: "--compute-ms 1 --ras"})
		j.AwaitStep(1)
		for _, e := range j.Events() {
			if e.Event != "rank_ready" {
				continue
			}
			if strings.HasSuffix(e.RAS, ":28028") {
				t.Errorf("rank %d uses the default port", e.Rank)
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.RAS)
			if err != nil {
				t.Errorf("RAS of rank %d: %v", e.Rank, err)
				continue
			}
			conn.Close()
		}
		j.Signal(syscall.SIGTERM)
		j.Succeed()
	})
}
