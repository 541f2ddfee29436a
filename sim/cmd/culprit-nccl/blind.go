// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culprit-project/culprit/lab/nccl/draw"
	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/matrix"
	"github.com/culprit-project/culprit/sim/stack"
)

// blind is what is asked of drawn jobs, and what is known of them.
type blind struct {
	seeds string
	draws bool // From the commit, and what failed before.
	runs  int
	only  string

	mu      sync.Mutex // Of what follows.
	journal *jsonl.File[matrix.Drawn]
	results []matrix.Drawn // Also those of earlier runs.
}

func (t *test) blindPath() string { return filepath.Join(t.out, "blind.jsonl") }

// drawn draws the jobs that are asked for.
func (b *blind) drawn(versions []string) ([]draw.Job, error) {
	if len(versions) == 0 {
		return nil, errors.New("jobs are drawn on releases, and there is none")
	}
	var out []draw.Job
	for _, text := range fields(b.seeds) {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading --blind: %w", err)
		}
		out = append(out, draw.Jobs(seed, b.runs, versions)...)
	}
	if only := fields(b.only); len(only) > 0 {
		out = slices.DeleteFunc(out, func(j draw.Job) bool { return !slices.Contains(only, j.ID()) })
	}
	return out, nil
}

// runBlind runs the drawn jobs that this build has no result of, and reports all of them.
func (t *test) runBlind(ctx context.Context, s *settings, versions []string) error {
	b := &t.blind
	var err error
	if t.build, err = matrix.Build(s.root); err != nil {
		return err
	}
	t.commit = commit(ctx, s.root)
	if err := os.MkdirAll(t.out, 0o755); err != nil {
		return fmt.Errorf("making the directory of the results: %w", err)
	}
	if b.journal, b.results, err = jsonl.Open[matrix.Drawn](t.blindPath(), !t.fresh); err != nil {
		return fmt.Errorf("opening the results of earlier runs (--fresh starts over): %w", err)
	}
	defer b.journal.Close()
	if b.draws {
		return t.runDraws(ctx, s, versions)
	}
	jobs, err := b.drawn(versions)
	if err != nil {
		return err
	}
	left := t.unknown(jobs)
	say("%d drawn jobs; releases: %d; known from earlier runs of this build (%s): %d", len(jobs), len(versions), t.build, len(jobs)-len(left))
	err = t.runDrawn(ctx, s, left)
	shown := matrix.LatestDrawn(b.results, t.build)
	return t.reportJobs(jobs, shown, err)
}

// reportJobs reports the results of some jobs. An error that ended them comes first.
func (t *test) reportJobs(jobs []draw.Job, results []matrix.Drawn, err error) error {
	shown := slices.DeleteFunc(slices.Clone(results), func(d matrix.Drawn) bool { return !slices.Contains(jobs, d.Job) })
	wrong := matrix.ReportDrawn(os.Stdout, shown)
	if n := len(jobs) - len(shown); n > 0 {
		fmt.Printf("\nNOT RUN: %d jobs\n", n)
	}
	if err == nil && (wrong || len(t.failed) > 0) {
		err = errWrong
	}
	return err
}

// unknown gives the jobs that this build has no result of, or none that stands.
func (t *test) unknown(jobs []draw.Job) []draw.Job {
	known := map[draw.Job]matrix.Fate{}
	for _, d := range matrix.LatestDrawn(t.blind.results, t.build) {
		known[d.Job] = d.Fate
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j draw.Job) bool {
		fate, ok := known[j]
		return ok && fate != matrix.FateBroken && !(t.forget && fate.Failed())
	})
}

// runDrawn runs jobs, some side by side, each on a cluster of its own.
func (t *test) runDrawn(ctx context.Context, s *settings, jobs []draw.Job) error {
	dir, err := os.MkdirTemp("", "culprit-nccl-")
	if err != nil {
		return fmt.Errorf("making a scratch directory: %w", err)
	}
	defer os.RemoveAll(dir)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.parallel)
	started, ended := time.Now(), 0
	for i, j := range jobs {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d, err := t.runOneDrawn(ctx, s, j, filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				return err
			}
			b := &t.blind
			b.mu.Lock()
			defer b.mu.Unlock()
			b.results = append(b.results, d)
			if err := b.journal.Add(&d); err != nil {
				return fmt.Errorf("keeping a result: %w", err)
			}
			ended++
			left := time.Since(started) / time.Duration(ended) * time.Duration(len(jobs)-ended)
			say("%d/%d, about %s left: %s (%s, %d ranks, %d hosts): %s (%.0f s, load %.1f)", ended, len(jobs), left.Round(time.Minute),
				d.Name(), d.Layout(), d.Ranks, d.Hosts, matrix.DescribeDrawn(&d), d.Seconds, d.Load)
			return nil
		})
	}
	return group.Wait()
}

// runOneDrawn runs a job on a new cluster, so that it does not matter what ran before it.
func (t *test) runOneDrawn(ctx context.Context, s *settings, j draw.Job, dir string) (matrix.Drawn, error) {
	started, cpu := time.Now(), childrenCPU()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return matrix.Drawn{}, fmt.Errorf("making a cluster's directory: %w", err)
	}
	defer os.RemoveAll(dir)
	cluster, err := stack.Start(ctx, stack.Config{
		Root: s.root, BinDir: s.bin(), ToolsDir: filepath.Join(s.bin(), "tools"),
		Dir: dir, Hosts: j.Hosts, GPUs: j.Ranks / j.Hosts, Interval: time.Second, Log: slog.Default(),
	})
	if err != nil {
		return matrix.Drawn{}, err
	}
	defer cluster.Close()
	r := &matrix.Runner{Cluster: cluster, BinDir: s.bin(), Scratch: dir, Evidence: filepath.Join(t.out, "evidence"), Hosts: j.Hosts, Ranks: j.Ranks}
	d, err := r.RunDrawn(ctx, j, t.libraries[j.Release])
	cluster.Close() // Before its processes' time is read.
	d.Build, d.Commit, d.Seconds, d.CPU = t.build, t.commit, time.Since(started).Seconds(), (childrenCPU() - cpu).Seconds()
	return d, err
}

// childrenCPU is the processors' time of all processes that were started and have ended.
func childrenCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportBlind prints the last result of each drawn job again, of any build.
func (t *test) reportBlind() error {
	results, err := jsonl.Read[matrix.Drawn](t.blindPath())
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no job has been drawn yet: %w", err)
	}
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	latest := matrix.LatestDrawn(results, "")
	builds := map[string]int{}
	for i := range latest {
		builds[fmt.Sprintf("build %s (commit %s)", latest[i].Build, latest[i].Commit)]++
	}
	for _, name := range slices.Sorted(maps.Keys(builds)) {
		fmt.Printf("%d results are of %s\n", builds[name], name)
	}
	if matrix.ReportDrawn(os.Stdout, latest) {
		return errWrong
	}
	return nil
}
