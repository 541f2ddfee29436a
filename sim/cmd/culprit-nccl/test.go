// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/sync/errgroup"

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/matrix"
	"github.com/culprit-project/culprit/sim/stack"
)

// test is one run of a list of cases.
type test struct {
	releases, library, list, modes, faults, out string

	fresh, forget bool
	repeat        int
	load          float64
	hosts, ranks  int
	layout        string
	parallel      int
	blind         blind

	libraries map[string]nccl.Library // By version.
	failed    []string                // Releases that could not be had.
	build     string
	commit    string

	mu      sync.Mutex // Of what follows.
	journal *jsonl.File[matrix.Result]
	results []matrix.Result // Also those of earlier runs.
}

const quickPatience = 10 * time.Second

// maxParallel keeps the memory of the jobs below that of a large laptop.
const maxParallel = 8

func testCommand(app *kingpin.Application, commands map[string]func(context.Context, *settings) error) {
	cmd := app.Command("test", "Run faults on releases, and judge what was paged.")
	t := &test{}
	cmd.Flag("nccl", "Releases: versions, minors, all, ci, short; none: run nothing and say how much.").Default("all").Envar("NCCL").StringVar(&t.releases)
	cmd.Flag("lib", "A libnccl.so.2 to run instead of releases.").Envar("NCCL_LIB").StringVar(&t.library)
	cmd.Flag("list", "Which cases: "+strings.Join(matrix.Lists, ", ")+".").Default("all").EnumVar(&t.list, matrix.Lists...)
	cmd.Flag("modes", "Only these modes: net, shm, hooks, chain, multi, jax, apart.").Envar("MODES").StringVar(&t.modes)
	cmd.Flag("faults", "Only these faults: "+strings.Join(matrix.Faults, ", ")+".").Envar("FAULTS").StringVar(&t.faults)
	cmd.Flag("out", "Where results and evidence are kept; empty: build/nccl.").StringVar(&t.out)
	cmd.Flag("fresh", "Forget earlier results; otherwise what is known of this build is not run again.").BoolVar(&t.fresh)
	cmd.Flag("forget-wrong", "Run again what was wrong.").BoolVar(&t.forget)
	cmd.Flag("repeat", "Run the list so many times, each time on a new cluster; rounds that this build has run are not run again.").Default("1").IntVar(&t.repeat)
	cmd.Flag("load", "Keep the machine's load average at this by work of our own; 0: leave it.").Default("0").Float64Var(&t.load)
	cmd.Flag("hosts", "Played hosts, one exporter each.").Default("2").IntVar(&t.hosts)
	cmd.Flag("ranks", "Ranks of each job, one process each.").Default("4").IntVar(&t.ranks)
	cmd.Flag("layout", "Parallelism of each job.").Default("dp2,tp2").StringVar(&t.layout)
	cmd.Flag("parallel", "Jobs side by side, each on a cluster of its own; 0: as many as the machine has cores, but no more than 8.").Default("0").Envar("PARALLEL").IntVar(&t.parallel)
	cmd.Flag("blind", "Run jobs that are drawn from these seeds, instead of a list: numbers, separated by commas.").StringVar(&t.blind.seeds)
	cmd.Flag("runs", "How many jobs are drawn from each seed.").Default("12").IntVar(&t.blind.runs)
	cmd.Flag("draws", "Run jobs that are drawn from the commit, and those that failed and have not passed ten times since.").BoolVar(&t.blind.draws)
	cmd.Flag("only", "Only these of the drawn jobs, as SEED-NUMBER, separated by commas.").StringVar(&t.blind.only)
	commands[cmd.FullCommand()] = t.run
}

func (t *test) run(ctx context.Context, s *settings) error {
	if t.out == "" {
		t.out = filepath.Join(s.root, "build", "nccl")
	}
	if t.ranks%t.hosts != 0 || t.ranks < 2 {
		return fmt.Errorf("%d ranks do not divide over %d hosts", t.ranks, t.hosts)
	}
	if t.parallel <= 0 {
		t.parallel = min(runtime.NumCPU(), maxParallel)
	}
	versions, err := t.get(ctx, s)
	if err != nil {
		return err
	}
	if (t.blind.seeds != "" || t.blind.draws) && t.releases == nccl.None && t.library == "" {
		fmt.Println("\nNOT RUN: jobs drawn on real NCCL (NCCL=none)")
		return nil
	}
	if t.blind.seeds != "" || t.blind.draws {
		return t.runBlind(ctx, s, versions)
	}
	cases, err := t.chosen(versions)
	if err != nil {
		return err
	}
	if t.releases == nccl.None && t.library == "" {
		return t.runNothing()
	}
	if t.build, err = matrix.Build(s.root); err != nil {
		return err
	}
	t.commit = commit(ctx, s.root)
	if err := t.open(); err != nil {
		return err
	}
	defer t.journal.Close()
	if t.load > 0 {
		stop := keepLoad(ctx, t.load)
		defer stop()
	}
	if t.repeat > 1 {
		err = t.repeatAll(ctx, s, cases)
	} else {
		err = t.runOnce(ctx, s, cases)
	}
	if err == nil && len(t.failed) > 0 {
		err = errWrong
	}
	return err
}

// get gets the libraries and gives their versions. A release that cannot be had is said, and counts as failed.
func (t *test) get(ctx context.Context, s *settings) ([]string, error) {
	t.libraries = map[string]nccl.Library{}
	var versions []string
	if t.library != "" {
		lib, err := s.store().Given(ctx, t.library)
		if err != nil {
			return nil, err
		}
		t.libraries[lib.Version], versions = lib, []string{lib.Version}
	} else {
		releases, err := nccl.Select(t.releases)
		if err != nil {
			return nil, err
		}
		for _, r := range releases {
			lib, err := s.store().Get(ctx, r)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				say("FAILED: %v", err)
				t.failed = append(t.failed, r.Version)
				continue
			}
			t.libraries[lib.Version] = lib
			versions = append(versions, lib.Version)
		}
	}
	return versions, nil
}

func (t *test) chosen(versions []string) ([]matrix.Case, error) {
	cases, err := matrix.ByList(t.list, versions)
	if err != nil {
		return nil, err
	}
	return matrix.Only(cases, fields(t.modes), fields(t.faults))
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// runNothing says how much did not run because nobody wanted a download.
func (t *test) runNothing() error {
	list := t.list
	if list == "all" {
		t.releases = "all"
	} else {
		t.releases = list
	}
	releases, err := nccl.Select(t.releases)
	if err != nil {
		return err
	}
	var versions []string
	for _, r := range releases {
		versions = append(versions, r.Version)
	}
	cases, err := t.chosen(versions)
	if err != nil {
		return err
	}
	fmt.Printf("\nNOT RUN: %d cases on real NCCL (NCCL=none): nothing here says that Culprit works with %s\n\n", len(cases), strings.Join(versions, ", "))
	return nil
}

func (t *test) open() error {
	if err := os.MkdirAll(t.out, 0o755); err != nil {
		return fmt.Errorf("making the directory of the results: %w", err)
	}
	journal, results, err := jsonl.Open[matrix.Result](t.journalPath(), !t.fresh)
	if err != nil {
		return fmt.Errorf("opening the results of earlier runs (--fresh starts over): %w", err)
	}
	t.journal, t.results = journal, results
	return nil
}

func (t *test) journalPath() string { return filepath.Join(t.out, "results.jsonl") }

// runOnce runs the cases that this build has no result of, and reports all of them.
func (t *test) runOnce(ctx context.Context, s *settings, cases []matrix.Case) error {
	known := matrix.Latest(t.results, t.build)
	var left []matrix.Case
	for _, c := range cases {
		r, ok := known[c]
		if !ok || r.Status == matrix.Broken || t.forget && r.Status == matrix.Wrong {
			left = append(left, c)
		}
	}
	say("%d cases; releases: %d; known from earlier runs of this build (%s): %d", len(cases), len(t.libraries), t.build, len(cases)-len(left))
	err := t.runAll(ctx, s, left)
	known = matrix.Latest(t.results, t.build)
	shown := map[matrix.Case]matrix.Result{}
	for _, c := range cases {
		if r, ok := known[c]; ok {
			shown[c] = r
		}
	}
	wrong := matrix.Report(os.Stdout, shown)
	if n := len(cases) - len(shown); n > 0 {
		fmt.Printf("\nNOT RUN: %d cases\n", n)
	}
	t.reportFailed()
	if err == nil && wrong {
		err = errWrong
	}
	return err
}

// reportFailed says what did not run because its release could not be had. The list was read before, so that it has no error.
func (t *test) reportFailed() {
	if missed, err := t.chosen(t.failed); err == nil && len(missed) > 0 {
		fmt.Printf("\nFAILED: %d cases: NCCL %s could not be had (see above); NCCL=none runs without\n", len(missed), strings.Join(t.failed, ", "))
	}
}

// runAll runs cases, some side by side. A job has a cluster of its own, since what is asked of a played GPU is asked of all jobs on it.
func (t *test) runAll(ctx context.Context, s *settings, cases []matrix.Case) error {
	if len(cases) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "culprit-nccl-")
	if err != nil {
		return fmt.Errorf("making a scratch directory: %w", err)
	}
	defer os.RemoveAll(dir)
	clusters := min(t.parallel, len(cases))
	say("starting %d exporters, Prometheus, Alertmanager and the analyzer, %d times", t.hosts, clusters)
	left := newQueue(cases)
	group, ctx := errgroup.WithContext(ctx)
	for i := range clusters {
		group.Go(func() error { return t.runSome(ctx, s, left, filepath.Join(dir, strconv.Itoa(i))) })
	}
	return group.Wait()
}

// runSome takes cases from the queue until it is empty, and runs them one after another on a cluster in dir.
func (t *test) runSome(ctx context.Context, s *settings, left *queue, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("making a cluster's directory: %w", err)
	}
	cluster, err := stack.Start(ctx, stack.Config{
		Root: s.root, BinDir: s.bin(), ToolsDir: filepath.Join(s.bin(), "tools"),
		Dir: dir, Hosts: t.hosts, GPUs: t.ranks / t.hosts, Interval: time.Second, Patience: t.patience(), Log: slog.Default(),
	})
	if err != nil {
		return err
	}
	defer cluster.Close()
	r := &matrix.Runner{
		Cluster: cluster, BinDir: s.bin(), Scratch: dir, Evidence: filepath.Join(t.out, "evidence"),
		Hosts: t.hosts, Ranks: t.ranks, Layout: t.layout,
	}
	for {
		c, ok := left.next()
		if !ok {
			return nil
		}
		result, err := r.Run(ctx, c, t.libraries[c.Version])
		if err != nil {
			return err
		}
		result.Build, result.Commit = t.build, t.commit
		if err := t.keep(result); err != nil {
			return err
		}
		say("%s %-40s %s (%.0f s, load %.1f)", left.done(), c.Name(), matrix.Describe(result), result.Seconds, result.Load)
	}
}

func (t *test) keep(r matrix.Result) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results = append(t.results, r)
	if err := t.journal.Add(&r); err != nil {
		return fmt.Errorf("keeping a result: %w", err)
	}
	return nil
}

// patience is the analyzer's with ranks that stay away: what is shipped, but less on lists that have to be quick.
func (t *test) patience() time.Duration {
	if t.list == "all" {
		return 0
	}
	return quickPatience
}

// repeatAll runs all cases again and again, on a new cluster each time, and tells of every failure. What this build has run of it before
// is not run again.
func (t *test) repeatAll(ctx context.Context, s *settings, cases []matrix.Case) error {
	var err error
	for i := 0; i < t.repeat && err == nil; i++ {
		left := unrepeated(cases, t.ofBuild(cases), i)
		say("round %d of %d: %d of %d cases", i+1, t.repeat, len(left), len(cases))
		err = t.runAll(ctx, s, left)
	}
	wrong := matrix.ReportRepeated(os.Stdout, t.ofBuild(cases))
	t.reportFailed()
	if err == nil && wrong {
		err = errWrong
	}
	return err
}

// ofBuild gives all results that this build has of some cases.
func (t *test) ofBuild(cases []matrix.Case) []matrix.Result {
	return slices.DeleteFunc(slices.Clone(t.results), func(r matrix.Result) bool { return r.Build != t.build || !slices.Contains(cases, r.Case) })
}

// unrepeated gives the cases that have no more results than so many rounds.
func unrepeated(cases []matrix.Case, results []matrix.Result, rounds int) []matrix.Case {
	run := map[matrix.Case]int{}
	for i := range results {
		run[results[i].Case]++
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c matrix.Case) bool { return run[c] > rounds })
}

func reportCommand(app *kingpin.Application, commands map[string]func(context.Context, *settings) error) {
	cmd := app.Command("report", "Print the last result of each case again, of any build.")
	out := cmd.Flag("out", "Where results are kept; empty: build/nccl.").String()
	drawn := cmd.Flag("blind", "Of drawn jobs instead.").Bool()
	commands[cmd.FullCommand()] = func(_ context.Context, s *settings) error {
		t := test{out: *out}
		if t.out == "" {
			t.out = filepath.Join(s.root, "build", "nccl")
		}
		if *drawn {
			return t.reportBlind()
		}
		results, err := jsonl.Read[matrix.Result](t.journalPath())
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("nothing has been run yet: %w", err)
		}
		if err != nil {
			return fmt.Errorf("reading the results: %w", err)
		}
		latest := matrix.Latest(results, "")
		matrix.ReportBuilds(os.Stdout, latest)
		if matrix.Report(os.Stdout, latest) {
			return errWrong
		}
		return nil
	}
}

// commit gives the checkout's commit, with -dirty when files differ from it.
func commit(ctx context.Context, root string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
