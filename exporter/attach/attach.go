// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package attach looks at a running job that nobody prepared, and says which of its ranks on this node the others wait for.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/uprobe"
	"github.com/culprit-project/culprit/trace"
)

// Options say which job, and how it is looked at. One of PID and Job is needed.
type Options struct {
	PID      int
	Job      string
	For      time.Duration // How long.
	Output   string        // Folder for trace files; empty: none are kept.
	ProcFS   string
	HostName string // Empty: the system's.
	Logger   *slog.Logger
}

// readPeriod is how often records are read.
const readPeriod = 50 * time.Millisecond

var (
	errWhich  = errors.New("one of --pid and --job is needed")
	errNobody = errors.New("no process of that job uses NCCL without the shim; culprit-exporter doctor lists the processes that use NCCL")
)

// alone keeps the trace files to itself.
type alone struct{}

func (alone) Adopt(string, *os.File) error { return nil }
func (alone) Abandon(string)               {}
func (alone) Reports(int) bool             { return false }

// warnings keeps from the log what only says that all goes well: the answer is what was asked for.
type warnings struct{ slog.Handler }

func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Run looks at the job and prints what it finds. It tells whether a rank was named.
func Run(ctx context.Context, out io.Writer, o Options) (named bool, err error) {
	if (o.PID == 0) == (o.Job == "") {
		return false, errWhich
	}
	if o.PID != 0 {
		if _, err := os.Stat(filepath.Join(o.ProcFS, strconv.Itoa(o.PID))); err != nil {
			return false, fmt.Errorf("--pid %d is no process that this one sees: %w", o.PID, err)
		}
	}
	if o.HostName == "" {
		if o.HostName, err = os.Hostname(); err != nil {
			return false, fmt.Errorf("finding the host's name: %w", err)
		}
	}
	f, err := uprobe.New(uprobe.Options{
		ProcFS: o.ProcFS, HostName: o.HostName, Logger: slog.New(warnings{o.Logger.Handler()}), To: alone{}, Wanted: o.wanted(), Clock: node.Monotonic,
	})
	if errors.Is(err, os.ErrPermission) {
		return false, fmt.Errorf("probes need root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE: %w", err)
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	f.Search()
	before := f.Ranks()
	if len(before) == 0 {
		return false, errNobody
	}
	if err := follow(ctx, f, o.For); err != nil {
		return false, err
	}
	v := judge(before, f.Ranks())
	v.print(out, o.For)
	if o.Output != "" {
		if err := f.WriteFiles(o.Output); err != nil {
			return false, err
		}
		fmt.Fprintf(out, "Trace files are in %s. Collect those of all nodes in one folder, then: culprit-analyzer analyze FOLDER\n", o.Output)
	}
	return len(v.named) > 0, nil
}

func follow(ctx context.Context, f *uprobe.Follower, span time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	ticker := time.NewTicker(readPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.Read()
		case <-ticker.C:
			if err := f.Read(); err != nil {
				return err
			}
		}
	}
}

// wanted selects the processes of the job. Where a process was named whose environment names no job, its siblings are taken: what the
// same launcher started.
func (o Options) wanted() func(int, *trace.Identity) bool {
	if o.Job != "" {
		return func(_ int, id *trace.Identity) bool { return id.JobID == o.Job }
	}
	jobOf := uprobe.JobOf(o.ProcFS, o.HostName, o.PID)
	launcher := uprobe.Parent(o.ProcFS, o.PID)
	return func(pid int, id *trace.Identity) bool {
		switch {
		case pid == o.PID:
			return true
		case jobOf != "":
			return id.JobID == jobOf
		}
		return launcher > 1 && uprobe.Parent(o.ProcFS, pid) == launcher
	}
}
