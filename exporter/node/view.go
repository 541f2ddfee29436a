// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// All calls f with every process and the time of their last snapshots (CLOCK_MONOTONIC, ns). The sampler waits meanwhile: f
// must be quick and keep nothing of them.
func (s *Sampler) All(f func(sampledNS uint64, list []*Process)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.sampledNS, s.processes)
}

// Files tells how many trace files are live, dead and unreadable.
func (s *Sampler) Files() (live, dead, unreadable int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		switch {
		case p.sibling:
		case p.Dead():
			dead++
		default:
			live++
		}
	}
	for _, u := range s.unread {
		if u.counted {
			unreadable++
		}
	}
	return live, dead, unreadable
}

// LeftOut counts the trace files that are not looked at because there are too many.
func (s *Sampler) LeftOut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, d := range s.dirs {
		n += d.left
	}
	return n
}

// DisputedClaims counts the processes that are not believed to be the rank that they claim to be.
func (s *Sampler) DisputedClaims() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.processes {
		if p.Disputed != "" {
			n++
		}
	}
	return n
}

// ReadErrors counts the trace files that could not be read, by reason.
func (s *Sampler) ReadErrors() map[trace.Reason]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.readErrors)
}

// Unread lists the trace files that cannot be read.
func (s *Sampler) Unread() []nodeapi.Unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []nodeapi.Unread
	for path, u := range s.unread {
		if u.counted {
			list = append(list, nodeapi.Unread{File: s.fileName(path), Error: u.err.Error()})
		}
	}
	slices.SortFunc(list, func(a, b nodeapi.Unread) int { return cmp.Compare(a.File, b.File) })
	return list
}

// fileName is a file's path in its directory.
func (s *Sampler) fileName(path string) string {
	for _, d := range s.dirs {
		if d.has(path) {
			return d.name(path)
		}
	}
	return filepath.Base(path)
}

// FlowDetail says which flows a State is to have.
type FlowDetail int

// Flow details.
const (
	FlowsActive FlowDetail = iota // Those of operations in flight: the default.
	FlowsAll                      // Idle ones too, for their totals.
	FlowsNone
)

// Query narrows a State. Empty lists match everything.
type Query struct {
	JobIDs []string
	Ranks  []int32
	Comms  []trace.CommID
	Flows  FlowDetail
}

// freshEnough is how old a round may be for a State: however many ask, the files are not read all the time.
const freshEnough = 20 * time.Millisecond

func (s *Sampler) refresh() {
	s.mu.Lock()
	fresh := s.sampledNS != 0 && trace.Since(s.opts.Clock(), s.sampledNS) < freshEnough && s.opts.Now().Sub(s.lastRound) < freshEnough
	s.mu.Unlock()
	if !fresh {
		s.Sample()
	}
}

// State gives what is known of the processes that match, as it is at this moment. Each process is copied by itself, so
// that a large answer does not hold the sampler up.
func (s *Sampler) State(q Query) (nowNS uint64, processes func(yield func(nodeapi.Process) bool)) {
	s.refresh()
	s.mu.Lock()
	matching := make([]*Process, 0, len(s.processes))
	for _, p := range s.processes {
		if q.matches(p) {
			matching = append(matching, p)
		}
	}
	nowNS = s.sampledNS
	s.mu.Unlock()
	return nowNS, func(yield func(nodeapi.Process) bool) {
		for _, p := range matching {
			s.mu.Lock()
			s.askThreadStates(p)
			if len(q.JobIDs) > 0 {
				p.AskedNS = s.sampledNS
			}
			v := p.view(q, s.opts.Now())
			s.mu.Unlock()
			if !yield(v) {
				return
			}
		}
	}
}

// Living gives the processes that match, live, and are what they claim to be as far as the kernel shows, with their numbers and start times.
// Of a process that drives several ranks it gives each.
func (s *Sampler) Living(q Query) []Followed {
	s.refresh()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Followed
	for _, p := range s.processes {
		if k := &p.Kernel; q.matches(p) && !p.Dead() && k.Verified && k.HostPID > 0 && p.Disputed == "" {
			out = append(out, Followed{File: p.File(), JobID: p.JobID, Rank: p.Rank, PID: k.HostPID, StartTicks: p.Snap.Identity.StartTicks})
		}
	}
	return out
}

// Followed is a living process.
type Followed struct {
	File, JobID string
	Rank        int32
	PID         int // As the sampler's procfs knows it.
	StartTicks  uint64
}

// Transfers hands out the finished transfers that the live processes' files hold now, process by process and oldest
// first. They are not kept elsewhere: there may be hundreds of thousands a second.
func (s *Sampler) Transfers(q Query, yield func(p *nodeapi.Process, moved []trace.Transfer, lost uint64) bool) {
	s.mu.Lock()
	var matching []*Process
	for _, p := range s.processes {
		if q.matches(p) {
			matching = append(matching, p)
		}
	}
	s.mu.Unlock()
	for _, p := range matching {
		if v, moved, lost := s.transfers(p); len(moved) > 0 && !yield(v, moved, lost) {
			return
		}
	}
}

func (s *Sampler) transfers(p *Process) (*nodeapi.Process, []trace.Transfer, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Dead() || p.Lost || p.Snap.Status.TransfersHead == 0 {
		return nil, nil, 0
	}
	moved, span, err := p.file.Transfers(0, nil)
	if err != nil {
		return nil, nil, 0 // The next round meets the same fault and reports it.
	}
	v := p.view(Query{Flows: FlowsAll}, s.opts.Now())
	v.Ops, v.Completions = nil, nil
	if p.members > 0 || p.sibling {
		moved = slices.DeleteFunc(moved, func(t trace.Transfer) bool {
			return !slices.ContainsFunc(v.Flows, func(f trace.Flow) bool { return f.Index == t.FlowIndex })
		})
	}
	return &v, moved, span.Lost
}

func (q *Query) matches(p *Process) bool {
	if len(q.JobIDs) > 0 && !slices.Contains(q.JobIDs, p.JobID) || len(q.Ranks) > 0 && !slices.Contains(q.Ranks, p.Rank) {
		return false
	}
	if len(q.Comms) == 0 {
		return true
	}
	return slices.ContainsFunc(p.Snap.Comms, func(c trace.Comm) bool { return slices.Contains(q.Comms, c.ID) })
}

// view copies a process for others.
func (p *Process) view(q Query, now time.Time) nodeapi.Process {
	v := nodeapi.Process{
		File: p.File(), JobID: p.JobID, Rank: p.Rank, Host: p.Host, GPU: p.GPU,
		Pod: p.Place.Pod, Namespace: p.Place.Namespace, Container: p.Place.Container, Refuted: p.Place.Refuted,
		UID: p.UID(), Disputed: p.Disputed,
	}
	kernel := p.Kernel
	kernel.Threads = slices.Clone(kernel.Threads)
	if p.Dead() && !p.foundDead {
		kernel.GoneForSeconds = max(0, now.Sub(p.deadSince).Seconds())
		if !p.aliveAt.IsZero() {
			kernel.SeenAliveSecondsAgo = max(0, now.Sub(p.aliveAt).Seconds())
		}
	}
	v.Kernel = &kernel
	v.Identity, v.Status = p.Snap.Identity, p.Snap.Status
	v.CallsSeen, v.Calls = p.calls.Seen, p.calls.List()

	wanted := map[commSlot]bool{}
	for i := range p.Snap.Comms {
		if c := &p.Snap.Comms[i]; len(q.Comms) == 0 || slices.Contains(q.Comms, c.ID) {
			wanted[commSlot{c.Index, c.Generation}] = true
			v.Comms = append(v.Comms, *c)
		}
	}
	for i := range p.Snap.Ops {
		if op := &p.Snap.Ops[i]; wanted[commSlot{op.CommIndex, op.CommGeneration}] {
			v.Ops = append(v.Ops, *op)
		}
	}
	for i := range p.Snap.Flows {
		f := &p.Snap.Flows[i]
		if q.Flows == FlowsNone || q.Flows == FlowsActive && f.State == trace.FlowIdle {
			continue
		}
		if wanted[commSlot{f.CommIndex, f.CommGeneration}] {
			v.Flows = append(v.Flows, *f)
		}
	}
	for i := range p.Snap.QPs {
		qp := &p.Snap.QPs[i]
		// One that nobody was seen to use may be anybody's.
		if qp.CommIndex < 0 && len(q.Comms) == 0 || wanted[commSlot{uint32(qp.CommIndex), qp.CommGeneration}] { // -1 is in no table.
			v.QPs = append(v.QPs, *qp)
		}
	}
	v.Pair()
	if len(v.QPs) > 0 {
		v.Lagging = p.Lanes.lags
	}
	for slot, ring := range p.recent {
		if wanted[slot] {
			v.Completions = append(v.Completions, ring.list...)
		}
	}
	slices.SortFunc(v.Completions, func(a, b trace.Completion) int { return cmp.Compare(a.Ticket, b.Ticket) })
	return v
}

// CommStall is a communicator with operations in flight.
type CommStall struct {
	Comm *trace.Comm
	For  time.Duration // Since the last progress.
}

// Stalls lists the communicators with an operation in flight, as they are in the table. Operations whose completion
// cannot be seen do not count.
func (p *Process) Stalls(now uint64) []CommStall {
	progress := map[commSlot]*commProgress{}
	for i := range p.Snap.Ops {
		op := &p.Snap.Ops[i]
		if op.State == trace.OpLeft || op.Flags&trace.OpNoCompletion != 0 {
			continue
		}
		slot := commSlot{op.CommIndex, op.CommGeneration}
		c := progress[slot]
		if c == nil {
			c = &commProgress{oldest: op}
			progress[slot] = c
		}
		if op.Number < c.oldest.Number {
			c.oldest = op
		}
		c.last = max(c.last, op.LastProgressNS, op.EnteredNS)
	}
	if len(progress) == 0 {
		return nil
	}
	for i := range p.Snap.Flows {
		f := &p.Snap.Flows[i]
		if c := progress[commSlot{f.CommIndex, f.CommGeneration}]; c != nil {
			c.last = max(c.last, f.LastProgressNS)
		}
	}
	stalls := make([]CommStall, 0, len(progress))
	for i := range p.Snap.Comms {
		comm := &p.Snap.Comms[i]
		c := progress[commSlot{comm.Index, comm.Generation}]
		if c == nil || comm.Ended {
			continue
		}
		// Calls of later operations are no progress: the host may run far ahead of the GPU.
		last := max(c.last, comm.LastProgressNS, comm.LastCompletedNS, c.oldest.CalledNS, c.oldest.EnqueuedNS)
		stalls = append(stalls, CommStall{Comm: comm, For: trace.Since(now, last)})
	}
	return stalls
}

type commProgress struct {
	oldest *trace.Op
	last   uint64
}

// LaunchAge is how long ago the process last called an operation, on any communicator; called is false before its first.
func (p *Process) LaunchAge(now uint64) (age time.Duration, called bool) {
	var last uint64
	for i := range p.Snap.Comms {
		last = max(last, p.Snap.Comms[i].LastCalledNS)
	}
	return trace.Since(now, last), last != 0
}

// OpAges is for how long each communicator's oldest operation in flight has been under way since it was called. Barriers and
// operations whose completion cannot be seen do not count.
func (p *Process) OpAges(now uint64) func(c *trace.Comm) time.Duration {
	oldest := map[commSlot]time.Duration{}
	for i := range p.Snap.Ops {
		op := &p.Snap.Ops[i]
		if op.State == trace.OpLeft || op.Flags&(trace.OpNoCompletion|trace.OpBarrier) != 0 {
			continue
		}
		since := op.CalledNS
		if since == 0 {
			since = op.EnqueuedNS
		}
		at := commSlot{op.CommIndex, op.CommGeneration}
		oldest[at] = max(oldest[at], trace.Since(now, since))
	}
	return func(c *trace.Comm) time.Duration { return oldest[commSlot{c.Index, c.Generation}] }
}
