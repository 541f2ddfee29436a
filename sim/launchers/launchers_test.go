// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build launchers

// Package launchers has real mpirun and torchrun start training processes as docs/install.md says, and looks at what exporters and
// pages call the job.
package launchers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/pace"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	hosts = 2
	ranks = 4
	rank  = 2 // The faulty one.
)

// site is a stack whose hosts are played on this machine.
type site struct {
	*stack.Stack
	t      *testing.T
	ctx    context.Context
	failed context.CancelCauseFunc
	bin    string
	dir    string
}

func newSite(t *testing.T) *site {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, err := stack.Start(t.Context(), stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: dir, Hosts: hosts,
		Interval: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("starting the cluster (make build tools first): %v", err)
	}
	t.Cleanup(s.Close)
	limit, cancel := context.WithTimeout(t.Context(), pace.Stretch(3*time.Minute))
	t.Cleanup(cancel)
	ctx, failed := context.WithCancelCause(limit)
	return &site{s, t, ctx, failed, filepath.Join(root, "bin"), dir}
}

// plugin are the two variables of the recipes.
func (s *site) plugin() []string {
	return []string{"NCCL_PROFILER_PLUGIN=libnccl-profiler-culprit.so", "LD_LIBRARY_PATH=" + s.bin + ":" + os.Getenv("LD_LIBRARY_PATH")}
}

// host is what tells a played host from this machine.
func (s *site) host(i int) []string {
	return []string{"CULPRIT_DIR=" + s.TraceDir(i), "CULPRIT_HOSTNAME=" + s.HostName(i)}
}

// train is the command line of a rank. The ranks of each job meet in a folder of their own.
func (s *site) train(args ...string) []string {
	s.t.Helper()
	return append([]string{filepath.Join(s.bin, "ringjob"), "--rendezvous=" + s.t.TempDir(), "--layout=dp4", "--steps=0", "--report-every=0"}, args...)
}

// launch runs a launcher until the test ends; one that ends before fails it. Its output is shown then.
func (s *site) launch(env []string, name string, args ...string) {
	s.t.Helper()
	log, err := os.CreateTemp(s.dir, filepath.Base(name)+"-*.log")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("%v; go run ./tools/ci run test-launchers installs it", err)
	}
	ended := make(chan struct{})
	go func() {
		s.failed(fmt.Errorf("%s ended: %w", name, cmd.Wait()))
		close(ended)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		<-ended
		kill.Stop()
		log.Close()
		if s.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			s.t.Logf("%s: %s", name, text[max(0, len(text)-2000):])
		}
	})
}

// named waits until a job's ranks are in Prometheus, on the hosts and with the numbers that the launcher gave them.
func (s *site) named(job string) {
	s.t.Helper()
	for i := range hosts {
		for local := range ranks / hosts {
			query := fmt.Sprintf(`culprit_nccl_process_info{job_id=~%q, host=%q, rank="%d", local_rank="%d", world_size="%d"}`,
				job, s.HostName(i), i*ranks/hosts+local, local, ranks)
			if err := s.WaitSeries(s.ctx, query, 1); err != nil {
				s.t.Fatalf("%s: %v, %v", query, err, context.Cause(s.ctx))
			}
		}
	}
}

// paged waits for the page of a job whose faulty rank stalls.
func (s *site) paged(job string) {
	s.t.Helper()
	page, err := s.WaitPage(s.ctx, job)
	if err != nil {
		s.t.Fatalf("%v, %v", err, context.Cause(s.ctx))
	}
	if page.Labels["rank"] != fmt.Sprint(rank) || page.Labels["host"] != s.HostName(s.HostOfRank(rank, ranks)) {
		s.t.Errorf("the page names %v", page.Labels)
	}
	s.t.Logf("%s", page.Annotations["summary"])
}

// fault stalls the link of one rank.
var fault = fmt.Sprintf("--fault=link-stall:rank=%d:step=40", rank)

// mpirun starts ranks on two hosts. A script stands in for ssh: it too hands on none of the caller's variables.
func (s *site) mpirun(env []string, options []string, program ...string) {
	s.t.Helper()
	agent := filepath.Join(s.dir, "remote")
	script := "#!/bin/bash\nset -e\nhost=$1; shift\n" +
		"exec env -i PATH=\"$PATH\" HOME=\"$HOME\" CULPRIT_HOSTNAME=$host CULPRIT_DIR=" + strings.TrimSuffix(s.TraceDir(0), "0") + "${host#node} bash -c \"$*\"\n"
	if err := os.WriteFile(agent, []byte(script), 0o755); err != nil {
		s.t.Fatal(err)
	}
	args := []string{
		"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "self,tcp",
		"--host", fmt.Sprintf("%s:%d,%s:%[2]d", s.HostName(0), ranks/hosts, s.HostName(1)), "-n", fmt.Sprint(ranks),
	}
	s.launch(env, "mpirun", append(append(args, options...), program...)...)
}

// recipe is what docs/install.md says of mpirun.
var recipe = []string{"-x", "NCCL_PROFILER_PLUGIN", "-x", "LD_LIBRARY_PATH"}

// TestMPIRun has Open MPI's own name for the run, and one that the user gives.
func TestMPIRun(t *testing.T) {
	s := newSite(t)
	s.mpirun(s.plugin(), recipe, s.train()...)
	s.named("[0-9]+") // The number that Open MPI 4 gives each run.
	s.mpirun(append(s.plugin(), "CULPRIT_JOB_ID=llama"), append(recipe, "-x", "CULPRIT_JOB_ID"), s.train(fault)...)
	s.named("llama")
	s.paged("llama")
	if err := s.WaitSeries(s.ctx, `count by (job_id) (culprit_nccl_process_info)`, 2); err != nil {
		t.Error(err)
	}
}

// torchrun starts one agent a host.
func (s *site) torchrun(options []string, program ...string) {
	s.t.Helper()
	for i := range hosts {
		args := append([]string{"--no-python", fmt.Sprintf("--nnodes=%d", hosts), fmt.Sprintf("--nproc-per-node=%d", ranks/hosts)}, options...)
		for at, o := range args {
			args[at] = strings.ReplaceAll(o, "NODE", fmt.Sprint(i))
		}
		s.launch(append(s.plugin(), s.host(i)...), os.Getenv("TORCHRUN"), append(args, program...)...)
	}
}

// TestTorchrun has the user's name for a run, and without one the address where its ranks meet.
func TestTorchrun(t *testing.T) {
	s := newSite(t)
	if os.Getenv("TORCHRUN") == "" {
		t.Fatal("TORCHRUN is not set; go run ./tools/ci run test-launchers sets it")
	}
	s.torchrun([]string{"--node-rank=NODE", "--master-addr=localhost", "--master-port=29611"}, s.train()...)
	s.named(".+:29611")
	s.torchrun([]string{"--node-rank=NODE", "--rdzv-id=llama", "--master-addr=localhost", "--master-port=29612"}, s.train(fault)...)
	s.named("llama")
	s.paged("llama")
}
