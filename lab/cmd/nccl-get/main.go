// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Nccl-get downloads releases of NCCL and writes the layout of each, for the played GPU. Without arguments it lists what it knows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/lab/nccl"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nccl-get:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("nccl-get", flag.ExitOnError)
	dir := flags.String("dir", ".cache/nccl", "folder of VERSION/libnccl.so.2 and VERSION/layout")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: nccl-get [--dir FOLDER] [RELEASES]\n\nRELEASES: versions separated by commas, minors (2.27), all, ci, short. None: list what is known.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding nccl-layout: %w", err)
	}
	store := &nccl.Store{Dir: *dir, LayoutTool: filepath.Join(filepath.Dir(self), "nccl-layout"), Log: say}
	switch flags.NArg() {
	case 0:
		list(store)
		return nil
	case 1:
		return get(ctx, store, flags.Arg(0))
	default:
		return fmt.Errorf("%d arguments: releases are separated by commas", flags.NArg())
	}
}

func list(store *nccl.Store) {
	for _, r := range nccl.Releases() {
		var notes []string
		if len(r.Torch) > 0 {
			notes = append(notes, "pinned by PyTorch "+strings.Join(r.Torch, ", "))
		}
		if len(r.Sets) > 0 {
			notes = append(notes, "in "+strings.Join(r.Sets, " and "))
		}
		if store.Has(r) {
			notes = append(notes, "here")
		}
		fmt.Printf("%-8s %s\n", r.Version, strings.Join(notes, "; "))
	}
}

func get(ctx context.Context, store *nccl.Store, which string) error {
	releases, err := nccl.Select(which)
	if err != nil {
		return err
	}
	var failed error
	for _, r := range releases {
		lib, err := store.Get(ctx, r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		say("NCCL %s: %s", lib.Version, lib.Path)
	}
	return failed
}

// say prints a line with the time of day.
func say(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
