// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Comm is a communicator that is the head of some rank.
type Comm struct {
	ID        rca.CommID
	Size      int   // Members.
	Heads     int   // Members of which it is the head.
	Completed int64 // Operations completed by the member that completed least; -1 unknown.
}

// closed reports whether all members wait in it, so that the reason for the standstill is inside.
func (c *Comm) closed() bool { return c.Size > 0 && c.Heads >= c.Size }

// Member is one rank's place in a communicator and its operation counts there; -1 unknown.
type Member struct {
	Rank, CommRank     int
	Started, Completed int64
}

// Ring is a communicator with its members in order.
type Ring struct {
	ID      rca.CommID
	Members []Member // By rank in the communicator.
}

// Bounds of the first round.
const (
	MostComms  = 4  // Communicators whose members are looked up.
	MostEnds   = 16 // Idle ranks, and silent exporters.
	mostBlind  = 16 // Ranks of the triggers, and ranks stalled longest, asked where the ends tell nothing.
	mostBehind = 16 // Members of one communicator.
	mostAround = 3
	ringSample = 4
	ringWhole  = 8 // Up to this size all members are asked: groups inside a host, and pipelines, have no order to search by.
)

// Choose gives the communicators in which the waiting ends, the most informative first. Where many are closed, only those count
// that have completed least among communicators of their size: the others wait later, for the same reason. Where none is left, no
// rank is idle and no exporter silent, ranks wait for each other in a cycle. Then it is the smallest of the communicators that
// completed least. Of the others, besides, only members and counts are needed.
func Choose(comms []Comm, ends bool) (into, besides []rca.CommID) {
	least := map[int]int64{}
	for i := range comms {
		c := &comms[i]
		if n, ok := least[c.Size]; !ok || c.Completed < n {
			least[c.Size] = c.Completed
		}
	}
	ahead := func(c Comm) bool { return c.Completed > least[c.Size] }
	out := slices.DeleteFunc(slices.Clone(comms), func(c Comm) bool { return !c.closed() })
	if len(out) > MostComms {
		out = slices.DeleteFunc(out, ahead)
	}
	into = first(out)
	if len(into) == 0 && !ends {
		into = first(slices.DeleteFunc(slices.Clone(comms), ahead))
		return into[:min(len(into), 1)], into[min(len(into), 1):]
	}
	return into, nil
}

// first gives the smallest communicators: there, a waiting rank is nearest to what it waits for.
func first(comms []Comm) []rca.CommID {
	slices.SortFunc(comms, func(a, b Comm) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.ID, b.ID))
	})
	ids := make([]rca.CommID, 0, MostComms)
	for i := range comms[:min(len(comms), MostComms)] {
		ids = append(ids, comms[i].ID)
	}
	return ids
}

// Crowded reports whether Choose needs to know how many operations communicators have completed.
func Crowded(comms []Comm, ends bool) bool {
	n := 0
	for i := range comms {
		if comms[i].closed() {
			n++
		}
	}
	return n > MostComms || n == 0 && !ends
}

// Around chooses, among the communicators of idle and silent ranks, those in which to look for ranks that wait for them: the
// smallest, because there the waiting ranks are nearest.
func Around(comms []Comm) []rca.CommID {
	comms = slices.Clone(comms)
	slices.SortFunc(comms, func(a, b Comm) int { return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.ID, b.ID)) })
	comms = slices.DeleteFunc(comms, func(c Comm) bool { return c.Size < 2 })
	var ids []rca.CommID
	for i := range comms[:min(len(comms), mostAround)] {
		ids = append(ids, comms[i].ID)
	}
	return ids
}

// Overview is what is known before any exporter is asked.
type Overview struct {
	Idle      []int // Ranks with nothing in flight while most have.
	Silent    []int // One rank of each exporter that is no longer scraped.
	Rings     []Ring
	Around    []Ring // Communicators of the idle and silent ranks, and others of which only counts are known.
	Triggered []int  // Ranks that triggers name.
	Stalled   []int  // Ranks without progress for longest.
}

// ends reports whether the overview shows where the waiting ends.
func (o *Overview) ends() bool { return len(o.Idle)+len(o.Silent)+len(o.Rings) > 0 }
