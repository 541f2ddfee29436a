// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDemoCleansUp interrupts the demo in the middle of training: it must end, and leave no process and no file.
func TestDemoCleansUp(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "culprit-demo"), "--root="+root, "--fault=none", "--warmup=100000")
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Eight ranks, four exporters and three servers at least.
	waitProcesses(t, scratch, func(n int) bool { return n >= 15 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("exit status 0 after an interrupt")
	}
	waitProcesses(t, scratch, func(n int) bool { return n == 0 })
	left, err := os.ReadDir(scratch)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%d entries are left in the scratch directory, first %s", len(left), left[0].Name())
	}
}

// waitProcesses waits until the number of processes whose command line or environment names the directory is right.
func waitProcesses(t *testing.T, dir string, right func(int) bool) {
	t.Helper()
	deadline := time.Now().Add(giveUp)
	for {
		n := processesOf(t, dir)
		if right(n) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes work in %s", n, dir)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// processesOf counts the processes that work in the directory, the demo itself left out.
func processesOf(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		// A process that ended meanwhile has no working directory to read.
		if cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd")); err == nil && strings.HasPrefix(cwd, dir) {
			n++
		}
	}
	return n
}
