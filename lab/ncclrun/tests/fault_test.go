// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/ncclrun/runtest"
	"github.com/culprit-project/culprit/lab/train/jobtest"
)

const (
	faultRank = 1
	// Steps long enough for the GPU to look at its control file before it comes to the gradient.
	faultFlags = "--compute-ms 40 --barrier-every 3 --broadcast-every 3 "
)

// injected starts a job with a fault on rank 1, and waits for its first effect.
func injected(t *testing.T, lib nccl.Library, fault, flags, launch string) *jobtest.Job {
	t.Helper()
	kind, _, _ := strings.Cut(fault, ":")
	kind, _, _ = strings.Cut(kind, "=")
	if kind != "init-hang" && kind != "split-hang" {
		fault += ":step=3"
	}
	j := start(t, lib, runtest.Spec{Launch: launch, Flags: faultFlags + flags + " --fault " + fault + ":rank=1"})
	if e := runtest.AwaitFault(j, kind); e.Rank != faultRank || e.Real == 0 || e.Mono == 0 {
		t.Errorf("fault event %+v", e)
	}
	return j
}

// hanging is injected for a fault that blocks: the job is to be aborted soon.
func hanging(t *testing.T, lib nccl.Library, fault string) *jobtest.Job {
	t.Helper()
	return injected(t, lib, fault, "--grace 1", "--grace 20")
}

// TestHangs: a job with a fault that blocks does not end in order when it is asked to, and leaves nothing behind when it is torn
// down. An orderly end would be 0.
func TestHangs(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, c := range []struct {
			fault string
			code  int
		}{
			{"link-stall", 4},
			{"gpu-freeze", 4},
			{"kernel-stall", 4},
			{"op-not-entered=sleep", 4},
			{"op-not-entered=spin", 4},
			{"broadcast-not-entered", 4},
			{"group-stall", 4},
			{"swap-order", 4},
			{"init-hang", 4},
			{"split-hang", 4},
			{"stop", 4},
			{"kill", 6},
			{"exit", 6},
		} {
			t.Run(c.fault, func(t *testing.T) {
				j := hanging(t, lib, c.fault)
				if c.code == 6 {
					j.Await("the loss of the rank", func(e jobtest.Event) bool { return e.Event == "rank_exit" && e.Rank == faultRank })
				}
				j.Signal(syscall.SIGTERM)
				j.Exit(c.code)
			})
		}
	})
}

// TestHangOfSelftest: the operations of a list have a fault where they run, in the communicator of all ranks.
func TestHangOfSelftest(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := injected(t, lib, "op-not-entered", "--grace 1 --selftest allreduce:1K --steps 1000000", "--grace 20")
		j.Signal(syscall.SIGTERM)
		j.Exit(4)
	})
}

// TestOtherOp: ranks that disagree hang, or NCCL says what is wrong with the transfer; no result is believed.
func TestOtherOp(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, what := range []string{"allgather", "reducescatter", "size"} {
			t.Run(what, func(t *testing.T) {
				j := hanging(t, lib, "other-op="+what)
				j.Signal(syscall.SIGTERM)
				j.Exit(4)
			})
		}
	})
}

// TestRecovers: training goes on after a fault that is cleared by SIGUSR2, or ends by itself, with right results.
func TestRecovers(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		for _, fault := range []string{
			"link-stall", "link-slow=0.01", "gpu-freeze", "kernel-stall", "gpu-slow=5", "proxy-delay=2", "xid=48", "op-not-entered",
			"broadcast-not-entered=spin", "group-stall", "init-hang", "split-hang", "stop:for=0.5", "eval=0.2", "checkpoint=0.2",
		} {
			t.Run(fault, func(t *testing.T) {
				j := injected(t, lib, fault, "", "")
				// A stopped process takes the signal when it goes on.
				signalFaulty(t, j, syscall.SIGUSR2)
				j.Await("the end of the fault", func(e jobtest.Event) bool { return e.Event == "fault_end" })
				j.AwaitStep(j.LastStep() + 3)
				j.Signal(syscall.SIGTERM)
				j.Succeed()
			})
		}
	})
}

// TestControlFile: faults of a GPU stand in its control file while they last, beside what others wrote there.
func TestControlFile(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Ranks: 2, Hosts: 1, Flags: "--compute-ms 1 --fault gpu-slow=4:rank=1 --fault control=temperature=90:rank=1"})
		file := filepath.Join(j.Dir, "fakegpu", "host0", "gpu1.control")
		j.AwaitStep(1)
		if err := os.WriteFile(file, []byte("power 300\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		signalFaulty(t, j, syscall.SIGUSR1)
		awaitControl(t, file, "power 300", "speed 0.250000", "temperature 90")
		signalFaulty(t, j, syscall.SIGUSR2)
		awaitControl(t, file, "power 300")
		j.Signal(syscall.SIGTERM)
		j.Succeed()
	})
}

func awaitControl(t *testing.T, file string, want ...string) {
	t.Helper()
	jobtest.Poll(t, "the control file", func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(lines)
		if !slices.Equal(lines, want) {
			return fmt.Errorf("it says %q, not %q", lines, want)
		}
		return nil
	})
}

// TestSlow: a GPU at a tenth of its speed makes steps that much longer than its own before.
func TestSlow(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		const slowed = 1600 // Milliseconds: four passes of 40 ms, ten times as long.
		j := start(t, lib, runtest.Spec{Flags: "--compute-ms 40 --fault gpu-slow=10:rank=1:step=4"})
		e := runtest.AwaitFault(j, "gpu-slow")
		j.AwaitStep(e.Step + 2)
		for _, s := range j.Events() {
			if s.Event == "step" && s.Step == e.Step+1 && s.Second < slowed/1e3 {
				t.Errorf("step %d took %.3f s, want at least %.1f", s.Step, s.Second, slowed/1e3)
			}
		}
		j.Signal(syscall.SIGTERM)
		j.Succeed()
	})
}

// TestTriggers: faults begin at their step by themselves, again and again, on one rank or all.
func TestTriggers(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		j := start(t, lib, runtest.Spec{Flags: "--steps 6 --compute-ms 1 --fault checkpoint=0.1:rank=all:step=1:every=2 --fault eval=0.1:rank=1:step=2"})
		j.Succeed()
		got := map[string]int{}
		for _, e := range j.Events() {
			if e.Event == "fault" {
				got[fmt.Sprintf("%s of %d in %d", e.Kind, e.Rank, e.Step)]++
			}
		}
		for _, want := range []string{"checkpoint of 0 in 1", "checkpoint of 1 in 1", "checkpoint of 0 in 3", "checkpoint of 1 in 5", "eval of 1 in 2"} {
			if got[want] != 1 {
				t.Errorf("%d times %q in %v", got[want], want, got)
			}
		}
	})
}

// TestMoment: a fault that begins with a step's last operation leaves that step's others alone; one that begins with the first, none.
func TestMoment(t *testing.T) {
	newestLibrary(t, func(t *testing.T, lib nccl.Library) {
		for moment, last := range map[string]int{"0": 3, "1": 4} {
			t.Run(moment, func(t *testing.T) {
				j := start(t, lib, runtest.Spec{
					Launch: "--grace 20",
					Flags:  "--grace 1 --layout pp2 --compute-ms 1 --barrier-every 0 --fault op-not-entered:comm=pp:step=4:rank=1:moment=" + moment,
				})
				runtest.AwaitFault(j, "op-not-entered")
				j.AwaitStep(last)
				j.Signal(syscall.SIGTERM)
				j.Exit(4)
				if got := j.LastStep(); got != last {
					t.Errorf("the last step is %d, want %d", got, last)
				}
			})
		}
	})
}
