// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/ncclrun/runtest"
	"github.com/culprit-project/culprit/lab/train/jobtest"
)

var versions = flag.String("versions", "short", "releases of NCCL to run on, as `go run ./tools/ci run nccl` names them")

var root string // Of the repository.

func TestMain(m *testing.M) {
	flag.Parse()
	out, err := exec.Command("make", "-C", "..", "all").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building ncclrun: %v\n%s", err, out)
		os.Exit(1)
	}
	if root, err = filepath.Abs("../../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// eachLibrary runs a test on every release that is asked for.
func eachLibrary(t *testing.T, test func(t *testing.T, lib nccl.Library)) {
	t.Helper()
	runtest.OnEach(t, root, asked(t), test)
}

// newestLibrary runs a test on the newest of them: what is the program's own is the same on all.
func newestLibrary(t *testing.T, test func(t *testing.T, lib nccl.Library)) {
	t.Helper()
	runtest.OnEach(t, root, asked(t)[:1], test)
}

func asked(t *testing.T) []nccl.Release {
	t.Helper()
	releases, err := nccl.Select(*versions)
	if err != nil {
		t.Fatal(err)
	}
	if len(releases) == 0 {
		t.Fatal("no release of NCCL is asked for")
	}
	return releases
}

func start(t *testing.T, lib nccl.Library, s runtest.Spec) *jobtest.Job {
	t.Helper()
	return runtest.Start(t, root, lib, s)
}

// signalFaulty sends a signal to the process of the rank that has the faults.
func signalFaulty(t *testing.T, j *jobtest.Job, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(j.PID(faultRank), s); err != nil {
		t.Fatal(err)
	}
}
