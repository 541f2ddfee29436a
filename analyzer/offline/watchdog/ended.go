// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// ended marks the ranks whose processes ended by themselves as gone. When one ends, the launcher and the watchdogs end
// the others: neither who waited until then nor who was ended counts.
func (b *builder) ended(logs []*Log, states map[Place]*State) {
	waited := map[int]bool{}
	for place, s := range states {
		waited[place.Rank] = waited[place.Rank] || len(s.Ops) > 0
	}
	ends := map[int]End{}
	for _, e := range b.candidates(logs) {
		if have, ok := ends[e.Rank]; !waited[e.Rank] && (!ok || e.better(&have)) {
			ends[e.Rank] = e
		}
	}
	maps.DeleteFunc(ends, func(_ int, e End) bool { return isVictim(e.Why) })
	if len(ends) > 1 { // A launcher on each node tells of the one it saw first.
		maps.DeleteFunc(ends, func(_ int, e End) bool { return strings.HasPrefix(e.Why, exited) })
	}
	if len(ends) == 0 {
		return
	}
	for r := range ends {
		b.world = max(b.world, r+1)
	}
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		e := ends[id]
		r := b.rank(id)
		r.State = rca.ProcessGone
		if r.Host == "" {
			r.Host = e.Host
		}
		if r.PID == 0 {
			r.PID = e.PID
		}
		b.facts = append(b.facts, rca.Fact{Host: r.Host, Rank: id, Component: "process", Kind: "ended", Text: "the log says how it ended: " + e.Why})
	}
}

// candidates gives the endings that may be a process's own.
func (b *builder) candidates(logs []*Log) []End {
	var out []End
	highest, specific := -1, false
	for _, l := range logs {
		for _, e := range l.Ends {
			if e.Task {
				highest = max(highest, e.Rank)
				specific = specific || !isVictim(e.Why) && !strings.Contains(e.Why, "SIGKILL")
			}
		}
	}
	for _, l := range logs {
		for _, e := range l.Ends {
			switch {
			case !e.Task:
			case b.world > highest+1:
				continue // Fewer tasks than ranks: one starts several.
			case specific && strings.Contains(e.Why, "SIGKILL"):
				continue // srun ended it.
			}
			out = append(out, e)
		}
	}
	return out
}
