// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Culprit-exporter watches the collective communication of the training processes on a node through the trace files
// that the NCCL shim writes. It exports metrics and serves state and recent history to culprit-analyzer.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/attach"
	"github.com/culprit-project/culprit/exporter/doctor"
	"github.com/culprit-project/culprit/exporter/install"
	"github.com/culprit-project/culprit/internal/calm"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags, err := parseFlags(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "culprit-exporter: %s, try --help\n", err)
		return 2
	}
	log := calm.New(promslog.New(flags.log))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	switch flags.command {
	case commandDoctor:
		if flags.doctor.Client, err = doctor.NewClient(flags.doctorHTTP); err != nil {
			return ended(log, err)
		}
		if !doctor.Print(os.Stdout, doctor.Examine(ctx, flags.doctor)) {
			return 1
		}
		return 0
	case commandAttach:
		flags.attach.Logger = log
		named, err := attach.Run(ctx, os.Stdout, flags.attach)
		if err == nil && !named {
			return 1
		}
		return ended(log, err)
	case commandInstallShim:
		return ended(log, installShim(log, flags))
	}
	if flags.prepare {
		return ended(log, prepare(log, flags.node.Dirs))
	}
	return ended(log, serve(ctx, log, flags))
}

func ended(log *slog.Logger, err error) int {
	if err != nil {
		log.Error("Exiting", "err", err)
		return 1
	}
	return 0
}

func installShim(log *slog.Logger, s *settings) error {
	done, err := install.Libraries(s.shim.from, s.shim.to)
	for _, name := range done {
		log.Info("Installed library", "file", name)
	}
	if err != nil && s.shim.bestEffort {
		log.Warn("The shim is not installed; the job runs without it", "err", err)
		return nil
	}
	return err
}
