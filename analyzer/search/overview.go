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

// closed says that all members wait in it: what it stands still for is inside.
func (c *Comm) closed() bool { return c.Size > 0 && c.Heads >= c.Size }

// Member is one rank's place in a communicator and its operation counts there; -1 unknown.
type Member struct {
	Rank, CommRank     int
	Started, Completed int64
}

// Ring is a communicator with its members.
type Ring struct {
	ID      rca.CommID
	Members []Member // By rank in the communicator.
}

// Bounds of the beginning.
const (
	MostComms  = 4  // Communicators that are looked into.
	MostEnds   = 16 // Ranks with nothing in flight, and silent nodes.
	mostBlind  = 16 // Of the triggers' ranks and those stalled longest, where nothing else tells.
	mostBehind = 16 // Of one communicator.
	mostAround = 3
	ringSample = 4
	ringWhole  = 8 // Of so many all are asked: those of one host, and pipelines, have no order to search by.
)

// Choose gives the communicators in which the waiting ends, most telling first. Where many are closed, only those count
// that have come less far than any other of their size: others wait in them for the same reason later. Where none is
// left, nothing is idle and nobody silent, ranks wait for each other: then it is the smallest of those that came least
// far, and of the others, besides, only members and counts are needed.
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

// first gives the smallest communicators: in those a wait is nearest to what it is for.
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

// Crowded says that Choose needs to know how far communicators have come.
func Crowded(comms []Comm, ends bool) bool {
	n := 0
	for i := range comms {
		if comms[i].closed() {
			n++
		}
	}
	return n > MostComms || n == 0 && !ends
}

// Around chooses, of the communicators that idle and silent ranks are members of, those in which to look who waits for
// them: the smallest, for in those a wait is nearest.
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

// Overview is what is known before any node is asked.
type Overview struct {
	Idle      []int // Ranks with nothing in flight while most have.
	Silent    []int // One rank of each node that is not scraped any more.
	Rings     []Ring
	Around    []Ring // Communicators of the idle and silent ranks, and others that are only counted.
	Triggered []int  // Ranks that triggers name.
	Stalled   []int  // Ranks that have seen no progress for longest.
}

// ends says whether the overview shows where the waiting ends.
func (o *Overview) ends() bool { return len(o.Idle)+len(o.Silent)+len(o.Rings) > 0 }
