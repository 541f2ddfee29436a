// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Bounds of a scouting: how many of each kind are looked at more closely.
const (
	scoutComms    = 8
	scoutTriggers = 16
	scoutSilent   = 16
	scoutBehind   = 16
	scoutStalled  = 16
	learnComms    = 64
)

// Scout chooses whom to ask first in a job too large to ask all (H6). What Prometheus has narrows it to: the triggers'
// ranks, ranks whose node is silent, the ranks furthest behind in the communicators that have been stuck longest, and
// the ranks that stopped first. Trouble spreads outward, so the oldest standstill is nearest to its source. The
// operation counts of all members of those communicators become evidence as they are.
func (s *Session) Scout(ctx context.Context, comms []string, ranks []int) []*Node {
	d := s.g.Directory
	stuck, err := d.StuckComms(ctx, s.jobID)
	s.note(err)
	for _, c := range stuck {
		if len(comms) < scoutComms && !slices.Contains(comms, c) {
			comms = append(comms, c)
		}
	}
	comms = comms[:min(len(comms), scoutComms)]

	var stalled []int
	var counts []Count
	var members []Member
	var stalledErr, countsErr, membersErr error
	var wg sync.WaitGroup
	wg.Go(func() { stalled, stalledErr = d.Stalled(ctx, s.jobID, scoutStalled) })
	if len(comms) > 0 {
		wg.Go(func() { counts, countsErr = d.Counts(ctx, s.jobID, comms) })
		wg.Go(func() { members, membersErr = d.Members(ctx, s.jobID, comms) })
	}
	wg.Wait()
	s.note(cmp.Or(stalledErr, countsErr, membersErr))
	s.learn(members)
	s.count(counts)

	ask := slices.Clone(ranks[:min(len(ranks), scoutTriggers)])
	silent := 0
	for _, r := range s.Ranks() {
		if !s.processes[r].Live && silent < scoutSilent {
			silent++
			ask = append(ask, r)
		}
	}
	ask = append(ask, stalled...)
	ask = append(ask, behind(counts)...)
	return s.NodesOf(ask)
}

// ScoutSlow chooses whose finished work to fetch first in a job too large to fetch all: that of the ranks whose way of
// spending time has changed most since before it was told of, likeliest first.
func (s *Session) ScoutSlow(ctx context.Context, since time.Duration) []*Node {
	ranks, err := s.g.Directory.Grown(ctx, s.jobID, since+grownPast)
	s.note(err)
	return s.NodesOf(ranks)
}

// Sample gives further exporters besides some, evenly over the job.
func (s *Session) Sample(most int, besides []*Node) []*Node {
	var rest []*Node
	for _, n := range s.nodes {
		if !slices.Contains(besides, n) {
			rest = append(rest, n)
		}
	}
	if len(rest) <= most {
		return rest
	}
	out := make([]*Node, 0, max(0, most))
	for i := range most {
		out = append(out, rest[i*len(rest)/most])
	}
	return out
}

// note remembers the first trouble with Prometheus.
func (s *Session) note(err error) {
	if s.prom == nil {
		s.prom = err
	}
}

// behind gives, for each communicator in which counts differ, the ranks with the lowest.
func behind(counts []Count) []int {
	byComm := map[string][]Count{}
	for _, c := range counts {
		byComm[c.Comm] = append(byComm[c.Comm], c)
	}
	var out []int
	for _, list := range byComm {
		slices.SortFunc(list, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Rank, b.Rank)) })
		most := list[len(list)-1].Started
		for _, c := range list[:min(len(list), scoutBehind)] {
			if c.Started < most {
				out = append(out, c.Rank)
			}
		}
		out = append(out, list[len(list)-1].Rank) // One that waits, to see what for.
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// learn takes over who is where in a communicator.
func (s *Session) learn(members []Member) {
	for _, m := range members {
		if m.CommRank < 0 || m.NRanks <= 0 {
			continue
		}
		id := rca.CommID(m.Comm + "/" + strconv.Itoa(m.NRanks))
		if s.members[id] == nil {
			s.members[id] = make(map[int]int, m.NRanks)
		}
		s.members[id][m.Rank] = m.CommRank
		s.names[id] = m.Name
	}
}

// count takes over operation counts of ranks that nobody may ask.
func (s *Session) count(counts []Count) {
	ids := map[string]rca.CommID{}
	for id := range s.members {
		name, _ := splitID(id)
		ids[name] = id
	}
	for _, c := range counts {
		id, known := ids[c.Comm]
		if !known {
			continue
		}
		s.counted[c.Rank] = append(s.counted[c.Rank], rca.Membership{
			Comm: id, CommRank: s.commRank(id, c.Rank), Called: c.Started, Started: c.Started, Completed: c.Completed,
			SinceCompleted: -1, SinceCalled: -1,
		})
	}
}

func (s *Session) commRank(id rca.CommID, rank int) int {
	if n, known := s.members[id][rank]; known {
		return n
	}
	return -1
}

func splitID(id rca.CommID) (comm string, nranks int) {
	text := string(id)
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '/' {
			nranks, _ = strconv.Atoi(text[i+1:])
			return text[:i], nranks
		}
	}
	return text, 0
}

// Learn asks Prometheus for the members of communicators in which something is in flight and of which not all members
// have been seen. Without it a rank that cannot be asked has no place in the operation that lacks it.
func (s *Session) Learn(ctx context.Context, ev *rca.Evidence) bool {
	busy := map[rca.CommID]bool{}
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			if m := &ev.Ranks[i].Memberships[j]; len(m.InFlight) > 0 {
				busy[m.Comm] = true
			}
		}
	}
	var comms []string
	for i := range ev.Comms {
		c := &ev.Comms[i]
		if !busy[c.ID] || s.members[c.ID] != nil || len(comms) >= learnComms {
			continue
		}
		if len(c.Members) >= c.Size && !slices.Contains(c.Members, -1) {
			continue
		}
		name, _ := splitID(c.ID)
		comms = append(comms, name)
		s.members[c.ID] = map[int]int{} // Asked for once.
	}
	if len(comms) == 0 {
		return false
	}
	members, err := s.g.Directory.Members(ctx, s.jobID, comms)
	s.note(err)
	s.learn(members)
	return len(members) > 0
}
