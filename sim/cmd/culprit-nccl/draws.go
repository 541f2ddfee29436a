// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/lab/nccl/draw"
	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/matrix"
)

const (
	// passesToForget is how often a job that failed has to pass, one time after another, before it is no longer run.
	passesToForget = 10
	// againAtMost is how many such jobs are run at a time: those that have waited longest.
	againAtMost = 12
)

// runDraws runs jobs that nobody has looked at, since their seed is the commit's, and again those that failed.
func (t *test) runDraws(ctx context.Context, s *settings, versions []string) error {
	b := &t.blind
	if len(versions) == 0 {
		return errors.New("jobs are drawn on releases, and there is none")
	}
	seed, err := seedOfCommit(ctx, s.root)
	if err != nil {
		return err
	}
	listed, err := jsonl.Read[draw.Job](filepath.Join(s.root, "sim", "nccl", "draw", "again.jsonl"))
	if err != nil {
		return fmt.Errorf("reading the jobs that failed: %w", err)
	}
	fresh, before := draw.Jobs(seed, b.runs, versions), len(b.results)
	again := t.runnable(againOf(b.results, listed))
	say("%d jobs drawn from the commit (seed %d), %d that failed before; releases: %s", len(fresh), seed, len(again), strings.Join(versions, ", "))
	if len(again) > againAtMost {
		say("%d of these are left for another time", len(again)-againAtMost)
		again = again[:againAtMost]
	}
	jobs := slices.Concat(fresh, again)
	err = t.runDrawn(ctx, s, jobs)
	results := b.results[before:]
	err = t.reportJobs(jobs, results, err)
	for i := range results {
		d := &results[i]
		if d.Fate.Failed() && !slices.Contains(listed, d.Job) {
			text, _ := json.Marshal(d.Job) // Of numbers and strings.
			fmt.Printf("to run it on every machine until it has passed, add to lab/nccl/draw/again.jsonl:\n%s\n", text)
		}
	}
	return err
}

// runnable leaves out jobs on releases that are not here.
func (t *test) runnable(jobs []draw.Job) []draw.Job {
	return slices.DeleteFunc(jobs, func(j draw.Job) bool { _, ok := t.libraries[j.Release]; return !ok })
}

// againOf gives the jobs that failed, here or on another machine, and have not passed often enough since, those that ran longest ago first.
func againOf(results []matrix.Drawn, listed []draw.Job) []draw.Job {
	passes, last := map[draw.Job]int{}, map[draw.Job]int{}
	for i, j := range listed {
		passes[j], last[j] = 0, i-len(listed)
	}
	for i := range results {
		j, failed := results[i].Job, results[i].Fate.Failed()
		if _, ok := passes[j]; !ok && !failed {
			continue
		}
		last[j] = i
		if passes[j]++; failed {
			passes[j] = 0
		}
	}
	var out []draw.Job
	for j, n := range passes {
		if n < passesToForget {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b draw.Job) int { return last[a] - last[b] })
	return out
}

// seedOfCommit makes a seed of the checkout's commit.
func seedOfCommit(ctx context.Context, root string) (uint64, error) {
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "HEAD")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("asking git for the commit: %w", err)
	}
	if len(out) < 8 {
		return 0, fmt.Errorf("the commit is %q", out)
	}
	seed, err := strconv.ParseUint(string(out[:8]), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("making a seed of the commit: %w", err)
	}
	return seed, nil
}
