// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
)

// Library is a NCCL to record.
type Library struct {
	Version string
	Path    string // libnccl.so.2.
	Layout  string
}

// Runner runs cases.
type Runner struct {
	Program  string // Does the operations.
	Recorder string // libnccl-recorder.so.
	Older    string // Folder of the recorders that end at an older version.
}

// Run runs a case and returns what was recorded. Which version of the interface was negotiated must be known, so that a
// plugin that was not loaded is a failure.
func (r *Runner) Run(ctx context.Context, lib Library, c Case) (*recording.Recording, error) {
	dir, err := os.MkdirTemp("", "ncclrecord")
	if err != nil {
		return nil, fmt.Errorf("folder of the job: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	settings := c.settings()
	switch err := r.run(ctx, dir, lib, c); {
	case errors.Is(err, errNoEnd) && c.MayHang:
		settings["end"] = "hung"
	case err != nil:
		return nil, fmt.Errorf("%s on %s: %w", c.Name, lib.Version, err)
	}
	processes, err := recording.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", c.Name, lib.Version, err)
	}
	if len(processes) != c.Ranks {
		return nil, fmt.Errorf("%s on %s: %d of %d ranks recorded", c.Name, lib.Version, len(processes), c.Ranks)
	}
	return &recording.Recording{Case: c.Name, Settings: settings, Processes: processes}, nil
}

func (c Case) settings() map[string]string {
	s := map[string]string{"ranks": strconv.Itoa(c.Ranks), "ops": c.Ops, "rounds": strconv.Itoa(max(c.Rounds, 1)), "fault": string(None)}
	if c.Fault != "" {
		s["fault"] = string(c.Fault)
	}
	if c.Host > 1 {
		s["host"] = strconv.Itoa(c.Host)
	}
	if c.ABI > 0 {
		s["abi"] = strconv.Itoa(c.ABI)
	}
	return s
}

// output is what a program printed so far.
type output struct {
	mutex sync.Mutex
	lines []string
	more  chan struct{} // Closed when there is more.
	ended bool
}

func (o *output) read(from io.Reader) {
	in := bufio.NewScanner(from)
	for in.Scan() {
		o.mutex.Lock()
		o.lines = append(o.lines, in.Text())
		close(o.more)
		o.more = make(chan struct{})
		o.mutex.Unlock()
	}
	o.mutex.Lock()
	o.ended = true
	close(o.more)
	o.mutex.Unlock()
}

func (o *output) text() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return strings.Join(o.lines, "\n")
}

// wait waits until that many lines have the words.
func (o *output) wait(ctx context.Context, words string, times int) error {
	seen := 0
	for {
		o.mutex.Lock()
		lines, more, ended := o.lines[seen:], o.more, o.ended
		seen = len(o.lines)
		o.mutex.Unlock()
		for _, line := range lines {
			if strings.Contains(line, words) {
				times--
			}
		}
		if times <= 0 {
			return nil
		}
		if ended {
			return fmt.Errorf("it ended without a line with %q", words)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("no line with %q: %w", words, ctx.Err())
		}
	}
}

func (r *Runner) run(ctx context.Context, dir string, lib Library, c Case) error {
	cmd := r.command(ctx, dir, lib, c)
	out := &output{more: make(chan struct{})}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	read := make(chan struct{})
	go func() {
		out.read(pipe)
		close(read)
	}()
	err = drive(ctx, c, cmd, out)
	if c.Fault != "" || err != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // It may have ended.
	}
	<-read
	ended := cmd.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("%w; it printed: %s", err, tail(out.text()))
	case c.Fault == "" && ended != nil:
		return fmt.Errorf("%w; it printed: %s", ended, tail(out.text()))
	}
	return nil
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

// drive waits for the end of a job or, with a fault, for it to have stood still for a while.
func drive(ctx context.Context, c Case, cmd *exec.Cmd, out *output) error {
	if c.Fault == "" {
		return awaitEnd(ctx, c, out)
	}
	if err := out.wait(ctx, `"event":"fault"`, 1); err != nil {
		return err
	}
	select {
	case <-time.After(hanging):
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.Fault != Abort {
		return nil
	}
	if err := syscall.Kill(cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending the job: %w", err)
	}
	return out.wait(ctx, `"event":"end"`, 1)
}

var errNoEnd = errors.New("the operations were done and the job did not end")

// awaitEnd waits for the end of all ranks.
func awaitEnd(ctx context.Context, c Case, out *output) error {
	if c.MayHang {
		return awaitSlowEnd(ctx, c, out)
	}
	return out.wait(ctx, `"event":"end"`, 1)
}

// awaitSlowEnd waits for the operations first, so that a job that does not end can be told from one that does not begin.
func awaitSlowEnd(ctx context.Context, c Case, out *output) error {
	if err := out.wait(ctx, `"event":"op"`, max(c.Rounds, 1)*len(strings.Fields(c.Ops))); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ending)
	defer cancel()
	if out.wait(ctx, `"event":"end"`, 1) != nil {
		return errNoEnd
	}
	return nil
}

func (r *Runner) command(ctx context.Context, dir string, lib Library, c Case) *exec.Cmd {
	launch := []string{
		"launch", "--ranks", strconv.Itoa(c.Ranks), "--hosts", strconv.Itoa(c.Ranks / max(c.Host, 1)), "--dir", dir, "--",
		"--nccl", lib.Path, "--nccl-layout", lib.Layout, "--selftest", strings.ReplaceAll(c.Ops, " ", ","), "--grace", "1",
	}
	if c.Host > 1 {
		launch = append(launch, "--intra", "shm")
	}
	if c.Fault == "" {
		launch = append(launch, "--steps", strconv.Itoa(max(c.Rounds, 1)))
	} else {
		at := 3*len(strings.Fields(c.Ops)) + lastOp(c.Ops)
		launch = append(launch, "--steps", "1000000", "--fault", kinds[c.Fault], "--fault-rank", strconv.Itoa(Culprit), "--fault-at-step", strconv.Itoa(at))
	}
	cmd := exec.CommandContext(ctx, r.Program, launch...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), r.environment(dir, c)...)
	return cmd
}

// lastOp is the last entry of a round that is an operation: it is struck.
func lastOp(ops string) int {
	last := 0
	for i, op := range strings.Fields(ops) {
		if !strings.HasPrefix(op, "pause") {
			last = i
		}
	}
	return last
}

func (r *Runner) environment(dir string, c Case) []string {
	recorder := r.Recorder
	if c.ABI > 0 {
		recorder = filepath.Join(r.Older, fmt.Sprintf("libnccl-recorder-v%d.so", c.ABI))
	}
	env := []string{
		"RECORDER_DIR=" + dir,
		// The only form of the name that every version takes.
		"NCCL_PROFILER_PLUGIN=" + filepath.Base(recorder), "LD_LIBRARY_PATH=" + filepath.Dir(recorder),
	}
	return append(env, strings.Fields(c.Env)...)
}
