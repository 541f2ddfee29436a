// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package look takes a close look at a process when somebody asks: what each thread waits for, which file and mount that is, what its
// cgroup keeps from it, and where its Python stands. It asks the kernel only, never a file or its server, which may not answer.
package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Bounds of one look.
const (
	maxThreads  = 512 // That are looked at.
	maxShown    = 16  // That the answer has.
	maxChildren = 64
	maxKernel   = 24 // Functions of a thread's kernel stack.
	maxText     = 512
)

// Python takes the stacks of a process's Python threads, as py-spy dump --json prints them.
type Python interface {
	Dump(ctx context.Context, pid int, startTicks uint64) (json.RawMessage, error)
}

// Looker looks at processes.
type Looker struct {
	ProcFS string
	SysFS  sysfile.Root
	Python Python // Nil: no Python stacks are taken.

	mu     sync.Mutex
	recent map[Target]*answer
}

// Target is the process to look at.
type Target struct {
	PID        int
	StartTicks uint64 // It is another process when these differ.
}

// answer is a look that is under way, or has just ended: whoever asks for the same gets the same.
type answer struct {
	done chan struct{}
	at   nodeapi.LookedAt
	err  error
}

const (
	// timeout is how long one look may take.
	timeout = 4 * time.Second
	// kept is how long a look serves: no process is looked at more often.
	kept = time.Second
)

var (
	errGone  = errors.New("the process has ended")
	errWaits = errors.New("the kernel did not answer in time: a thread of the process holds its memory map, as it does while it maps a file of a server that does not answer")
)

// Look looks at one process. What cannot be seen is told in the answer. It returns when time is up, whatever the kernel does.
func (l *Looker) Look(ctx context.Context, t Target) (nodeapi.LookedAt, error) {
	l.mu.Lock()
	a := l.recent[t]
	if a == nil {
		if l.recent == nil {
			l.recent = map[Target]*answer{}
		}
		a = &answer{done: make(chan struct{})}
		l.recent[t] = a
		go l.run(context.WithoutCancel(ctx), t, a)
	}
	l.mu.Unlock()
	select {
	case <-a.done:
		return a.at, a.err
	case <-time.After(timeout + kept): // Its own limits come first.
		return nodeapi.LookedAt{}, errWaits
	case <-ctx.Done():
		return nodeapi.LookedAt{}, ctx.Err()
	}
}

func (l *Looker) run(ctx context.Context, t Target, a *answer) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a.at, a.err = l.look(ctx, t)
	close(a.done)
	time.AfterFunc(kept, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.recent, t)
	})
}

// view is one look under way.
type view struct {
	fs     *proc.FS
	at     *nodeapi.LookedAt
	mounts map[int]proc.Mount
	denied map[string]bool // What the kernel refused.
}

func (l *Looker) look(ctx context.Context, t Target) (nodeapi.LookedAt, error) {
	fs, err := proc.Open(l.ProcFS)
	if err != nil {
		return nodeapi.LookedAt{}, err
	}
	if !same(fs, t) {
		return nodeapi.LookedAt{}, errGone
	}
	at := nodeapi.LookedAt{PID: t.PID, AtNS: monotonic()}
	v := view{fs: fs, at: &at, denied: map[string]bool{}}
	v.usage()
	v.threads()
	at.Cgroup = cgroupUse(l.SysFS, fs.Cgroup(t.PID).Path)
	if at.Cgroup == nil {
		v.missing("Limits of its cgroup are not seen: only cgroup v2 below the exporter's own is read.")
	}
	v.refusals()
	if l.Python == nil {
		v.missing("Python stacks are not taken: no py-spy was found (--look.py-spy).")
	} else if at.Python, err = l.Python.Dump(ctx, t.PID, t.StartTicks); err != nil {
		v.missing("Python stacks are not seen: " + err.Error() + ".")
	}
	if !same(fs, t) {
		return nodeapi.LookedAt{}, errGone
	}
	return at, nil
}

func same(fs *proc.FS, t Target) bool {
	start, err := fs.StartTime(t.PID)
	return err == nil && start == t.StartTicks
}

func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano())
}

func (v *view) missing(text string) { v.at.Missing = append(v.at.Missing, text) }

// note remembers what the kernel refused.
func (v *view) note(what string, err error) {
	if errors.Is(err, os.ErrPermission) {
		v.denied[what] = true
	}
}

// refusals tells of what was refused, and of what it takes.
func (v *view) refusals() {
	if v.denied["debugger"] {
		v.missing("System calls and files are not seen: the exporter lacks CAP_SYS_PTRACE.")
	}
	if v.denied["stack"] {
		v.missing("Kernel stacks are not seen: the exporter lacks CAP_SYS_ADMIN.")
	}
}

// usage reads what the process as a whole has done.
func (v *view) usage() {
	pid := v.at.PID
	if u, err := v.fs.Usage(pid, pid); err == nil {
		v.at.SwappedBytes = u.SwapBytes
		if v.at.TracerPID = u.Tracer; u.Tracer != 0 {
			v.at.Tracer = cut(v.fs.Command(u.Tracer))
		}
	}
	io, err := v.fs.IO(pid)
	v.note("debugger", err)
	v.at.ReadBytes, v.at.WrittenBytes, v.at.StorageReadBytes, v.at.StorageWrittenBytes = io.Read, io.Written, io.ReadBytes, io.WriteBytes
}

// threads looks at the threads of the process, and at the processes that it started: a loader's workers wait in its place.
func (v *view) threads() {
	pid := v.at.PID
	tids, _ := v.fs.Threads(pid) // It has just been there.
	v.at.ThreadCount = len(tids)
	for i, tid := range tids[:min(len(tids), maxThreads)] {
		if th, ok := v.thread(pid, tid); ok && (i == 0 || held(&th)) {
			v.show(th)
		}
	}
	children := v.fs.Children(pid)
	for _, child := range children[:min(len(children), maxChildren)] {
		if th, ok := v.thread(child, child); ok && held(&th) {
			v.show(th)
		}
	}
}

// held reports whether a thread waits for something that a thread does not wait for by itself: storage, or leave to go on.
func held(th *nodeapi.LookedThread) bool {
	return th.State == "D" || th.State == "T" || th.State == "t" || th.File != nil && th.File.Mount != "" && th.State == "S"
}

func (v *view) show(th nodeapi.LookedThread) {
	if len(v.at.Threads) < maxShown {
		v.at.Threads = append(v.at.Threads, th)
	}
}

func (v *view) thread(pid, tid int) (nodeapi.LookedThread, bool) {
	st, err := v.fs.ThreadStat(pid, tid)
	if err != nil {
		return nodeapi.LookedThread{}, false
	}
	th := nodeapi.LookedThread{PID: pid, TID: tid, State: string(st.State), CPUSeconds: st.CPUSeconds}
	if u, err := v.fs.Usage(pid, tid); err == nil {
		th.Switches = u.Switches
	}
	if st.State == 'R' || st.State == 'Z' {
		return th, true
	}
	th.Wchan = v.fs.Wchan(pid, tid)
	if s, err := v.fs.Syscall(pid, tid); err == nil {
		v.about(&th, s)
	} else {
		v.note("debugger", err)
	}
	if tid == v.at.PID || held(&th) {
		stack, err := v.fs.KernelStack(pid, tid)
		v.note("stack", err)
		th.Kernel = stack[:min(len(stack), maxKernel)]
	}
	return th, true
}

// about says which call it is, and which file it is about.
func (v *view) about(th *nodeapi.LookedThread, s proc.Syscall) {
	c, known := callOf(s.Number)
	if !known {
		th.Call = "system call " + strconv.Itoa(s.Number)
		return
	}
	th.Call = c.name
	switch {
	case c.path >= 0:
		th.File = v.named(th.PID, c, s)
	case c.fd >= 0 && int32(s.Args[c.fd]) >= 0:
		f, err := v.fs.OpenFile(th.PID, int(int32(s.Args[c.fd])))
		v.note("debugger", err)
		if err != nil {
			return
		}
		file := nodeapi.LookedFile{Path: cut(f.Path), Position: f.Position}
		if m, ok := v.mountsOf(th.PID)[f.MountID]; ok {
			file.Mount, file.Type, file.Source = cut(m.Point), cut(m.Type), cut(m.Source)
		}
		th.File = &file
	}
}

// named is the file of a call that takes a path.
func (v *view) named(pid int, c call, s proc.Syscall) *nodeapi.LookedFile {
	name := v.fs.PathAt(pid, s.Args[c.path])
	if name == "" {
		return nil
	}
	if !path.IsAbs(name) {
		dir := v.fs.LinkOf(pid, "cwd")
		if c.fd >= 0 && int32(s.Args[c.fd]) >= 0 { // Below zero it is AT_FDCWD.
			dir = v.fs.LinkOf(pid, fmt.Sprintf("fd/%d", int32(s.Args[c.fd])))
		}
		name = path.Join(dir, name)
	}
	name = path.Clean(name)
	file := nodeapi.LookedFile{Path: cut(name)}
	var best proc.Mount
	for _, m := range v.mountsOf(pid) { // Of two at one place the later one hides the other.
		if below(name, m.Point) && (len(m.Point) > len(best.Point) || len(m.Point) == len(best.Point) && m.ID > best.ID) {
			best = m
		}
	}
	file.Mount, file.Type, file.Source = cut(best.Point), cut(best.Type), cut(best.Source)
	return &file
}

func below(name, dir string) bool {
	return dir == "/" || name == dir || len(name) > len(dir) && name[:len(dir)] == dir && name[len(dir)] == '/'
}

// mountsOf reads the mounts once: the processes that a process starts share them as a rule, and have the same numbers where not.
func (v *view) mountsOf(pid int) map[int]proc.Mount {
	if v.mounts == nil {
		m, err := v.fs.Mounts(pid)
		v.note("debugger", err)
		if v.mounts = m; m == nil {
			v.mounts = map[int]proc.Mount{}
		}
	}
	return v.mounts
}

// cut bounds a text that a process chose, and makes it fit to be printed on a line.
func cut(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), maxText)])
}

// cgroupUse reads what a cgroup of version 2 tells; nil where there is none.
func cgroupUse(sys sysfile.Root, group string) *nodeapi.CgroupUse {
	if group == "" || strings.Contains(group, "..") {
		return nil
	}
	at := func(name string) []string { return []string{"fs/cgroup", group, name} }
	cpu, err := sys.Fields(at("cpu.stat")...)
	if err != nil {
		return nil
	}
	number := func(m map[string]string, key string) uint64 {
		n, _ := strconv.ParseUint(m[key], 10, 64) // Absent where the controller is off.
		return n
	}
	events, _ := sys.Fields(at("memory.events")...)
	swap, _ := sys.Uint(at("memory.swap.current")...)
	share := func(resource, line string) float64 {
		p, _ := sys.Pressure(at(resource + ".pressure")...)
		return p[line].Share
	}
	return &nodeapi.CgroupUse{
		ThrottledPeriods: number(cpu, "nr_throttled"), ThrottledSeconds: float64(number(cpu, "throttled_usec")) / 1e6,
		OOMKills: number(events, "oom_kill"), HighEvents: number(events, "high"), SwapBytes: swap,
		MemoryStalled: share("memory", "full"), IOStalled: share("io", "full"), CPUWaiting: share("cpu", "some"),
	}
}
