// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/search"
)

// searchPast is from how many exporters on the service searches.
const searchPast = 64

// Bounds of a look back in a large job, as the service has them: hosts up to which all are asked, else hosts at first, further rounds and hosts in each, and
// ranks of each kind of change.
const (
	backAll    = 32
	backHosts  = 16
	backRounds = 3
	backNext   = 8
	backEach   = 4
)

// searcher restricts the whole evidence of a moment to what has been asked for. What it may use of the rest is what
// Prometheus has: who is in a communicator, operation counts, the age of the oldest operation in flight.
type searcher struct {
	whole  *gathered
	plan   search.Plan
	asked  map[string]bool // Hosts of which all ranks were asked for,
	alone  map[int]bool    // and ranks asked for beside them.
	hostOf map[int]string
	known  map[rca.CommID]bool // Communicators of which members and counts were looked up.
	rounds int
}

// newSearch begins a search over evidence, or goes on where one of a moment ago ended.
func newSearch(g *gathered, before *searcher) *searcher {
	s := &searcher{whole: g, asked: map[string]bool{}, alone: map[int]bool{}, hostOf: rankHosts(g), known: map[rca.CommID]bool{}}
	if before != nil {
		maps.Copy(s.asked, before.asked)
		maps.Copy(s.alone, before.alone)
		maps.Copy(s.known, before.known)
		s.plan = before.plan
		return s
	}
	for _, r := range s.plan.First(s.overview()) {
		s.alone[r] = true
	}
	return s
}

// rankHosts gives the host of every rank, those that do not answer among them.
func rankHosts(g *gathered) map[int]string {
	out := map[int]string{}
	for i := range g.ev.Ranks {
		out[g.ev.Ranks[i].ID] = g.ev.Ranks[i].Host
	}
	for i := range g.ev.Missing {
		for _, r := range g.ev.Missing[i].Ranks {
			out[r] = g.ev.Missing[i].Name
		}
	}
	return out
}

// wholeJob is the search after which all have been asked.
func wholeJob(g *gathered) *searcher {
	s := &searcher{whole: g, asked: map[string]bool{}, alone: map[int]bool{}, hostOf: rankHosts(g)}
	for _, h := range g.names {
		s.asked[h] = true
	}
	return s
}

// run widens until the plan asks for nobody else.
func (s *searcher) run(analyze func(*rca.Evidence) rca.Verdict) (*rca.Evidence, rca.Verdict) {
	for s.rounds = 1; ; s.rounds++ {
		ev := s.evidence()
		v := analyze(ev)
		next := s.plan.Next(ev, &v, s.has)
		if len(next) == 0 {
			return ev, v
		}
		for _, r := range next {
			s.alone[r] = true
		}
	}
}

// has says that a rank was asked for, or cannot be.
func (s *searcher) has(rank int) bool {
	host, known := s.hostOf[rank]
	return !known || s.asked[host] || s.alone[rank]
}

// hosts counts the hosts asked.
func (s *searcher) hosts() int {
	n := maps.Clone(s.asked)
	for r := range s.alone {
		n[s.hostOf[r]] = true
	}
	return len(n)
}

// backFirst gives the hosts whose finished work is fetched first: those of some ranks, and others to compare them with,
// evenly over the job.
func (s *searcher) backFirst(ranks []int) []string {
	out := s.notTold(ranks, nil, backHosts)
	var rest []string
	for _, h := range s.whole.names {
		if !slices.Contains(out, h) {
			rest = append(rest, h)
		}
	}
	n := min(len(rest), max(0, backHosts-len(out)))
	for i := range n {
		out = append(out, rest[i*len(rest)/n])
	}
	return out
}

// notTold gives the hosts of some ranks whose finished work has not been fetched, at most so many.
func (s *searcher) notTold(ranks []int, told map[string]bool, most int) []string {
	var out []string
	for _, r := range ranks {
		if h, ok := s.hostOf[r]; ok && !told[h] && !slices.Contains(out, h) && len(out) < most {
			out = append(out, h)
		}
	}
	return out
}

// cost is the number of ranks asked and the bytes of their states.
func (s *searcher) cost() (ranks int, bytes int64) {
	g := s.whole
	part := map[string]int64{}
	for r, h := range s.hostOf {
		switch {
		case s.asked[h]:
			ranks++
		case s.alone[r]:
			ranks++
			if _, begun := part[h]; !begun {
				part[h] = g.bytesOf[h]
				for _, mate := range s.ranksOf(h) {
					part[h] -= g.bytesOfRank[mate] // What is left is of the node.
				}
			}
			part[h] += g.bytesOfRank[r]
		}
	}
	for h := range s.asked {
		bytes += g.bytesOf[h]
	}
	for _, n := range part {
		bytes += n
	}
	return ranks, bytes
}

func (s *searcher) ranksOf(host string) []int {
	var out []int
	for r, h := range s.hostOf {
		if h == host {
			out = append(out, r)
		}
	}
	return out
}

// evidence is what is known with the hosts asked so far.
func (s *searcher) evidence() *rca.Evidence {
	whole := &s.whole.ev
	ev := &rca.Evidence{JobID: whole.JobID, WorldSize: whole.WorldSize, Sources: whole.Sources, Partial: true}
	seen := map[rca.CommID]bool{}
	answered := map[string]bool{}
	for i := range whole.Ranks {
		r := &whole.Ranks[i]
		if s.has(r.ID) {
			ev.Ranks = append(ev.Ranks, *r)
			answered[r.Host] = true
			for j := range r.Memberships {
				seen[r.Memberships[j].Comm] = true
			}
			continue
		}
		var counted []rca.Membership
		for j := range r.Memberships {
			if m := &r.Memberships[j]; s.known[m.Comm] {
				counted = append(counted, rca.Membership{
					Comm: m.Comm, CommRank: m.CommRank, Called: m.Called, Started: m.Started, Completed: m.Completed, SinceCompleted: -1, SinceCalled: -1,
				})
			}
		}
		if counted != nil {
			ev.Ranks = append(ev.Ranks, rca.Rank{
				ID: r.ID, Host: r.Host, GPU: r.GPU, PID: r.PID, Caps: rca.SeesCalls, Memberships: counted,
				ReadBytesPerSec: -1, WriteBytesPerSec: -1, CPUCores: -1, ProxyRunDelay: -1,
			})
		}
	}
	for _, c := range whole.Comms {
		if seen[c.ID] || s.known[c.ID] {
			ev.Comms = append(ev.Comms, c)
		}
	}
	for i := range whole.Facts {
		if answered[whole.Facts[i].Host] {
			ev.Facts = append(ev.Facts, whole.Facts[i])
		}
	}
	for i := range whole.Missing {
		if slices.ContainsFunc(whole.Missing[i].Ranks, s.has) {
			ev.Missing = append(ev.Missing, whole.Missing[i])
		}
	}
	return ev
}
