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
	"github.com/culprit-project/culprit/analyzer/search"
)

// learnComms bounds for how many communicators members are looked up.
const learnComms = 64

// Survey gathers what Prometheus knows of all ranks of a job too large to ask all exporters: where the waiting ends (H6). The
// operation counts of the communicators it looks into become evidence.
func (s *Session) Survey(ctx context.Context, triggered []int) *search.Overview {
	d := s.g.Directory
	o := &search.Overview{Triggered: append(s.besideAbsent(), triggered...)}
	silent := map[*Node]bool{}
	for _, r := range s.Ranks() {
		if n := s.byRank[r]; !s.processes[r].Live && !silent[n] {
			silent[n] = true
			o.Silent = append(o.Silent, r)
		}
	}
	var comms []search.Comm
	var wg sync.WaitGroup
	var commsErr, idleErr, stalledErr error
	wg.Go(func() { comms, commsErr = d.Heads(ctx, s.job) })
	wg.Go(func() { o.Stalled, stalledErr = d.Stalled(ctx, s.job, search.MostEnds) })
	wg.Go(func() { o.Idle, idleErr = d.Idle(ctx, s.job, search.MostEnds) })
	wg.Go(func() { s.standing, _ = d.Standing(ctx, s.job) }) // It only describes the extent; an error changes no finding.
	wg.Wait()
	waiting := 0
	for i := range comms {
		waiting += comms[i].Heads
	}
	if waiting >= len(s.processes) {
		o.Idle = nil // All ranks wait, so the idle ones were idle at another scrape.
	}
	s.note(cmp.Or(commsErr, idleErr, stalledErr))

	ends := slices.Concat(o.Idle, o.Silent[:min(len(o.Silent), search.MostEnds)])
	var around []search.Comm
	var aroundErr, leastErr error
	wg.Go(func() { around, aroundErr = d.CommsOf(ctx, s.job, ends) })
	if search.Crowded(comms, len(ends) > 0) {
		wg.Go(func() { leastErr = d.Least(ctx, s.job, comms) })
	}
	wg.Wait()
	s.note(cmp.Or(aroundErr, leastErr))

	into, besides := search.Choose(comms, len(ends) > 0)
	besides = slices.Concat(search.Around(around), besides)
	rings := s.rings(ctx, slices.Concat(into, besides))
	for _, id := range into {
		o.Rings = append(o.Rings, rings[id])
	}
	for _, id := range besides {
		o.Around = append(o.Around, rings[id])
	}
	return o
}

// rings looks up the members and counts of communicators, by their identifier in Prometheus.
func (s *Session) rings(ctx context.Context, ids []rca.CommID) map[rca.CommID]search.Ring {
	out := map[rca.CommID]search.Ring{}
	if len(ids) == 0 {
		return out
	}
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, string(id))
	}
	var members []Member
	var counts []Count
	var membersErr, countsErr error
	var wg sync.WaitGroup
	wg.Go(func() { members, membersErr = s.g.Directory.Members(ctx, s.job, names) })
	wg.Go(func() { counts, countsErr = s.g.Directory.Counts(ctx, s.job, names) })
	wg.Wait()
	s.note(cmp.Or(membersErr, countsErr))
	members = slices.DeleteFunc(members, func(m Member) bool { return !s.scrapedFrom(m.Rank, m.Instance) })
	counts = slices.DeleteFunc(counts, func(c Count) bool { return !s.scrapedFrom(c.Rank, c.Instance) })
	s.learn(members)
	s.count(counts)
	type place struct {
		comm string
		rank int
	}
	counted := make(map[place]*Count, len(counts))
	for i := range counts {
		counted[place{counts[i].Comm, counts[i].Rank}] = &counts[i]
	}
	for i := range members {
		m := &members[i]
		id := rca.CommID(m.Comm)
		r := out[id]
		r.ID = rca.CommID(m.Comm + "/" + strconv.Itoa(m.NRanks))
		x := search.Member{Rank: m.Rank, CommRank: m.CommRank, Started: -1, Completed: -1}
		if c := counted[place{m.Comm, m.Rank}]; c != nil {
			x.Started, x.Completed = c.Started, c.Completed
		}
		r.Members = append(r.Members, x)
		out[id] = r
	}
	for _, r := range out {
		slices.SortFunc(r.Members, func(a, b search.Member) int {
			return cmp.Or(cmp.Compare(a.CommRank, b.CommRank), cmp.Compare(a.Rank, b.Rank))
		})
	}
	return out
}

// ScoutSlow chooses the exporters whose finished work to fetch first in a job too large to fetch all: those of the ranks whose
// use of time has changed most since before the first trigger, likeliest first.
func (s *Session) ScoutSlow(ctx context.Context, since time.Duration) []*Node {
	ranks, err := s.g.Directory.Grown(ctx, s.job, since+s.g.Directory.past(ctx))
	s.note(err)
	return s.NodesOf(ranks)
}

// mostHinted bounds the ranks that triggers point at: as many triggers a job name a rank or a communicator (the mixin's namedPerJob).
const mostHinted = 4

// Hinted gives the ranks that triggers name, and the first members of the communicators that they name.
func (s *Session) Hinted(ctx context.Context, hints []Hint) []int {
	var out []int
	var comms []string
	for _, h := range hints {
		if h.Rank >= 0 && len(out) < mostHinted && !slices.Contains(out, h.Rank) {
			out = append(out, h.Rank)
		}
		if h.Rank < 0 && h.Comm != "" && len(comms) < mostHinted && !slices.Contains(comms, h.Comm) {
			comms = append(comms, h.Comm)
		}
	}
	if len(comms) == 0 {
		return out
	}
	members, err := s.g.Directory.Members(ctx, s.job, comms)
	s.note(err)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.CommRank, b.CommRank) })
	for i := range members {
		if m := &members[i]; len(out) < 2*mostHinted && s.scrapedFrom(m.Rank, m.Instance) && !slices.Contains(out, m.Rank) {
			out = append(out, m.Rank)
		}
	}
	return out
}

// Sample gives further exporters that are not among besides, evenly spread over the job.
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

// note keeps the first error of Prometheus.
func (s *Session) note(err error) {
	if s.prom == nil {
		s.prom = err
	}
}

// learn stores which rank has which place in a communicator.
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

// count stores the operation counts of ranks whose exporters may never be asked.
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

// Learn asks Prometheus for the members of communicators in which a rank waits and of which not all members were seen. Without
// them, a rank that cannot be asked has no place in the operation that lacks it.
func (s *Session) Learn(ctx context.Context, ev *rca.Evidence) bool {
	waits := map[rca.CommID]bool{}
	for i := range ev.Ranks {
		waitsIn(&ev.Ranks[i], waits)
	}
	return s.learnMembers(ctx, ev, func(c *rca.Comm) bool { return waits[c.ID] })
}

// LearnPeers asks Prometheus for the members of communicators that contain some ranks and of which not all members were seen: the
// ranks can be compared with those members, and what they send goes to some of them.
func (s *Session) LearnPeers(ctx context.Context, ev *rca.Evidence, ranks []int) bool {
	return s.learnMembers(ctx, ev, func(c *rca.Comm) bool {
		return c.Size < s.world && slices.ContainsFunc(ranks, func(r int) bool { return slices.Contains(c.Members, r) })
	})
}

func (s *Session) learnMembers(ctx context.Context, ev *rca.Evidence, wanted func(*rca.Comm) bool) bool {
	var comms []string
	for i := range ev.Comms {
		c := &ev.Comms[i]
		if !wanted(c) || s.members[c.ID] != nil || len(comms) >= learnComms {
			continue
		}
		if len(c.Members) >= c.Size && !slices.Contains(c.Members, -1) {
			continue
		}
		name, _ := splitID(c.ID)
		comms = append(comms, name)
		s.members[c.ID] = map[int]int{} // So that it is asked for only once.
	}
	if len(comms) == 0 {
		return false
	}
	members, err := s.g.Directory.Members(ctx, s.job, comms)
	s.note(err)
	members = slices.DeleteFunc(members, func(m Member) bool { return !s.scrapedFrom(m.Rank, m.Instance) })
	s.learn(members)
	return len(members) > 0
}

// waitsIn adds the communicators of a rank's oldest operation in flight and of its running ones. Operations that are only
// enqueued behind these wait for this rank; the rank does not wait for them.
func waitsIn(r *rca.Rank, in map[rca.CommID]bool) {
	var oldest *rca.Op
	at := rca.CommID("")
	for j := range r.Memberships {
		m := &r.Memberships[j]
		for k := range m.InFlight {
			o := &m.InFlight[k]
			if o.Age < 0 || o.State >= rca.OpEntered {
				in[m.Comm] = true
			}
			if oldest == nil || o.Age > oldest.Age {
				oldest, at = o, m.Comm
			}
		}
	}
	if oldest != nil {
		in[at] = true
	}
}
