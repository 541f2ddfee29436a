// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/culprit-project/culprit/sim/nccl"
	"github.com/culprit-project/culprit/sim/train/jobtest"
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
	onLibraries(t, asked(t), test)
}

// newestLibrary runs a test on the newest of them: what is the program's own is the same on all.
func newestLibrary(t *testing.T, test func(t *testing.T, lib nccl.Library)) {
	t.Helper()
	onLibraries(t, asked(t)[:1], test)
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

func onLibraries(t *testing.T, releases []nccl.Release, test func(t *testing.T, lib nccl.Library)) {
	t.Helper()
	store := nccl.Store{
		Dir:        filepath.Join(root, ".cache", "nccl"),
		LayoutTool: filepath.Join(root, "bin", "nccl-layout"),
		Log:        t.Logf,
	}
	for _, release := range releases {
		t.Run(release.Version, func(t *testing.T) {
			if !store.Has(release) {
				t.Fatalf("NCCL %s is not in %s: run go run ./tools/ci run nccl NCCL=%s", release.Version, store.Dir, release.Version)
			}
			lib, err := store.Get(t.Context(), release)
			if err != nil {
				t.Fatal(err)
			}
			test(t, lib)
		})
	}
}

// spec is how a job is launched. The zero value is two ranks on two hosts.
type spec struct {
	ranks, hosts int
	flags        string // Of the ranks.
	launch       string // Of the launcher.
	env          []string
}

func start(t *testing.T, lib nccl.Library, s spec) *jobtest.Job {
	t.Helper()
	if s.ranks == 0 {
		s.ranks, s.hosts = 2, 2
	}
	if s.hosts == 0 {
		s.hosts = s.ranks
	}
	// A busy machine takes long for an orderly end, too.
	args := []string{"--ranks", strconv.Itoa(s.ranks), "--hosts", strconv.Itoa(s.hosts), "--timeout", "170", "--grace", "90"}
	args = append(args, strings.Fields(s.launch)...)
	args = append(args, "--", "--grace", "60")
	args = append(args, strings.Fields(s.flags)...)
	env := append([]string{"NCCL_LIB=" + lib.Path, "NCCL_LAYOUT=" + lib.Layout}, s.env...)
	return jobtest.Start(t, filepath.Join(root, "bin", "ncclrun"), t.TempDir(), env, args...)
}

// signalFaulty sends a signal to the process of the rank that has the faults.
func signalFaulty(t *testing.T, j *jobtest.Job, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(j.PID(faultRank), s); err != nil {
		t.Fatal(err)
	}
}

// awaitFault waits for a fault's first effect.
func awaitFault(j *jobtest.Job, kind string) jobtest.Event {
	return j.Await("the fault", func(e jobtest.Event) bool { return e.Event == "fault" && e.Kind == kind })
}
