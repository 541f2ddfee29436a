// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package record arranges evidence as the papers' methods read it: who is a member of which communicator, what each member stands in, and
// finished work as rounds and transfers. It repairs nothing and decides nothing.
package record

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// Vote is what one method alone concludes.
type Vote struct {
	Method string    `json:"method"` // mycroft, ccl-d, pulse, holmes; what it says beside that follows a hyphen.
	Class  rca.Class `json:"class"`
	Ranks  []int     `json:"ranks"`
	Note   string    `json:"note,omitempty"`
}

// Job is the evidence of a job by communicator.
type Job struct {
	Ev     *rca.Evidence
	Opt    rca.Options
	Groups []*Group // By identifier.
	Work            // Finished.

	byID map[rca.CommID]*Group
}

// Group is a communicator with those of its members that were seen.
type Group struct {
	rca.Comm
	Members []Member // By rank in the communicator.
	Silent  []int    // Global ranks of which nothing was seen.
	node    []int    // By rank in the communicator: its node, -1 unknown.
}

// Member is a rank in a communicator.
type Member struct {
	Rank   *rca.Rank
	On     *rca.Membership
	oldest *rca.Op // Of the rank, in flight.
}

// New arranges evidence, which it does not change.
func New(ev *rca.Evidence, opt rca.Options) *Job {
	j := &Job{Ev: ev, Opt: opt.WithDefaults(), byID: map[rca.CommID]*Group{}}
	for i := range ev.Comms {
		g := &Group{Comm: ev.Comms[i]}
		j.byID[g.ID], j.Groups = g, append(j.Groups, g)
	}
	hosts := map[int]string{}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		hosts[r.ID] = r.Host
		first := oldest(r)
		for k := range r.Memberships {
			if g := j.byID[r.Memberships[k].Comm]; g != nil {
				g.Members = append(g.Members, Member{r, &r.Memberships[k], first})
			}
		}
	}
	slices.SortFunc(j.Groups, func(a, b *Group) int { return cmp.Compare(a.ID, b.ID) })
	for _, g := range j.Groups {
		slices.SortStableFunc(g.Members, func(a, b Member) int { return cmp.Compare(a.On.CommRank, b.On.CommRank) })
		for _, r := range g.Comm.Members {
			if r >= 0 && g.Of(r) == nil && len(g.Members) > 0 {
				g.Silent = append(g.Silent, r)
			}
		}
		g.placeNodes(hosts)
	}
	j.read()
	return j
}

// Label is the communicator's name for people.
func (g *Group) Label() string { return cmp.Or(g.Name, string(g.ID)) }

// Of gives the member that is a global rank, nil none.
func (g *Group) Of(rank int) *Member {
	for i := range g.Members {
		if g.Members[i].Rank.ID == rank {
			return &g.Members[i]
		}
	}
	return nil
}

// At gives the member of a rank in the communicator, nil none.
func (g *Group) At(commRank int) *Member {
	i, ok := slices.BinarySearchFunc(g.Members, commRank, func(m Member, want int) int { return cmp.Compare(m.On.CommRank, want) })
	if !ok {
		return nil
	}
	return &g.Members[i]
}

// Underway reports whether the operation has begun on the member: its kernel runs or its steps pass. Where kernels cannot be seen, what was
// launched first and shows nothing yet is taken for begun too, and what was launched behind it for queued: a GPU takes them in order.
func (m *Member) Underway(o *rca.Op) bool {
	if o.State >= rca.OpEntered || m.Rank.Caps&rca.SeesKernels != 0 {
		return o.State == rca.OpEntered || o.State == rca.OpMoving
	}
	return o == m.oldest || slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return f.Ready > 0 })
}

// oldest gives the operation in flight that a rank launched first, on any communicator; nil none.
func oldest(r *rca.Rank) *rca.Op {
	var out *rca.Op
	for i := range r.Memberships {
		for k := range r.Memberships[i].InFlight {
			if o := &r.Memberships[i].InFlight[k]; out == nil || o.Age > out.Age {
				out = o
			}
		}
	}
	return out
}

// Last is how many collectives the member has begun: the number after that of the last of which there is a log.
func (m *Member) Last() int64 {
	last := max(m.On.Completed, 0)
	if m.On.Completed < 0 && m.On.Started > 0 {
		last = m.On.Started
	}
	for i := range m.On.InFlight {
		if o := &m.On.InFlight[i]; o.Peer < 0 && m.Underway(o) {
			last = max(last, o.Number+1)
		}
	}
	return last
}

// Standing is an operation that makes no progress, with each member's part in it.
type Standing struct {
	Group *Group
	First *rca.Op // The part that has stood longest.
	For   time.Duration
	Parts []Part
	P2P   bool
}

// Part is one member's part.
type Part struct {
	*Member
	Op *rca.Op
}

// Has gives a rank's part, nil none.
func (s *Standing) Has(rank int) *rca.Op {
	for i := range s.Parts {
		if s.Parts[i].Rank.ID == rank {
			return s.Parts[i].Op
		}
	}
	return nil
}

// Matching gives the flow at the other end of a sender's flow, nil unknown.
func (s *Standing) Matching(from *Member, f *rca.Flow) (*Member, *rca.Flow) {
	for i := range s.Parts {
		if s.Parts[i].On.CommRank != f.Peer {
			continue
		}
		for k := range s.Parts[i].Op.Flows {
			if r := &s.Parts[i].Op.Flows[k]; !r.Send && r.Channel == f.Channel && r.Peer == from.On.CommRank {
				return s.Parts[i].Member, r
			}
		}
	}
	return nil, nil
}

// stands reports whether an operation in flight has gone without progress for long enough to count as stuck.
func (j *Job) stands(m *Member, o *rca.Op) bool {
	return !o.NoCompletion && m.Underway(o) && (o.Stuck >= j.Opt.HangAfter || o.Stuck < 0)
}

// Standing gives what stands still, the longest first: a collective each, and a pair's send and receive.
func (j *Job) Standing() []*Standing {
	type key struct {
		group    *Group
		p2p      bool
		number   int64
		src, dst int
	}
	found := map[key]*Standing{}
	var keys []key
	of := func(g *Group, m *Member, o *rca.Op) key {
		switch {
		case o.Peer < 0:
			return key{group: g, number: o.Number}
		case o.Func == "Recv":
			return key{g, true, o.Seq, o.Peer, m.On.CommRank}
		}
		return key{g, true, o.Seq, m.On.CommRank, o.Peer}
	}
	for _, g := range j.Groups {
		for i := range g.Members {
			m := &g.Members[i]
			for k := range m.On.InFlight {
				o := &m.On.InFlight[k]
				if !j.stands(m, o) {
					continue
				}
				at := of(g, m, o)
				s := found[at]
				if s == nil {
					s = &Standing{Group: g, P2P: at.p2p, For: -1}
					found[at], keys = s, append(keys, at)
				}
				if o.Stuck > s.For || s.First == nil {
					s.First, s.For = o, o.Stuck
				}
			}
		}
	}
	out := make([]*Standing, 0, len(keys))
	for _, at := range keys {
		s := found[at]
		for i := range at.group.Members {
			m := &at.group.Members[i]
			for k := range m.On.InFlight {
				if o := &m.On.InFlight[k]; of(at.group, m, o) == at && m.Underway(o) {
					s.Parts = append(s.Parts, Part{m, o})
				}
			}
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b *Standing) int { return cmp.Compare(b.For, a.For) })
	return out
}

// placeNodes numbers the nodes of a communicator as NCCL does, in the order of their first ranks.
func (g *Group) placeNodes(hosts map[int]string) {
	number := map[string]int{}
	for _, r := range g.ranks() {
		h := hosts[r]
		if h == "" {
			g.node = append(g.node, -1)
			continue
		}
		if _, known := number[h]; !known {
			number[h] = len(number)
		}
		g.node = append(g.node, number[h])
	}
}

// ranks gives the global ranks of the members by their rank in the communicator, -1 unknown.
func (g *Group) ranks() []int {
	out := slices.Clone(g.Comm.Members)
	for i := range g.Members {
		m := &g.Members[i]
		for len(out) <= m.On.CommRank {
			out = append(out, -1)
		}
		if m.On.CommRank >= 0 {
			out[m.On.CommRank] = m.Rank.ID
		}
	}
	return out
}

// CommRank gives the rank in the communicator of a global rank, -1 none.
func (g *Group) CommRank(rank int) int { return slices.Index(g.ranks(), rank) }

// Nodes gives the number of nodes that were seen.
func (g *Group) Nodes() int {
	if len(g.node) == 0 {
		return 0
	}
	return slices.Max(g.node) + 1
}

// Node gives the node of a rank in the communicator, -1 unknown.
func (g *Group) Node(commRank int) int {
	if commRank < 0 || commRank >= len(g.node) {
		return -1
	}
	return g.node[commRank]
}

// Group gives a communicator, nil unknown.
func (j *Job) Group(id rca.CommID) *Group { return j.byID[id] }

// Place gives where a rank runs; one that was not seen is at a place of its own.
func (j *Job) Place(rank int) topology.Place {
	for i := range j.Ev.Ranks {
		if r := &j.Ev.Ranks[i]; r.ID == rank {
			return topology.Place{Host: r.Host, GPU: r.GPU, NIC: r.NIC}
		}
	}
	return topology.Place{Host: "rank" + strconv.Itoa(rank)}
}
