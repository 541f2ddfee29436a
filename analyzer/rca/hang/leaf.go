// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// outside makes the candidate of a living rank that is outside every operation, while the operation inst lacks it.
func (w *waitFor) outside(n, inst int32) candidate {
	r := w.Nodes[n].Rank
	c := candidateOf(w.outsideRow(n, inst), n, inst)
	if idle := idleFor(r); idle >= 0 && idle < w.Opt.HangAfter {
		c.doubt(justActiveWeight)
		c.note = words.JustActive
	}
	if r.Caps&rca.SeesCalls == 0 {
		c.doubt(callsUnseenWeight)
	}
	if !w.kept(n, c.needs, false) {
		c.doubt(doubtWeight * c.weight)
	}
	if r.State == rca.ProcessUnknown {
		c.weight *= stateUnknownFactor
		if c.is(&notCalledIt) {
			c.note = words.OutsideAsRecorded
		}
	}
	if h := w.hiddenBefore(r, nil); h != nil && c.cause == rca.CauseNotCalled {
		c.doubt(hiddenWeight)
		c.note, c.action, c.inside = fmt.Sprintf(words.EndUnrecorded, job.OpLabel(h)), w.hiddenAction(n, h), h
	}
	if c.is(&storageBlocked) && r.Storage != nil {
		c.note = fmt.Sprintf(words.StuckInFile, fileName(r.Storage))
		c.action = fmt.Sprintf(words.CheckMount, r.Storage.Mount, r.Storage.Type, r.Storage.Source, cmp.Or(r.Host, "its host"))
	}
	if c.class != rca.Benign {
		c.stands(r)
		if r.Caps&rca.MissesCalls != 0 && frames.Of(r.Stack).Kind == frames.None && w.mayWaitUnseen(n, inst) {
			c.doubt(unseenWaitWeight)
			c.rivals = true
			c.note = words.MayWaitUnseen
			c.action = words.TakeStacksOfThese
		}
	}
	return c
}

// outsideRow reads what the process of a living rank does instead.
func (w *waitFor) outsideRow(n, inst int32) row {
	r := w.Nodes[n].Rank
	switch {
	case w.firstStep(n, inst):
		return w.begins(n)
	case r.WriteBytesPerSec >= w.Opt.StorageBytesPerSec: // It gets on: bytes move. A stack alone is no proof of that.
		return checkpoint
	case r.State == rca.ProcessDisk || storageStuck(r) || r.Storage != nil && r.Still:
		return storageBlocked
	case r.GroupOpen >= w.Opt.HangAfter:
		return insideLaunch
	}
	return notCalledIt
}

// stays reports whether a rank will not call by itself what the others wait in: it has not moved between close looks, in a file that does
// not answer, at a debugger's prompt, or while its interpreter ends.
func stays(r *rca.Rank) bool {
	k := frames.Of(r.Stack).Kind
	return r.Still && (r.Storage != nil || k == frames.Debugger || k == frames.Exiting)
}

// fileName names a file that a process waits for, with where it lies.
func fileName(s *rca.Storage) string {
	return fmt.Sprintf(words.FileOf, s.Call, s.Path, s.Mount, s.Type, s.Source)
}

// begins is what a rank shows that is in its job's first step.
func (w *waitFor) begins(n int32) row {
	return pick(w.busy(w.Nodes[n].Rank), firstStepBusy, firstStepIdle)
}

// mayWaitUnseen reports whether another rank is outside the operation, too, for which this one may wait in a call that is not
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
func (c *candidate) stands(r *rca.Rank) {
	switch st := frames.Of(r.Stack); st.Kind {
	case frames.None:
	case frames.Device: // For its own work: it has called nothing that is not finished.
		c.note = fmt.Sprintf(words.StackIs, st)
	case frames.Communicate, frames.Backward:
		c.doubt(unseenWaitWeight)
		c.note = fmt.Sprintf(words.StackMayWait, st)
		c.action = words.FindPeers
	default:
		c.weight = max(c.weight, seenOutsideWeight)
		if c.cause == rca.CauseNotCalled {
			c.note = fmt.Sprintf(words.StackIs, st)
			c.action = st.Action()
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

// storageStuck: the stack is writing a checkpoint, and nothing moves.
func storageStuck(r *rca.Rank) bool {
	return r.WriteBytesPerSec == 0 && r.ReadBytesPerSec <= 0 && frames.Of(r.Stack).Kind == frames.Saving
}

// firstStep reports whether the job, as far as this rank and the operation show, has completed hardly anything yet, or nothing at all on a
// communicator that each step uses, and the rank is busy, or has not been waited for long.
func (x *standstill) firstStep(n, inst int32) bool {
	r := x.Nodes[n].Rank
	if r.State == rca.ProcessDisk || stays(r) {
		return false
	}
	seen, begins, most := false, false, int64(0)
	for i := range r.Memberships {
		if m := &r.Memberships[i]; m.Completed >= 0 {
			seen, begins, most = true, begins || m.Called > 0 && done(m) == 0, max(most, done(m))
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
				if done(mem.Membership) > x.Opt.FirstOps && !begins {
					return false
				}
			}
		}
		if mem := c.Find(n); mem != nil && mem.Membership != nil && done(mem.Membership) > x.Opt.FirstOps && !begins {
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

// died makes the candidate of a process that cannot take part, while the operation inst lacks it.
func (w *waitFor) died(n, inst int32) candidate {
	id := w.Nodes[n].ID
	c := candidateOf(processStopped, n, inst)
	switch w.Nodes[n].Rank.State {
	case rca.ProcessGone:
		c = candidateOf(processGone, n, inst)
		if f := w.lastWords(id, "ended"); f != "" {
			c.note += " (" + f + ")"
		}
		if f := w.lastWords(id, "raised"); f != "" {
			c.row, c.note = processRaised, f
		}
	case rca.ProcessExited:
		c = candidateOf(pick(w.jobEnding(), jobEnds, processExited), n, inst)
	}
	if inst >= 0 && c.class == rca.NotEntered {
		if j := w.part(&w.insts[inst], n); j != nil && j.active {
			c.class = rca.Fault
		}
	}
	return c
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

// jobEnding reports whether at least half of the ranks that were seen have exited in an orderly way.
func (x *standstill) jobEnding() bool {
	exited := 0
	for i := range x.Nodes {
		if r := x.Nodes[i].Rank; r != nil && r.State == rca.ProcessExited {
			exited++
		}
	}
	return exited > 0 && 2*exited >= x.Seen
}
