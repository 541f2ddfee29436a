// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtest starts jobs of ncclrun on real NCCL libraries, for tests.
package runtest

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/train/jobtest"
)

// OnEach runs a test on each of these releases, whose libraries are in .cache/nccl of the repository at root.
func OnEach(t *testing.T, root string, releases []nccl.Release, test func(t *testing.T, lib nccl.Library)) {
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

// Spec is how a job is launched. The zero value is two ranks on two hosts.
type Spec struct {
	Ranks, Hosts int
	Flags        string // Of the ranks.
	Launch       string // Of the launcher.
	Env          []string
}

// Start starts a job with bin/ncclrun of the repository at root.
func Start(t *testing.T, root string, lib nccl.Library, s Spec) *jobtest.Job {
	t.Helper()
	if s.Ranks == 0 {
		s.Ranks, s.Hosts = 2, 2
	}
	if s.Hosts == 0 {
		s.Hosts = s.Ranks
	}
	// A busy machine takes long for an orderly end, too.
	args := []string{"--ranks", strconv.Itoa(s.Ranks), "--hosts", strconv.Itoa(s.Hosts), "--timeout", "170", "--grace", "90"}
	args = append(args, strings.Fields(s.Launch)...)
	args = append(args, "--", "--grace", "60")
	args = append(args, strings.Fields(s.Flags)...)
	env := append([]string{"NCCL_LIB=" + lib.Path, "NCCL_LAYOUT=" + lib.Layout}, s.Env...)
	return jobtest.Start(t, filepath.Join(root, "bin", "ncclrun"), t.TempDir(), env, args...)
}

// AwaitFault waits for a fault's first effect.
func AwaitFault(j *jobtest.Job, kind string) jobtest.Event {
	return j.Await("the fault", func(e jobtest.Event) bool { return e.Event == "fault" && e.Kind == kind })
}
