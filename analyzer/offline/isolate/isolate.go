// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package isolate runs a reader of outside bytes in a process of its own, whose memory and CPU time the kernel bounds. It is for formats that a
// library reads: of one that makes room for what a file claims, and unpacks whatever comes, no check beforehand can tell what it will take.
package isolate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Limits of a reader's process.
const (
	maxCPU     = 300     // Seconds.
	maxMessage = 4 << 10 // Bytes of an error.
)

// maxMemory is in bytes of address space, of which the runtime reserves some hundred megabytes at its start. It is less in tests.
var maxMemory uint64 = 4 << 30

// self is the program that runs, also if its file has been replaced.
const self = "/proc/self/exe"

// exitRead is the status of a reader that says why a file cannot be read. That of the runtime's own fatal errors is another.
const exitRead = 3

// errLimit is given for a reader that the kernel or the runtime has ended.
var errLimit = fmt.Errorf("reading it takes more than %d MiB of memory or %d s", maxMemory>>20, maxCPU)

// Serve makes a process that Read has started do its work, and ends it. It returns in all others. Packages call it from init: what a program's
// main does, and that of a test, comes after.
func Serve(name string, read func(args []string, in io.Reader, out io.Writer) error) {
	if os.Args[0] != name {
		return
	}
	if err := bound(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitRead)
	}
	if err := read(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitRead)
	}
	os.Exit(0)
}

// bound limits this process.
func bound() error {
	for _, l := range []struct {
		what int
		most uint64
	}{{unix.RLIMIT_AS, maxMemory}, {unix.RLIMIT_CPU, maxCPU}, {unix.RLIMIT_CORE, 0}} {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limiting the reader: %w", err)
		}
	}
	return nil
}

// Read has the reader of a name read in, and decode what it writes. An error of the reader comes back as text.
func Read(ctx context.Context, name string, args []string, in []byte, decode func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Ends a reader whose output is not wanted any more.
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{name}, args...)
	cmd.Env = []string{"GOMAXPROCS=1", "GOMEMLIMIT=2GiB", "GOTRACEBACK=none"}
	cmd.Stdin = bytes.NewReader(in)
	said := &head{}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // A signal from the terminal is for this process.
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting the reader: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the reader: %w", err)
	}
	failed := decode(out)
	if failed != nil {
		cancel()
	}
	err = cmd.Wait()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ended && exit.ExitCode() == exitRead:
		return errors.New(strings.TrimSpace(said.String()))
	case ended && ctx.Err() == nil:
		return errLimit
	case failed != nil:
		return failed
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("waiting for the reader: %w", err)
	}
	return nil
}

// head keeps the beginning of what is written.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, maxMessage-h.Len()))])
	return len(p), nil
}
