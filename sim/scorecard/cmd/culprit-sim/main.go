// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Culprit-sim simulates training jobs with faults and judges the root-cause engine on them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/culprit-project/culprit/internal/cli"
)

// gcPercent keeps the heap of a large job small: most of it stays alive to the end.
const gcPercent = 40

// memoryLimit is from where on the collector works harder, whatever the percentage: a matrix must not drive out what
// else runs on the machine.
const memoryLimit = 8 << 30

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "culprit-sim:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called.
	}
}

// run parses the arguments and runs the command.
func run(ctx context.Context, args []string) error {
	app := cli.New("culprit-sim", "Simulates training jobs on GPU clusters with faults, and judges the root-cause engine on them.")
	commands := map[string]func(context.Context) error{}
	scorecardCommand(app, commands)
	trainCommand(app, commands)
	calibrateCommand(app, commands)
	corpusCommand(app, commands)
	recordCommand(app, commands)
	serveCommand(app, commands)
	listCommand(app, commands)
	cmd, err := app.Parse(args)
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	return commands[cmd](ctx)
}
