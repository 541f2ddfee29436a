// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// JobConfig describes one training job.
type JobConfig struct {
	ID    string
	Ranks int
	// Layout of the parallelism, such as "dp2,pp2,tp2".
	Layout string
	// Dir is where the launcher makes or finds a directory for each host's traces; empty: the stack's, which its exporters watch.
	Dir string
	// Group of hosts that it runs on: 0 is Config.Hosts, the others are Config.MoreHosts.
	Group int
	// Fault and Rank arm a fault; Inject starts it. An empty Fault or "none" arms nothing.
	Fault string
	Rank  int
	// FaultAtStep starts the fault by itself before that step instead; -1 waits for Inject.
	FaultAtStep int
	// Args are further flags of every rank.
	Args []string
	// RanksPerProcess is how many GPUs a process drives; 0: one.
	RanksPerProcess int
	// ABI forces the version of the profiler interface; 0 takes the newest.
	ABI int
	// Launcher is a program with ringjob's command line and events to run instead of it.
	Launcher string
	// Program is what the launcher starts for each rank instead of itself: it takes a rank's flags and prints its events.
	Program string
	// Env is added to the environment of the ranks; nil: PluginEnv.
	Env []string
}

// event is one line that ringjob's launcher prints.
type event struct {
	Kind       string `json:"event"` // rank_start, step, fault, rank_exit, …
	Rank       int    `json:"rank"`
	PID        int    `json:"pid"`
	Step       int    `json:"step"` // From 0; reported by one rank when done.
	RealtimeNS int64  `json:"realtime_ns"`
}

// Job is a running training job.
type Job struct {
	Config JobConfig
	proc   *process

	firstHost, hosts int

	mu      sync.Mutex
	changed chan struct{} // Closed and replaced at every event.
	events  []event
	pids    map[int]int // By rank.
	steps   int         // Finished.
}

// PluginEnv is the environment in which NCCL loads the profiler plugin. It is named by its file alone: some versions of NCCL
// refuse a path.
func (s *Stack) PluginEnv() []string {
	path := s.cfg.BinDir
	if more := os.Getenv("LD_LIBRARY_PATH"); more != "" {
		path += string(filepath.ListSeparator) + more
	}
	return []string{"NCCL_PROFILER_PLUGIN=libnccl-profiler-culprit.so", "LD_LIBRARY_PATH=" + path}
}

// StartJob launches a job's ranks, spread evenly over its hosts.
func (s *Stack) StartJob(ctx context.Context, cfg JobConfig) (*Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	first, hosts := s.group(cfg.Group)
	j := &Job{Config: cfg, firstHost: first, hosts: hosts, changed: make(chan struct{}), pids: map[int]int{}}
	args := []string{
		"launch",
		"--ranks=" + strconv.Itoa(cfg.Ranks),
		"--hosts=" + strconv.Itoa(hosts),
		"--dir=" + cmp.Or(cfg.Dir, s.groupDir(cfg.Group)),
		"--job=" + cfg.ID,
		"--ranks-per-process=" + strconv.Itoa(max(1, cfg.RanksPerProcess)),
	}
	if cfg.Program != "" {
		program, err := filepath.Abs(cfg.Program)
		if err != nil {
			return nil, fmt.Errorf("finding the program %s: %w", cfg.Program, err)
		}
		args = append(args, "--program="+program)
	}
	args = append(args, "--", "--layout="+cfg.Layout, "--steps=0")
	if cfg.ABI != 0 {
		args = append(args, "--abi="+strconv.Itoa(cfg.ABI))
	}
	if cfg.Fault != "" && cfg.Fault != "none" {
		args = append(args, "--fault="+cfg.Fault, "--fault-rank="+strconv.Itoa(cfg.Rank))
		if cfg.FaultAtStep >= 0 {
			args = append(args, "--fault-at-step="+strconv.Itoa(cfg.FaultAtStep))
		}
	}
	args = append(args, cfg.Args...)
	launcher := filepath.Join(s.cfg.BinDir, "ringjob")
	if cfg.Launcher != "" {
		var err error
		if launcher, err = filepath.Abs(cfg.Launcher); err != nil {
			return nil, fmt.Errorf("finding the launcher %s: %w", cfg.Launcher, err)
		}
	}
	read, write := io.Pipe()
	env := cfg.Env
	if env == nil {
		env = s.PluginEnv()
	}
	proc, err := startProcess(s.cfg.Dir, "job-"+cfg.ID, env, write, launcher, args...)
	if err != nil {
		return nil, err
	}
	j.proc = proc
	go j.readEvents(read)
	_, done := proc.now()
	go func() {
		<-done
		write.Close()
	}()
	s.mu.Lock()
	s.jobs = append(s.jobs, j)
	s.mu.Unlock()
	return j, nil
}

func (j *Job) readEvents(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		j.mu.Lock()
		j.events = append(j.events, e)
		switch e.Kind {
		case "rank_start":
			j.pids[e.Rank] = e.PID
		case "step":
			j.steps = max(j.steps, e.Step+1)
		}
		close(j.changed)
		j.changed = make(chan struct{})
		j.mu.Unlock()
	}
}

// wait blocks until cond, called with the lock held, holds.
func (j *Job) wait(ctx context.Context, what string, cond func() bool) error {
	_, done := j.proc.now()
	for {
		j.mu.Lock()
		ok, changed := cond(), j.changed
		j.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-done:
			return fmt.Errorf("waiting for %s: job %s ended: %w\n%s", what, j.Config.ID, errEnded, j.proc.tail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of job %s: %w\n%s", what, j.Config.ID, ctx.Err(), j.proc.tail())
		}
	}
}

// HostOfRank gives the simulated host of a rank: blocks of equal size, as the launcher does.
func (j *Job) HostOfRank(rank int) int {
	return j.firstHost + rank/(j.Config.Ranks/j.hosts)
}

// WaitStep waits until the job has finished the given number of steps.
func (j *Job) WaitStep(ctx context.Context, steps int) error {
	return j.wait(ctx, fmt.Sprintf("step %d", steps), func() bool { return j.steps >= steps })
}

// Step gives the number of finished steps.
func (j *Job) Step() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.steps
}

// StepTimes gives when the steps ended that have been reported, in order.
func (j *Job) StepTimes() []time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []time.Time
	for _, e := range j.events {
		if e.Kind == "step" {
			out = append(out, time.Unix(0, e.RealtimeNS))
		}
	}
	return out
}

// Inject starts the armed fault and gives the moment at which the rank says it began.
func (j *Job) Inject(ctx context.Context) (time.Time, error) {
	if err := j.signal(syscall.SIGUSR1); err != nil {
		return time.Time{}, fmt.Errorf("injecting %s: %w", j.Config.Fault, err)
	}
	return j.WaitFault(ctx)
}

// EndFault lets the rank go on.
func (j *Job) EndFault() error {
	if err := j.signal(syscall.SIGUSR2); err != nil {
		return fmt.Errorf("ending %s: %w", j.Config.Fault, err)
	}
	return nil
}

// signal sends a signal to the process of the fault's rank.
func (j *Job) signal(sig syscall.Signal) error {
	j.mu.Lock()
	pid := j.pids[j.Config.Rank]
	j.mu.Unlock()
	if pid == 0 {
		return fmt.Errorf("rank %d of job %s has not started", j.Config.Rank, j.Config.ID)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("signalling rank %d: %w", j.Config.Rank, err)
	}
	return nil
}

// WaitFault waits until the rank reports that the fault began.
func (j *Job) WaitFault(ctx context.Context) (time.Time, error) {
	var at time.Time
	err := j.wait(ctx, "the fault", func() bool {
		for _, e := range j.events {
			if e.Kind == "fault" {
				at = time.Unix(0, e.RealtimeNS)
				return true
			}
		}
		return false
	})
	return at, err
}

// Log is the file of what the job's processes said on stderr.
func (j *Job) Log() string { return j.proc.log }

// Done is closed when the job has ended.
func (j *Job) Done() <-chan struct{} {
	_, done := j.proc.now()
	return done
}

// Stop ends the job: orderly where the ranks still can, killed where not.
func (j *Job) Stop() { j.proc.stop() }
