// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/analyzer/learn"
	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/trial"
)

type trainFlags struct {
	sim    matrix.Options
	forest learn.Options
	tables []string
	table  string
	out    string
}

// trainCommand trains the detector of abnormal operators for --operator-model.
func trainCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	f := trainFlags{sim: matrix.Options{Quick: true}}
	cmd := app.Command("train", "Train a detector of abnormal operations (a random forest) on simulated jobs, or on tables of own ones.")
	cmd.Arg("table", "CSV tables of own operators, labelled; none: jobs are simulated.").ExistingFilesVar(&f.tables)
	cmd.Flag("out", "File of the model.").Default("operators.json").StringVar(&f.out)
	cmd.Flag("write-table", "Also write the simulated operators with their labels to this CSV table.").StringVar(&f.table)
	cmd.Flag("ranks", "Largest simulated job.").Default("64").IntVar(&f.sim.Ranks)
	cmd.Flag("seed", "Seed of simulation and training.").Default("1").Uint64Var(&f.sim.Seed)
	cmd.Flag("only", "Simulate only cases whose name contains this (repeatable).").StringsVar(&f.sim.Only)
	cmd.Flag("trees", "Trees of the forest.").Default("50").IntVar(&f.forest.Trees)
	cmd.Flag("depth", "Depth of a tree, at most.").Default("12").IntVar(&f.forest.Depth)
	commands[cmd.FullCommand()] = func(ctx context.Context) error { return train(ctx, &f, os.Stdout) }
}

func train(ctx context.Context, f *trainFlags, w io.Writer) error {
	f.forest.Seed = f.sim.Seed
	ops, err := f.operators(ctx)
	if err != nil {
		return err
	}
	if f.table != "" {
		if err := writeFile(f.table, func(w io.Writer) error { return learn.WriteOperators(w, ops) }); err != nil {
			return err
		}
	}
	samples := learn.Samples(ops)
	m, err := learn.Train(ctx, samples, f.forest)
	if err != nil {
		return err
	}
	abnormal := 0
	var plain learn.Score
	for i := range samples {
		if samples[i].IsAbnormal {
			abnormal++
		}
		plain.Add(samples[i].Features.Abnormal(), samples[i].IsAbnormal)
	}
	fmt.Fprintf(w, "%d operators, %d abnormal\n  forest, by trees that had not seen them: precision %.3f, recall %.3f, F1 %.3f\n  without training: precision %.3f, recall %.3f, F1 %.3f\n",
		len(samples), abnormal, m.Precision, m.Recall, m.F1, plain.Precision(), plain.Recall(), plain.F1())
	return writeFile(f.out, m.Write)
}

// operators reads the tables, or simulates where there are none.
func (f *trainFlags) operators(ctx context.Context) ([]holmes.Operator, error) {
	if len(f.tables) == 0 {
		return trial.Operators(ctx, f.sim)
	}
	var out []holmes.Operator
	for _, name := range f.tables {
		ops, err := readTable(name)
		if err != nil {
			return nil, err
		}
		out = append(out, ops...)
	}
	return out, nil
}

func readTable(name string) (ops []holmes.Operator, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening table: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if ops, err = learn.ReadOperators(file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return ops, nil
}
