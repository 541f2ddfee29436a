// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// rig is a sampler on fake processes, real files and the test's clocks.
type rig struct {
	t       testing.TB
	dir     string
	procs   *proctest.FS
	sampler *node.Sampler
	now     time.Time
	clock   uint64
	logs    bytes.Buffer
}

func newRig(t testing.TB, change func(*node.Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "later"), procs: proctest.New(t), now: time.Unix(1_800_000_000, 0), clock: 1e15}
	o := node.Options{
		Dirs: []string{r.dir}, ProcFS: r.procs.Root, Logger: slog.New(slog.NewTextHandler(&r.logs, nil)),
		Clock: func() uint64 { return r.clock }, Now: func() time.Time { return r.now },
	}
	if change != nil {
		change(&o)
	}
	var err error
	if r.sampler, err = node.New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

func identity(rank int32) trace.Identity {
	return trace.Identity{
		PID: uint32(4000 + rank), PIDNamespace: proctest.InitNamespace, StartTicks: 50, Rank: rank, WorldSize: 8, LocalRank: rank,
		GPUIndex: rank, BootID: proctest.BootID, Hostname: "claimed", JobID: "llm",
	}
}

func (r *rig) file(name string, id trace.Identity) *tracetest.Writer {
	r.t.Helper()
	w, err := tracetest.Create(filepath.Join(r.dir, name), id, tracetest.Size{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { w.Close() })
	return w
}

func (r *rig) after(d time.Duration) {
	r.now = r.now.Add(d)
	r.clock += uint64(d)
	r.sampler.Sample()
}

func (r *rig) processes() []nodeapi.Process {
	_, seq := r.sampler.State(node.Query{})
	var list []nodeapi.Process
	for p := range seq {
		list = append(list, p)
	}
	return list
}

func (r *rig) only() nodeapi.Process {
	r.t.Helper()
	list := r.processes()
	if len(list) != 1 {
		r.t.Fatalf("%d processes, want 1", len(list))
	}
	return list[0]
}

func TestFilesComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	r.after(0)
	if n := len(r.processes()); n != 0 {
		t.Fatalf("%d processes without a directory", n)
	}
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.procs.Put(proctest.Process{PID: 4001, StartTicks: 50})
	r.file("a.trace", identity(0))
	r.file(".hidden.trace", identity(1))
	r.file("a.txt", identity(1))
	r.after(100 * time.Millisecond)
	if p := r.only(); p.File != "a.trace" || p.Kernel.State != nodeapi.ProcessRunning {
		t.Errorf("%+v", p)
	}
	r.file("b.trace", identity(1))
	r.after(100 * time.Millisecond)
	if n := len(r.processes()); n != 2 {
		t.Errorf("%d processes after a second file", n)
	}
	// A file that is removed under a living process is still read.
	if err := os.Remove(filepath.Join(r.dir, "b.trace")); err != nil {
		t.Fatal(err)
	}
	r.after(time.Second)
	if n := len(r.processes()); n != 2 {
		t.Errorf("%d processes after a file was removed", n)
	}
	r.procs.Remove(4001)
	r.after(time.Second)
	if live, dead, _ := r.sampler.Files(); live != 1 || dead != 1 {
		t.Errorf("%d live and %d dead files", live, dead)
	}
	r.after(time.Hour)
	if p := r.only(); p.File != "a.trace" {
		t.Errorf("left over: %s", p.File)
	}
}

func TestFileThatIsReplaced(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.file("a.trace", identity(0))
	r.after(0)
	r.file("b.trace", identity(5))
	r.procs.Put(proctest.Process{PID: 4005, StartTicks: 50})
	if err := os.Rename(filepath.Join(r.dir, "b.trace"), filepath.Join(r.dir, "a.trace")); err != nil {
		t.Fatal(err)
	}
	r.after(10 * time.Second)
	ranks := map[int32]bool{}
	for _, p := range r.processes() {
		ranks[p.Rank] = true
	}
	if !ranks[0] || !ranks[5] || len(ranks) != 2 {
		t.Errorf("ranks %v, want the old file's and the new one's", ranks)
	}
}

func TestFileNotReadyYet(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 1, StartTicks: 0})
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.dir, "a.trace")
	whole := tracetest.Valid()
	if err := os.WriteFile(path, make([]byte, len(whole)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.after(0)
	r.after(time.Second)
	if _, _, unreadable := r.sampler.Files(); unreadable != 0 || len(r.sampler.Unread()) != 0 {
		t.Errorf("a file that is being made counts as broken")
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	r.after(100 * time.Millisecond)
	if n := len(r.processes()); n != 1 {
		t.Errorf("%d processes once it is whole", n)
	}
}

func TestBrokenFilesCostOnlyThemselves(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.file("good.trace", identity(0))
	n := 0
	for name, b := range tracetest.Broken() {
		n++
		if err := os.WriteFile(filepath.Join(r.dir, strings.ReplaceAll(name, " ", "-")+".trace"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("good.trace", filepath.Join(r.dir, "link.trace")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(r.dir, "fifo.trace"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r.after(time.Second)
	}
	if p := r.only(); p.File != "good.trace" {
		t.Errorf("%s", p.File)
	}
	if _, _, unreadable := r.sampler.Files(); unreadable != n+2 {
		t.Errorf("%d unreadable files, want %d", unreadable, n+2)
	}
	errs := r.sampler.ReadErrors()
	if errs[trace.ReasonHostile] != 2 || errs[trace.ReasonHostile]+errs[trace.ReasonHeader]+errs[trace.ReasonLayout] != uint64(n+2) {
		t.Errorf("read errors %v, want each file once", errs)
	}
	if lines := strings.Count(r.logs.String(), "Skipping trace file"); lines != n+2 {
		t.Errorf("%d log lines for %d files", lines, n+2)
	}
	if got := len(r.sampler.Unread()); got != n+2 {
		t.Errorf("%d listed", got)
	}
}

func TestLyingFilesAreSurvived(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.file("good.trace", identity(0))
	for name, b := range tracetest.Lying() {
		if err := os.WriteFile(filepath.Join(r.dir, strings.ReplaceAll(name, " ", "-")+".trace"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		r.after(time.Second)
	}
	found := false
	for _, p := range r.processes() {
		found = found || p.File == "good.trace" && p.Kernel.State == nodeapi.ProcessRunning
	}
	if !found {
		t.Error("the good file is gone")
	}
}

func TestShrinkingFileIsGivenUp(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	r.procs.Put(proctest.Process{PID: 4001, StartTicks: 50})
	w := r.file("a.trace", identity(0))
	w.PutFlow(trace.Flow{Index: 1000})
	r.file("b.trace", identity(1))
	r.after(0)
	if err := os.Truncate(w.Path(), 4096); err != nil {
		t.Fatal(err)
	}
	r.after(100 * time.Millisecond)
	r.after(100 * time.Millisecond)
	if p := r.only(); p.File != "b.trace" {
		t.Errorf("%s is left", p.File)
	}
	if errs := r.sampler.ReadErrors(); errs[trace.ReasonIO] != 1 {
		t.Errorf("read errors %v", errs)
	}
}

func TestIdentity(t *testing.T) {
	world := trace.Comm{Index: 1, ID: 0xbeef, NRanks: 16, Rank: 9, CreatedNS: 5}
	pair := trace.Comm{Index: 0, ID: 0xcafe, NRanks: 2, Rank: 1, CreatedNS: 1}
	for _, tt := range []struct {
		name     string
		override string
		claim    trace.Identity
		comms    []trace.Comm
		want     [4]string
	}{
		{
			"claims", "node-1",
			trace.Identity{JobID: "j", SlurmJobID: "7", Rank: 3, GPUIndex: 2, Hostname: "h"},
			[]trace.Comm{world},
			[4]string{"j", "3", "node-1", "2"},
		},
		{
			"slurm and a host's name from outside", "node-1",
			trace.Identity{SlurmJobID: "7", Rank: 0, GPUIndex: 0, Hostname: "h"},
			nil,
			[4]string{"7", "0", "node-1", "0"},
		},
		{
			"only communicators", "node-1",
			trace.Identity{Rank: -1, GPUIndex: -1, Hostname: "h"},
			[]trace.Comm{pair, world},
			[4]string{"comm-beef", "9", "node-1", ""},
		},
		{"nothing", "node-1", trace.Identity{Rank: -1, GPUIndex: -1}, nil, [4]string{"unknown", "-1", "node-1", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *node.Options) { o.HostName = tt.override })
			tt.claim.PID, tt.claim.PIDNamespace, tt.claim.StartTicks = 4000, proctest.InitNamespace, 50
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			w := r.file("a.trace", tt.claim)
			for _, c := range tt.comms {
				w.PutComm(c)
			}
			r.after(0)
			p := r.only()
			if got := [4]string{p.JobID, fmt.Sprint(p.Rank), p.Host, p.GPU}; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestDerivedIdentityOutlivesItsCommunicator(t *testing.T) {
	r := newRig(t, nil)
	id := identity(0)
	id.JobID, id.Rank = "", -1
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	w := r.file("a.trace", id)
	w.PutComm(trace.Comm{Index: 0, ID: 0xbeef, NRanks: 16, Rank: 9})
	r.after(0)
	w.PutComm(trace.Comm{Index: 0, Generation: 2, ID: 0xcafe, NRanks: 2, Rank: 1})
	r.after(time.Second)
	if p := r.only(); p.JobID != "comm-beef" || p.Rank != 9 {
		t.Errorf("%s rank %d", p.JobID, p.Rank)
	}
}

func TestProcessStates(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *rig, w *tracetest.Writer)
		want   nodeapi.ProcessState
	}{
		{"running", func(*rig, *tracetest.Writer) {}, nodeapi.ProcessRunning},
		{"sleeping", func(r *rig, _ *tracetest.Writer) {
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, State: "S"})
		}, nodeapi.ProcessSleep},
		{"stopped", func(r *rig, _ *tracetest.Writer) {
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, State: "T"})
		}, nodeapi.ProcessStopped},
		{"traced", func(r *rig, _ *tracetest.Writer) {
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, State: "t"})
		}, nodeapi.ProcessStopped},
		{"in storage", func(r *rig, _ *tracetest.Writer) {
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, State: "D"})
		}, nodeapi.ProcessDisk},
		{"zombie", func(r *rig, _ *tracetest.Writer) {
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, State: "Z"})
		}, nodeapi.ProcessZombie},
		{"gone", func(r *rig, _ *tracetest.Writer) { r.procs.Remove(4000) }, nodeapi.ProcessGone},
		{"gone, and its number used again", func(r *rig, _ *tracetest.Writer) {
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 51})
		}, nodeapi.ProcessGone},
		{"exited", func(r *rig, w *tracetest.Writer) {
			w.SetStatus(trace.Status{ClosedNS: 1})
			r.procs.Remove(4000)
		}, nodeapi.ProcessExited},
		{"closed and living on", func(_ *rig, w *tracetest.Writer) {
			w.SetStatus(trace.Status{ClosedNS: 1})
		}, nodeapi.ProcessRunning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			w := r.file("a.trace", identity(0))
			r.after(0)
			tt.change(r, w)
			r.after(time.Second)
			if p := r.only(); p.Kernel.State != tt.want {
				t.Errorf("state %q, want %q", p.Kernel.State, tt.want)
			}
		})
	}
}

func TestClaimsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*trace.Identity)
		want   nodeapi.ProcessState
	}{
		{"of an earlier boot", func(id *trace.Identity) { id.BootID = "another" }, nodeapi.ProcessGone},
		{"wrong start time", func(id *trace.Identity) { id.StartTicks = 49 }, nodeapi.ProcessGone},
		{"no such process", func(id *trace.Identity) { id.PID = 99 }, nodeapi.ProcessGone},
		{"no process at all", func(id *trace.Identity) { id.PID = 0 }, nodeapi.ProcessUnknown},
		{"namespace unknown", func(id *trace.Identity) { id.PIDNamespace, id.StartTicks = 0, 49 }, nodeapi.ProcessUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			id := identity(0)
			id.CreatedNS = r.clock - 1e9
			tt.change(&id)
			r.file("a.trace", id)
			r.after(0)
			if p := r.only(); p.Kernel.State != tt.want || p.Kernel.Verified {
				t.Errorf("%+v, want %q, not verified", p.Kernel, tt.want)
			}
		})
	}
}

func TestLongDeadFilesAreIgnored(t *testing.T) {
	r := newRig(t, nil)
	id := identity(0)
	id.CreatedNS = r.clock - uint64(time.Hour)
	w := r.file("a.trace", id)
	r.after(0)
	if n := len(r.processes()); n != 0 {
		t.Errorf("%d processes", n)
	}
	w.SetStatus(trace.Status{HeartbeatNS: r.clock - uint64(time.Minute)})
	other := newRig(t, func(o *node.Options) { o.Dirs, o.ProcFS = []string{r.dir}, r.procs.Root })
	other.after(0)
	// It may have stood still for a minute before it was killed.
	if p := other.only(); p.Kernel.State != nodeapi.ProcessGone || p.Kernel.GoneForSeconds != 0 {
		t.Errorf("%+v", p.Kernel)
	}
}

// TestUnseenWriterIsJudgedByItsLock has a writer in a PID namespace that cannot be seen.
func TestUnseenWriterIsJudgedByItsLock(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 1, Namespace: 999})
	inner := newRig(t, func(o *node.Options) { o.ProcFS = r.procs.Root })
	id := identity(0)
	id.PIDNamespace = 111
	w := inner.file("a.trace", id)
	lock, err := os.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	inner.after(0)
	inner.after(time.Second)
	if p := inner.only(); p.Kernel.State != nodeapi.ProcessUnknown {
		t.Errorf("while it lives: %q", p.Kernel.State)
	}
	lock.Close()
	inner.after(time.Second)
	if p := inner.only(); p.Kernel.State != nodeapi.ProcessGone {
		t.Errorf("after its end: %q", p.Kernel.State)
	}
}

func TestKernelUsage(t *testing.T) {
	r := newRig(t, nil)
	const ns = 111
	put := func(cpu, read, delay uint64) {
		r.procs.Put(proctest.Process{
			PID: 5000, InnerPID: 7, Namespace: ns, StartTicks: 50, State: "D", CPUTicks: cpu, ReadBytes: read, Cgroup: "0::/job\n",
			Threads: []proctest.Thread{
				{TID: 5001, InnerTID: 8, State: "S", CPUTicks: cpu, RunDelayNS: delay, Wchan: "ep_poll"},
				{TID: 5002, InnerTID: 9, State: "R"},
			},
		})
	}
	put(100, 1000, 0)
	id := identity(0)
	id.PID, id.PIDNamespace = 7, ns
	w := r.file("a.trace", id)
	w.PutComm(trace.Comm{Index: 0, ProxyTID: 8, UserTID: 7})
	w.PutComm(trace.Comm{Index: 1, ProxyTID: 77, UserTID: 7})
	r.after(0)
	r.after(time.Second)
	put(300, 5000, 500_000_000)
	r.after(2 * time.Second)
	k := r.only().Kernel
	if k.HostPID != 5000 || !k.Verified || k.CPUCores != 1 || k.ReadBytesPerSec != 4000.0/3 || k.CgroupPath != "/job" {
		t.Errorf("kernel %+v", k)
	}
	if len(k.Threads) != 2 {
		t.Fatalf("threads %+v", k.Threads)
	}
	user, proxy := k.Threads[0], k.Threads[1]
	if user.TID != 5000 || user.Role != "user" || proxy.TID != 5001 || proxy.Role != "proxy" {
		t.Errorf("threads %+v", k.Threads)
	}
	if proxy.CPUCores != 1 || proxy.RunDelayFrac != 0.25 || proxy.Wchan != "ep_poll" {
		t.Errorf("proxy thread %+v", proxy)
	}
}

// TestBytesMoveInBursts: a process that writes a checkpoint rests in fsync between bursts, and is seen to write all the while. One
// that a file system holds up is seen to write nothing within the window.
func TestBytesMoveInBursts(t *testing.T) {
	r := newRig(t, nil)
	const ns, burst = 111, 40 << 20
	put := func(written uint64) {
		r.procs.Put(proctest.Process{PID: 5000, InnerPID: 7, Namespace: ns, StartTicks: 50, State: "D", WriteBytes: written})
	}
	put(0)
	id := identity(0)
	id.PID, id.PIDNamespace = 7, ns
	r.file("a.trace", id)
	r.after(0)
	for second := range 20 {
		put(uint64(second/5) * burst)
		r.after(time.Second)
		if k := r.only().Kernel; second >= 5 && k.WriteBytesPerSec < burst/15 {
			t.Errorf("second %d: %g bytes per second", second, k.WriteBytesPerSec)
		}
	}
	for range 11 {
		r.after(time.Second)
	}
	if k := r.only().Kernel; k.WriteBytesPerSec != 0 {
		t.Errorf("held up: %g bytes per second", k.WriteBytesPerSec)
	}
}

// panicking is a history that cannot bear one of the files.
type panicking struct{ file string }

func (h panicking) Completions(p *node.Process, _ []trace.Completion, _ uint64) {
	if p.File() == h.file {
		panic("cannot bear it")
	}
}
func (panicking) Lifecycle(*node.Process, []trace.LifecycleEvent, uint64) {}
func (panicking) Sampled(*node.Process, uint64)                           {}
func (panicking) Forgotten(*node.Process)                                 {}

func TestPanicCostsOneFile(t *testing.T) {
	r := newRig(t, func(o *node.Options) { o.History = panicking{"a.trace"} })
	for rank, name := range []string{"a.trace", "b.trace"} {
		r.procs.Put(proctest.Process{PID: 4000 + rank, StartTicks: 50})
		r.file(name, identity(int32(rank))).Complete(trace.Completion{})
	}
	for range 3 {
		r.after(100 * time.Millisecond)
	}
	if p := r.only(); p.File != "b.trace" || len(r.sampler.Unread()) != 1 {
		t.Errorf("%s is left, unread %v", p.File, r.sampler.Unread())
	}
	if !strings.Contains(r.logs.String(), "panicked") {
		t.Error("it is not in the log")
	}
}

func TestStall(t *testing.T) {
	const second = uint64(time.Second)
	at := func(r *rig, ago uint64) uint64 { return r.clock - ago*second }
	for _, tt := range []struct {
		name string
		put  func(r *rig, w *tracetest.Writer)
		want time.Duration
	}{
		{"nothing in flight", func(r *rig, w *tracetest.Writer) { w.PutComm(trace.Comm{LastProgressNS: at(r, 50)}) }, 0},
		{"called and not enqueued", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpCalled, CommGeneration: 1, CalledNS: at(r, 9)})
		}, 9 * time.Second},
		{"enqueued after it was called", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpEnqueued, CommGeneration: 1, CalledNS: at(r, 9), EnqueuedNS: at(r, 4)})
		}, 4 * time.Second},
		{"later calls are no progress", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpMoving, CommGeneration: 1, Number: 1, CalledNS: at(r, 9)})
			w.PutOp(trace.Op{Index: 1, State: trace.OpCalled, CommGeneration: 1, Number: 2, CalledNS: at(r, 1)})
		}, 9 * time.Second},
		{"a flow moved", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpMoving, CommGeneration: 1, CalledNS: at(r, 9)})
			w.PutFlow(trace.Flow{CommGeneration: 1, LastProgressNS: at(r, 2)})
			w.PutFlow(trace.Flow{Index: 1, CommIndex: 3, CommGeneration: 1, LastProgressNS: at(r, 1)})
		}, 2 * time.Second},
		{"an earlier operation completed", func(r *rig, w *tracetest.Writer) {
			w.PutComm(trace.Comm{LastCompletedNS: at(r, 3)})
			w.PutOp(trace.Op{State: trace.OpMoving, CommGeneration: 1, CalledNS: at(r, 9)})
		}, 3 * time.Second},
		{"completion cannot be seen", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpEnqueued, Flags: trace.OpNoCompletion, CommGeneration: 1, CalledNS: at(r, 9)})
		}, 0},
		{"already left", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpLeft, CommGeneration: 1, CalledNS: at(r, 9)})
		}, 0},
		{"communicator has ended", func(r *rig, w *tracetest.Writer) {
			w.PutComm(trace.Comm{Ended: true})
			w.PutOp(trace.Op{State: trace.OpMoving, CommGeneration: 1, CalledNS: at(r, 9)})
		}, 0},
		{"stamp from the future", func(r *rig, w *tracetest.Writer) {
			w.PutOp(trace.Op{State: trace.OpMoving, CommGeneration: 1, CalledNS: r.clock + 5*second})
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			w := r.file("a.trace", identity(0))
			w.PutComm(trace.Comm{})
			tt.put(r, w)
			r.after(0)
			var got time.Duration
			r.sampler.All(func(now uint64, list []*node.Process) {
				for _, s := range list[0].Stalls(now) {
					got = max(got, s.For)
				}
			})
			if got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestIterationsAreCounted(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
	w := r.file("a.trace", identity(0))
	for n := range uint64(100) {
		w.Complete(trace.Completion{Number: n, Func: trace.AllReduce, Bytes: 1 << 20, LeftNS: n * 100_000_000})
		if n%10 == 0 {
			r.after(time.Second)
		}
	}
	r.after(time.Second)
	r.sampler.All(func(_ uint64, list []*node.Process) {
		p := list[0]
		if count := sampleCount(t, p.Iterations); count < 80 || count > 100 {
			t.Errorf("%d iterations of 100", count)
		}
	})
}

func TestNewFailsWithoutProcfs(t *testing.T) {
	_, err := node.New(node.Options{ProcFS: t.TempDir(), Logger: promslog.NewNopLogger()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestRun samples for real, against the kernel's procfs, while others read. It is for the race detector too.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	s, err := node.New(node.Options{Dirs: []string{dir}, Interval: time.Millisecond, Logger: promslog.NewNopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	procs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	st, err := procs.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	w, err := tracetest.Create(filepath.Join(dir, "self.trace"), trace.Identity{
		PID: uint32(os.Getpid()), PIDNamespace: procs.Namespace(), StartTicks: st.StartTicks, Rank: 2, BootID: procs.BootID(), JobID: "me",
	}, tracetest.Size{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	w.PutComm(trace.Comm{})
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	deadline := time.Now().Add(time.Minute)
	for n := uint64(0); ; n++ {
		w.PutFlow(trace.Flow{Index: uint32(n % 8), TotalDone: n})
		w.Complete(trace.Completion{CommGeneration: 1, Number: n})
		var found bool
		_, seq := s.State(node.Query{JobIDs: []string{"me"}})
		for p := range seq {
			alive := p.Kernel.State == nodeapi.ProcessRunning || p.Kernel.State == nodeapi.ProcessSleep
			found = alive && p.Kernel.Verified && len(p.Completions) == 8
		}
		if found {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the process is not found")
		}
	}
}
