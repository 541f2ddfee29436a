// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package uprobe follows processes that use NCCL and have no shim, by probes that the kernel puts on NCCL's functions. It writes
// for each the trace file that the preload hooks would write, so that everything behind it is the same.
package uprobe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/trace"
)

const (
	// searchPeriod is how often processes are looked for. A job makes its first communicator seconds after it has loaded NCCL.
	searchPeriod = time.Second
	// readPeriod is how often records are read.
	readPeriod = 20 * time.Millisecond
	// maxLook is how long it takes at most until a process that does not use NCCL is looked at again; the time doubles.
	maxLook = time.Minute
	// maxProcesses bounds how many processes are followed.
	maxProcesses = 64
)

// Followed receives the trace files.
type Followed interface {
	// Adopt follows the trace file of a process, which this exporter writes itself. It keeps a descriptor of its own.
	Adopt(name string, file *os.File) error
	// Abandon forgets it.
	Abandon(name string)
	// Reports tells whether the process writes a trace file itself.
	Reports(pid int) bool
}

// Options configure a Follower.
type Options struct {
	ProcFS   string
	HostName string
	Logger   *slog.Logger
	To       Followed
	// Wanted tells which processes are followed; nil: all.
	Wanted func(pid int, id *trace.Identity) bool
	Clock  func() uint64 // CLOCK_MONOTONIC, nanoseconds.
}

// Follower follows the processes of a node. It is not safe for concurrent use.
type Follower struct {
	opts      Options
	procs     *proc.FS
	probes    *probes
	processes map[uint32]*followed
	looks     map[int]*look
	libraries map[fileKey]*library
}

// followed is a process with probes.
type followed struct {
	*process
	*attached
	name   string
	start  uint64
	memory *memory
	lib    *library
	mapped []mapping
}

// look is what was seen of a process that is not followed.
type look struct {
	start uint64
	next  time.Time
	wait  time.Duration
	last  string // What was said of it.
}

// fileKey tells a file from others, whatever its path.
type fileKey struct{ dev, ino uint64 }

// New loads the probes. It fails where the kernel does not have what they need, or does not let the caller.
func New(o Options) (*Follower, error) {
	procs, err := proc.Open(o.ProcFS)
	if err != nil {
		return nil, fmt.Errorf("opening procfs at %s: %w", o.ProcFS, err)
	}
	p, err := loadProbes()
	if err != nil {
		return nil, err
	}
	return &Follower{
		opts: o, procs: procs, probes: p, processes: map[uint32]*followed{}, looks: map[int]*look{}, libraries: map[fileKey]*library{},
	}, nil
}

// Run follows until ctx ends, then takes the probes away.
func (f *Follower) Run(ctx context.Context) {
	read, search := time.NewTicker(readPeriod), time.NewTicker(searchPeriod)
	defer read.Stop()
	defer search.Stop()
	f.Search()
	for {
		select {
		case <-ctx.Done():
			if err := f.Close(); err != nil {
				f.opts.Logger.Warn("Taking probes away", "err", err)
			}
			return
		case <-search.C:
			f.Search()
		case <-read.C:
			if err := f.Read(); err != nil {
				f.opts.Logger.Warn("Reading what the probes record", "err", err)
			}
		}
	}
}

// Close takes the probes away.
func (f *Follower) Close() error {
	var errs []error
	for pid := range f.processes {
		errs = append(errs, f.leave(pid))
	}
	return errors.Join(append(errs, f.probes.close())...)
}

// Read takes in what the probes have recorded since.
func (f *Follower) Read() error {
	err := f.probes.read(func(h *head, e *enter) {
		if p := f.processes[h.PID]; p != nil {
			p.see(h, e)
		}
	})
	for _, p := range f.processes {
		p.dropped(p.lost())
		p.flush()
	}
	return err
}

// Search looks for processes that use NCCL and have no shim, and for those that have ended.
func (f *Follower) Search() {
	pids, err := f.procs.PIDs()
	if err != nil {
		f.opts.Logger.Warn("Looking for processes that use NCCL", "err", err)
		return
	}
	for pid, p := range f.processes {
		if start, err := f.procs.StartTime(int(pid)); err != nil || start != p.start || f.opts.To.Reports(int(pid)) {
			if err := f.leave(pid); err != nil {
				f.opts.Logger.Warn("Taking probes away", "pid", pid, "err", err)
			}
		}
	}
	now := time.Now()
	here := map[int]bool{}
	for _, pid := range pids {
		here[pid] = true
		f.consider(pid, now)
	}
	for pid := range f.looks {
		if !here[pid] {
			delete(f.looks, pid)
		}
	}
}

// consider follows a process if it uses NCCL without the shim.
func (f *Follower) consider(pid int, now time.Time) {
	l := f.looks[pid]
	if f.processes[uint32(pid)] != nil || pid == os.Getpid() || l != nil && now.Before(l.next) {
		return
	}
	start, err := f.procs.StartTime(pid)
	if err != nil {
		return
	}
	if l == nil || l.start != start {
		l = &look{start: start}
		f.looks[pid] = l
	}
	l.wait = min(max(2*l.wait, searchPeriod), maxLook)
	l.next = now.Add(l.wait)
	if err := f.follow(pid, start); err != nil && err.Error() != l.last {
		l.last = err.Error()
		f.opts.Logger.Warn("A process uses NCCL and cannot be followed", "pid", pid, "err", err)
	}
}

var errMost = fmt.Errorf("%d processes are followed already", maxProcesses)

// follow attaches to a process; nil where there is nothing to follow.
func (f *Follower) follow(pid int, start uint64) error {
	mapped, err := executables(f.opts.ProcFS, pid)
	if err != nil {
		return nil // It has gone, or is another user's where the exporter may not look.
	}
	paths := libraries(mapped)
	if len(paths) == 0 {
		return nil
	}
	env, err := readEnvironment(f.opts.ProcFS, pid)
	if err != nil {
		return err
	}
	shim, err := f.procs.Mapped(pid, trace.Suffix)
	if err != nil || shim.Plugin || env.hasShim() || f.opts.To.Reports(pid) {
		return err
	}
	id := f.identify(pid, start, env)
	if f.opts.Wanted != nil && !f.opts.Wanted(pid, &id) {
		return nil
	}
	if f.isWorker(pid, id.Rank, mapped) {
		return nil
	}
	if len(f.processes) >= maxProcesses {
		return errMost
	}
	lib, err := f.library(pid, paths)
	if err != nil {
		return err
	}
	return f.attach(pid, &followed{start: start, lib: lib, mapped: mapped, name: fmt.Sprintf("%d-%d%s", pid, start, trace.Suffix)}, id)
}

// isWorker tells whether a process is a copy of a rank, as data loaders fork them. A copy has the rank's communicators in its memory, and
// never calls an operation on them.
func (f *Follower) isWorker(pid int, rank int32, mapped []mapping) bool {
	parent := Parent(f.opts.ProcFS, pid)
	above, err := executables(f.opts.ProcFS, parent)
	if err != nil || !sameLibrary(mapped, above) {
		return false
	}
	if p := f.processes[uint32(parent)]; p != nil && len(p.comms) > 0 {
		return true
	}
	env, err := readEnvironment(f.opts.ProcFS, parent)
	if err != nil {
		return false
	}
	var id trace.Identity
	env.fill(&id)
	return rank >= 0 && id.Rank == rank
}

// sameLibrary tells whether two processes have NCCL at the same place, as only a process and its copy do.
func sameLibrary(a, b []mapping) bool {
	for _, path := range libraries(a) {
		here := slices.IndexFunc(a, func(m mapping) bool { return m.path == path })
		if slices.Contains(b, a[here]) {
			return true
		}
	}
	return false
}

// Parent gives the process that started another; 0 unknown.
func Parent(procFS string, pid int) int {
	b, err := os.ReadFile(filepath.Join(procFS, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	return parseParent(string(b))
}

// parseParent takes the parent from /proc/PID/stat; 0 when it is not there. The command's name may hold anything.
func parseParent(stat string) int {
	at := strings.LastIndexByte(stat, ')')
	if at < 0 {
		return 0
	}
	fields := strings.Fields(stat[at+1:])
	if len(fields) < 2 {
		return 0
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return pid
}

func (f *Follower) attach(pid int, p *followed, id trace.Identity) (err error) {
	if p.process, err = newProcess(id); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.memory, err = openMemory(f.opts.ProcFS, pid); err != nil {
		return err
	}
	if p.attached, err = f.probes.attach(pid, p.lib); err != nil {
		return err
	}
	f.processes[uint32(pid)] = p
	var before []found
	if p.lib.comm != nil {
		if before, err = p.memory.communicators(p.lib.comm); err != nil {
			f.opts.Logger.Warn("Looking for communicators that were made before", "pid", pid, "err", err)
		}
	}
	// Records that came meanwhile know better than the memory, which was read at some moment since.
	err = f.Read()
	for i := range before {
		p.remember(&before[i], f.opts.Clock())
	}
	p.flush()
	if err = errors.Join(err, f.opts.To.Adopt(p.name, p.file)); err != nil {
		delete(f.processes, uint32(pid))
		return err
	}
	f.opts.Logger.Info("Following a process by probes", "pid", pid, "job_id", id.JobID, "rank", id.Rank, "library", p.lib.path, "functions", len(p.lib.functions),
		"communicators", len(before), "layout_known", p.lib.comm != nil)
	return nil
}

// close takes away all that belongs to a process.
func (p *followed) close() error {
	var errs []error
	if p.attached != nil {
		errs = append(errs, p.attached.close())
	}
	if p.memory != nil {
		p.memory.close()
	}
	return errors.Join(append(errs, p.process.close())...)
}

func (p *followed) lost() uint64 { return p.attached.lost() }

// leave takes the probes from a process.
func (f *Follower) leave(pid uint32) error {
	p := f.processes[pid]
	delete(f.processes, pid)
	f.opts.To.Abandon(p.name)
	return p.close()
}

// library reads what a process has mapped as NCCL. Containers of one image share the file.
func (f *Follower) library(pid int, paths []string) (*library, error) {
	var errs []error
	for _, path := range paths {
		whole := filepath.Join(f.opts.ProcFS, strconv.Itoa(pid), "root", path)
		var st unix.Stat_t
		if err := unix.Stat(whole, &st); err != nil {
			errs = append(errs, &os.PathError{Op: "stat", Path: whole, Err: err})
			continue
		}
		key := fileKey{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev's type differs between systems.
		l := f.libraries[key]
		if l == nil {
			var err error
			if l, err = openLibrary(whole); err != nil {
				errs = append(errs, err)
				continue
			}
			f.libraries[key] = l
		}
		mine := *l
		mine.path = whole
		return &mine, nil
	}
	return nil, errors.Join(errs...)
}

// identify tells who a process is. The exporter writes its file, so process and threads have the numbers that the exporter sees.
func (f *Follower) identify(pid int, start uint64, env environment) trace.Identity {
	now := f.opts.Clock()
	id := trace.Identity{
		PID: uint32(pid), PIDNamespace: f.procs.Namespace(), StartTicks: start, CreatedNS: now, CreatedRealNS: uint64(time.Now().UnixNano()),
		BootID: f.procs.BootID(), Hostname: f.opts.HostName,
	}
	if name, err := os.ReadFile(filepath.Join(f.opts.ProcFS, strconv.Itoa(pid), "comm")); err == nil {
		id.ProcessName = strings.TrimSpace(string(name))
	}
	env.fill(&id)
	return id
}

// Rank is a followed process, as it stands.
type Rank struct {
	PID    int
	JobID  string
	Rank   int32 // As the launcher numbers it, else that in its largest communicator; -1 unknown.
	State  byte  // Of the process, as in /proc/PID/stat.
	Comms  []trace.Comm
	Inside string // The function of NCCL that a thread of it is in; empty: none is seen.
	Layout bool   // Whether the library tells of communicators.
}

// Ranks gives the followed processes, by their rank.
func (f *Follower) Ranks() []Rank {
	var out []Rank
	for pid, p := range f.processes {
		r := Rank{PID: int(pid), JobID: p.id.JobID, Rank: p.id.Rank, Comms: p.list(), Layout: p.lib.comm != nil, Inside: p.insideNow(f)}
		if r.Rank < 0 && len(r.Comms) > 0 {
			r.Rank = r.Comms[0].Rank
		}
		st, err := f.procs.Stat(int(pid))
		if err != nil || st.StartTicks != p.start {
			continue // It has ended.
		}
		r.State = st.State
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rank) int {
		if a.Rank != b.Rank {
			return int(a.Rank) - int(b.Rank)
		}
		return a.PID - b.PID
	})
	return out
}

// insideNow names the function that a thread is in: by its records, else by its stack.
func (p *followed) insideNow(f *Follower) string {
	for _, t := range p.threads {
		if len(t.inside) > 0 {
			return functions[t.inside[0]].name
		}
	}
	tasks, err := os.ReadDir(filepath.Join(f.opts.ProcFS, strconv.Itoa(int(p.pid)), "task"))
	if err != nil {
		return ""
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if kind, ok := p.memory.inside(tid, p.lib, p.mapped); ok {
			return functions[kind].name
		}
	}
	return ""
}

// WriteFiles writes the trace files into a folder, for culprit-analyzer analyze.
func (f *Follower) WriteFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for trace files: %w", err)
	}
	for _, p := range f.processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", p.file.Fd()))
		if err != nil {
			return fmt.Errorf("reading a trace file: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.opts.HostName+"-"+p.name), b, 0o600); err != nil {
			return fmt.Errorf("writing a trace file: %w", err)
		}
	}
	return nil
}
