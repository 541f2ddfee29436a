// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace/tracetest"
)

const (
	mapsNCCL   = "7f00-7f10 r-xp 00000000 fd:01 12   /opt/venv/nvidia/nccl/lib/libnccl.so.2\n"
	mapsPlugin = "7f20-7f30 r-xp 00000000 fd:01 13   /opt/culprit/libnccl-profiler-culprit.so\n"
)

// mapsTrace is the line of a mapped trace file, which the process sees at path.
func mapsTrace(t *testing.T, file, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("7f40-7f50 rw-s 00000000 %02x:%02x %d   %s\n", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, path)
}

func (r *rig) cover(want node.Coverage) {
	r.t.Helper()
	r.mustDo(r.sampler.CoverOnce())
	if got := r.sampler.Coverage(); got != want {
		r.t.Errorf("coverage is %+v, want %+v", got, want)
	}
}

// Processes with NCCL and no plugin, and with the plugin and no trace file, are counted.
func TestCoverage(t *testing.T) {
	r := newRig(t, nil)
	for pid, maps := range map[int]string{4000: mapsNCCL + mapsPlugin, 4001: mapsNCCL + mapsPlugin, 4002: mapsNCCL, 4003: "7f00-7f10 r-xp 00000000 fd:01 9   /usr/bin/sleep\n"} {
		r.procs.Put(proctest.Process{PID: pid, StartTicks: 50})
		r.procs.Write(fmt.Sprintf("%d/maps", pid), maps)
	}
	w := r.file(own()+"/a.trace", identity(0))
	r.procs.Write("4000/maps", mapsNCCL+mapsPlugin+mapsTrace(t, w.Path(), w.Path()))
	r.after(0)
	r.cover(node.Coverage{Watched: 1, Unseen: 1, Unwatched: 1})
	if n := strings.Count(r.logs.String(), "add --trace.dir"); n != 1 || !strings.Contains(r.logs.String(), "pid=4001") {
		t.Errorf("said %d times: %s", n, r.logs.String())
	}
}

// A job with a /dev/shm of its own, as of Slurm's job_container/tmpfs or a pod without the node's directory, is found by its mappings
// and followed to its end.
func TestPrivateMountNamespace(t *testing.T) {
	r := newRig(t, nil)
	inside := t.TempDir()
	path := filepath.Join("/dev/shm/culprit", own(), "a.trace")
	w, err := tracetest.Create(filepath.Join(inside, path), identity(0), tracetest.Size{})
	r.mustDo(err)
	t.Cleanup(func() { w.Close() })
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.mustDo(os.Symlink(inside, filepath.Join(r.procs.Root, "4000", "root")))
	r.mustDo(os.Symlink("mnt:[4026534000]", filepath.Join(r.procs.Root, "4000", "ns", "mnt")))
	r.procs.Write("4000/maps", mapsNCCL+mapsPlugin+mapsTrace(t, filepath.Join(inside, path), path))
	r.after(0)
	r.wantNames()
	r.cover(node.Coverage{Watched: 1})
	r.after(time.Second)
	r.wantNames("a.trace")
	if got := r.processes()[0]; got.JobID != "llm" || got.Kernel.HostPID != 4000 {
		t.Errorf("process is %+v", got)
	}
	// Nothing is followed twice, and a dead one is remembered as any other.
	r.cover(node.Coverage{Watched: 1})
	r.procs.Remove(4000)
	r.after(2 * time.Second)
	r.wantNames("a.trace")
	r.after(11 * time.Minute)
	r.wantNames()
	r.cover(node.Coverage{})
}

// A process cannot have another file read than the one that it has mapped, nor one outside of its mount namespace.
func TestPrivateMountNamespaceIsNotLeft(t *testing.T) {
	r := newRig(t, nil)
	inside, outside := t.TempDir(), t.TempDir()
	other := filepath.Join(outside, "a.trace")
	w, err := tracetest.Create(other, identity(0), tracetest.Size{})
	r.mustDo(err)
	t.Cleanup(func() { w.Close() })
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.mustDo(os.Symlink(inside, filepath.Join(r.procs.Root, "4000", "root")))
	r.mustDo(os.Symlink("mnt:[4026534000]", filepath.Join(r.procs.Root, "4000", "ns", "mnt")))
	r.mustDo(os.Symlink(outside, filepath.Join(inside, "away")))
	r.mustDo(os.WriteFile(filepath.Join(inside, "b.trace"), nil, 0o600))
	r.procs.Write("4000/maps", mapsPlugin+mapsTrace(t, other, "/away/a.trace")+mapsTrace(t, other, "/b.trace"))
	r.cover(node.Coverage{Unseen: 1})
	r.wantNames()
}

// A directory of trace files that does not exist is told of, once, and so is its coming.
func TestMissingDirectoryIsTold(t *testing.T) {
	r := newRig(t, nil)
	r.after(0)
	r.after(time.Second)
	if n := strings.Count(r.logs.String(), "Trace directory does not exist"); n != 1 || r.sampler.MissingDirs() != 1 {
		t.Errorf("said %d times, %d missing: %s", n, r.sampler.MissingDirs(), r.logs.String())
	}
	r.mustDo(os.MkdirAll(r.dir, 0o755))
	r.after(time.Second)
	if !strings.Contains(r.logs.String(), "Trace directory is there now") || r.sampler.MissingDirs() != 0 {
		t.Errorf("%d missing: %s", r.sampler.MissingDirs(), r.logs.String())
	}
}

// A trace file in our own mount namespace that lies in no directory of ours is another exporter's.
func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	r := newRig(t, nil)
	elsewhere := filepath.Join(t.TempDir(), "a.trace")
	w, err := tracetest.Create(elsewhere, identity(0), tracetest.Size{})
	r.mustDo(err)
	t.Cleanup(func() { w.Close() })
	ours, err := os.Readlink("/proc/self/ns/mnt")
	r.mustDo(err)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.mustDo(os.Symlink("/", filepath.Join(r.procs.Root, "4000", "root")))
	r.mustDo(os.Symlink(ours, filepath.Join(r.procs.Root, "4000", "ns", "mnt")))
	r.procs.Write("4000/maps", mapsPlugin+mapsTrace(t, elsewhere, elsewhere))
	r.cover(node.Coverage{Unseen: 1})
	r.wantNames()
}
