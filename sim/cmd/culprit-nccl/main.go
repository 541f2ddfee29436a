// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command culprit-nccl runs faults on releases of NCCL, from the library's callbacks to the page. It exits 0
// when all that was run is right, 1 when something is wrong, 2 when it could not run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/internal/cli"
	"github.com/culprit-project/culprit/lab/nccl"
)

const (
	exitRight = iota
	exitWrong
	exitBroken
)

// errWrong says that results are wrong; they have been printed.
var errWrong = errors.New("something is wrong")

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	app := cli.New("culprit-nccl", "Run faults on releases of NCCL, from the library's callbacks to the page. No GPU is needed.")
	var s settings
	app.Flag("root", "Repository root.").Default(".").StringVar(&s.root)
	commands := map[string]func(context.Context, *settings) error{}
	testCommand(app, commands)
	reportCommand(app, commands)
	burnCommand(app, commands)
	name, err := app.Parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "culprit-nccl: %v, try --help\n", err)
		return exitBroken
	}
	if s.root, err = filepath.Abs(s.root); err == nil {
		err = commands[name](ctx, &s)
	}
	switch {
	case err == nil:
		return exitRight
	case errors.Is(err, errWrong):
		return exitWrong
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "culprit-nccl: interrupted; the same command goes on from here")
	default:
		fmt.Fprintln(os.Stderr, "culprit-nccl:", err)
	}
	return exitBroken
}

// settings are what all commands know.
type settings struct{ root string }

func (s *settings) bin() string { return filepath.Join(s.root, "bin") }

func (s *settings) store() *nccl.Store {
	return &nccl.Store{Dir: filepath.Join(s.root, ".cache", "nccl"), LayoutTool: filepath.Join(s.bin(), "nccl-layout"), Log: say}
}

// say prints a line with the time of day.
func say(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
