// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/tools/ci/plan"
	"github.com/culprit-project/culprit/tools/ci/setup"
)

// plans are the tasks that consist of others, and what decides which.
var plans = map[string]func(*runner) ([]plan.Step, error){
	"test":      (*runner).test,
	"ci":        (*runner).ci,
	"test-long": (*runner).long,
}

// runPlan runs a task that consists of others.
func (r *runner) runPlan(ctx context.Context, choose func(*runner) ([]plan.Step, error)) error {
	var err error
	if r.state, err = plan.Load(r.stateFile); err != nil {
		return err
	}
	if r.tree, err = r.sources(); err != nil {
		return err
	}
	r.Runner = plan.Runner{
		Root: r.setup.Root, Out: r.out, Env: r.env, Logs: r.path("build", "ci"), StateFile: r.stateFile, Tree: r.tree, Interval: 30 * time.Second,
	}
	started := time.Now()
	steps, err := choose(r)
	if err != nil {
		return err
	}
	needs := nothing
	for i, s := range steps {
		one, err := find(s.Name)
		if err != nil {
			return err
		}
		if s.Always {
			needs = needs.And(one.allNeeds())
		} else {
			steps[i].Prepare = func(ctx context.Context) error { return r.prepare(ctx, one) }
		}
	}
	if err := r.setup.Meet(ctx, needs); err != nil {
		return err
	}
	if r.Budget > 0 {
		r.Budget -= time.Since(started)
	}
	return r.Run(ctx, plan.FailedFirst(steps, r.state))
}

// prepare meets the needs of one task of a run.
func (r *runner) prepare(ctx context.Context, t task) error {
	s := &setup.Setup{Root: r.setup.Root, Out: r.out, Interval: r.Interval}
	err := s.Meet(ctx, t.allNeeds())
	if errors.Is(err, setup.ErrRoot) {
		return fmt.Errorf("%w: %w", plan.ErrCannot, err)
	}
	return err
}

func (r *runner) path(elements ...string) string {
	return filepath.Join(append([]string{r.setup.Root}, elements...)...)
}

// steps are the tasks that a run has without being told to.
func steps(of ...where) []plan.Step {
	var all []plan.Step
	for _, w := range of {
		for _, t := range tasks {
			if t.where == w {
				all = append(all, plan.Step{Name: t.name, Script: t.script, Lane: t.lane, Time: t.took, Always: w != inLong})
			}
		}
	}
	return all
}

// test is make test.
func (r *runner) test() ([]plan.Step, error) { return steps(inTest), nil }

// ci is what a change must pass.
func (r *runner) ci() ([]plan.Step, error) {
	r.Budget = 20 * time.Minute
	if text := os.Getenv("CI_BUDGET"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("CI_BUDGET is in seconds: %w", err)
		}
		r.Budget = time.Duration(seconds) * time.Second
	}
	number, how, err := r.landing()
	if err != nil {
		return nil, err
	}
	slice := plan.Slice(steps(inLong), number, r.state)
	var names []string
	for _, s := range slice {
		names = append(names, s.Name)
	}
	fmt.Fprintf(r.out, "of the long list, landing %d (%s) runs: %s\n", number, how, strings.Join(names, ", "))
	return append(steps(inTest, inCI), slice...), nil
}

// long is the long list, without what has passed on the same sources.
func (r *runner) long() ([]plan.Step, error) {
	r.KeepGoing = true
	r.Runner.StateFile = r.path("build", "ci", "long.json")
	var err error
	if r.state, err = plan.Load(r.Runner.StateFile); err != nil {
		return nil, err
	}
	var todo []plan.Step
	for _, s := range steps(inLong) {
		if done := r.state[s.Name]; done.OK && done.Tree == r.tree && os.Getenv("FRESH") == "" {
			fmt.Fprintf(r.out, "%s has passed on these sources at %s\n", s.Name, done.Last.Format(time.DateTime))
			continue
		}
		todo = append(todo, s)
	}
	return todo, nil
}

// landing numbers the commit, and says how: merges into the main branch count up by one.
func (r *runner) landing() (number int, how string, err error) {
	shallow, err := r.git("rev-parse", "--is-shallow-repository")
	if err != nil {
		return 0, "", err
	}
	if shallow == "true" {
		commit, err := r.git("rev-parse", "HEAD")
		if err != nil {
			return 0, "", err
		}
		sum := sha256.Sum256([]byte(commit))
		return int(binary.BigEndian.Uint32(sum[:]) >> 1), "drawn by the commit, as the clone is shallow", nil
	}
	count, err := r.git("rev-list", "--first-parent", "--count", "HEAD")
	if err != nil {
		return 0, "", err
	}
	number, err = strconv.Atoi(count)
	if err != nil {
		return 0, "", fmt.Errorf("counting commits: %w", err)
	}
	return number, "commits of the branch", nil
}

// sources names the state of the sources: the commit, and what is changed and not committed.
func (r *runner) sources() (string, error) {
	commit, err := r.git("rev-parse", "HEAD")
	if err != nil {
		return "unknown", nil // A source archive.
	}
	changes, err := r.git("diff", "HEAD")
	if err != nil || changes == "" {
		return commit, err
	}
	sum := sha256.Sum256([]byte(changes))
	return commit + "+" + hex.EncodeToString(sum[:6]), nil
}

func (r *runner) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.setup.Root
	cmd.Env = setup.Environ()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
