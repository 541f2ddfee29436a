// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/sim/scorecard/journal"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/monitor"
	"github.com/culprit-project/culprit/sim/scorecard/report"
	"github.com/culprit-project/culprit/sim/scorecard/trial"
)

type scorecardFlags struct {
	opt      matrix.Options
	only     string
	full     bool
	workers  int
	memory   int
	out      string
	markdown string
	resume   bool
	verbose  bool
	noFloors bool
	levels   []string
	blind    string // Seed; empty: the matrix.
	runs     int
}

func scorecardCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	var f scorecardFlags
	cmd := app.Command("scorecard", "Run the matrix of faults, judge the engine's verdicts, fail under the committed floors.")
	cmd.Flag("quick", "Run the part that fits into a few minutes (default).").Bool()
	cmd.Flag("full", "Run what is planned for every scale, up to 10,240 ranks: an hour on two cores.").BoolVar(&f.full)
	cmd.Flag("all-severities", "With --full: every severity at every scale.").BoolVar(&f.opt.All)
	cmd.Flag("seed", "Seed of the first run of each scenario.").Default("1").Uint64Var(&f.opt.Seed)
	cmd.Flag("seeds", "Runs per scenario and workload (0: 1 quick, as planned full).").IntVar(&f.opt.Seeds)
	cmd.Flag("ranks", "Largest job (0: 512 quick, 10240 full).").IntVar(&f.opt.Ranks)
	cmd.Flag("min-ranks", "Smallest job.").IntVar(&f.opt.MinRanks)
	cmd.Flag("group", "Run only these: hang, slow, healthy, benign. May be repeated.").EnumsVar(&f.opt.Groups, "hang", "slow", "healthy", "benign")
	cmd.Flag("only", "Run only cases whose name contains one of these, separated by commas. Floors are checked only on a whole matrix.").StringVar(&f.only)
	cmd.Flag("level", "Run at these levels of evidence: "+strings.Join(levels(), ", ")+". May be repeated; without it, all runs with kernel events and some jobs at every level.").EnumsVar(&f.levels, levels()...)
	cmd.Flag("blind", "Run what is drawn from these seeds, separated by commas: jobs, faults, levels and losses that nobody has looked at. In place of the quick matrix, beside the full one.").StringVar(&f.blind)
	cmd.Flag("runs", "With --blind: how many of each seed.").Default("100").IntVar(&f.runs)
	cmd.Flag("scrape", "Scrape interval.").Default("5s").DurationVar(&f.opt.Scrape)
	cmd.Flag("harm", "Ask about the same moments with worse evidence, too: none, sample (one harm a run), all, or one of "+strings.Join(harm.Names(), ", ")+".").
		Default(matrix.HarmSample).EnumVar(&f.opt.Harm, append([]string{matrix.HarmNone, matrix.HarmSample, matrix.HarmAll}, harm.Names()...)...)
	cmd.Flag("later", "What stops a job begins so much later than in its first half minute (0: 125 s).").DurationVar(&f.opt.Later)
	cmd.Flag("workers", "Cases at the same time (0: one a core).").IntVar(&f.workers)
	cmd.Flag("memory", "GiB that the runs may take together: large ones run beside each other as far as they fit (0: 18, or three quarters of the machine's when that is less).").IntVar(&f.memory)
	cmd.Flag("out", "Directory for outcomes.jsonl, scorecard.json, scorecard.md and scorecard.html.").Default("build/scorecard").StringVar(&f.out)
	cmd.Flag("markdown", "Also write the Markdown report to this file.").StringVar(&f.markdown)
	cmd.Flag("resume", "Keep the outcomes of this commit that the output directory has, and run the rest.").BoolVar(&f.resume)
	cmd.Flag("verbose", "Print every run, not only those that are not right.").Short('v').BoolVar(&f.verbose)
	cmd.Flag("no-floors", "Do not fail under the floors.").BoolVar(&f.noFloors)
	commands[cmd.FullCommand()] = func(ctx context.Context) error {
		floors, err := report.CommittedFloors(mode(f.full))
		if err != nil {
			return err
		}
		for _, l := range f.levels {
			f.opt.Levels = append(f.opt.Levels, cluster.Level(l))
		}
		return runScorecard(ctx, &f, floors, os.Stdout, os.Stderr)
	}
	reportCommand(app, commands)
	explainCommand(app, commands)
}

func explainCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	var only string
	var ranks []int
	cmd := app.Command("explain", "Run one case of the scorecard and print its evidence and verdict.")
	cmd.Arg("case", "Name of the case, or a part of it: the first match is run.").Required().StringVar(&only)
	cmd.Arg("rank", "Ranks whose operations and flows are printed.").IntsVar(&ranks)
	var f scorecardFlags
	cmd.Flag("seed", "Seed of the case.").Default("1").Uint64Var(&f.opt.Seed)
	cmd.Flag("blind", "A case of those that scorecard draws from this seed.").StringVar(&f.blind)
	cmd.Flag("runs", "With --blind: of how many.").Default("100").IntVar(&f.runs)
	cmd.Flag("harm", "Also print the verdict on worse evidence: all, or one of the scorecard's.").Default(matrix.HarmNone).StringVar(&f.opt.Harm)
	cmd.Flag("later", "What stops a job begins so much later than in its first half minute (0: 125 s).").DurationVar(&f.opt.Later)
	commands[cmd.FullCommand()] = func(ctx context.Context) error {
		f.opt.Seeds, f.opt.All, f.opt.Only, f.opt.Levels = 1, true, []string{only}, cluster.Levels
		cases, _, err := f.cases()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(cases, func(c matrix.Case) bool { return strings.Contains(c.Name, only) })
		if at < 0 {
			return fmt.Errorf("no case's name contains %q", only)
		}
		return trial.Explain(ctx, &cases[at], os.Stdout, ranks)
	}
}

// reportCommand makes a report of journals, of one run or of several slices of the matrix.
func reportCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	var f scorecardFlags
	var journals []string
	cmd := app.Command("scorecard-report", "Write the report of journals (outcomes.jsonl), of one run of the scorecard or of several slices.")
	cmd.Arg("journal", "Journals; of a run that several have, the last counts.").Required().ExistingFilesVar(&journals)
	cmd.Flag("seed", "Seed of the first run, for the order of the report.").Default("1").Uint64Var(&f.opt.Seed)
	cmd.Flag("out", "Directory for scorecard.json, scorecard.md and scorecard.html.").Default("build/scorecard").StringVar(&f.out)
	cmd.Flag("markdown", "Also write the Markdown report to this file.").StringVar(&f.markdown)
	commands[cmd.FullCommand()] = func(context.Context) error {
		var entries []journal.Entry
		for _, j := range journals {
			e, err := journal.Read(j)
			if err != nil {
				return err
			}
			entries = append(entries, e...)
		}
		outcomes, commits := journal.Latest(entries)
		outcomes = journal.InOrder(outcomes, matrix.Cases(matrix.Options{Seed: f.opt.Seed, Seeds: 1, All: true}))
		r := report.New("slices", f.opt.Seed, strings.Join(commits, ", "), machine(), time.Now(), 0, outcomes)
		if err := writeReports(r, &f); err != nil {
			return err
		}
		headline(os.Stdout, r, f.out)
		return nil
	}
}

func mode(full bool) string {
	if full {
		return "full"
	}
	return "quick"
}

func machine() string {
	return fmt.Sprintf("%d cores (%s/%s, %s)", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// By how much, in percent, a matrix lets the heap grow before it is collected: memory that is there is cheaper than the
// collector's time. And the size in bytes from which on it is no longer cheap, of the quick matrix; the full one has a part
// of what its runs may take.
const (
	matrixGC    = 300
	quickMemory = 6 << 30
	fullMemory  = 0.9
)

// levels are the names of the levels of evidence.
func levels() []string {
	out := make([]string, len(cluster.Levels))
	for i, l := range cluster.Levels {
		out[i] = string(l)
	}
	return out
}

// cases gives what is run, and the mode that its report is of.
func (f *scorecardFlags) cases() (list []matrix.Case, of string, err error) {
	if f.opt.Scrape != 0 && f.opt.Scrape < leastScrape {
		return nil, "", fmt.Errorf("--scrape=%s is shorter than %s, the shortest that the rules are made for", f.opt.Scrape, leastScrape)
	}
	if _, err := monitor.TriggersAt(f.opt.Scrape); err != nil {
		return nil, "", fmt.Errorf("--scrape=%s: %w", f.opt.Scrape, err)
	}
	if f.blind != "" && f.runs < 1 {
		return nil, "", fmt.Errorf("--runs=%d: want at least one", f.runs)
	}
	of = report.ModeBlind
	if f.blind == "" || f.full {
		list, of = matrix.Cases(f.opt), mode(f.full)
	}
	seeds, err := seedsOf(f.blind)
	if err != nil {
		return nil, "", err
	}
	for i, seed := range seeds {
		if i == 0 && !f.full {
			f.opt.Seed = seed
		}
		for _, c := range matrix.Blind(seed, f.runs) {
			if f.opt.Wants(&c) {
				f.opt.Spoil(&c)
				list = append(list, c)
			}
		}
	}
	return list, of, nil
}

// seedsOf reads the value of --blind.
func seedsOf(list string) (seeds []uint64, err error) {
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("--blind=%s: %q is no seed: want a whole number from 0 on", list, text)
		}
		seeds = append(seeds, seed)
	}
	return seeds, nil
}

const leastScrape = time.Second

// runScorecard runs what the flags choose, writes the reports, and fails under the floors.
func runScorecard(ctx context.Context, f *scorecardFlags, floors *report.Floors, out, progress io.Writer) error {
	f.opt.Quick = !f.full
	limit, soft := memoryFor(f.memory), int64(quickMemory)
	if f.full {
		soft = int64(fullMemory * float64(limit))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(matrixGC))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(soft))
	if f.only != "" {
		f.opt.Only = strings.Split(f.only, ",")
	}
	start := time.Now()
	cases, mode, err := f.cases()
	if err != nil {
		return err
	}
	outcomes, err := runMatrix(ctx, f, cases, limit, out, progress)
	if err != nil {
		return err
	}
	r := report.New(mode, f.opt.Seed, commit(ctx), machine(), start, time.Since(start).Seconds(), outcomes)
	if err := writeReports(r, f); err != nil {
		return err
	}
	if mode == report.ModeBlind {
		return r.Fates(out)
	}
	headline(out, r, f.out)
	if f.noFloors || !f.opt.Whole() {
		return nil
	}
	if under := floors.Check(&r.Summary); len(under) > 0 {
		return errors.New("under the floors:\n  " + strings.Join(under, "\n  "))
	}
	return nil
}

// usualMemory is the most, in GiB, that a matrix takes unless it is told.
const usualMemory = 18

// memoryFor gives the bytes that a matrix may take: so many GiB, or for 0 what suits the machine.
func memoryFor(gib int) int64 {
	if gib > 0 {
		return int64(gib) << 30
	}
	usual := int64(usualMemory << 30)
	var machine syscall.Sysinfo_t
	if err := syscall.Sysinfo(&machine); err != nil {
		return usual
	}
	return min(usual, int64(machine.Totalram)*int64(machine.Unit)/4*3)
}

// progressEvery is how often the progress is written, and runs are kept for --resume as they come.
const progressEvery = 15 * time.Second

// runMatrix runs the cases and keeps a journal. What is done is kept even when the run is ended.
func runMatrix(ctx context.Context, f *scorecardFlags, all []matrix.Case, memory int64, out, progress io.Writer) ([]judge.Outcome, error) {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return nil, fmt.Errorf("making the report's directory: %w", err)
	}
	kept, entries, err := journal.Open(filepath.Join(f.out, "outcomes.jsonl"), f.resume)
	if err != nil {
		return nil, err
	}
	entry := journal.Entry{Commit: commit(ctx), Machine: machine()}
	have, left := journal.Remaining(all, entries, entry.Commit)
	if len(have) > 0 {
		fmt.Fprintf(progress, "%d of %d runs are there already\n", len(have), len(all))
	}
	workers := f.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	estimate, said := journal.NewProgress(left, time.Now()), time.Now()
	var failed error
	outcomes, err := trial.Run(ctx, left, trial.Resources{Workers: workers, Memory: memory}, func(o *judge.Outcome) {
		estimate.Done(o)
		entry.Outcome, entry.PeakMiB = *o, trial.PeakMiB()
		failed = errors.Join(failed, kept.Add(&entry))
		if f.verbose || o.False || o.Effect && !o.Right {
			fmt.Fprintln(out, o.Line())
		}
		for k := range o.Harmed {
			if h := &o.Harmed[k]; h.Slanders() {
				fmt.Fprintln(out, o.HarmedLine(h))
			}
		}
		if now := time.Now(); now.Sub(said) >= progressEvery {
			said = now
			fmt.Fprintln(progress, estimate.Line(now))
		}
	})
	if err != nil {
		err = fmt.Errorf("running the matrix (--resume goes on with it): %w", err)
	}
	if err := errors.Join(err, failed, kept.Close()); err != nil {
		return nil, err
	}
	return journal.InOrder(append(have, outcomes...), all), nil
}

func headline(w io.Writer, r *report.Report, dir string) {
	s := &r.Summary
	fmt.Fprintf(w, "%d runs in %.0f s\n  hangs: right %s\n  slow: top-1 %s, with its link or group %s\n  nobody to blame, not accused: %s\n  healthy not accused: %s\n  benign not accused: %s\n  precision %s, recall %s, F1 %.3f\n",
		s.Runs, r.Seconds, s.Hang.Right, s.Slow.Top1, s.Slow.Group, s.NobodySpared, s.Healthy, s.Benign, s.Precision, s.Recall, s.F1)
	for i := range s.Harms {
		h := &s.Harms[i]
		fmt.Fprintf(w, "  under %-12s of %3d: right %3d (%d without), wider %d, unknown %d, missed %d, the liar %d, an innocent %d; said %.2f, was %.2f\n",
			h.Harm, h.Right.Of, h.Right.Hits, h.Clean.Hits, h.Wider.Hits, h.Unknown.Hits, h.Missed.Hits, h.Liar.Hits, h.Innocent.Hits, h.Said, h.Was.Value())
	}
	fmt.Fprintf(w, "  expected calibration error %.3f (of bare weights %.3f), under harm %.3f (%.3f)\n", s.Calibration, s.Uncalibrated, s.HarmedCalibration, s.HarmedUncalibrated)
	for i := range s.Design {
		a := &s.Design[i]
		fmt.Fprintf(w, "  %-8s %s: %s\n", a.State, a.Text, a.Measured)
	}
	fmt.Fprintf(w, "  reports: %s\n", dir)
}

// writeReports writes the report in its three forms.
func writeReports(r *report.Report, f *scorecardFlags) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("making the report's directory: %w", err)
	}
	asJSON := func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(r)
	}
	for name, write := range map[string]func(io.Writer) error{
		"scorecard.json": asJSON, "scorecard.md": r.Markdown, "scorecard.html": r.HTML,
	} {
		if err := writeFile(filepath.Join(f.out, name), write); err != nil {
			return err
		}
	}
	if f.markdown == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.markdown), 0o755); err != nil {
		return fmt.Errorf("making the report's directory: %w", err)
	}
	return writeFile(f.markdown, r.Markdown)
}

func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating the report: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := write(file); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// commit names the version of the tree that was judged.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
