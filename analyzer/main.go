// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command culprit-analyzer finds out which rank of a training job is to blame, and why. Its subcommand serve answers
// Alertmanager's triggers; analyze reads what a job left behind; inject has pods load the shim.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"

	"github.com/culprit-project/culprit/analyzer/app"
	"github.com/culprit-project/culprit/analyzer/inject"
	"github.com/culprit-project/culprit/analyzer/offline"
	"github.com/culprit-project/culprit/internal/calm"
	"github.com/culprit-project/culprit/internal/cli"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	k := cli.New("culprit-analyzer", "Finds out which rank of a training job is to blame, and why.")
	logging := &promslog.Config{Writer: os.Stderr}
	promslogflag.AddFlags(k, logging)
	serve, runServe := app.Command(k)
	analyze, runAnalyze := offline.Command(k)
	admit, runInject := inject.Command(k)
	command, err := k.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "culprit-analyzer: %v, try --help\n", err)
		return offline.ExitUsage
	}
	switch command {
	case serve.FullCommand():
		return runServe(context.Background(), calm.New(promslog.New(logging)))
	case admit.FullCommand():
		return runInject(context.Background(), calm.New(promslog.New(logging)))
	case analyze.FullCommand():
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
		return runAnalyze(ctx)
	default:
		return offline.ExitUsage
	}
}
