// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take before a test gives up on it.
const patience = 60 * time.Second

var (
	program  string // The ringjob binary.
	buildDir string // Where the recording plugin is.
)

func TestMain(m *testing.M) {
	out, err := exec.Command("make", "-C", "..", "all", "recorder").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building ringjob: %v\n%s", err, out)
		os.Exit(1)
	}
	if program, err = filepath.Abs("../../../bin/ringjob"); err == nil {
		buildDir, err = filepath.Abs("../../../build/ringjob")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// event is one line of ringjob's output.
type event struct {
	Event  string  `json:"event"`
	Rank   int     `json:"rank"`
	PID    int     `json:"pid"`
	Code   int     `json:"code"`
	Signal int     `json:"signal"`
	Step   int     `json:"step"`
	Kind   string  `json:"kind"`
	Host   string  `json:"host"`
	Real   int64   `json:"realtime_ns"`
	Mono   int64   `json:"monotonic_ns"`
	Second float64 `json:"seconds"`
}

// job is a running launcher and what it has said.
type job struct {
	t       *testing.T
	cmd     *exec.Cmd
	dir     string
	mu      sync.Mutex
	changed *sync.Cond
	events  []event
	stderr  strings.Builder
	exited  bool
	code    int
}

// spec is how a job is launched. The zero value is two ranks on one host without a plugin.
type spec struct {
	ranks, hosts int
	flags        string // Of the ranks.
	launch       string // Of the launcher.
	env          []string
	record       bool // With the recording plugin.
}

func start(t *testing.T, s spec) *job {
	t.Helper()
	if s.ranks == 0 {
		s.ranks = 2
	}
	if s.hosts == 0 {
		s.hosts = 1
	}
	j := &job{t: t, dir: t.TempDir()}
	j.changed = sync.NewCond(&j.mu)
	args := []string{
		"launch", "--ranks", strconv.Itoa(s.ranks), "--hosts", strconv.Itoa(s.hosts), "--dir", j.dir, "--timeout", "100",
	}
	args = append(args, strings.Fields(s.launch)...)
	args = append(args, "--")
	args = append(args, strings.Fields(s.flags)...)
	j.cmd = exec.Command(program, args...)
	j.cmd.Env = append(os.Environ(), "NCCL_PROFILER_PLUGIN=none")
	if s.record {
		j.cmd.Env = append(j.cmd.Env, "NCCL_PROFILER_PLUGIN=recorder", "LD_LIBRARY_PATH="+buildDir, "RECORDER_DIR="+j.dir)
	}
	j.cmd.Env = append(j.cmd.Env, s.env...)
	stdout, err := j.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := j.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go j.follow(stdout, stderr)
	t.Cleanup(j.end)
	return j
}

func (j *job) follow(stdout, stderr io.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() {
		text, err := io.ReadAll(stderr)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.stderr.Write(text)
		if err != nil {
			fmt.Fprintln(&j.stderr, err)
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		e := event{Rank: -1}
		err := json.Unmarshal(lines.Bytes(), &e)
		j.mu.Lock()
		if err != nil {
			fmt.Fprintf(&j.stderr, "not JSON: %s\n", lines.Bytes())
		} else {
			j.events = append(j.events, e)
		}
		j.changed.Broadcast()
		j.mu.Unlock()
	}
	wg.Wait()
	err := j.cmd.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exited = true
	j.code = j.cmd.ProcessState.ExitCode()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(&j.stderr, err)
	}
	j.changed.Broadcast()
}

// until waits for the condition, called with the lock held after each event and at the end.
func (j *job) until(what string, done func() bool) {
	j.t.Helper()
	timer := time.AfterFunc(patience, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.changed.Broadcast()
	})
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	j.mu.Lock()
	defer j.mu.Unlock()
	for !done() {
		if j.exited || time.Now().After(deadline) {
			j.t.Fatalf("waiting for %s: exited %v with %d\n%s", what, j.exited, j.code, j.stderr.String())
		}
		j.changed.Wait()
	}
}

// await waits for an event and returns it.
func (j *job) await(what string, match func(event) bool) event {
	j.t.Helper()
	var found event
	j.until(what, func() bool {
		for _, e := range j.events {
			if match(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func (j *job) awaitStep(step int) {
	j.t.Helper()
	j.await(fmt.Sprintf("step %d", step), func(e event) bool { return e.Event == "step" && e.Step >= step })
}

// lastStep is the last step that was reported, -1 if none.
func (j *job) lastStep() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := -1
	for _, e := range j.events {
		if e.Event == "step" {
			last = e.Step
		}
	}
	return last
}

func (j *job) pid(rank int) int {
	j.t.Helper()
	return j.await(fmt.Sprintf("start of rank %d", rank), func(e event) bool {
		return e.Event == "rank_start" && e.Rank == rank
	}).PID
}

// wait waits for the end of the job and returns its exit code.
func (j *job) wait() int {
	j.t.Helper()
	timer := time.AfterFunc(patience, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.changed.Broadcast()
	})
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.exited {
		if time.Now().After(deadline) {
			j.t.Fatalf("the job does not end\n%s", j.stderr.String())
		}
		j.changed.Wait()
	}
	return j.code
}

// succeed waits for the end and wants exit code 0.
func (j *job) succeed() {
	j.t.Helper()
	j.exit(0)
}

func (j *job) exit(code int) {
	j.t.Helper()
	if got := j.wait(); got != code {
		j.t.Fatalf("exit code %d, want %d\n%s", got, code, j.stderr.String())
	}
	j.gone()
}

// gone fails if a process of the job is left.
func (j *job) gone() {
	j.t.Helper()
	for _, e := range j.copyEvents() {
		if e.Event != "rank_start" {
			continue
		}
		if err := syscall.Kill(e.PID, 0); !errors.Is(err, syscall.ESRCH) {
			j.t.Errorf("rank %d, process %d, is left: %v", e.Rank, e.PID, err)
		}
	}
}

func (j *job) copyEvents() []event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]event(nil), j.events...)
}

func (j *job) signal(s syscall.Signal) {
	j.t.Helper()
	if err := j.cmd.Process.Signal(s); err != nil {
		j.t.Fatal(err)
	}
}

// end stops a job that a failed test left running.
func (j *job) end() {
	j.mu.Lock()
	exited := j.exited
	j.mu.Unlock()
	if exited {
		return
	}
	if err := j.cmd.Process.Kill(); err != nil {
		j.t.Error(err)
	}
	j.wait()
}

// poll tries until it succeeds or patience ends.
func poll(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
