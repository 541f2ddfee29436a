// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/calibration"
	"github.com/culprit-project/culprit/sim/scorecard/journal"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/trial"
)

type calibrateFlags struct {
	opt      matrix.Options
	only     string
	blind    string
	runs     int
	journals []string
	feedback string
	workers  int
	out      string
}

// calibrateCommand fits how sure verdicts are said to be to how often they are right.
func calibrateCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	f := calibrateFlags{opt: matrix.Options{Quick: true, Harm: matrix.HarmSample}}
	cmd := app.Command("calibrate", "Fit the confidence of verdicts to how often they are right, on seeds that the scorecard does not judge.")
	cmd.Arg("journal", "Journals (outcomes.jsonl) of scorecards to fit to; none: the quick matrix is run, and jobs are drawn.").ExistingFilesVar(&f.journals)
	cmd.Flag("seed", "First seed.").Default("101").Uint64Var(&f.opt.Seed)
	cmd.Flag("seeds", "So many seeds.").Default("4").IntVar(&f.opt.Seeds)
	cmd.Flag("blind", "Seeds that jobs, faults, levels of evidence and losses are drawn from, separated by commas.").Default("101").StringVar(&f.blind)
	cmd.Flag("runs", "So many drawn runs of each seed.").Default("400").IntVar(&f.runs)
	cmd.Flag("ranks", "Largest job (0: 512).").IntVar(&f.opt.Ranks)
	cmd.Flag("only", "Run only cases whose name contains one of these, separated by commas.").StringVar(&f.only)
	cmd.Flag("feedback", "What people said of verdicts on real jobs, as GET /api/v1/feedback of culprit-analyzer answers; fitted to beside the runs.").ExistingFileVar(&f.feedback)
	cmd.Flag("workers", "Cases at the same time (0: one a core).").IntVar(&f.workers)
	cmd.Flag("out", "File of the calibration; the engine has analyzer/rca/calibration.json built in.").Default("calibration.json").StringVar(&f.out)
	commands[cmd.FullCommand()] = func(ctx context.Context) error { return runCalibrate(ctx, &f, os.Stdout, os.Stderr) }
}

func runCalibrate(ctx context.Context, f *calibrateFlags, out, progress io.Writer) error {
	feedback, err := readFeedback(f.feedback)
	if err != nil {
		return err
	}
	outcomes, of, err := f.outcomes(ctx, progress)
	if err != nil {
		return err
	}
	command := fmt.Sprintf("culprit-sim calibrate --seed %d --seeds %d --blind %s --runs %d", f.opt.Seed, f.opt.Seeds, f.blind, f.runs)
	if f.opt.Ranks != 0 {
		command += fmt.Sprintf(" --ranks %d", f.opt.Ranks)
	}
	if f.feedback != "" {
		command += " --feedback"
	}
	c := calibration.Fit(outcomes, feedback, command, of)
	printFamilies(out, "all", c.Families)
	for _, level := range slices.Sorted(maps.Keys(c.Levels)) {
		printFamilies(out, string(level), c.Levels[level])
	}
	return writeFile(f.out, func(w io.Writer) error { return writeCalibration(w, c) })
}

// readFeedback reads what people said of verdicts; no file: nobody said anything.
func readFeedback(name string) ([]incident.ListedFeedback, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading feedback: %w", err)
	}
	var list incident.FeedbackList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading feedback from %s: %w", name, err)
	}
	if list.Version != incident.FeedbackVersion {
		return nil, fmt.Errorf("reading feedback from %s: version %d, want %d", name, list.Version, incident.FeedbackVersion)
	}
	return list.Feedback, nil
}

func printFamilies(out io.Writer, level string, families map[rca.Family]rca.Curve) {
	for _, family := range slices.Sorted(maps.Keys(families)) {
		for _, k := range families[family] {
			fmt.Fprintf(out, "%-8s %-7s weight %.3f: confidence %.3f (%d of %d right)\n", level, family, k.Weight, k.Confidence, k.Right, k.Verdicts)
		}
	}
}

func writeCalibration(w io.Writer, c *rca.Calibration) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}

// outcomes are those of the journals, or of a matrix that is run, with the commit of the engine that they are of.
func (f *calibrateFlags) outcomes(ctx context.Context, progress io.Writer) (list []judge.Outcome, of string, err error) {
	var entries []journal.Entry
	for _, path := range f.journals {
		e, err := journal.Read(path)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, e...)
	}
	if len(f.journals) > 0 {
		outcomes, commits := journal.Latest(entries)
		return outcomes, strings.Join(commits, ", "), nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(matrixGC))
	if f.only != "" {
		f.opt.Only = strings.Split(f.only, ",")
	}
	cases := matrix.Cases(f.opt)
	seeds, err := seedsOf(f.blind)
	if err != nil {
		return nil, "", err
	}
	if f.only == "" {
		for _, seed := range seeds {
			cases = append(cases, matrix.Blind(seed, f.runs)...)
		}
	}
	if len(cases) == 0 {
		return nil, "", errors.New("no case is chosen")
	}
	workers := f.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	const every = 50
	n := 0
	outcomes, err := trial.Run(ctx, cases, trial.Resources{Workers: workers}, func(*judge.Outcome) {
		if n++; n%every == 0 {
			fmt.Fprintf(progress, "%d of %d runs\n", n, len(cases))
		}
	})
	if err != nil {
		return nil, "", fmt.Errorf("running the matrix: %w", err)
	}
	return outcomes, commit(ctx), nil
}
