// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/analyzer/offline/load"
)

// bounded is the name of the process that reads. No check beforehand tells what every reader makes of a file that is made up, and memory that
// is gone ends a process: so the kernel bounds one of its own, which names the files that it is in. One in which it ended is read
// again last and alone, and is left out if it ends there again.
const bounded = "culprit-analyzer-bounded"

const (
	self       = "/proc/self/exe" // Also where the program's file has been replaced.
	mostStarts = 16               // Eight files that each take all memory.
	// Files of the process that reads, after the three usual ones.
	fdErrors, fdReports, fdKnown = 3, 4, 5
	// leastMemory is what the process may take however little is free: swap may serve it.
	leastMemory = 1 << 30
	// stopTime is how long a process that was told to end may take.
	stopTime = 5 * time.Second
)

// known is what the process that reads is told of earlier ones.
type known struct {
	Memory  uint64 // Bytes that it may take.
	Last    []string
	LeftOut []string
}

// step is a line by which it tells which file it begins or has ended with.
type step struct {
	Path string
	Done bool
}

// memory gives how much the process may take: three quarters of what the kernel says is available, and of a container's limit.
func memory() uint64 {
	free := uint64(leastMemory)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		_, rest, _ := strings.Cut(string(text), "MemAvailable:")
		line, _, _ := strings.Cut(rest, " kB")
		if kb, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64); err == nil {
			free = kb << 10
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} { // Versions 2 and 1.
		if text, err := os.ReadFile(path); err == nil {
			if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				free = min(free, limit)
			}
		}
	}
	return max(leastMemory, free/4*3)
}

// supervise runs the command in processes of their own, until one comes to its end.
func (c *config) supervise(ctx context.Context) int {
	k := known{Memory: memory()}
	for range mostStarts {
		open, code, err := k.start(ctx)
		switch {
		case err != nil: // Where no process can be started, this one reads.
			return c.runUntil(ctx, os.Stdin, os.Stdout, os.Stderr)
		case ctx.Err() != nil:
			return ExitCanceled
		case code != signaled(syscall.SIGABRT) && code != signaled(syscall.SIGKILL):
			return code
		}
		if slices.Contains(open, load.Stdin) || !k.blame(open) { // What came on standard input is gone.
			fmt.Fprintf(os.Stderr, "culprit-analyzer: no verdict: the files take more than %d MB of memory\n", k.Memory>>20)
			return code
		}
	}
	fmt.Fprintf(os.Stderr, "culprit-analyzer: no verdict: too many files that take more than %d MB of memory each\n", k.Memory>>20)
	return signaled(syscall.SIGABRT)
}

// signaled is a shell's status of a process that a signal has ended.
func signaled(s syscall.Signal) int { return 128 + int(s) }

// blame has files read last, or not at all if they already were. It reports whether anything changes.
func (k *known) blame(open []string) bool {
	changed := false
	for _, path := range open {
		switch {
		case slices.Contains(k.LeftOut, path):
		case slices.Contains(k.Last, path):
			k.LeftOut, changed = append(k.LeftOut, path), true
		default:
			k.Last, changed = append(k.Last, path), true
		}
	}
	return changed
}

// start runs one process to its end, and gives the files that it was in.
func (k *known) start(ctx context.Context) (open []string, code int, err error) {
	runtime.LockOSThread() // The process ends with the thread that has started it.
	defer runtime.UnlockOSThread()
	var pipes [4]*os.File // Reports, then what is known: an end to read and one to write.
	defer func() {
		for _, f := range pipes {
			_ = f.Close()
		}
	}()
	for i := 0; i < len(pipes); i += 2 {
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil {
			return nil, 0, err
		}
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{bounded}, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout // What the runtime writes at a fatal end goes nowhere.
	cmd.ExtraFiles = []*os.File{os.Stderr, pipes[1], pipes[2]}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	_, _ = pipes[1].Close(), pipes[2].Close()
	go func(w io.WriteCloser) {
		_ = json.NewEncoder(w).Encode(k)
		_ = w.Close()
	}(pipes[3])
	for reports := json.NewDecoder(pipes[0]); ; {
		var r step
		if reports.Decode(&r) != nil {
			break
		}
		if r.Done {
			open = slices.DeleteFunc(open, func(path string) bool { return path == r.Path })
		} else {
			open = append(open, r.Path)
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = signaled(status.Signal())
		}
		return open, code, nil
	}
	return open, 0, nil
}

// runBounded is the process that reads.
func (c *config) runBounded(ctx context.Context) int {
	var k known
	if err := json.NewDecoder(os.NewFile(fdKnown, "known")).Decode(&k); err != nil {
		return ExitSoftware
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err == nil {
		limit.Cur = min(limit.Cur, k.Memory)
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &limit) // Without it, it is bounded as any process.
	}
	debug.SetMemoryLimit(int64(k.Memory / 4 * 3)) // From where it rather collects than grows.
	reports := json.NewEncoder(os.NewFile(fdReports, "reports"))
	c.watch = load.Watch{
		Begin: func(path string) { _ = reports.Encode(step{Path: path}) },
		End:   func(path string) { _ = reports.Encode(step{Path: path, Done: true}) },
		Last:  k.Last, LeftOut: k.LeftOut, Memory: int64(k.Memory),
	}
	return c.runUntil(ctx, os.Stdin, os.Stdout, os.NewFile(fdErrors, "/dev/stderr"))
}
