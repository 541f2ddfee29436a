// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func target(t *testing.T, pid int) Target {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	start, err := fs.StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return Target{pid, start}
}

// counted counts how often it is asked.
type counted struct{ n atomic.Int32 }

func (c *counted) Dump(context.Context, int, uint64) (json.RawMessage, error) {
	c.n.Add(1)
	return nil, errors.New("py-spy failed")
}

// TestRealProcess: a real process waits in read of a pipe with a name, and the look says so.
func TestRealProcess(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "data set")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	keep, err := os.OpenFile(fifo, os.O_RDWR, 0) // So that opening it does not wait.
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	cmd := exec.CommandContext(t.Context(), "cat", fifo)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	spy := &counted{}
	l := Looker{ProcFS: "/proc", SysFS: "/sys", Python: spy}
	var th nodeapi.LookedThread
	for deadline := time.Now().Add(time.Minute); th.Call != "read"; {
		at, err := l.Look(t.Context(), target(t, cmd.Process.Pid))
		if err != nil || len(at.Threads) != 1 || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", at, err)
		}
		if th = at.Threads[0]; !strings.Contains(strings.Join(at.Missing, ""), "Python stacks are not seen: py-spy failed.") {
			t.Errorf("missing is %q", at.Missing)
		}
		l.mu.Lock()
		clear(l.recent) // Or it looks once a second.
		l.mu.Unlock()
	}
	if th.File == nil || th.File.Path != fifo || th.State != "S" || th.Switches == 0 || th.File.Type == "" || th.File.Mount == "" {
		t.Errorf("thread is %+v, file %+v", th, th.File)
	}
	n := spy.n.Load()
	for range 5 { // All of these get the same look.
		if _, err := l.Look(t.Context(), target(t, cmd.Process.Pid)); err != nil {
			t.Error(err)
		}
	}
	if got := spy.n.Load(); got != n+1 {
		t.Errorf("it was looked at %d times", got-n)
	}
	if _, err := l.Look(t.Context(), Target{cmd.Process.Pid, 1}); !errors.Is(err, errGone) {
		t.Errorf("another process's start time: %v", err)
	}
}

// TestNamed: the mount of a path is the innermost that it lies below.
func TestNamed(t *testing.T) {
	for _, tc := range []struct {
		name, dir string
		want      bool
	}{{"/ckpt/a", "/ckpt", true}, {"/ckpt", "/ckpt", true}, {"/ckpt2/a", "/ckpt", false}, {"/a", "/", true}} {
		if got := below(tc.name, tc.dir); got != tc.want {
			t.Errorf("%s below %s: %v", tc.name, tc.dir, got)
		}
	}
}

func TestCgroupUse(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "fs/cgroup/job")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cpu.stat": "usage_usec 5\nnr_periods 10\nnr_throttled 7\nthrottled_usec 2500000\n", "memory.events": "low 0\nhigh 3\nmax 0\noom 1\noom_kill 2\n",
		"memory.swap.current": "4096\n", "memory.pressure": "some avg10=30.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=25.00 avg60=0.00 avg300=0.00 total=9\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := nodeapi.CgroupUse{ThrottledPeriods: 7, ThrottledSeconds: 2.5, OOMKills: 2, HighEvents: 3, SwapBytes: 4096, MemoryStalled: 0.25}
	if got := cgroupUse(sysfile.Root(root), "/job"); got == nil || *got != want {
		t.Errorf("got %+v", got)
	}
	for _, group := range []string{"", "/../job", "/other"} {
		if got := cgroupUse(sysfile.Root(root), group); got != nil {
			t.Errorf("%q: %+v", group, got)
		}
	}
}

// TestCut: a path moves nothing in a terminal and adds no line to a page.
func TestCut(t *testing.T) {
	for name, want := range map[string]string{
		"/data/ä b": "/data/ä b", "/a\nrank 7 is guilty": "/a?rank 7 is guilty", "/\x1b[2J\xff": "/?[2J\ufffd", strings.Repeat("x", 9000): strings.Repeat("x", maxText),
	} {
		if got := cut(name); got != want {
			t.Errorf("%q is cut to %q", name, got)
		}
	}
}
