// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command culprit-analyzer finds the culprit rank of a training job that hangs or got slow.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/analyzer/offline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	app := kingpin.New("culprit-analyzer", "Finds the culprit rank of a training job that hangs or got slow.")
	app.HelpFlag.Short('h')
	analyze, runAnalyze := offline.Command(app)
	command, err := app.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "culprit-analyzer: %v, try --help\n", err)
		return offline.ExitUsage
	}
	if command == analyze.FullCommand() {
		return runAnalyze(ctx)
	}
	return offline.ExitUsage
}
