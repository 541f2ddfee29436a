// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

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

// Runner runs the steps of a plan.
type Runner struct {
	Root      string // Of the repository.
	Out       io.Writer
	Env       []string
	Logs      string // Folder for the output of each step.
	StateFile string // Where it notes how each step ended.
	Tree      string // The sources, for the notes.
	KeepGoing bool   // After a failure, begin further steps.
	// Budget is after how long nothing is begun that would end later; 0: no limit.
	Budget time.Duration
	// Interval is how often a line says what is under way.
	Interval time.Duration

	started time.Time
	mu      sync.Mutex
	running map[string]time.Time
	results []result
}

type result struct {
	step  Step
	note  string // Why it did not run; empty: it did.
	err   error
	took  time.Duration
	cpu   time.Duration
	begun time.Duration // After the start of the run.
}

// ErrFailed says that a step failed; the output says the rest.
var ErrFailed = errors.New("failed")

// Run runs the steps, prints their output line by line behind their names, and at last how each ended.
func (r *Runner) Run(ctx context.Context, steps []Step) error {
	r.started = time.Now()
	r.running = map[string]time.Time{}
	stop := r.progress()
	var wg sync.WaitGroup
	for _, lane := range []Lane{Waits, Computes} {
		wg.Go(func() { r.lane(ctx, lane, steps) })
	}
	wg.Wait()
	r.lane(ctx, Alone, steps)
	stop()
	return r.summary(ctx)
}

func (r *Runner) lane(ctx context.Context, lane Lane, steps []Step) {
	for _, s := range steps {
		if s.Lane != lane {
			continue
		}
		if why := r.leaveOut(ctx, s); why != "" {
			r.add(result{step: s, note: why})
			continue
		}
		if d, ok := r.prepare(ctx, s); !ok {
			r.add(d)
			continue
		}
		r.step(ctx, s)
	}
}

// prepare brings about what a step needs, and says whether the step can be begun. What is built for it and not ready when the time is
// over is further next time.
func (r *Runner) prepare(ctx context.Context, s Step) (d result, ok bool) {
	if s.Prepare == nil {
		return result{}, true
	}
	d = result{step: s, begun: time.Since(r.started)}
	limited := ctx
	if r.Budget > 0 && !s.Always {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, r.started.Add(r.Budget-s.Time))
		defer cancel()
	}
	r.say("=== %s: getting what it needs (%.0f s)", s.Name, d.begun.Seconds())
	switch err := s.Prepare(limited); {
	case err == nil:
		return result{}, true
	case errors.Is(err, ErrCannot):
		d.note = err.Error()
	case limited.Err() != nil:
		d.note = fmt.Sprintf("what it needs was not ready after %.0f s", (time.Since(r.started) - d.begun).Seconds())
	default:
		d.err = err
		r.say("=== %s: FAILED, %v", s.Name, err)
		r.note(s, d)
	}
	return d, false
}

// leaveOut says why a step is not begun; empty: it is.
func (r *Runner) leaveOut(ctx context.Context, s Step) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := time.Since(r.started)
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case !r.KeepGoing && slices.ContainsFunc(r.results, func(d result) bool { return d.err != nil }):
		return "another one failed before it"
	case r.Budget > 0 && !s.Always && passed+s.Time > r.Budget:
		return fmt.Sprintf("takes about %s, %.0f s of %.0f s had passed", Words(s.Time), passed.Seconds(), r.Budget.Seconds())
	}
	return ""
}

func (r *Runner) add(d result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, d)
}

func (r *Runner) step(ctx context.Context, s Step) {
	d := result{step: s, begun: time.Since(r.started)}
	r.say("=== %s (%.0f s)", s.Name, d.begun.Seconds())
	r.mu.Lock()
	r.running[s.Name] = time.Now()
	r.mu.Unlock()
	cmd, err := r.command(ctx, s)
	if err == nil {
		begun := time.Now()
		err = cmd.run()
		d.took = time.Since(begun)
		if p := cmd.cmd.ProcessState; p != nil {
			d.cpu = p.UserTime() + p.SystemTime()
		}
	}
	d.err = err
	r.mu.Lock()
	delete(r.running, s.Name)
	r.mu.Unlock()
	word := "ok"
	if err != nil {
		word = "FAILED, " + err.Error()
	}
	r.say("=== %s: %s (%.0f s, %.0f CPU s)", s.Name, word, d.took.Seconds(), d.cpu.Seconds())
	r.add(d)
	if ctx.Err() == nil {
		r.note(s, d)
	}
}

// note keeps how a step ended for later runs. One that cannot be kept costs them their order, nothing else.
func (r *Runner) note(s Step, d result) {
	record := Record{Last: time.Now().UTC(), OK: d.err == nil, Tree: r.Tree}
	if err := note(r.StateFile, s.Name, record); err != nil {
		r.say("%v", err)
	}
}

// logged is a command whose output goes to a file and, behind the step's name, to the runner's output.
type logged struct {
	cmd   *exec.Cmd
	log   *os.File
	lines *prefixer
}

func (l *logged) run() error {
	err := l.cmd.Run()
	l.lines.flush()
	return errors.Join(err, l.log.Close())
}

func (r *Runner) command(ctx context.Context, s Step) (*logged, error) {
	if err := os.MkdirAll(r.Logs, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	log, err := os.Create(filepath.Join(r.Logs, s.Name+".log"))
	if err != nil {
		return nil, fmt.Errorf("making the log: %w", err)
	}
	cmd := Bash(ctx, r.Root, s.Script)
	if s.Lane == Computes {
		cmd = Bash(ctx, r.Root, "renice -n 10 $$ >/dev/null\n"+s.Script)
	}
	lines := &prefixer{runner: r, prefix: s.Name}
	cmd.Env = r.Env
	cmd.Stdout = io.MultiWriter(log, lines)
	cmd.Stderr = cmd.Stdout
	return &logged{cmd, log, lines}, nil
}

// Bash is a script that ends, with all that it started, when ctx does.
func Bash(ctx context.Context, dir, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Bash ignores SIGINT when the command that it waits for ends without it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// prefixer writes whole lines behind a name.
type prefixer struct {
	runner *Runner
	prefix string
	rest   []byte
}

func (p *prefixer) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		line, rest, ok := bytes.Cut(p.rest, []byte{'\n'})
		if !ok {
			return len(b), nil
		}
		p.runner.say("%s | %s", p.prefix, line)
		p.rest = rest
	}
}

func (p *prefixer) flush() {
	if len(p.rest) > 0 {
		p.runner.say("%s | %s", p.prefix, p.rest)
		p.rest = nil
	}
}

func (r *Runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.Out, format+"\n", args...)
}

func (r *Runner) progress() (stop func()) {
	ticker := time.NewTicker(r.Interval)
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				r.say("... %.0f s: %s", time.Since(r.started).Seconds(), r.now())
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(end)
	}
}

func (r *Runner) now() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for name, since := range r.running {
		all = append(all, fmt.Sprintf("%s for %.0f s", name, time.Since(since).Seconds()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (r *Runner) summary(ctx context.Context) error {
	r.say("\n%-24s %8s %8s", "step", "seconds", "CPU s")
	var cpu time.Duration
	var failed []string
	for _, d := range r.results {
		if d.note != "" {
			continue
		}
		cpu += d.cpu
		mark := ""
		if d.err != nil {
			mark = fmt.Sprintf("  FAILED, %s has its output", filepath.Join(r.Logs, d.step.Name+".log"))
			failed = append(failed, d.step.Name)
		}
		r.say("%-24s %8.0f %8.0f%s", d.step.Name, d.took.Seconds(), d.cpu.Seconds(), mark)
	}
	r.say("%-24s %8.0f %8.0f", "all", time.Since(r.started).Seconds(), cpu.Seconds())
	for _, d := range r.results {
		if d.note != "" {
			r.say("LEFT OUT: %s, %s", d.step.Name, d.note)
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("%w: %s", ErrFailed, strings.Join(failed, ", "))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// Words is a duration as people say it.
func Words(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
