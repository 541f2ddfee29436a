// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// States of a rank in the grid.
const (
	stateCulprit = "culprit"
	stateUnseen  = "unseen"
	stateStuck   = "stuck"   // In an operation without progress.
	stateMoving  = "moving"  // In an operation that makes progress.
	stateOutside = "outside" // In no operation while others wait.
	stateIdle    = "idle"
)

// view gives the state of every rank for the grid.
func view(ev *rca.Evidence, v *rca.Verdict, s *evidence.Session, hangAfter time.Duration) []incident.RankView {
	culprits := map[int]bool{}
	for _, c := range v.Culprits {
		culprits[c.Rank] = true
	}
	names := map[rca.CommID]string{}
	for i := range ev.Comms {
		names[ev.Comms[i].ID] = ev.Comms[i].Name
	}
	waited := slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool {
		state, _ := rankState(&r, names, hangAfter)
		return state == stateStuck
	})
	seen := map[int]bool{}
	var out []incident.RankView
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		seen[r.ID] = true
		state, text := rankState(r, names, hangAfter)
		if state == stateIdle && waited {
			state = stateOutside
		}
		out = append(out, incident.RankView{Rank: r.ID, Host: r.Host, GPU: r.GPU, State: state, Text: text})
	}
	for _, rank := range s.Ranks() {
		if !seen[rank] {
			p, _ := s.Process(rank)
			out = append(out, incident.RankView{Rank: rank, Host: p.Host, GPU: p.GPU, State: stateUnseen})
		}
	}
	for i := range out {
		if o := &out[i]; culprits[o.Rank] {
			o.State, o.Text = stateCulprit, cmp.Or(o.Text, o.State)
		}
	}
	slices.SortFunc(out, func(a, b incident.RankView) int { return cmp.Compare(a.Rank, b.Rank) })
	return out
}

// complete reports whether nothing is missing that another look may show: who claims what stays as it is.
func complete(ev *rca.Evidence) bool {
	return !slices.ContainsFunc(ev.Missing, func(m rca.Missing) bool { return !m.Claimed() })
}

// ended reports whether ranks were seen and none of their processes is alive.
func ended(ev *rca.Evidence) bool {
	return len(ev.Ranks) > 0 && !slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool { return r.State != rca.ProcessGone && r.State != rca.ProcessExited })
}

// began gives when the youngest process that was seen began; zero: of some it is not known.
func began(ev *rca.Evidence, now time.Time) time.Time {
	least := time.Duration(0)
	for i := range ev.Ranks {
		age := ev.Ranks[i].Began
		if age <= 0 {
			return time.Time{}
		}
		if least == 0 || age < least {
			least = age
		}
	}
	if least == 0 {
		return time.Time{}
	}
	return now.Add(-least)
}

// firstEnd gives when the first process ended of those whose end is known; zero: there is none.
func firstEnd(ev *rca.Evidence, now time.Time) time.Time {
	most := time.Duration(0)
	for i := range ev.Ranks {
		most = max(most, ev.Ranks[i].Ended)
	}
	if most == 0 {
		return time.Time{}
	}
	return now.Add(-most)
}

// comms gives the communicators of those seen, the ones that most of them are in first. Where a source does not tell a communicator's id, it
// is 0, in every run.
func comms(ev *rca.Evidence) []string {
	members := map[string]int{}
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			if id := string(ev.Ranks[i].Memberships[j].Comm); !strings.HasPrefix(id, "0/") {
				members[id]++
			}
		}
	}
	return slices.SortedFunc(maps.Keys(members), func(a, b string) int { return cmp.Or(cmp.Compare(members[b], members[a]), cmp.Compare(a, b)) })
}

// rankState gives a rank's state and the operation it is in.
func rankState(r *rca.Rank, names map[rca.CommID]string, hangAfter time.Duration) (state, text string) {
	switch r.State {
	case rca.ProcessGone, rca.ProcessExited, rca.ProcessStopped, rca.ProcessDisk:
		return string(r.State), string(r.State)
	case rca.ProcessRunning, rca.ProcessUnknown:
	}
	state = stateIdle
	var longest time.Duration = -1
	for i := range r.Memberships {
		m := &r.Memberships[i]
		for j := range m.InFlight {
			o := &m.InFlight[j]
			if o.Stuck > longest {
				longest = o.Stuck
				text = fmt.Sprintf("%s #%d on %s", o.Func, o.Number, cmp.Or(names[m.Comm], string(m.Comm)))
			}
		}
	}
	switch {
	case longest >= hangAfter:
		return stateStuck, fmt.Sprintf("%s, no progress for %.1f s", text, longest.Seconds())
	case longest >= 0:
		return stateMoving, text
	default:
		return state, "in no operation"
	}
}
