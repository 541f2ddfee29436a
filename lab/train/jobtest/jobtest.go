// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobtest launches the jobs of training programs in tests, and follows the events that they print.
package jobtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long anything may take before a test gives up on it.
const Patience = 6 * time.Minute

// Event is one line of a launcher's output.
type Event struct {
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
	RAS    string  `json:"ras"`
	Name   string  `json:"name"`
}

// Job is a running launcher and what it has said.
type Job struct {
	Dir     string
	t       *testing.T
	cmd     *exec.Cmd
	mu      sync.Mutex
	changed *sync.Cond
	events  []Event
	stderr  strings.Builder
	exited  bool
	code    int
}

// Start runs a program's launcher, which prepares Dir, and kills it at the end of the test.
func Start(t *testing.T, program, dir string, env []string, args ...string) *Job {
	t.Helper()
	j := &Job{t: t, Dir: dir}
	j.changed = sync.NewCond(&j.mu)
	j.cmd = exec.Command(program, append([]string{"launch", "--dir", dir}, args...)...)
	j.cmd.Env = append(os.Environ(), env...)
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

func (j *Job) follow(stdout, stderr io.Reader) {
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
		e := Event{Rank: -1}
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
func (j *Job) until(what string, done func() bool) {
	j.t.Helper()
	timer := time.AfterFunc(Patience, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.changed.Broadcast()
	})
	defer timer.Stop()
	deadline := time.Now().Add(Patience)
	j.mu.Lock()
	defer j.mu.Unlock()
	for !done() {
		if j.exited || time.Now().After(deadline) {
			j.t.Fatalf("waiting for %s: exited %v with %d\n%s", what, j.exited, j.code, j.stderr.String())
		}
		j.changed.Wait()
	}
}

// Await waits for an event and returns it.
func (j *Job) Await(what string, match func(Event) bool) Event {
	j.t.Helper()
	var found Event
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

// AwaitStep waits until rank 0 has reported the step.
func (j *Job) AwaitStep(step int) {
	j.t.Helper()
	j.Await(fmt.Sprintf("step %d", step), func(e Event) bool { return e.Event == "step" && e.Step >= step })
}

// LastStep is the last step that was reported, -1 if none.
func (j *Job) LastStep() int {
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

// PID waits for the start of a rank and returns its process.
func (j *Job) PID(rank int) int {
	j.t.Helper()
	return j.Await(fmt.Sprintf("start of rank %d", rank), func(e Event) bool {
		return e.Event == "rank_start" && e.Rank == rank
	}).PID
}

// Wait waits for the end of the job and returns its exit code.
func (j *Job) Wait() int {
	j.t.Helper()
	j.until("the end of the job", func() bool { return j.exited })
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.code
}

// Succeed waits for the end and wants exit code 0.
func (j *Job) Succeed() {
	j.t.Helper()
	j.Exit(0)
}

// Exit waits for the end, wants this exit code, and that no process of the job is left.
func (j *Job) Exit(code int) {
	j.t.Helper()
	if got := j.Wait(); got != code {
		j.t.Fatalf("exit code %d, want %d\n%s", got, code, j.stderr.String())
	}
	j.gone()
}

// gone fails if a process of the job is left.
func (j *Job) gone() {
	j.t.Helper()
	for _, e := range j.Events() {
		if e.Event != "rank_start" {
			continue
		}
		if err := syscall.Kill(e.PID, 0); !errors.Is(err, syscall.ESRCH) {
			j.t.Errorf("rank %d, process %d, is left: %v", e.Rank, e.PID, err)
		}
	}
}

// Events is what the job has said so far.
func (j *Job) Events() []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Event(nil), j.events...)
}

// Signal goes to the launcher.
func (j *Job) Signal(s syscall.Signal) {
	j.t.Helper()
	if err := j.cmd.Process.Signal(s); err != nil {
		j.t.Fatal(err)
	}
}

// end stops a job that a failed test left running.
func (j *Job) end() {
	j.mu.Lock()
	exited := j.exited
	j.mu.Unlock()
	if exited {
		return
	}
	if err := j.cmd.Process.Kill(); err != nil {
		j.t.Error(err)
	}
	j.Wait()
}

// Poll tries until it succeeds or Patience ends.
func Poll(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		<-look.C
	}
}
