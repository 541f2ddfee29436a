// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package frtest makes Flight Recorder dumps for tests: it runs a small model of a training job, with a fault, to the
// point where nothing moves any more, and writes what every rank's recorder would hold, as PyTorch pickles it.
package frtest

import (
	"fmt"
	"slices"
)

// Group is a process group.
type Group struct {
	Name, Desc string
	Ranks      []int
}

// Call is one thing that a rank's program does.
type Call struct {
	Group  int    // Index in Job.Groups.
	Kind   string // "all_reduce", "send", …; "sync" waits on the host for everything enqueued before.
	Peer   int    // Send/recv: rank in the group.
	Input  []int64
	Output []int64
	Type   string
}

// Job is a job with its fault.
type Job struct {
	World   int
	Groups  []Group // The first is the whole world. In order of creation.
	Program func(rank int) []Call
	// StopHost stops a rank's program before its call of that index; StopGPU stops its GPU before that call's kernel.
	StopHost, StopGPU map[int]int
	// HangGPU lets a rank's GPU take part in the operation of that index and never come to its end.
	HangGPU map[int]int
	// Alike makes programs of ranks differ: called for each call, may change it.
	Alike func(rank, index int, c *Call)
	// Ring is how many completed operations the recorder still has; 0: pending ones only.
	Ring   int
	Timing bool // Started operations are reported as such.
	// Clock gives how far a rank's clock is off, ns; nil is nowhere.
	Clock func(rank int) int64
}

// Op is an operation of a rank after the run.
type Op struct {
	Call      Call
	Seq       int64 // Of collectives in the group, or of send/recv.
	OpID      int64
	Record    int64
	Completed bool
	Started   bool
}

// State is what a rank's recorder knows after the run.
type State struct {
	Rank  int
	Ops   []Op
	Count map[int]*Counts // By group index.
}

// Counts are a group's counters on a rank.
type Counts struct {
	Collectives, P2P, Ops int64
	Enqueued, Completed   int64
}

type meeting struct {
	group int
	key   string
}

type runner struct {
	job     *Job
	ranks   []*rankRun
	waiting map[meeting][]int
	ready   []int
}

type rankRun struct {
	State
	calls []Call
	host  int // Next call.
	gpu   int // Next operation to execute.
	met   bool
}

// Run gives every rank's state when nothing moves any more.
func (j *Job) Run() []State {
	r := runner{job: j, waiting: map[meeting][]int{}}
	for rank := range j.World {
		calls := j.Program(rank)
		if j.Alike != nil {
			for i := range calls {
				j.Alike(rank, i, &calls[i])
			}
		}
		r.ranks = append(r.ranks, &rankRun{State: State{Rank: rank, Count: map[int]*Counts{}}, calls: calls})
		r.ready = append(r.ready, rank)
	}
	for len(r.ready) > 0 {
		rank := r.ready[len(r.ready)-1]
		r.ready = r.ready[:len(r.ready)-1]
		r.advance(r.ranks[rank])
	}
	out := make([]State, len(r.ranks))
	for i, rr := range r.ranks {
		out[i] = rr.State
	}
	return out
}

// advance lets a rank's host enqueue and its GPU enter what it can.
func (r *runner) advance(rr *rankRun) {
	for r.enqueue(rr) || r.enter(rr) {
		continue
	}
}

func (r *runner) enqueue(rr *rankRun) bool {
	if rr.host >= len(rr.calls) {
		return false
	}
	if stop, ok := r.job.StopHost[rr.Rank]; ok && rr.host >= stop {
		return false
	}
	c := rr.calls[rr.host]
	if c.Kind == "sync" {
		if rr.gpu < len(rr.Ops) {
			return false
		}
		rr.host++
		return true
	}
	n := rr.Count[c.Group]
	if n == nil {
		n = &Counts{}
		rr.Count[c.Group] = n
	}
	n.Ops++
	op := Op{Call: c, OpID: n.Ops, Record: int64(rr.host)}
	if c.Kind == "send" || c.Kind == "recv" {
		n.P2P++
		op.Seq = n.P2P
	} else {
		n.Collectives++
		op.Seq = n.Collectives
	}
	n.Enqueued = op.Seq
	rr.Ops = append(rr.Ops, op)
	rr.host++
	return true
}

// enter brings the operation at the head of the stream to its meeting, and completes it when all are there.
func (r *runner) enter(rr *rankRun) bool {
	if rr.met || rr.gpu >= len(rr.Ops) {
		return false
	}
	op := &rr.Ops[rr.gpu]
	if stop, ok := r.job.StopGPU[rr.Rank]; ok && int(op.Record) >= stop {
		return false
	}
	op.Started = true
	rr.met = true
	g := r.job.Groups[op.Call.Group]
	m, need := r.meeting(rr, op, g)
	here := append(slices.Clone(r.waiting[m]), rr.Rank)
	if len(here) < need {
		r.waiting[m] = here
		return false
	}
	delete(r.waiting, m)
	for _, rank := range here {
		o := r.ranks[rank]
		done := &o.Ops[o.gpu]
		if hang, ok := r.job.HangGPU[rank]; ok && int(done.Record) == hang {
			r.ready = append(r.ready, rank)
			continue // It has met and enters nothing else.
		}
		done.Completed = true
		o.Count[done.Call.Group].Completed = done.Seq
		o.gpu++
		o.met = false
		r.ready = append(r.ready, rank)
	}
	return true
}

func (r *runner) meeting(rr *rankRun, op *Op, g Group) (meeting, int) {
	place := slices.Index(g.Ranks, rr.Rank)
	switch op.Call.Kind {
	case "send":
		return meeting{op.Call.Group, fmt.Sprintf("%d>%d", place, op.Call.Peer)}, 2
	case "recv":
		return meeting{op.Call.Group, fmt.Sprintf("%d>%d", op.Call.Peer, place)}, 2
	default:
		// Different kinds or sizes at one place never match up, as in NCCL they hang (or worse).
		return meeting{op.Call.Group, fmt.Sprintf("%d %s %v", op.Seq, op.Call.Kind, fit(op.Call))}, len(g.Ranks)
	}
}

// fit is what of a call must agree between ranks.
func fit(c Call) []int64 {
	if c.Kind == "all_to_all" {
		return nil
	}
	return c.Input
}
