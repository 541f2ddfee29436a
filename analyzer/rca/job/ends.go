// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// forgetOrderlyEnds: when one process died and all others have exited, the launcher ended them. Their orderly end then
// says nothing, and what they show is from before.
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

// together is within what time processes ended at once, as far as exporters tell that look every second or few.
const together = 5 * time.Second

// forgetLaterEnds: when all processes have ended, an end that came clearly after another one, or after the job had stood still, follows from
// that: a watchdog, the launcher or an operator ended the job. Such a process shows what it did before.
func forgetLaterEnds(ev *rca.Evidence, hangAfter time.Duration) {
	first, last := endsOf(ev)
	if first <= 0 {
		return
	}
	later := first - together
	if first-last <= together {
		if !stoodStill(ev, first+hangAfter) {
			return
		}
		later = first
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	for i := range ev.Ranks {
		if ev.Ranks[i].Ended <= later {
			ev.Ranks[i].State = rca.ProcessUnknown
		}
	}
}

// forgetVictims: a process that ended while it had long stood still in an operation, in a job that has not got on since, held nobody up by
// ending: a watchdog or an operator ended it, and of some hosts that is not seen yet. Of an end whose time nobody knows, since an exporter
// was started after it, the same is taken where others ended so, or all have ended. Such a process shows what it did before.
// It gives of how many ranks.
func forgetVictims(ev *rca.Evidence, hangAfter time.Duration) (n int) {
	moved := lastMove(ev)
	known := func(r rca.Rank) bool {
		return ended(&r) && r.Ended > 0 && moved > r.Ended && stands(&r, r.Ended+hangAfter)
	}
	lives := func(r rca.Rank) bool { return !ended(&r) }
	some := slices.ContainsFunc(ev.Ranks, known) || len(ev.Ranks) > 1 && !slices.ContainsFunc(ev.Ranks, lives)
	victim := func(r rca.Rank) bool {
		return known(r) || some && ended(&r) && r.Ended <= 0 && moved >= hangAfter && stands(&r, hangAfter)
	}
	if !slices.ContainsFunc(ev.Ranks, victim) {
		return 0
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	for i := range ev.Ranks {
		if victim(ev.Ranks[i]) {
			ev.Ranks[i].State = rca.ProcessUnknown
			n++
		}
	}
	return n
}

// lastMove is how long ago any rank last called or finished something or got on in an operation; 0 not known.
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

// stoodStill says that an operation has made no progress for so long.
func stoodStill(ev *rca.Evidence, since time.Duration) bool {
	return slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool { return stands(&r, since) })
}

// stands says that a rank is inside an operation that has made no progress there for so long.
func stands(r *rca.Rank, since time.Duration) bool {
	return slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool {
		return slices.ContainsFunc(m.InFlight, func(o rca.Op) bool { return !o.NoCompletion && o.Stuck >= since })
	})
}

// endsOf is how long ago the first and the last of several processes ended; 0 where one lives or its time is not known.
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

// DiedTogether says that all processes died at once: nobody's end is before the others'.
func (x *Index) DiedTogether() bool {
	first, last := endsOf(x.Ev)
	return first > 0 && first-last <= together &&
		!slices.ContainsFunc(x.Ev.Ranks, func(r rca.Rank) bool { return r.State != rca.ProcessGone })
}
