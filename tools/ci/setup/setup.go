// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package setup brings about what a task needs before it runs: programs of this repository in bin/, tools of others in bin/tools, and
// what has to be installed.
package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Needs is what has to be there. Every part is built or installed when it is missing or old.
type Needs struct {
	Programs []string // Of this repository: keys of programs.
	Tools    []string // Of others: keys of tools.
	Installs []Install
}

// And gives what both need, each thing once.
func (n Needs) And(other Needs) Needs {
	union := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	installs := slices.Clone(n.Installs)
	for _, i := range other.Installs {
		if !slices.ContainsFunc(installs, func(have Install) bool { return have.Name == i.Name }) {
			installs = append(installs, i)
		}
	}
	return Needs{union(n.Programs, other.Programs), union(n.Tools, other.Tools), installs}
}

// Install is something that is installed on the machine or into .cache.
type Install struct {
	Name string
	Root bool   // Only root can install it.
	Have string // Bash that succeeds when it is there.
	Get  string // Bash that installs it.
}

// ErrRoot says that something is missing that only root can install.
var ErrRoot = errors.New("not installed, and only root can install it")

// Packages is an Install of packages of Debian and its relatives.
func Packages(name, have string, packages ...string) Install {
	get := "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends " + strings.Join(packages, " ")
	return Install{Name: name, Root: true, Have: have, Get: get}
}

// Setup meets needs in one checkout of the repository.
type Setup struct {
	Root string // Of the repository.
	Out  io.Writer
	// Interval is how often a line says what is under way.
	Interval time.Duration

	mu      sync.Mutex
	started time.Time
	doing   []*work

	debian sync.Mutex // The package manager's lists take one writer at a time.
	apt    *apt
}

// work is something that is under way.
type work struct {
	what     string
	packages lineCounter // Of Go, compiled so far.
}

// lineCounter counts lines and keeps them for the error message.
type lineCounter struct {
	mu    sync.Mutex
	lines int
	text  bytes.Buffer
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines += bytes.Count(p, []byte{'\n'})
	return l.text.Write(p)
}

func (l *lineCounter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// Meet builds and installs what is missing, side by side.
func (s *Setup) Meet(ctx context.Context, n Needs) error {
	s.started = time.Now()
	before := cpu()
	stop := s.progress()
	defer stop()
	var wg sync.WaitGroup
	var errs []error
	try := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				s.mu.Lock()
				errs = append(errs, err)
				s.mu.Unlock()
			}
		})
	}
	// The package manager takes one caller at a time.
	try(func() error { return s.installAll(ctx, n.Installs) })
	for _, build := range s.builds(n.Programs) {
		try(func() error { return build(ctx) })
	}
	for _, group := range toolGroups(n.Tools) {
		try(func() error { return s.getTools(ctx, group) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.say("everything is there (%.0f CPU s)", cpu()-before)
	return nil
}

// cpu is how many seconds of processors the programs that were started so far have used.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}

func (s *Setup) installAll(ctx context.Context, installs []Install) error {
	for _, i := range installs {
		if err := s.install(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Setup) install(ctx context.Context, i Install) error {
	if s.bash(ctx, i.Have).Run() == nil {
		return nil
	}
	if i.Root && os.Geteuid() != 0 {
		return fmt.Errorf("%w: %s. As root: %s", ErrRoot, i.Name, i.Get)
	}
	done := s.begin("installing " + i.Name)
	defer done()
	if out, err := s.bash(ctx, i.Get).CombinedOutput(); err != nil {
		return fmt.Errorf("installing %s: %w\n%s", i.Name, err, out)
	}
	s.say("installed %s", i.Name)
	return nil
}

func (s *Setup) bash(ctx context.Context, script string) *exec.Cmd {
	return s.command(ctx, "bash", "-euo", "pipefail", "-c", script)
}

// command is one that runs at the root of the repository and does not share the jobs of a make that may have started this program.
func (s *Setup) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.Root
	cmd.Env = Environ()
	return cmd
}

// Environ is the environment without what one make tells another one.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "MAKEFLAGS" || name == "MFLAGS" || name == "MAKELEVEL" || name == "MAKEOVERRIDES"
	})
}

// begin notes that something is under way until done is called.
func (s *Setup) begin(what string) (done func()) {
	_, done = s.beginCounted(what)
	return done
}

func (s *Setup) beginCounted(what string) (w *work, done func()) {
	w = &work{what: what}
	s.mu.Lock()
	s.doing = append(s.doing, w)
	s.mu.Unlock()
	return w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.doing = slices.DeleteFunc(s.doing, func(d *work) bool { return d == w })
	}
}

// progress prints a line every interval while something is under way.
func (s *Setup) progress() (stop func()) {
	ticker := time.NewTicker(s.Interval)
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				if now := s.now(); now != "" {
					s.say("%s", now)
				}
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(end)
	}
}

// now says what is under way.
func (s *Setup) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, w := range s.doing {
		what := w.what
		if n := w.packages.count(); n > 0 {
			what += fmt.Sprintf(" (%d packages)", n)
		}
		all = append(all, what)
	}
	return strings.Join(all, "; ")
}

func (s *Setup) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.Out, "%4.0f s  %s\n", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
}

func (s *Setup) path(elements ...string) string {
	return filepath.Join(append([]string{s.Root}, elements...)...)
}
