// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/tools/ci/plan"
	"github.com/culprit-project/culprit/tools/ci/setup"
)

// newTestRunner is one that knows of earlier runs what state says.
func newTestRunner(t *testing.T, state plan.State) (*runner, *bytes.Buffer) {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	return &runner{setup: &setup.Setup{Root: dir}, out: out, state: state, tree: "tree"}, out
}

func has(steps []plan.Step, name string) bool {
	return slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Name == name })
}

func TestPlanOfTest(t *testing.T) {
	r, _ := newTestRunner(t, nil)
	steps, err := r.test()
	if err != nil {
		t.Fatal(err)
	}
	if !has(steps, "test-go") || !has(steps, "test-e2e") || has(steps, "lint") || has(steps, "test-slurm") {
		t.Errorf("make test has %v", steps)
	}
	if slices.ContainsFunc(steps, func(s plan.Step) bool { return !s.Always || s.Script == "" }) {
		t.Error("make test may leave steps out")
	}
}

func TestPlanOfCI(t *testing.T) {
	t.Setenv("CI_BUDGET", "77")
	r, out := newTestRunner(t, plan.State{"soak": {Last: time.Unix(1, 0)}})
	steps, err := r.ci()
	if err != nil {
		t.Fatal(err)
	}
	test, err := r.test()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range test {
		if !has(steps, s.Name) {
			t.Errorf("it lacks %s of make test", s.Name)
		}
	}
	for _, name := range []string{"lint", "check-generated", "soak"} {
		if !has(steps, name) {
			t.Errorf("it lacks %s", name)
		}
	}
	if r.Budget != 77*time.Second || !strings.Contains(out.String(), "of the long list, landing ") {
		t.Errorf("the budget is %s; it said:\n%s", r.Budget, out)
	}
	t.Setenv("CI_BUDGET", "20m")
	if _, err := r.ci(); err == nil {
		t.Error("a budget that is no number of seconds was taken")
	}
}

// TestSlicesFit holds each slice to what the CI has time for beside make test.
func TestSlicesFit(t *testing.T) {
	for landing := range plan.Slices {
		var waits, others time.Duration
		for _, s := range plan.Slice(steps(inLong), landing, plan.State{}) {
			if s.Lane == plan.Waits {
				waits += s.Time
			} else {
				others += s.Time
			}
		}
		if waits > 12*time.Minute || others > 10*time.Minute {
			t.Errorf("slice %d waits for %s and computes for %s", landing, waits, others)
		}
	}
}

func TestPlanOfLong(t *testing.T) {
	r, out := newTestRunner(t, nil)
	r.setup.Root = t.TempDir()
	all, err := r.long()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(steps(inLong)) || !r.KeepGoing {
		t.Errorf("%d of %d steps, keep going %v", len(all), len(steps(inLong)), r.KeepGoing)
	}
	r.Runner = plan.Runner{Root: r.setup.Root, Out: out, Logs: t.TempDir(), StateFile: r.StateFile, Tree: r.tree, Interval: time.Hour}
	if err := r.Run(t.Context(), []plan.Step{{Name: "soak", Script: "true"}}); err != nil {
		t.Fatal(err)
	}
	if rest, err := r.long(); err != nil || has(rest, "soak") || len(rest) != len(all)-1 {
		t.Errorf("after soak has passed: %d steps, %v", len(rest), err)
	}
	r.tree = "other"
	if rest, err := r.long(); err != nil || !has(rest, "soak") {
		t.Errorf("on other sources: %v", err)
	}
	r.tree = "tree"
	t.Setenv("FRESH", "1")
	if rest, err := r.long(); err != nil || !has(rest, "soak") {
		t.Errorf("FRESH=1: %v", err)
	}
}
