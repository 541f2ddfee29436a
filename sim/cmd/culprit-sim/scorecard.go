// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/sim/scorecard"
)

func scorecardCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	var opt scorecard.Options
	cmd := app.Command("scorecard", "Run the matrix of faults and judge the engine's verdicts.")
	cmd.Flag("quick", "Run the part that fits into a minute.").BoolVar(&opt.Quick)
	cmd.Flag("seed", "Seed of the first run of each scenario.").Default("1").Uint64Var(&opt.Seed)
	cmd.Flag("seeds", "Runs per scenario and workload (0: 1 quick, 3 full).").IntVar(&opt.Seeds)
	cmd.Flag("ranks", "Largest job (0: 512 quick, 10240 full).").IntVar(&opt.Ranks)
	cmd.Flag("only", "Run only cases whose name contains this.").StringVar(&opt.Only)
	commands[cmd.FullCommand()] = func(ctx context.Context) error {
		_, err := scorecard.Run(ctx, scorecard.Matrix(opt), func(o scorecard.Outcome) { fmt.Println(o.Line()) })
		return err
	}
}
