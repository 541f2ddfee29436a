// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// MaxRounds bounds a search: one that takes longer will not find anything.
const MaxRounds = 32

// Bounds of a further round, in ranks: the first one, and the largest that rounds grow to while nothing is found.
const (
	leastPerRound = 8
	mostPerRound  = 128
)

// Plan is one search. The zero value is ready for First.
type Plan struct {
	rings  []Ring
	blind  []int // Ranks to ask where the ends tell nothing.
	rounds int
}

// First gives the ranks to ask first: the ends of the waiting, and beside each end a rank that waits for it.
func (p *Plan) First(o *Overview) []int {
	p.rings = slices.DeleteFunc(slices.Clone(o.Rings), func(r Ring) bool { return len(r.Members) == 0 })
	var out list
	out.add(o.Silent[:min(len(o.Silent), MostEnds)]...)
	out.add(o.Idle[:min(len(o.Idle), MostEnds)]...)
	for i := range o.Around {
		out.add(o.Around[i].next(slices.Concat(o.Idle, o.Silent))...)
	}
	for i := range p.rings {
		out.add(p.rings[i].extremes()...)
		out.add(p.rings[i].sample(ringSample)...)
	}
	var blind list
	blind.add(o.Triggered[:min(len(o.Triggered), mostBlind)]...)
	blind.add(o.Stalled[:min(len(o.Stalled), mostBlind)]...)
	p.blind = blind.ranks
	switch {
	case !o.ends():
		out.add(p.blind...)
	case len(o.Around) == 0 && len(o.Rings) == 0:
		out.add(p.blind[:min(len(p.blind), 2)]...) // Some ranks that wait.
	}
	return out.ranks
}

// Next gives the ranks to ask after the engine has seen the answers so far, the most needed first; none when the search is over.
// asked reports the ranks of which nothing new can be learned.
func (p *Plan) Next(ev *rca.Evidence, v *rca.Verdict, asked func(rank int) bool) []int {
	if p.rounds++; p.rounds >= MaxRounds {
		return nil
	}
	want := slices.DeleteFunc(p.wanted(ev, v), asked)
	if len(want) == 0 && !accuses(v) {
		want, p.blind = slices.DeleteFunc(p.blind, asked), nil
	}
	return want[:min(len(want), leastPerRound<<min(p.rounds-1, 16), mostPerRound)]
}

// wanted gives the ranks on which the answer still depends. The job waits for the ends that the overview shows, so these come
// first. An end that contains an accused rank is explained. Where a rank is accused and no end is left, the job is explained.
func (p *Plan) wanted(ev *rca.Evidence, v *rca.Verdict) []int {
	sure := accuses(v)
	if sure {
		p.rings = slices.DeleteFunc(p.rings, func(r Ring) bool {
			return slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return r.has(c.Rank) })
		})
	}
	group := slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return c.Rank < 0 })
	var out list
	for i := range p.rings {
		r := &p.rings[i]
		of := slices.DeleteFunc(slices.Clone(v.Ask), func(rank int) bool { return !r.has(rank) })
		if len(of) == 0 && !group {
			continue
		}
		if near := r.narrow(ev); len(near) > 0 {
			out.add(near...)
		} else {
			out.add(of...)
		}
	}
	if len(out.ranks) == 0 && !sure {
		out.add(v.Ask...)
	}
	return out.ranks
}

// accuses reports whether a verdict names a culprit of a standstill with enough confidence to page.
func accuses(v *rca.Verdict) bool {
	return len(v.Culprits) > 0 && v.Page && (v.Class == rca.NotEntered || v.Class == rca.Inconsistent || v.Class == rca.Fault)
}

// list is a list of ranks in order, without duplicates.
type list struct {
	ranks []int
	known map[int]bool
}

func (l *list) add(ranks ...int) {
	if l.known == nil {
		l.known = map[int]bool{}
	}
	for _, r := range ranks {
		if r >= 0 && !l.known[r] {
			l.known[r] = true
			l.ranks = append(l.ranks, r)
		}
	}
}

func (r *Ring) has(rank int) bool {
	return rank >= 0 && slices.ContainsFunc(r.Members, func(m Member) bool { return m.Rank == rank })
}

// sample gives at most this many members, evenly spread over the communicator.
func (r *Ring) sample(most int) []int {
	n := min(most, len(r.Members))
	if len(r.Members) <= ringWhole {
		n = len(r.Members)
	}
	out := make([]int, 0, n)
	for i := range n {
		out = append(out, r.Members[i*len(r.Members)/n].Rank)
	}
	return out
}

// extremes gives the members whose counts differ from most others': those that started or completed least or most, where they are
// few.
func (r *Ring) extremes() []int {
	var out []int
	for _, of := range []func(m *Member) int64{func(m *Member) int64 { return m.Started }, func(m *Member) int64 { return m.Completed }} {
		count := map[int64]int{}
		for i := range r.Members {
			count[of(&r.Members[i])]++
		}
		low, high := slices.MinFunc(r.Members, by(of)), slices.MaxFunc(r.Members, by(of))
		if len(count) < 2 || of(&high) >= 2*of(&low) {
			continue // All are equal, or these are sends and receives, of which members have different numbers.
		}
		for i := range r.Members {
			m := &r.Members[i]
			if n := count[of(m)]; of(m) >= 0 && n <= mostBehind && 4*n <= len(r.Members) {
				out = append(out, m.Rank)
			}
		}
	}
	return out
}

func by(of func(m *Member) int64) func(a, b Member) int {
	return func(a, b Member) int { return cmp.Compare(of(&a), of(&b)) }
}

// next gives the neighbours of some members: in a ring, and between pipeline stages, neighbours wait for them directly.
func (r *Ring) next(ranks []int) []int {
	var out []int
	n := len(r.Members)
	for i := range r.Members {
		if n > 1 && slices.Contains(ranks, r.Members[i].Rank) {
			out = append(out, r.Members[(i+1)%n].Rank, r.Members[(i+n-1)%n].Rank)
		}
	}
	return slices.DeleteFunc(out, func(x int) bool { return slices.Contains(ranks, x) })
}

// progress is how far a rank has come on a communicator.
type progress struct {
	number   int64 // Number of the operation it is in.
	received int64 // Steps.
}

// narrow gives members near the one with the least progress among those that were seen. In a ring each member is a step ahead of
// the one before it; the culprit is where this order begins.
func (r *Ring) narrow(ev *rca.Evidence) []int {
	n := len(r.Members)
	at := make(map[int]int, n)
	for i := range r.Members {
		at[r.Members[i].Rank] = i
	}
	seen := make([]bool, n)
	least, low := -1, progress{}
	for i := range ev.Ranks {
		k, ok := at[ev.Ranks[i].ID]
		if !ok {
			continue
		}
		p, ok := progressOf(&ev.Ranks[i], r.ID)
		if !ok {
			continue
		}
		seen[k] = true
		if least < 0 || cmp.Or(cmp.Compare(p.number, low.number), cmp.Compare(p.received, low.received), cmp.Compare(k, least)) < 0 {
			least, low = k, p
		}
	}
	if least < 0 {
		return nil
	}
	var before, after []int
	for i := 1; i < n && !seen[(least+n-i)%n]; i++ {
		before = append(before, r.Members[(least+n-i)%n].Rank)
	}
	for i := 1; i < n && !seen[(least+i)%n]; i++ {
		after = append(after, r.Members[(least+i)%n].Rank)
	}
	return append(spread(before), spread(after)...)
}

// spread gives at most two elements, which cut a list in equal parts.
func spread(ranks []int) []int {
	switch n := len(ranks); {
	case n <= 2:
		return ranks
	default:
		return []int{ranks[n/3], ranks[2*n/3]}
	}
}

// progressOf reads from a rank's answer how far it has come on a communicator.
func progressOf(r *rca.Rank, id rca.CommID) (progress, bool) {
	for i := range r.Memberships {
		m := &r.Memberships[i]
		if m.Comm != id {
			continue
		}
		if len(m.InFlight) == 0 {
			return progress{number: m.Called}, r.Caps != rca.SeesCalls
		}
		o := &m.InFlight[0]
		p := progress{number: o.Number}
		for k := range o.Flows {
			if f := &o.Flows[k]; !f.Send {
				p.received += f.Ready
			}
		}
		return p, o.Peer < 0 // Sends and receives have no common order.
	}
	return progress{}, false
}
