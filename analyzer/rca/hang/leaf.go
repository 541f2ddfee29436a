// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// leaf is what a rank that waits for nobody shows: why the others wait for it.
type leaf struct {
	class  rca.Class
	cause  rca.Cause
	weight float64
	hard   bool // Nobody else's waiting can explain it.
	note   string
	action string  // What would decide it, where the class and cause do not say what to do.
	inside *rca.Op // A hidden operation that it may be inside, nil none.
	rivals bool    // It may wait unseen for another that is outside like itself.
}

// leafOf reads the state of a living rank that is outside every operation, while the operation inst lacks it.
func (w *waitFor) leafOf(n, inst int32) leaf {
	r := w.Nodes[n].Rank
	l := leaf{class: rca.NotEntered, cause: rca.CauseNotCalled, weight: outsideWeight, hard: true, note: words.RunsOutside}
	switch {
	case w.firstStep(n, inst):
		l = w.begins(n)
	case w.checkpoints(r):
		l = leaf{class: rca.Benign, cause: rca.CauseCheckpoint, weight: checkpointWeight, hard: true, note: words.WritesCheckpoint}
	case r.State == rca.ProcessDisk || storageStuck(r):
		l.cause, l.weight, l.note = rca.CauseStorage, storageWeight, words.StuckInStorage
	case r.GroupOpen >= w.Opt.HangAfter:
		l.cause, l.weight, l.note = rca.CauseCPU, launchWeight, words.InsideLaunch
	}
	if idle := idleFor(r); idle >= 0 && idle < w.Opt.HangAfter {
		l.hard, l.weight = false, justActiveWeight
		l.note = words.JustActive
	}
	if r.Caps&rca.SeesCalls == 0 {
		l.hard, l.weight = false, min(l.weight, callsUnseenWeight)
	}
	if r.Lost > 0 && !showsAll(r) {
		l.hard, l.weight = false, doubtWeight*l.weight
	}
	if r.State == rca.ProcessUnknown {
		l.weight *= stateUnknownFactor
		if l.cause == rca.CauseNotCalled && l.class == rca.NotEntered {
			l.note = words.OutsideAsRecorded
		}
	}
	if h := w.hiddenBefore(r, nil); h != nil && l.cause == rca.CauseNotCalled {
		l.hard, l.weight = false, min(l.weight, hiddenWeight)
		l.note, l.action, l.inside = hiddenNote(h), w.hiddenAction(n, h), h
	}
	if l.class != rca.Benign {
		l.stands(r)
		if r.Caps&rca.MissesCalls != 0 && frames.Of(r.Stack).Kind == frames.None && w.mayWaitUnseen(n, inst) {
			l.hard, l.weight = false, min(l.weight, unseenWaitWeight)
			l.rivals = true
			l.note = words.MayWaitUnseen
			l.action = words.TakeStacksOfThese
		}
	}
	return l
}

// begins is what a rank shows that is in its job's first step.
func (w *waitFor) begins(n int32) leaf {
	return leaf{
		class: rca.Benign, cause: rca.CauseFirstStep, weight: pick(w.busy(w.Nodes[n].Rank), beginsBusyWeight, beginsWeight), hard: true,
		note: words.HardlyBegun,
	}
}

// mayWaitUnseen says that another rank is outside the operation, too, for which this one may wait in a call that is not
// recorded. A rank whose stack waits itself is none to wait for.
func (w *waitFor) mayWaitUnseen(n, inst int32) bool {
	if inst < 0 {
		return false
	}
	c := &w.Comms[w.insts[inst].key.comm]
	for i := range c.Members {
		other := c.Members[i].Node
		if other == n || !w.isIdle(other) {
			continue
		}
		if k := frames.Of(w.Nodes[other].Rank.Stack).Kind; k == frames.None || !k.MayWait() {
			return true
		}
	}
	return false
}

// stands corrects the counters by the rank's stack. What the source does not record, such as a receive, is no absence.
func (l *leaf) stands(r *rca.Rank) {
	switch st := frames.Of(r.Stack); st.Kind {
	case frames.None:
	case frames.Device: // For its own work: it has called nothing that is not finished.
		l.note = fmt.Sprintf(words.StackIs, st)
	case frames.Communicate, frames.Backward:
		l.hard, l.weight = false, min(l.weight, unseenWaitWeight)
		l.note = fmt.Sprintf(words.StackMayWait, st)
		l.action = words.FindPeers
	default:
		l.weight = max(l.weight, seenOutsideWeight)
		if l.cause == rca.CauseNotCalled {
			l.note = fmt.Sprintf(words.StackIs, st)
			l.action = st.Action()
		}
	}
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

// checkpoints says that the process writes to storage and gets on with it: bytes move. A stack alone is no proof of that.
func (w *waitFor) checkpoints(r *rca.Rank) bool {
	return r.WriteBytesPerSec >= w.Opt.StorageBytesPerSec
}

// storageStuck: the stack is writing a checkpoint, and nothing moves.
func storageStuck(r *rca.Rank) bool {
	return r.WriteBytesPerSec == 0 && r.ReadBytesPerSec <= 0 && frames.Of(r.Stack).Kind == frames.Saving
}

// firstStep says that the job, as far as this rank and the operation show, has completed hardly anything yet, and the
// rank is busy, or has not been waited for long.
func (x *standstill) firstStep(n, inst int32) bool {
	r := x.Nodes[n].Rank
	if r.State == rca.ProcessDisk {
		return false
	}
	seen, most := false, int64(0)
	for i := range r.Memberships {
		if m := &r.Memberships[i]; m.Completed >= 0 {
			seen, most = true, max(most, done(m))
			if r.Caps&rca.SeesCompletion == 0 {
				most = max(most, m.Called) // How many have completed is not seen.
			}
		}
	}
	if inst >= 0 {
		in := &x.insts[inst]
		c := &x.Comms[in.key.comm]
		for k := range in.joins {
			if mem := c.Find(in.joins[k].node); mem != nil && mem.Membership != nil && mem.Membership.Completed >= 0 {
				seen = true
				if done(mem.Membership) > x.Opt.FirstOps {
					return false
				}
			}
		}
		if mem := c.Find(n); mem != nil && mem.Membership != nil && done(mem.Membership) > x.Opt.FirstOps {
			return false
		}
	}
	if !seen || most > x.Opt.FirstJobOps {
		return false
	}
	age := time.Duration(0)
	if inst >= 0 {
		age = x.insts[inst].age
	}
	if x.busy(r) {
		return age < x.Opt.FirstStepLimit
	}
	return age < x.Opt.FirstStepIdle
}

// done is how many operations of a communicator a rank has completed, as far as that is seen: of those without a recorded end all
// but the last that it has called.
func done(m *rca.Membership) int64 {
	if slices.ContainsFunc(m.InFlight, func(o rca.Op) bool { return o.NoCompletion }) {
		return max(m.Completed, m.Called-1)
	}
	return m.Completed
}

func (x *standstill) busy(r *rca.Rank) bool {
	return r.CPUCores >= x.Opt.BusyCores || r.ReadBytesPerSec >= x.Opt.StorageBytesPerSec
}

// deadLeaf reads a process that cannot take part.
func (w *waitFor) deadLeaf(n, inst int32) leaf {
	r := w.Nodes[n].Rank
	l := leaf{class: rca.NotEntered, cause: rca.CauseProcessStopped, weight: deadWeight, hard: true, note: words.StoppedBySignal}
	if inst >= 0 {
		if j := w.part(&w.insts[inst], n); j != nil && j.active {
			l.class = rca.Fault
		}
	}
	switch r.State {
	case rca.ProcessGone:
		l.cause, l.note = rca.CauseProcessGone, words.ProcessDied
		if f := w.lastWords(r.ID, "ended"); f != "" {
			l.note += " (" + f + ")"
		}
		if f := w.lastWords(r.ID, "raised"); f != "" {
			l.class, l.cause, l.note = rca.Fault, rca.CauseException, f
		}
	case rca.ProcessExited:
		l.cause, l.weight, l.note = rca.CauseProcessGone, exitedWeight, words.ExitedEarly
		if w.jobEnding() {
			l = leaf{class: rca.Benign, cause: rca.CauseJobEnd, weight: jobEndWeight, hard: true, note: words.JobEnding}
		}
	}
	return l
}

// lastWords gives what is known of how a rank's process ended.
func (x *standstill) lastWords(rank int, kind string) string {
	for i := range x.Ev.Facts {
		if f := &x.Ev.Facts[i]; f.Rank == rank && f.Kind == kind && f.Component == "process" {
			return f.Text
		}
	}
	return ""
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
