// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package node follows the traced processes of one node. A Sampler finds their trace files, reads them several times a
// second, asks the kernel about the processes, and keeps the last state of those that died. It hands out what it knows
// as nodeapi values and to collectors.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// kernelPeriod is how often the kernel is asked about processes; rates are over this span. Asking costs several
// system calls a thread, so it is not done every sampling round.
const kernelPeriod = time.Second

const (
	// ringsPeriod is how often the pages of a file's rings are given back, which are read once.
	ringsPeriod = 2 * time.Second
	// releasePeriod is how often all its pages are.
	releasePeriod = time.Minute
)

// Options configure a Sampler. Zero values take the defaults named.
type Options struct {
	Dirs     []string      // Directories of trace files.
	ProcFS   string        // Where procfs is mounted; /proc.
	Interval time.Duration // Between sampling rounds; 100 ms.
	KeepDead time.Duration // How long a dead process is remembered; 10 minutes.
	HostName string        // Name of this host on every process; empty: the system's.
	Logger   *slog.Logger
	History  History // Receives what was read; may be nil.
	Pods     Pods    // Tells the names of pods; nil: none are known.

	// Clock gives CLOCK_MONOTONIC nanoseconds and Now the wall clock; for tests.
	Clock func() uint64
	Now   func() time.Time
}

// History receives what the sampler reads, under the sampler's lock. The values are only valid during the call.
type History interface {
	// Completions tells of finished operations and how many the ring had lost before them.
	Completions(p *Process, done []trace.Completion, lost uint64)
	Lifecycle(p *Process, events []trace.LifecycleEvent, lost uint64)
	// Sampled is called once a round for every live process, after its snapshot was taken at atNS.
	Sampled(p *Process, atNS uint64)
	// Forgotten is called when a process leaves the sampler's memory.
	Forgotten(p *Process)
}

// Sampler follows the trace files of a node. All methods are safe for concurrent use.
type Sampler struct {
	opts     Options
	log      *slog.Logger
	procs    *proc.FS
	hostName string

	mu         sync.Mutex
	dirs       []*directory
	processes  []*Process // Sorted by path, then age.
	born       []*Process // Further ranks of processes, found in this round.
	found      bool       // A process of a file was, since the last round.
	unread     map[string]*unreadFile
	readErrors map[trace.Reason]uint64
	coverage   Coverage
	sampledNS  uint64 // CLOCK_MONOTONIC of the last round.
	lastKernel time.Time
	lastRound  time.Time
	rounds     func(time.Duration) // Told each round's duration.

	done   []trace.Completion // Scratch.
	events []trace.LifecycleEvent
}

// New makes a Sampler. It fails when procfs cannot be read.
func New(o Options) (*Sampler, error) {
	if o.ProcFS == "" {
		o.ProcFS = "/proc"
	}
	if o.Interval <= 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.KeepDead <= 0 {
		o.KeepDead = 10 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = Monotonic
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	procs, err := proc.Open(o.ProcFS)
	if err != nil {
		return nil, fmt.Errorf("opening procfs at %s: %w", o.ProcFS, err)
	}
	host := o.HostName
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("finding the host's name: %w", err)
		}
	}
	s := &Sampler{
		opts: o, log: o.Logger, procs: procs, hostName: host, unread: map[string]*unreadFile{},
		readErrors: map[trace.Reason]uint64{}, rounds: func(time.Duration) {},
	}
	for _, r := range trace.Reasons {
		s.readErrors[r] = 0
	}
	for _, path := range o.Dirs {
		s.dirs = append(s.dirs, &directory{path: filepath.Clean(path)})
	}
	return s, nil
}

// clockStart is one moment by Go's clock and by CLOCK_MONOTONIC. The runtime reads the same clock and hides its zero.
var clockStart = func() (start struct {
	at time.Time
	ns uint64
},
) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("reading the monotonic clock: %v", err)) // Cannot happen: the clock always exists.
	}
	start.at, start.ns = time.Now(), uint64(ts.Nano())
	return start
}()

// Monotonic reads CLOCK_MONOTONIC, the clock of every time stamp in a trace file, in nanoseconds. It makes no system call:
// each would wake the runtime's monitor, which then polls for milliseconds.
func Monotonic() uint64 { return clockStart.ns + uint64(time.Since(clockStart.at)) }

// ObserveRounds makes the sampler call f with the duration of each round. It must be called before Run.
func (s *Sampler) ObserveRounds(f func(time.Duration)) { s.rounds = f }

// HostName is this host's name as the exporter knows it.
func (s *Sampler) HostName() string { return s.hostName }

// Now reads the clock of the trace files' time stamps.
func (s *Sampler) Now() uint64 { return s.opts.Clock() }

// Run samples until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	kernel, err := newTicker(s.opts.Interval)
	if err != nil {
		s.log.Debug("Sampling by the runtime's timers, which costs some CPU time", "err", err)
		s.runPlainly(ctx)
		return
	}
	kernel.closeWith(ctx)
	for ctx.Err() == nil {
		s.Round()
		if err := kernel.wait(); err != nil && ctx.Err() == nil {
			s.log.Warn("Sampling by the runtime's timers", "err", err)
			s.runPlainly(ctx)
		}
	}
}

func (s *Sampler) runPlainly(ctx context.Context) {
	ticker := time.NewTicker(s.opts.Interval)
	defer ticker.Stop()
	for {
		s.Round()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sample does one round and reads everything: as Round does once a second.
func (s *Sampler) Sample() { s.round(true) }

// Round does what Run does at each tick: it looks for new and vanished files and brings every live one up to date. Flows
// of communicators at rest are looked at once a second only (trace.File.Refresh).
func (s *Sampler) Round() { s.round(false) }

func (s *Sampler) round(whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := time.Now()
	now := s.opts.Now()
	s.scan(now)
	askKernel := now.Sub(s.lastKernel) >= kernelPeriod
	if askKernel {
		s.lastKernel = now
	}
	s.limit(now)
	if s.found {
		s.found = false
		s.settle(now)
	}
	kept := s.processes[:0]
	for _, p := range s.processes {
		s.sampleSafely(p, now, askKernel, whole || askKernel)
		if s.expired(p, now) {
			s.forget(p)
			continue
		}
		kept = append(kept, p)
	}
	clear(s.processes[len(kept):])
	s.processes = kept
	s.join(now)
	s.arbitrate()
	s.sampledNS, s.lastRound = s.opts.Clock(), now
	s.rounds(time.Since(start))
}

// sampleSafely keeps trouble with one file from the others: should something in it make the exporter panic, it is given
// up and said so loudly.
func (s *Sampler) sampleSafely(p *Process, now time.Time, askKernel, whole bool) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("Reading a trace file panicked", "file", p.path, "panic", r, "stack", string(debug.Stack()))
			s.lose(p, now, &trace.Error{Reason: trace.ReasonHostile, Err: fmt.Errorf("reading it panicked: %v", r)})
		}
	}()
	s.sample(p, now, askKernel, whole)
}

// sample brings one process up to date.
func (s *Sampler) sample(p *Process, now time.Time, askKernel, whole bool) {
	if p.Dead() || p.Lost {
		return
	}
	if askKernel || !p.asked {
		s.ask(p, now)
	}
	read := p.file.Refresh
	if whole || p.Dead() {
		read = p.file.Snapshot
	}
	p.slots = p.file.Slots()
	if err := read(&p.Snap); err != nil {
		s.lose(p, now, err)
		return
	}
	if err := s.split(p); err != nil {
		s.lose(p, now, err)
		return
	}
	if p.Snap.Status.HeartbeatNS != p.heartbeat {
		p.heartbeat, p.heartbeatAt = p.Snap.Status.HeartbeatNS, now
	}
	s.absorb(p, now)
	if askKernel {
		// What reading the rings maps in counts as this process's memory.
		switch {
		case now.Sub(p.released) >= releasePeriod:
			p.released, p.ringsReleased = now, now
			p.file.Release()
		case now.Sub(p.ringsReleased) >= ringsPeriod:
			p.ringsReleased = now
			p.file.ReleaseRings()
		}
	}
	if s.opts.History != nil {
		s.opts.History.Sampled(p, s.opts.Clock())
	}
	if p.Dead() {
		s.bury(p, now)
	}
}

// absorb takes in what the last snapshot shows.
func (s *Sampler) absorb(p *Process, now time.Time) {
	if p.Kernel.State == nodeapi.ProcessGone && p.Snap.Status.ClosedNS != 0 {
		p.Kernel.State = nodeapi.ProcessExited
	}
	p.identify(s.hostName)
	if p.located.IsZero() || now.Sub(p.located) >= kernelPeriod {
		p.located = now
		p.locate(s.opts.Pods)
	}
	p.account()
	p.Lanes.look(&p.Snap, s.opts.Clock())
	s.readRings(p)
}

// Bounds of how many finished operations a round reads, and as many events: of all processes together, and of each at least. Every
// record takes a microsecond in which no file is sampled, and 350 bytes. A training job finishes some thousand operations a second.
const (
	roundRecords = 1 << 16
	fewRecords   = 256
)

// readRings passes on what has finished since the last round, or as much of it as is the process's share.
func (s *Sampler) readRings(p *Process) {
	p.file.Bound(max(fewRecords, roundRecords/max(1, len(s.processes))))
	for more := true; more; {
		more = s.readDone(p)
		// Of the dead there is no next round.
		more = s.readLife(p) || more
		more = more && p.Dead()
	}
}

// readDone reads finished operations, and tells whether it came further without coming to the end.
func (s *Sampler) readDone(p *Process) bool {
	read := p.file.Completions
	if p.Dead() {
		read = p.file.LastCompletions
	}
	head, before := p.Snap.Status.CompletionsHead, p.nextDone
	if head == before {
		return false
	}
	done, span, err := read(before, s.done[:0])
	if err != nil {
		return false // The next snapshot meets the same fault and reports it.
	}
	s.done, p.nextDone = done, span.Next
	p.Overrun += span.Lost
	if span.Lost > 0 {
		p.detector.Lost()
	}
	for i := range done {
		p.finished(&done[i])
	}
	if s.opts.History != nil && (len(done) > 0 || span.Lost > 0) {
		s.opts.History.Completions(p, done, span.Lost)
	}
	return p.nextDone > before && p.nextDone < head
}

// readLife is readDone for events.
func (s *Sampler) readLife(p *Process) bool {
	head, before := p.Snap.Status.LifecycleHead, p.nextLife
	if head == before {
		return false
	}
	events, span, err := p.file.Lifecycle(before, s.events[:0])
	if err != nil {
		return false
	}
	s.events, p.nextLife = events, span.Next
	p.Overrun += span.Lost
	p.calls.Absorb(events, p.Snap.Comms)
	if s.opts.History != nil && (len(events) > 0 || span.Lost > 0) {
		s.opts.History.Lifecycle(p, events, span.Lost)
	}
	return p.nextLife > before && p.nextLife < head
}

// lose gives up a file that faulted while being read. Its process may go on; its last good state is kept as if dead.
func (s *Sampler) lose(p *Process, now time.Time, err error) {
	s.countUnread(p.path, p.id, err, now)
	p.Lost = true
	s.bury(p, now)
}

// bury closes the file of a process that will not write any more. What was last read stays.
func (s *Sampler) bury(p *Process, now time.Time) {
	if p.deadSince.IsZero() {
		p.deadSince = now
	}
	s.procs.Forget(p.Kernel.HostPID)
	if p.controlled {
		if err := p.control(""); err != nil {
			s.log.Warn("Cleaning up after a process", "file", p.path, "err", err)
		}
	}
	if err := p.file.Close(); err != nil {
		s.log.Warn("Closing trace file", "file", p.path, "err", err)
	}
}

func (s *Sampler) expired(p *Process, now time.Time) bool {
	switch {
	case p.Lost, p.abandoned:
		return true
	case p.Dead():
		return now.Sub(p.deadSince) >= s.opts.KeepDead
	case p.unlinked:
		// Its directory entry is gone and nobody can say whether it lives.
		return !p.Verified() && now.Sub(p.heartbeatAt) >= s.opts.KeepDead
	}
	return false
}

func (s *Sampler) forget(p *Process) {
	if !p.Dead() && !p.Lost {
		s.bury(p, s.opts.Now())
	}
	if s.opts.History != nil {
		s.opts.History.Forgotten(p)
	}
	if !p.unlinked && !p.Lost {
		s.ignore(p)
	}
}
