// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/scorecard/corpus"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/trial"
)

type corpusFlags struct {
	dir     string
	root    string
	opt     matrix.Options
	only    string
	blind   string
	runs    int
	workers int
	out     string
	method  string
	old     string
	new     string
	rows    []string
}

const corpusDir = "build/corpus"

// corpusCommand keeps moments with what was true, and has changes of the engine judged on them in minutes.
func corpusCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	f := corpusFlags{opt: matrix.Options{Quick: true}, workers: runtime.GOMAXPROCS(0)}
	cmd := app.Command("corpus", "Keep the evidence and the truth of many jobs, and judge the engine on them again in minutes.")
	add := func(c *kingpin.CmdClause, do func(context.Context) error) {
		commands[c.FullCommand()] = func(ctx context.Context) error {
			defer debug.SetGCPercent(debug.SetGCPercent(matrixGC))
			return do(ctx)
		}
	}
	write := cmd.Command("write", "Write a corpus: the quick matrix, drawn jobs, both under harm, and what is recorded in the tree.")
	write.Flag("dir", "Directory of the corpus.").Default(corpusDir).StringVar(&f.dir)
	write.Flag("tree", "Root of the tree that has the recordings; empty: none.").Default(".").StringVar(&f.root)
	write.Flag("seed", "Seed of the quick matrix.").Default("1").Uint64Var(&f.opt.Seed)
	write.Flag("later", "What stops a job begins so much later than in its first half minute (0: 125 s).").DurationVar(&f.opt.Later)
	write.Flag("harm", "none, sample, all, or the name of one.").Default(matrix.HarmSample).StringVar(&f.opt.Harm)
	write.Flag("group", "Only simulated cases of these: hang, slow, healthy, benign. May be repeated.").EnumsVar(&f.opt.Groups, "hang", "slow", "healthy", "benign")
	write.Flag("ranks", "Largest simulated job (0: 512).").IntVar(&f.opt.Ranks)
	write.Flag("only", "Only simulated cases whose name contains one of these, separated by commas.").StringVar(&f.only)
	write.Flag("blind", "Seeds that jobs are drawn from, separated by commas.").Default("1001,1002,1003").StringVar(&f.blind)
	write.Flag("runs", "So many drawn jobs of each seed.").Default("100").IntVar(&f.runs)
	add(write, func(ctx context.Context) error { return f.write(ctx, os.Stdout) })
	judged := cmd.Command("judge", "Have the engine, or another method, analyse a corpus again, and write its verdicts.")
	judged.Flag("dir", "Directory of the corpus.").Default(corpusDir).ExistingDirVar(&f.dir)
	judged.Flag("out", "File of the verdicts.").Default(corpusDir + "/verdicts.jsonl").StringVar(&f.out)
	judged.Flag("method", "engine, a paper's method, or model: the shadow that is compared with it. Of that, what both say of jobs that stand still is printed by level and by harm.").Default(corpus.Engine).EnumVar(&f.method, slices.Sorted(maps.Keys(corpus.Methods))...)
	add(judged, func(ctx context.Context) error { return f.judge(ctx, os.Stdout) })
	ablate := cmd.Command("ablate", "Have the engine analyse a corpus without each of some rows of its tables, and print what each is good for.")
	ablate.Arg("row", "Names of rows.").Required().StringsVar(&f.rows)
	ablate.Flag("dir", "Directory of the corpus.").Default(corpusDir).ExistingDirVar(&f.dir)
	add(ablate, func(ctx context.Context) error { return f.ablate(ctx, os.Stdout) })
	diff := cmd.Command("diff", "Print each verdict that differs between two files of verdicts, with the truth; fails where the newer is right less often or accuses more innocents.")
	diff.Arg("old", "Verdicts before.").Required().ExistingFileVar(&f.old)
	diff.Arg("new", "Verdicts after.").Required().ExistingFileVar(&f.new)
	add(diff, func(context.Context) error { return f.diff(os.Stdout) })
}

func (f *corpusFlags) cases() ([]matrix.Case, error) {
	if f.only != "" {
		f.opt.Only = strings.Split(f.only, ",")
	}
	list := matrix.Cases(f.opt)
	seeds, err := seedsOf(f.blind)
	if err != nil {
		return nil, err
	}
	for _, seed := range seeds {
		for _, c := range matrix.Blind(seed, f.runs) {
			if f.opt.Wants(&c) {
				f.opt.Spoil(&c)
				list = append(list, c)
			}
		}
	}
	return list, nil
}

func (f *corpusFlags) write(ctx context.Context, out io.Writer) error {
	cases, err := f.cases()
	if err != nil {
		return err
	}
	w, err := corpus.Create(f.dir)
	if err != nil {
		return err
	}
	if f.root != "" {
		err = w.Recorded(ctx, f.root)
	}
	const every = 50
	runs := 0
	if err == nil {
		err = w.Simulate(ctx, cases, trial.Resources{Workers: f.workers, Memory: memoryFor(0)}, func() {
			if runs++; runs%every == 0 {
				fmt.Fprintf(out, "%d of %d runs\n", runs, len(cases))
			}
		})
	}
	n, closed := w.Close()
	if err := errors.Join(err, closed); err != nil {
		return fmt.Errorf("writing the corpus: %w", err)
	}
	fmt.Fprintf(out, "%d cases in %s\n", n, f.dir)
	return nil
}

func (f *corpusFlags) judge(ctx context.Context, out io.Writer) error {
	cases, err := corpus.Read(f.dir)
	if err != nil {
		return err
	}
	verdicts, err := corpus.Judge(ctx, f.dir, cases, corpus.Methods[f.method], f.workers)
	if err != nil {
		return fmt.Errorf("judging the corpus: %w", err)
	}
	file, _, err := jsonl.Open[corpus.Verdict](f.out, false)
	if err != nil {
		return fmt.Errorf("creating the file of verdicts: %w", err)
	}
	for i := range verdicts {
		err = errors.Join(err, file.Add(&verdicts[i]))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if f.method == corpus.Engine {
		return corpus.WriteTally(out, verdicts)
	}
	engine, err := corpus.Judge(ctx, f.dir, cases, corpus.Methods[corpus.Engine], f.workers)
	if err != nil {
		return fmt.Errorf("judging the corpus by the engine: %w", err)
	}
	return corpus.WriteBeside(out, f.method, verdicts, engine)
}

// ablate prints for each row how many verdicts name it, and what becomes of those that change without it.
func (f *corpusFlags) ablate(ctx context.Context, out io.Writer) error {
	cases, err := corpus.Read(f.dir)
	if err != nil {
		return err
	}
	verdicts, err := corpus.Judge(ctx, f.dir, cases, corpus.Methods[corpus.Engine], f.workers)
	if err != nil {
		return fmt.Errorf("judging the corpus: %w", err)
	}
	found, err := corpus.Ablate(ctx, f.dir, cases, verdicts, f.rows, f.workers)
	if err != nil {
		return fmt.Errorf("judging the corpus without rows: %w", err)
	}
	for i := range found {
		a := &found[i]
		fmt.Fprintf(out, "%-26s named by %4d, without it %4d change: before %s; after %s\n", a.Row, a.Named, len(a.Changes), a.Before, a.After)
	}
	return nil
}

var errWorse = errors.New("the newer verdicts are right less often, or accuse more innocents")

func (f *corpusFlags) diff(out io.Writer) error {
	before, err := jsonl.Read[corpus.Verdict](f.old)
	if err != nil {
		return err
	}
	after, err := jsonl.Read[corpus.Verdict](f.new)
	if err != nil {
		return err
	}
	if err := corpus.WriteDiff(out, before, after); err != nil {
		return err
	}
	if corpus.TallyOf(after).Worse(corpus.TallyOf(before)) {
		return errWorse
	}
	return nil
}
