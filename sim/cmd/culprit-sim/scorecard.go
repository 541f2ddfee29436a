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
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/sim/scorecard"
)

type scorecardFlags struct {
	opt      scorecard.Options
	full     bool
	workers  int
	out      string
	markdown string
	verbose  bool
	noFloors bool
}

func scorecardCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	var f scorecardFlags
	cmd := app.Command("scorecard", "Run the matrix of faults, judge the engine's verdicts, fail under the committed floors.")
	cmd.Flag("quick", "Run the part that fits into a minute (default).").Bool()
	cmd.Flag("full", "Run everything, up to 10,240 ranks: hours.").BoolVar(&f.full)
	cmd.Flag("seed", "Seed of the first run of each scenario.").Default("1").Uint64Var(&f.opt.Seed)
	cmd.Flag("seeds", "Runs per scenario and workload (0: 1 quick, 3 full).").IntVar(&f.opt.Seeds)
	cmd.Flag("ranks", "Largest job (0: 512 quick, 10240 full).").IntVar(&f.opt.Ranks)
	cmd.Flag("only", "Run only cases whose name contains this; floors are not checked then.").StringVar(&f.opt.Only)
	cmd.Flag("workers", "Cases at the same time (0: one a core).").IntVar(&f.workers)
	cmd.Flag("out", "Directory for scorecard.json, scorecard.md and scorecard.html.").Default("build/scorecard").StringVar(&f.out)
	cmd.Flag("markdown", "Also write the Markdown report to this file.").StringVar(&f.markdown)
	cmd.Flag("verbose", "Print every run, not only those that are not right.").Short('v').BoolVar(&f.verbose)
	cmd.Flag("no-floors", "Do not fail under the floors.").BoolVar(&f.noFloors)
	commands[cmd.FullCommand()] = func(ctx context.Context) error { return runScorecard(ctx, &f, os.Stdout) }

	var only string
	var ranks []int
	explain := app.Command("explain", "Run one case of the scorecard and print its evidence and verdict.")
	explain.Arg("case", "Name of the case, or a part of it: the first match is run.").Required().StringVar(&only)
	explain.Arg("rank", "Ranks whose operations and flows are printed.").IntsVar(&ranks)
	seed := explain.Flag("seed", "Seed of the case.").Default("1").Uint64()
	commands[explain.FullCommand()] = func(ctx context.Context) error {
		cases := scorecard.Matrix(scorecard.Options{Seed: *seed, Only: only})
		if len(cases) == 0 {
			return fmt.Errorf("no case's name contains %q", only)
		}
		return cases[0].Explain(ctx, os.Stdout, ranks)
	}
}

func runScorecard(ctx context.Context, f *scorecardFlags, w io.Writer) error {
	f.opt.Quick = !f.full
	mode := "quick"
	if f.full {
		mode = "full"
	}
	workers := f.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	start := time.Now()
	cases := scorecard.Matrix(f.opt)
	done := 0
	outcomes, err := scorecard.Run(ctx, cases, workers, func(o *scorecard.Outcome) {
		done++
		if f.verbose || o.Effect && (!o.Right || o.False) {
			fmt.Fprintf(w, "%4d/%d %s\n", done, len(cases), o.Line())
		}
	})
	if err != nil {
		return fmt.Errorf("running the matrix: %w", err)
	}
	machine := fmt.Sprintf("%d cores (%s/%s, %s)", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	report := scorecard.NewReport(mode, f.opt.Seed, commit(ctx), machine, time.Since(start).Seconds(), outcomes)
	if err := writeReports(report, f); err != nil {
		return err
	}
	s := &report.Summary
	fmt.Fprintf(w, "%d runs in %.0f s\n  hangs: right %s\n  slow: top-1 %s, with its link or group %s\n  nobody to blame, not accused: %s\n  healthy not accused: %s\n  benign not accused: %s\n  precision %s, recall %s, F1 %.3f\n  reports: %s\n",
		s.Runs, report.Seconds, s.Hang.Right, s.Slow.Top1, s.Slow.Group, s.NobodySpared, s.Healthy, s.Benign, s.Precision, s.Recall, s.F1, f.out)
	if f.noFloors || f.opt.Only != "" || f.opt.Ranks != 0 {
		return nil
	}
	floors, err := scorecard.CommittedFloors(mode)
	if err != nil {
		return err
	}
	if under := floors.Check(s); len(under) > 0 {
		return errors.New("under the floors:\n  " + strings.Join(under, "\n  "))
	}
	return nil
}

// writeReports writes the report in its three forms.
func writeReports(r *scorecard.Report, f *scorecardFlags) error {
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
	if f.markdown != "" {
		return writeFile(f.markdown, r.Markdown)
	}
	return nil
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
