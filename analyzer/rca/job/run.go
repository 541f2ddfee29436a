// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// forgetEarlierRuns removes what earlier runs of the job left behind, whatever their size: processes that ended before the living
// ones began, and ranks beyond the size of the living run.
func forgetEarlierRuns(ev *rca.Evidence) {
	began, world := livingRun(ev)
	gone, before := map[rca.CommID]bool{}, map[int]bool{} // Communicators and places in ev.Ranks of earlier runs.
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if !ended(r) || !earlier(ev, r, began, world) {
			continue
		}
		before[i] = true
		for k := range r.Memberships {
			gone[r.Memberships[k].Comm] = true
		}
	}
	if len(before) > 0 {
		ranks := make([]rca.Rank, 0, len(ev.Ranks)-len(before))
		for i := range ev.Ranks {
			if !before[i] {
				ranks = append(ranks, ev.Ranks[i])
			}
		}
		ev.Ranks = ranks
		ev.Comms = slices.DeleteFunc(slices.Clone(ev.Comms), func(c rca.Comm) bool { return gone[c.ID] })
	}
	if world == 0 || world >= ev.WorldSize || slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool { return r.ID >= world }) {
		return
	}
	ev.WorldSize = world
	missing := make([]rca.Missing, 0, len(ev.Missing))
	for _, m := range ev.Missing {
		now := slices.DeleteFunc(slices.Clone(m.Ranks), func(r int) bool { return r >= world })
		if len(now) > 0 || len(m.Ranks) == 0 {
			m.Ranks = now
			missing = append(missing, m)
		}
	}
	ev.Missing = missing
	ev.Comms = slices.DeleteFunc(slices.Clone(ev.Comms), func(c rca.Comm) bool {
		return slices.ContainsFunc(c.Members, func(r int) bool { return r >= world }) &&
			!slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool { return isMember(&r, c.ID) })
	})
}

func ended(r *rca.Rank) bool { return r.State == rca.ProcessGone || r.State == rca.ProcessExited }

// livingRun gives how long ago the oldest living process began, and the size that the living processes report for their run; 0
// unknown, or not the same for all.
func livingRun(ev *rca.Evidence) (began time.Duration, world int) {
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if ended(r) || r.State == rca.ProcessUnknown && r.Began == 0 {
			continue
		}
		began = max(began, r.Began)
		switch {
		case r.World == 0 || world < 0:
		case world == 0:
			world = r.World
		case world != r.World:
			world = -1
		}
	}
	return began, max(0, world)
}

// earlier reports whether an ended process belongs to an earlier run. A process that shares a communicator with a living one does
// not. Else the times decide, and where they do not, a different size of its run does.
func earlier(ev *rca.Evidence, r *rca.Rank, began time.Duration, world int) bool {
	if began == 0 && world == 0 {
		return false
	}
	for i := range ev.Ranks {
		o := &ev.Ranks[i]
		if !ended(o) && slices.ContainsFunc(o.Memberships, func(m rca.Membership) bool { return isMember(r, m.Comm) }) {
			return false
		}
	}
	if r.Ended > 0 && began > 0 && r.Ended > began {
		return true
	}
	return world > 0 && r.World > 0 && r.World != world
}
