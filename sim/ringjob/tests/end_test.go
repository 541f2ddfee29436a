// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOrderlyEnd: SIGTERM ends all ranks after the same step, whoever gets it.
func TestOrderlyEnd(t *testing.T) {
	for _, who := range []string{"launcher", "rank"} {
		t.Run(who, func(t *testing.T) {
			j := start(t, spec{ranks: 4, hosts: 2, record: true, flags: "--layout dp2,pp2 --compute-ms 2"})
			j.awaitStep(3)
			if who == "launcher" {
				j.signal(syscall.SIGTERM)
			} else if err := syscall.Kill(j.pid(2), syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			j.succeed()
			counts := map[int]bool{}
			for rank := range 4 {
				r := mustRecord(t, j.dir, rank)
				checkOrderly(t, r, false)
				counts[len(r.of("Coll", "dp"))] = true
			}
			if len(counts) != 1 {
				t.Errorf("ranks made different numbers of steps: %v", counts)
			}
		})
	}
}

// TestNobodyOutlives: ranks die with their launcher, however it dies.
func TestNobodyOutlives(t *testing.T) {
	j := start(t, spec{ranks: 4, flags: "--layout dp4 --compute-ms 1"})
	j.awaitStep(2)
	j.signal(syscall.SIGKILL)
	j.wait()
	for rank := range 4 {
		pid := j.pid(rank)
		poll(t, fmt.Sprintf("the end of rank %d", rank), func() error {
			// An orphan that nobody reaps is dead, too.
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
				return nil
			}
			return fmt.Errorf("process %d lives: %w", pid, err)
		})
	}
}

// TestEnvironment: a rank is told who it is, and each host has its directory.
func TestEnvironment(t *testing.T) {
	j := start(t, spec{ranks: 4, hosts: 2, launch: "--job train-7 --host-prefix n", flags: "--layout dp4 --compute-ms 1"})
	j.awaitStep(1)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", j.pid(3)))
	if err != nil {
		t.Fatal(err)
	}
	have := "\x00" + string(environ)
	for _, want := range []string{
		"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "NODE_RANK=1", "CULPRIT_HOSTNAME=n1", "CULPRIT_GPU=1",
		"CULPRIT_JOB_ID=train-7", "CULPRIT_DIR=" + filepath.Join(j.dir, "host1"),
	} {
		if !strings.Contains(have, "\x00"+want+"\x00") {
			t.Errorf("no %s in the environment", want)
		}
	}
	for _, host := range []string{"host0", "host1"} {
		if info, err := os.Stat(filepath.Join(j.dir, host)); err != nil || !info.IsDir() {
			t.Errorf("directory of %s: %v", host, err)
		}
	}
	j.signal(syscall.SIGTERM)
	j.succeed()
}

// TestProgram: the ranks may run another program, with the same flags and environment.
func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank.sh")
	script := "#!/bin/sh\necho \"{\\\"event\\\":\\\"step\\\",\\\"rank\\\":$RANK,\\\"detail\\\":\\\"$CULPRIT_HOSTNAME $*\\\"}\"\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, err := exec.Command(program, "launch", "--ranks", "2", "--hosts", "2", "--dir", dir, "--program", path, "--", "--layout", "dp2").Output()
	if err != nil {
		t.Fatal(err)
	}
	for rank, host := range []string{"node0", "node1"} {
		want := fmt.Sprintf(`"rank":%d,"detail":"%s --rendezvous %s`, rank, host, dir)
		if !strings.Contains(string(out), want) || !strings.Contains(string(out), `--layout dp2"}`) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}

// TestMissingRank: who waits for a rank that never comes gives up, and says so.
func TestMissingRank(t *testing.T) {
	cmd := exec.Command(program, "--rendezvous", t.TempDir(), "--rendezvous-timeout", "0.2")
	cmd.Env = append(os.Environ(), "RANK=0", "WORLD_SIZE=2")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 5 || !strings.Contains(string(out), "rank.1.port") {
		t.Errorf("%v: %s", err, out)
	}
}
