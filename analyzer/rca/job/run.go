// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// forgetEarlierRuns takes out what a job left behind when it began anew, with as many ranks or with others: a process that ended
// before the living ones began is history, and so are ranks beyond the world that the living ones make up.
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

// livingRun is how long ago the oldest of the living processes began, and how many ranks they say that their run has; 0 unknown, or
// not agreed on.
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

// earlier says that an ended process was none of the living ones' run. Who shares a communicator with one of them was. Else the
// times tell, and where they do not, that its run had another size.
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
