// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// leaf is what a rank that waits for nobody shows: why the others wait for it.
type leaf struct {
	class  rca.Class
	cause  rca.Cause
	weight float64
	hard   bool // Nobody else's waiting can explain it.
	note   string
}

// leafOf reads the state of a living rank that is outside every operation, while the operation inst lacks it.
func (w *waitFor) leafOf(n, inst int32) leaf {
	r := w.Nodes[n].Rank
	l := leaf{class: rca.NotEntered, cause: rca.CauseNotCalled, weight: 0.93, hard: true, note: "its process is running outside NCCL"}
	switch {
	case w.firstStep(n, inst):
		l = leaf{
			class: rca.Benign, cause: rca.CauseFirstStep, weight: pick(w.busy(r), 0.9, 0.65), hard: true,
			note: "the job has hardly begun: compilation, data loading and lazy connections take long in a first step",
		}
	case w.checkpoints(r):
		l = leaf{class: rca.Benign, cause: rca.CauseCheckpoint, weight: 0.92, hard: true, note: "it is writing a checkpoint"}
	case r.State == rca.ProcessDisk || storageStuck(r):
		l.cause, l.weight, l.note = rca.CauseStorage, 0.88, "its process is blocked in storage and no bytes move"
	case r.GroupOpen >= w.Opt.HangAfter:
		l.cause, l.weight, l.note = rca.CauseCPU, 0.7, "its CPU is still inside an NCCL call"
	}
	if idle := idleFor(r); idle >= 0 && idle < w.Opt.HangAfter {
		l.hard, l.weight = false, 0.3
		l.note = "it was active a moment ago"
	}
	if r.Caps&rca.SeesCalls == 0 {
		l.hard, l.weight = false, min(l.weight, 0.5)
	}
	if r.Lost > 0 && !showsAll(r) {
		l.hard, l.weight = false, 0.6*l.weight
	}
	if r.State == rca.ProcessUnknown {
		l.weight *= 0.95
	}
	return l
}

// idleFor is how long a rank has neither called nor finished anything, -1 unknown.
func idleFor(r *rca.Rank) time.Duration {
	least := time.Duration(-1)
	for i := range r.Memberships {
		m := &r.Memberships[i]
		for _, d := range [2]time.Duration{m.SinceCalled, m.SinceCompleted} {
			// Zero is a field that was never filled as often as a call this very moment.
			if d > 0 && (least < 0 || d < least) {
				least = d
			}
		}
	}
	return least
}

// checkpoints says that the process writes to storage and gets on with it: bytes move, or, where bytes cannot be seen,
// its stack is in a checkpoint.
func (w *waitFor) checkpoints(r *rca.Rank) bool {
	if r.WriteBytesPerSec >= w.Opt.StorageBytesPerSec {
		return true
	}
	return checkpointStack(r.Stack) && r.WriteBytesPerSec < 0
}

// checkpointStack says whether a frame of the stack saves a checkpoint.
func checkpointStack(stack []string) bool {
	return slices.ContainsFunc(stack, func(f string) bool {
		f = strings.ToLower(f)
		return strings.Contains(f, "save_checkpoint") || strings.Contains(f, "torch.save") || strings.Contains(f, "checkpointing.py") ||
			strings.Contains(f, "dist_checkpoint") || strings.Contains(f, "save_state_dict") || strings.Contains(f, "async_save") ||
			strings.Contains(f, "serialization.py")
	})
}

// storageStuck: the stack is in a checkpoint or the data loader's disk read, and nothing moves.
func storageStuck(r *rca.Rank) bool {
	return checkpointStack(r.Stack) && r.WriteBytesPerSec == 0 && r.ReadBytesPerSec <= 0
}

// firstStep says that the job, as far as this rank and the operation show, has completed hardly anything yet, and the
// rank is busy, or has not been waited for long.
func (w *waitFor) firstStep(n, inst int32) bool {
	r := w.Nodes[n].Rank
	if r.State == rca.ProcessDisk {
		return false
	}
	seen, most := false, int64(0)
	for i := range r.Memberships {
		if m := &r.Memberships[i]; m.Completed >= 0 {
			seen, most = true, max(most, m.Completed)
			if r.Caps&rca.SeesCompletion == 0 {
				most = max(most, m.Called) // How many have completed is not seen.
			}
		}
	}
	if inst >= 0 {
		in := &w.insts[inst]
		c := &w.Comms[in.key.comm]
		for k := range in.joins {
			if mem := c.Find(in.joins[k].node); mem != nil && mem.Membership != nil && mem.Membership.Completed >= 0 {
				seen = true
				if mem.Membership.Completed > w.Opt.FirstOps {
					return false
				}
			}
		}
		if mem := c.Find(n); mem != nil && mem.Membership != nil && mem.Membership.Completed > w.Opt.FirstOps {
			return false
		}
	}
	if !seen || most > w.Opt.FirstJobOps {
		return false
	}
	age := time.Duration(0)
	if inst >= 0 {
		age = w.insts[inst].age
	}
	if w.busy(r) {
		return age < w.Opt.FirstStepLimit
	}
	return age < w.Opt.FirstStepIdle
}

func (w *waitFor) busy(r *rca.Rank) bool {
	return r.CPUCores >= w.Opt.BusyCores || r.ReadBytesPerSec >= w.Opt.StorageBytesPerSec
}

// deadLeaf reads a process that cannot take part.
func (w *waitFor) deadLeaf(n, inst int32) leaf {
	r := w.Nodes[n].Rank
	l := leaf{class: rca.NotEntered, cause: rca.CauseProcessStopped, weight: 0.97, hard: true, note: "its process is stopped (SIGSTOP or a debugger)"}
	if inst >= 0 {
		if j := w.part(&w.insts[inst], n); j != nil && j.active {
			l.class = rca.Fault
		}
	}
	switch r.State {
	case rca.ProcessGone:
		l.cause, l.note = rca.CauseProcessGone, "its process died"
	case rca.ProcessExited:
		l.cause, l.weight, l.note = rca.CauseProcessGone, 0.85, "its process ended while others still wait for it"
		if w.jobEnding() {
			l = leaf{class: rca.Benign, cause: rca.CauseJobEnd, weight: 0.9, hard: true, note: "the job is ending: most of its processes have exited in an orderly way"}
		}
	}
	return l
}

// jobEnding says that at least half of the ranks that were seen have exited in an orderly way.
func (x *standstill) jobEnding() bool {
	exited := 0
	for i := range x.Nodes {
		if r := x.Nodes[i].Rank; r != nil && r.State == rca.ProcessExited {
			exited++
		}
	}
	return exited > 0 && 2*exited >= x.Seen
}
