// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/search"
)

// inflight is the oldest operation that a rank has in flight on a communicator, as nccl_op_age_seconds tells of it.
type inflight struct {
	comm rca.CommID
	age  time.Duration
}

// Bounds of nccl_op_age_seconds: from which age it is there, and what counts as a barrier.
const (
	agedFrom     = time.Second
	barrierBytes = 4
)

// heads gives what a rank has in flight, oldest first. Of a process that has ended Prometheus has none.
func heads(r *rca.Rank) (out []inflight, some bool) {
	if r.State == rca.ProcessGone || r.State == rca.ProcessExited {
		return nil, false
	}
	for j := range r.Memberships {
		m := &r.Memberships[j]
		some = some || len(m.InFlight) > 0
		for k := range m.InFlight {
			o := &m.InFlight[k]
			if o.Func == "AllReduce" && o.Bytes <= barrierBytes {
				continue
			}
			if o.Age >= agedFrom {
				out = append(out, inflight{m.Comm, o.Age})
			}
			break
		}
	}
	slices.SortStableFunc(out, func(a, b inflight) int { return cmp.Compare(b.age, a.age) })
	return out, some
}

// overview is what Prometheus tells of the whole job.
func (s *searcher) overview() *search.Overview {
	ev := &s.whole.ev
	o := new(search.Overview)
	comms := map[rca.CommID]*search.Comm{}
	for i := range ev.Ranks {
		list, some := heads(&ev.Ranks[i])
		if !some {
			o.Idle = append(o.Idle, ev.Ranks[i].ID)
		}
		if len(list) == 0 {
			continue
		}
		c := comms[list[0].comm]
		if c == nil {
			c = &search.Comm{ID: list[0].comm, Completed: -1}
			comms[c.ID] = c
		}
		c.Heads++
	}
	for i := range ev.Missing {
		o.Silent = append(o.Silent, ev.Missing[i].Ranks[:min(1, len(ev.Missing[i].Ranks))]...)
	}
	o.Stalled = s.stalled()
	if len(o.Idle) > search.MostEnds {
		o.Idle = nil
	}
	s.measure(comms)
	var list []search.Comm
	for _, id := range slices.Sorted(maps.Keys(comms)) {
		list = append(list, *comms[id])
	}
	ends := slices.Concat(o.Idle, o.Silent[:min(len(o.Silent), search.MostEnds)])
	into, besides := search.Choose(list, len(ends) > 0)
	for _, id := range into {
		o.Rings = append(o.Rings, s.ring(id))
	}
	for _, id := range slices.Concat(search.Around(s.commsOf(ends)), besides) {
		o.Around = append(o.Around, s.ring(id))
	}
	return o
}

// stalled gives the ranks that have seen no progress for longest.
func (s *searcher) stalled() []int {
	type quiet struct {
		rank int
		time time.Duration
	}
	var list []quiet
	for i := range s.whole.ev.Ranks {
		r := &s.whole.ev.Ranks[i]
		q := quiet{rank: r.ID}
		for j := range r.Memberships {
			for k := range r.Memberships[j].InFlight {
				q.time = max(q.time, r.Memberships[j].InFlight[k].Stuck)
			}
		}
		if q.time > 0 && r.State != rca.ProcessGone && r.State != rca.ProcessExited {
			list = append(list, q)
		}
	}
	slices.SortStableFunc(list, func(a, b quiet) int { return cmp.Compare(b.time, a.time) })
	var out []int
	for _, q := range list[:min(len(list), search.MostEnds)] {
		out = append(out, q.rank)
	}
	return out
}

// measure fills in sizes, and how far the member has come that has come least far.
func (s *searcher) measure(comms map[rca.CommID]*search.Comm) {
	for i := range s.whole.ev.Comms {
		if c := comms[s.whole.ev.Comms[i].ID]; c != nil {
			c.Size = s.whole.ev.Comms[i].Size
		}
	}
	for i := range s.whole.ev.Ranks {
		r := &s.whole.ev.Ranks[i]
		for j := range r.Memberships {
			m := &r.Memberships[j]
			if c := comms[m.Comm]; c != nil && (c.Completed < 0 || m.Completed < c.Completed) {
				c.Completed = m.Completed
			}
		}
	}
}

// commsOf gives the communicators of some ranks.
func (s *searcher) commsOf(ranks []int) []search.Comm {
	var out []search.Comm
	for i := range s.whole.ev.Comms {
		c := &s.whole.ev.Comms[i]
		if slices.ContainsFunc(ranks, func(r int) bool { return slices.Contains(c.Members, r) }) {
			out = append(out, search.Comm{ID: c.ID, Size: c.Size})
		}
	}
	return out
}

// ring looks up a communicator's members and their counts.
func (s *searcher) ring(id rca.CommID) search.Ring {
	s.known[id] = true
	r := search.Ring{ID: id}
	counts := map[int]*rca.Membership{}
	for i := range s.whole.ev.Ranks {
		for j := range s.whole.ev.Ranks[i].Memberships {
			if m := &s.whole.ev.Ranks[i].Memberships[j]; m.Comm == id {
				counts[s.whole.ev.Ranks[i].ID] = m
			}
		}
	}
	for i := range s.whole.ev.Comms {
		c := &s.whole.ev.Comms[i]
		if c.ID != id {
			continue
		}
		for k, rank := range c.Members {
			m := search.Member{Rank: rank, CommRank: k, Started: -1, Completed: -1}
			if n := counts[rank]; n != nil {
				m.Started, m.Completed = n.Started, n.Completed
			}
			r.Members = append(r.Members, m)
		}
	}
	return r
}
