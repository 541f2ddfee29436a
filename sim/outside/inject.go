// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed inject.py
var injectPy []byte

// faults are those of NVRx' injector that need no GPU. LOCK_GIL and SIGSTOP leave a hang, the others end the rank.
var faults = []struct{ name, cause string }{
	{"WORKLOAD_EXC", "InjectedException"},
	{"ASYNC_EXC", "InjectedException"},
	{"SIGNAL_EXC", "InjectedException"},
	{"OS_ABORT", "SIGABRT|signal 6|-6"},
	{"LOCK_GIL", ""},
	{"SEGFAULT", "SIGSEGV|signal 11|-11"},
	{"SIGINT", "KeyboardInterrupt|SIGINT|signal 2"},
	{"SIGKILL", "SIGKILL|signal 9|-9"},
	{"SIGTERM", "SIGTERM|signal 15|-15"},
	{"SIGSTOP", ""},
}

const (
	jobRanks  = 4
	guilty    = 2
	jobLength = 90 * time.Second // A stopped process does not end by itself.
	lookEvery = 200 * time.Millisecond
)

// injected runs a job for each release and fault that has not run yet.
func (s *settings) injected(ctx context.Context) (out []benchCase, err error) {
	for _, python := range s.pythons {
		of, err := s.injectedOn(ctx, python)
		if err != nil {
			return nil, err
		}
		out = append(out, of...)
	}
	return out, nil
}

func (s *settings) injectedOn(ctx context.Context, python string) ([]benchCase, error) {
	release, _, _, err := output(ctx, nil, python, "-c", "import torch; print(torch.__version__.split('+')[0])")
	if err != nil {
		return nil, fmt.Errorf("asking for PyTorch's release: %w", err)
	}
	name := "torch-" + strings.TrimSpace(release)
	var out []benchCase
	for _, f := range faults {
		dir := filepath.Join(s.work, "injected", name, f.name)
		if _, err := os.Stat(filepath.Join(dir, "job.log")); err != nil {
			slog.Info("running a job", "torch", name, "fault", f.name)
			if err := s.job(ctx, python, dir, f.name); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
		for _, c := range ofJob(name+"/"+f.name, "Faults of NVRx' injector, gloo", dir, truth{Ranks: []int{guilty}}) {
			if c.paths[0] == filepath.Join(dir, "job.log") { // Dumps and stacks do not tell how a process ended.
				c.truth.Cause = f.cause
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// job runs one under torchrun, and keeps what it leaves.
func (s *settings) job(ctx context.Context, python, dir, fault string) error {
	if err := os.RemoveAll(dir); err != nil { // Of a job that was cut off.
		return err
	}
	for _, d := range []string{"dumps", "stacks"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	script := filepath.Join(dir, "inject.py")
	if err := os.WriteFile(script, injectPy, 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "job.part"))
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, jobLength)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", strconv.Itoa(jobRanks), script,
		filepath.Join(s.nvrx, "src", "nvidia_resiliency_ext", "shared_utils", "inject_fault.py"), fault, strconv.Itoa(guilty), filepath.Join(dir, "dumps"))
	cmd.Env = append(os.Environ(), "TORCH_FR_BUFFER_SIZE=2000", "OMP_NUM_THREADS=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // However it ends, what it left counts.
		close(ended)
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looked := false; ; {
		select {
		case <-tick.C:
			// The ranks dump when the fault has had its effect.
			if dumps, err := os.ReadDir(filepath.Join(dir, "dumps")); err == nil && len(dumps) > 0 && !looked {
				looked = true
				s.stacks(ctx, dir, cmd.Process.Pid)
			}
			continue
		case <-ended:
		}
		break
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // What torchrun left behind.
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return err
	}
	if info, err := log.Stat(); err != nil || info.Size() == 0 {
		return fmt.Errorf("the job printed nothing in %s: the machine is too busy", jobLength)
	}
	return os.Rename(filepath.Join(dir, "job.part"), filepath.Join(dir, "job.log"))
}

// stacks takes one of each rank. A process that cannot be looked at has none.
func (s *settings) stacks(ctx context.Context, dir string, launcher int) {
	out, _, _, err := output(ctx, nil, "pgrep", "-P", strconv.Itoa(launcher))
	if err != nil {
		slog.Warn("finding the ranks", "err", err)
		return
	}
	for pid := range strings.FieldsSeq(out) {
		if text, _, code, err := output(ctx, nil, s.pySpy, "dump", "--pid", pid); err == nil && code == 0 {
			if err := os.WriteFile(filepath.Join(dir, "stacks", pid+".txt"), []byte(text), 0o644); err != nil {
				slog.Warn("keeping a stack", "err", err)
			}
		}
	}
}
