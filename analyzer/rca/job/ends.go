// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// forgetOrderlyEnds handles a job in which one process died and all others have exited: the launcher ended them. Their orderly
// end then shows nothing, and the rest of their record is from before.
func forgetOrderlyEnds(ev *rca.Evidence) {
	gone, exited := 0, 0
	for i := range ev.Ranks {
		switch ev.Ranks[i].State {
		case rca.ProcessGone:
			gone++
		case rca.ProcessExited:
			exited++
		default:
			return
		}
	}
	if gone == 0 || exited <= gone {
		return
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	for i := range ev.Ranks {
		if ev.Ranks[i].State == rca.ProcessExited {
			ev.Ranks[i].State = rca.ProcessUnknown
		}
	}
}

// together is the time within which ends count as simultaneous, since exporters look at processes every few seconds.
const together = 5 * time.Second

// forgetLaterEnds handles a job whose processes have all ended. An end clearly after another one, or after the job had stood
// still, is a consequence: a watchdog, the launcher or an operator ended the job. Such a process shows what it did before its
// end.
func forgetLaterEnds(ev *rca.Evidence, hangAfter time.Duration) {
	first, last := endsOf(ev)
	if first <= 0 {
		return
	}
	later := first - together
	if first-last <= together {
		later = 0
		for i := range ev.Ranks {
			later = max(later, endedAtMost(&ev.Ranks[i]))
		}
		if !slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool { return stands(&r, later+hangAfter) }) {
			return
		}
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	for i := range ev.Ranks {
		if endedAtMost(&ev.Ranks[i]) <= later {
			ev.Ranks[i].State = rca.ProcessUnknown
		}
	}
}

// endedAtMost gives how long ago the end of a process was at most: since its host last saw it alive. A host that was not looked at for a
// while finds an end long after it.
func endedAtMost(r *rca.Rank) time.Duration { return max(r.Ended, r.SeenAlive) }

// soonestVictim is how long a job stands still at least before something that watches it ends a process: NCCL's and PyTorch's watchdogs
// take minutes, people longer than this.
const soonestVictim = 30 * time.Second

// forgetVictims handles a process that had long stood still in an operation when it ended, in a job without progress since. Its
// end held up no other rank: a watchdog or an operator ended it, and on some hosts that has not been seen yet. The time of an end
// is unknown where an exporter was started after it. The same is assumed of such an end where others ended so, or where all
// processes have ended. It is known only roughly where the exporter had not looked for a while: such an end may be a victim's where
// the job has stood for long enough that something may have ended it. A victim shows what it did before its end. n is the number of
// victims, undated has those, by rank, that may have ended before the standstill after all.
func forgetVictims(ev *rca.Evidence, hangAfter time.Duration) (n int, undated map[int]bool) {
	moved := lastMove(ev)
	after := func(r *rca.Rank, end time.Duration) bool { return moved > end && stands(r, end+hangAfter) }
	known := func(r rca.Rank) bool {
		return ended(&r) && r.Ended > 0 && after(&r, endedAtMost(&r))
	}
	perhaps := func(r rca.Rank) bool {
		return ended(&r) && r.Ended > 0 && moved >= r.Ended+soonestVictim && after(&r, r.Ended) && !known(r)
	}
	lives := func(r rca.Rank) bool { return !ended(&r) }
	some := slices.ContainsFunc(ev.Ranks, known) || len(ev.Ranks) > 1 && !slices.ContainsFunc(ev.Ranks, lives)
	victim := func(r rca.Rank) bool {
		return known(r) || perhaps(r) || some && ended(&r) && r.Ended <= 0 && moved >= hangAfter && stands(&r, hangAfter)
	}
	if !slices.ContainsFunc(ev.Ranks, victim) {
		return 0, nil
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	undated = map[int]bool{}
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; victim(*r) {
			undated[r.ID] = !known(*r)
			r.State = rca.ProcessUnknown
			n++
		}
	}
	return n, undated
}

// lastMove gives how long ago any rank last called or finished something or made progress in an operation; 0 unknown.
func lastMove(ev *rca.Evidence) time.Duration {
	least := time.Duration(0)
	note := func(d time.Duration) {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	for i := range ev.Ranks {
		for k := range ev.Ranks[i].Memberships {
			m := &ev.Ranks[i].Memberships[k]
			note(m.SinceCalled)
			note(m.SinceCompleted)
			for o := range m.InFlight {
				if !m.InFlight[o].NoCompletion {
					note(m.InFlight[o].Stuck)
				}
			}
		}
	}
	return least
}

// stands reports whether a rank is inside an operation that has made no progress there for this long.
func stands(r *rca.Rank, since time.Duration) bool {
	return slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool {
		return slices.ContainsFunc(m.InFlight, func(o rca.Op) bool { return !o.NoCompletion && o.Stuck >= since })
	})
}

// endsOf gives how long ago the first and the last process ended; 0 where one is alive or its end has no time.
func endsOf(ev *rca.Evidence) (first, last time.Duration) {
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if !ended(r) || r.Ended <= 0 {
			return 0, 0
		}
		first = max(first, r.Ended)
		if last == 0 || r.Ended < last {
			last = r.Ended
		}
	}
	if len(ev.Ranks) < 2 {
		return 0, 0
	}
	return first, last
}

// DiedTogether reports whether all processes died at once, so that no end comes before the others.
func (x *Index) DiedTogether() bool {
	first, last := endsOf(x.Ev)
	return first > 0 && first-last <= together &&
		!slices.ContainsFunc(x.Ev.Ranks, func(r rca.Rank) bool { return r.State != rca.ProcessGone })
}
