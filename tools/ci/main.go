// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command ci builds, tests and measures this repository: every task by its name, with what the task needs.
//
//	go run ./tools/ci list                          what there is
//	go run ./tools/ci help NAME                     what one task does
//	go run ./tools/ci run NAME... [SETTING=value]   do it
//	go run ./tools/ci get TOOL...                   put tools of other projects into bin/tools
//
// A task builds and installs what it needs. The targets of the Makefile are tasks, too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/tools/ci/plan"
	"github.com/culprit-project/culprit/tools/ci/setup"
)

const usage = `usage: go run ./tools/ci list | help NAME | run NAME... [SETTING=value...] | get TOOL...
`

// errUsage says that the command line is wrong.
var errUsage = errors.New("wrong arguments")

func main() { os.Exit(status()) }

// status carries out the command line and gives the exit status.
func status() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Stdout, os.Args[1:])
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "ci: %v\n", err)
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	return 1
}

func command(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "list":
		root, err := repository()
		if err != nil {
			return err
		}
		short, err := targets(filepath.Join(root, "Makefile"))
		if err != nil {
			return err
		}
		list(out, short)
		return nil
	case "help":
		return help(out, rest)
	case "run":
		return run(ctx, out, rest)
	case "get":
		if len(rest) == 0 {
			return fmt.Errorf("%w: name tools: %s", errUsage, strings.Join(setup.AllTools(), ", "))
		}
		s, err := newSetup(out)
		if err != nil {
			return err
		}
		return s.Meet(ctx, setup.Needs{Tools: rest})
	}
	return fmt.Errorf("%w: no %q", errUsage, args[0])
}

func find(name string) (task, error) {
	i := slices.IndexFunc(tasks, func(t task) bool { return t.name == name })
	if i < 0 {
		return task{}, fmt.Errorf("%w: no task %q, list shows them", errUsage, name)
	}
	return tasks[i], nil
}

// repository gives the folder above the working directory that holds this repository.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "tools", "ci", "main.go")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in a checkout of Culprit", dir)
		}
	}
}

func newSetup(out io.Writer) (*setup.Setup, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	return &setup.Setup{Root: root, Out: out, Interval: 5 * time.Second}, nil
}

// runner runs tasks in one checkout.
type runner struct {
	setup *setup.Setup
	out   io.Writer
	env   []string // For scripts.
	tree  string   // The sources.
	state plan.State
	// stateFile is where every checkout on this machine finds how tasks ended.
	stateFile string
	plan.Runner
}

func run(ctx context.Context, out io.Writer, args []string) error {
	var names []string
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok {
			if err := os.Setenv(name, value); err != nil {
				return fmt.Errorf("%w: %s: %w", errUsage, arg, err)
			}
			continue
		}
		names = append(names, arg)
	}
	if len(names) == 0 {
		return fmt.Errorf("%w: name a task", errUsage)
	}
	var all []task
	for _, name := range names {
		t, err := find(name)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	r, err := newRunner(ctx, out)
	if err != nil {
		return err
	}
	for _, t := range all {
		if err := r.run(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func newRunner(ctx context.Context, out io.Writer) (*runner, error) {
	s, err := newSetup(out)
	if err != nil {
		return nil, err
	}
	tools := func(elements ...string) string {
		return filepath.Join(append([]string{s.Root, ".cache"}, elements...)...)
	}
	for name, file := range map[string]string{
		"AXE":    tools("axe-core-4.10.3", "package", "axe.min.js"),
		"PY_SPY": tools("py-spy", "bin", "py-spy"),
	} {
		if os.Getenv(name) == "" {
			os.Setenv(name, file)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(s.Root, ".cache")
	}
	return &runner{setup: s, out: out, env: append(setup.Environ(), s.BuildEnviron(ctx)...), stateFile: filepath.Join(cache, "culprit", "ci.json")}, nil
}

// run meets the needs of a task and does it.
func (r *runner) run(ctx context.Context, t task) error {
	if steps, ok := plans[t.name]; ok {
		return r.runPlan(ctx, steps)
	}
	if err := r.setup.Meet(ctx, t.allNeeds()); err != nil || t.script == "" {
		return err
	}
	cmd := plan.Bash(ctx, r.setup.Root, t.script)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

func (t task) allNeeds() setup.Needs {
	needs := nothing.And(t.needs)
	if t.more != nil {
		needs = needs.And(t.more(os.Getenv))
	}
	return needs
}
