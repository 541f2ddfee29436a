// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/culprit-project/culprit/lab/train/jobtest"
)

var (
	program  string // The ringjob binary.
	buildDir string // Where the recording plugin and the delaying library are.
)

func TestMain(m *testing.M) {
	out, err := exec.Command("make", "-C", "..", "all", "recorder", "late").CombinedOutput()
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

type event = jobtest.Event

// job is a running job of ringjob processes.
type job struct {
	*jobtest.Job
	dir string
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
	dir := t.TempDir()
	args := []string{"--ranks", strconv.Itoa(s.ranks), "--hosts", strconv.Itoa(s.hosts)}
	args = append(args, strings.Fields(s.launch)...)
	args = append(args, "--")
	args = append(args, strings.Fields(s.flags)...)
	env := []string{"NCCL_PROFILER_PLUGIN=none"}
	if s.record {
		env = append(env, "NCCL_PROFILER_PLUGIN=recorder", "LD_LIBRARY_PATH="+buildDir, "RECORDER_DIR="+dir)
	}
	return &job{Job: jobtest.Start(t, program, dir, append(env, s.env...), args...), dir: dir}
}

func (j *job) await(what string, match func(event) bool) event { return j.Await(what, match) }
func (j *job) awaitStep(step int)                              { j.AwaitStep(step) }
func (j *job) lastStep() int                                   { return j.LastStep() }
func (j *job) pid(rank int) int                                { return j.PID(rank) }
func (j *job) wait() int                                       { return j.Wait() }
func (j *job) succeed()                                        { j.Succeed() }
func (j *job) exit(code int)                                   { j.Exit(code) }
func (j *job) copyEvents() []event                             { return j.Events() }
func (j *job) signal(s syscall.Signal)                         { j.Signal(s) }

// poll tries until it succeeds or patience ends.
func poll(t *testing.T, what string, try func() error) { jobtest.Poll(t, what, try) }
