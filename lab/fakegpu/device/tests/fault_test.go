// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// endless is a job that repeats small operations until it is told to end.
type endless struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	lines atomic.Int64 // operations that ended
	ended chan error
}

func startEndless(t *testing.T, version string, repeats int) *endless {
	t.Helper()
	path := library(version)
	j := &endless{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	j.cmd = exec.CommandContext(ctx, filepath.Join(root, "bin/fakegpu/check"), "-l", path, "-L", writeLayout(t, path), "-d", j.dir,
		"-n", "3", "-r", strconv.Itoa(repeats), "-t", strconv.Itoa(int(patience.Seconds())), "-a", filepath.Join(j.dir, "abort"),
		"allreduce:f32:sum:4000", "allgather:f32:sum:120000", "sendrecv:f32:sum:40000")
	j.cmd.Env = append(os.Environ(), environment...)
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			if strings.Contains(scanner.Text(), `"seconds"`) {
				j.lines.Add(1)
			}
		}
		j.ended <- j.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-j.ended; err == nil {
			t.Error("the job ended by itself")
		}
	})
	return j
}

// control writes what is asked of the middle rank's GPU.
func (j *endless) control(text string) {
	j.t.Helper()
	path := filepath.Join(j.dir, "host1/gpu0.control")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		j.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		j.t.Fatal(err)
	}
}

// more waits until n operations more have ended.
func (j *endless) more(n int64) {
	j.t.Helper()
	want := j.lines.Load() + n
	for end := time.Now().Add(patience); j.lines.Load() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			j.t.Fatalf("%d operations ended, want %d", j.lines.Load(), want)
		}
	}
}

// stands waits until no operation ends any more. An operation lasts milliseconds; a second without one is a standstill.
func (j *endless) stands() {
	j.t.Helper()
	const still = 3 * time.Second
	seen, since := j.lines.Load(), time.Now()
	for end := time.Now().Add(patience); time.Since(since) < still; time.Sleep(10 * time.Millisecond) {
		if n := j.lines.Load(); n != seen {
			seen, since = n, time.Now()
		}
		if time.Now().After(end) {
			j.t.Fatalf("operations go on: %d", seen)
		}
	}
}

// TestFrozen: the kernels of a frozen GPU stand, so do those that wait for it, and all go on when it thaws.
func TestFrozen(t *testing.T) {
	for _, version := range wanted(t) {
		t.Run(version, func(t *testing.T) {
			j := startEndless(t, version, 1_000_000)
			j.more(5)
			j.control("freeze 1\n")
			j.stands()
			j.control("")
			j.more(5)
		})
	}
}

// TestAbort: ncclCommAbort ends kernels that wait for a frozen GPU, and those of the frozen GPU itself.
func TestAbort(t *testing.T) {
	const first = "2.26" // with a progress thread that ends on abort although transfers wait
	for _, version := range wanted(t) {
		if compareVersions(version, first) < 0 {
			t.Logf("ncclCommAbort of NCCL %s waits for its progress thread, which waits for the frozen GPU: nothing to see here before %s", version, first)
			continue
		}
		t.Run(version, func(t *testing.T) {
			j := startEndless(t, version, 1_000_000)
			j.more(5)
			j.control("freeze 1\n")
			j.stands()
			if err := os.WriteFile(filepath.Join(j.dir, "abort"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-j.ended:
				j.ended <- err
				const aborted = 6
				if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != aborted {
					t.Fatalf("ended with %v, want status %d", err, aborted)
				}
			case <-time.After(patience):
				t.Fatal("the ranks did not end after ncclCommAbort")
			}
		})
	}
}

// TestMissing: a member that the layout lacks is named before anything runs.
func TestMissing(t *testing.T) {
	version := wanted(t)[0]
	places := writeLayout(t, library(version))
	text, err := os.ReadFile(places)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "conn.connFifo ") {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(places, []byte(strings.Join(kept, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin/fakegpu/check"), "-l", library(version), "-L", places, "-d", t.TempDir(), "-n", "1", "allreduce:f32:sum:4")
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has no member conn.connFifo") {
		t.Fatalf("%v: %s", err, out)
	}
}
