// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Search is how the progressive search went over a job that is too large to ask everybody.
type Search struct {
	Rounds int `json:"rounds"`
	Hosts  int `json:"hosts"` // Asked,
	Of     int `json:"of"`    // of so many.
	// Same: with all states known the engine says the same class and first-named. Only of standstills.
	Same bool `json:"same"`
	// Whole is how many bytes all states would have been.
	Whole int64 `json:"whole_bytes"`
}

// Bounds of the search, as the service has them: from how many exporters on it searches, where it begins, and how far
// it goes.
const (
	searchPast     = 64
	searchComms    = 8
	searchEach     = 16
	searchRounds   = 32
	searchPerRound = 64
)

// Bounds of a look back in a large job, as the service has them: hosts at first, further rounds and hosts in each, and
// ranks of each kind of change.
const (
	backHosts  = 24
	backRounds = 3
	backNext   = 8
	backEach   = 4
)

// searcher restricts the whole evidence of a moment to what has been asked for. What it may use of the rest is what
// Prometheus has: who is in a communicator, operation counts, who has stood still for how long.
type searcher struct {
	whole  *gathered
	asked  map[string]bool
	hostOf map[int]string
	stuck  []rca.CommID // Longest first, at most searchComms.
	rounds int
}

// newSearch begins a search over evidence, with hosts that have been asked before.
func newSearch(g *gathered, asked map[string]bool) *searcher {
	s := &searcher{whole: g, asked: map[string]bool{}, hostOf: map[int]string{}}
	for i := range g.ev.Ranks {
		s.hostOf[g.ev.Ranks[i].ID] = g.ev.Ranks[i].Host
	}
	for i := range g.ev.Missing {
		for _, r := range g.ev.Missing[i].Ranks {
			s.hostOf[r] = g.ev.Missing[i].Name
		}
	}
	for _, r := range s.scout() {
		if len(asked) == 0 {
			s.asked[s.hostOf[r]] = true
		}
	}
	maps.Copy(s.asked, asked)
	return s
}

// run widens along the waiting until the engine asks for nobody else.
func (s *searcher) run(analyze func(*rca.Evidence) rca.Verdict) (*rca.Evidence, rca.Verdict) {
	for s.rounds = 1; ; s.rounds++ {
		ev := s.evidence()
		v := analyze(ev)
		next := 0
		for _, r := range v.Ask {
			if h, ok := s.hostOf[r]; ok && !s.asked[h] && next < searchPerRound {
				s.asked[h] = true
				next++
			}
		}
		if next == 0 || s.rounds == searchRounds {
			return ev, v
		}
	}
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
	for h := range s.asked {
		bytes += s.whole.bytesOf[h]
	}
	for _, h := range s.hostOf {
		if s.asked[h] {
			ranks++
		}
	}
	return ranks, bytes
}

// scout gives the ranks that the search begins with: silent ones, those that stopped first, those furthest behind in
// the communicators that have been stuck longest, and one in each that waits.
func (s *searcher) scout() []int {
	ev := &s.whole.ev
	type quiet struct {
		rank int
		comm rca.CommID
		time time.Duration
	}
	var list []quiet
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			m := &ev.Ranks[i].Memberships[j]
			for k := range m.InFlight {
				list = append(list, quiet{ev.Ranks[i].ID, m.Comm, m.InFlight[k].Stuck})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b quiet) int { return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.comm, b.comm)) })
	var out []int
	for _, m := range ev.Missing {
		out = append(out, m.Ranks[:min(len(m.Ranks), max(0, searchEach-len(out)))]...)
	}
	for i, q := range list {
		if i < searchEach {
			out = append(out, q.rank)
		}
		if !slices.Contains(s.stuck, q.comm) && len(s.stuck) < searchComms {
			s.stuck = append(s.stuck, q.comm)
		}
	}
	type count struct {
		rank   int
		called int64
	}
	counts := map[rca.CommID][]count{}
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			if m := &ev.Ranks[i].Memberships[j]; slices.Contains(s.stuck, m.Comm) {
				counts[m.Comm] = append(counts[m.Comm], count{ev.Ranks[i].ID, m.Called})
			}
		}
	}
	for _, c := range s.stuck {
		l := counts[c]
		slices.SortStableFunc(l, func(a, b count) int { return cmp.Compare(a.called, b.called) })
		last := l[len(l)-1]
		for _, x := range l[:min(len(l), searchEach)] {
			if x.called < last.called {
				out = append(out, x.rank)
			}
		}
		out = append(out, last.rank)
	}
	return out
}

// evidence is what is known with the hosts asked so far.
func (s *searcher) evidence() *rca.Evidence {
	whole := &s.whole.ev
	ev := &rca.Evidence{JobID: whole.JobID, WorldSize: whole.WorldSize, Sources: whole.Sources, Partial: len(s.asked) < len(s.whole.names)}
	seen := map[rca.CommID]bool{}
	for i := range whole.Ranks {
		r := &whole.Ranks[i]
		if s.asked[r.Host] {
			ev.Ranks = append(ev.Ranks, *r)
			for j := range r.Memberships {
				seen[r.Memberships[j].Comm] = true
			}
			continue
		}
		var counted []rca.Membership
		for j := range r.Memberships {
			if m := &r.Memberships[j]; slices.Contains(s.stuck, m.Comm) {
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
		if seen[c.ID] || slices.Contains(s.stuck, c.ID) {
			ev.Comms = append(ev.Comms, c)
		}
	}
	for i := range whole.Facts {
		if s.asked[whole.Facts[i].Host] {
			ev.Facts = append(ev.Facts, whole.Facts[i])
		}
	}
	for i := range whole.Missing {
		if s.asked[whole.Missing[i].Name] {
			ev.Missing = append(ev.Missing, whole.Missing[i])
		}
	}
	return ev
}
