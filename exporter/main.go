// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Culprit-exporter watches the collective communication of the training processes on a node through the trace files
// that the NCCL shim writes. It exports metrics and serves state and recent history to culprit-analyzer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/doctor"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags, err := parseFlags(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "culprit-exporter: %s, try --help\n", err)
		return 2
	}
	log := promslog.New(flags.log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	if flags.isDoctor {
		if !doctor.Print(os.Stdout, doctor.Examine(ctx, flags.doctor)) {
			return 1
		}
		return 0
	}
	if flags.prepare {
		if err := prepare(log, flags.node.Dirs); err != nil {
			log.Error("Ending", "err", err)
			return 1
		}
		return 0
	}
	if err := serve(ctx, log, flags); err != nil {
		log.Error("Ending", "err", err)
		return 1
	}
	return 0
}
