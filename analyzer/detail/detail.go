// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package detail gives what a page shows of evidence beside the verdict: the transfer that stands still, the last operations of a slow
// job, and how the job divides its ranks.
package detail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
)

// Layout infers how the job divides its ranks, nil where its communicators do not tell.
func Layout(ev *rca.Evidence) *layout.Layout {
	groups := make([]layout.Group, 0, len(ev.Comms))
	for i := range ev.Comms {
		if c := &ev.Comms[i]; len(c.Members) == c.Size {
			groups = append(groups, layout.Group{Name: c.Name, Members: c.Members})
		}
	}
	return layout.Infer(ev.WorldSize, groups)
}

// QueuePairs gives the queue pairs of a rank to a peer in a communicator.
type QueuePairs interface {
	QueuePairs(rank int, comm rca.CommID, peer int) []trace.QP
}

// place is one flow of a rank.
type place struct {
	rank *rca.Rank
	m    *rca.Membership
	op   *rca.Op
	flow *rca.Flow
}

// StandingFlow gives the transfer that a job stands still in: one of the accused ranks, else one of those that wait for it, in the
// communicator that the verdict names. Nil: nobody shows one. Without qps its queue pairs are not known.
func StandingFlow(ev *rca.Evidence, v *rca.Verdict, qps QueuePairs) *incident.FlowView {
	if !v.Class.StandsStill() {
		return nil
	}
	ranks := make(map[int]*rca.Rank, len(ev.Ranks))
	for i := range ev.Ranks {
		ranks[ev.Ranks[i].ID] = &ev.Ranks[i]
	}
	comms := make(map[rca.CommID]*rca.Comm, len(ev.Comms))
	for i := range ev.Comms {
		comms[ev.Comms[i].ID] = &ev.Comms[i]
	}
	member := func(id rca.CommID, at int) int {
		if c := comms[id]; c != nil && at >= 0 && at < len(c.Members) {
			return c.Members[at]
		}
		return -1
	}
	var found *place
	for i := range v.Culprits {
		c := &v.Culprits[i]
		found = better(found, stuckest(ranks[c.Rank], comms, v.Comm, func(f *rca.Flow, _ rca.CommID) bool { return c.Channel < 0 || f.Channel == c.Channel }))
	}
	for i := range v.Chain {
		l := &v.Chain[i]
		if found != nil {
			break
		}
		found = stuckest(ranks[l.From], comms, v.Comm, func(f *rca.Flow, id rca.CommID) bool { return member(id, f.Peer) == l.To })
	}
	if found == nil {
		return nil
	}
	other := &place{}
	peer := member(found.m.Comm, found.flow.Peer)
	if r := ranks[peer]; r != nil {
		other = counterpart(r, found)
	}
	from, to := found, other
	fromRank, toRank := found.rank.ID, peer
	if !found.flow.Send {
		from, to, fromRank, toRank = other, found, peer, found.rank.ID
	}
	f := found.flow
	id, _, _ := strings.Cut(string(found.m.Comm), "/")
	out := &incident.FlowView{
		Comm: commName(comms, found.m.Comm), CommID: id, Op: opName(found.op), Channel: f.Channel, Total: f.Total, Stuck: rca.Round(f.Stuck.Seconds()),
		From: end(fromRank, ranks[fromRank], from.flow), To: end(toRank, ranks[toRank], to.flow),
	}
	if from.flow != nil && qps != nil {
		for _, q := range qps.QueuePairs(fromRank, found.m.Comm, from.flow.Peer) {
			out.QPs = append(out.QPs, incident.QueuePair{
				Device: q.Device, Num: q.QPNum, DestNum: q.DestQPNum, Remote: q.Remote, Outstanding: q.SendsPosted - min(q.SendsPosted, q.SendsCompleted), Errors: q.Errors,
			})
		}
	}
	return out
}

// better gives which of two flows tells more of why a rank stands: one with steps on their way, then a send, then the one that has stood
// for longer. A rank that stands has flows in both directions that stand with it.
func better(a, b *place) *place {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	weight := func(f *rca.Flow) int {
		switch {
		case f.Conditions()&(rca.NotTransmitted|rca.NotDelivered) != 0:
			return 2
		case f.Send:
			return 1
		}
		return 0
	}
	if cmp.Or(cmp.Compare(weight(b.flow), weight(a.flow)), cmp.Compare(b.flow.Stuck, a.flow.Stuck)) > 0 {
		return b
	}
	return a
}

// stuckest gives the unfinished flow of a rank that tells most of why it stands, in the communicator of that name where it has one.
func stuckest(r *rca.Rank, comms map[rca.CommID]*rca.Comm, comm string, meant func(*rca.Flow, rca.CommID) bool) *place {
	if r == nil {
		return nil
	}
	var inside, outside *place
	for i := range r.Memberships {
		m := &r.Memberships[i]
		for j := range m.InFlight {
			for k := range m.InFlight[j].Flows {
				f := &m.InFlight[j].Flows[k]
				if f.Finished() || !meant(f, m.Comm) {
					continue
				}
				p := &place{r, m, &m.InFlight[j], f}
				if comm == "" || commName(comms, m.Comm) == comm {
					inside = better(inside, p)
				} else {
					outside = better(outside, p)
				}
			}
		}
	}
	if inside != nil {
		return inside
	}
	return outside
}

// counterpart gives the other end of a flow; without its flow where the peer does not show it.
func counterpart(r *rca.Rank, of *place) *place {
	for i := range r.Memberships {
		m := &r.Memberships[i]
		if m.Comm != of.m.Comm {
			continue
		}
		for j := range m.InFlight {
			op := &m.InFlight[j]
			for k := range op.Flows {
				f := &op.Flows[k]
				if f.Send != of.flow.Send && f.Channel == of.flow.Channel && f.Peer == of.m.CommRank && (op.Number == of.op.Number || of.op.Peer >= 0) {
					return &place{r, m, op, f}
				}
			}
		}
	}
	return &place{}
}

func end(rank int, r *rca.Rank, f *rca.Flow) incident.FlowEnd {
	out := incident.FlowEnd{Rank: rank, Steps: [4]int64{-1, -1, -1, -1}}
	if r != nil {
		out.Host, out.GPU, out.NIC = r.Host, r.GPU, r.NIC
	}
	if f != nil {
		out.Steps = [4]int64{f.Posted, f.Ready, f.Transmitted, f.Done}
	}
	return out
}

func commName(comms map[rca.CommID]*rca.Comm, id rca.CommID) string {
	if c := comms[id]; c != nil {
		return cmp.Or(c.Name, string(id))
	}
	return string(id)
}

func opName(o *rca.Op) string {
	if o.Number < 0 || o.Unnumbered {
		return o.Func
	}
	return fmt.Sprintf("%s #%d", o.Func, o.Number)
}

// Bounds of what is shown of finished work.
const (
	mostRounds = 8
	mostSpells = 64
)

// Rounds gives the last operations of the communicator in which a job is slow, those that moved most bytes: what synchronises an
// iteration is large.
func Rounds(ev *rca.Evidence, v *rca.Verdict) []incident.Round {
	if len(ev.Timeline) == 0 || v.Class.StandsStill() || v.Class == rca.Benign || v.Class == rca.Healthy {
		return nil
	}
	comms := make(map[rca.CommID]*rca.Comm, len(ev.Comms))
	for i := range ev.Comms {
		comms[ev.Comms[i].ID] = &ev.Comms[i]
	}
	id, ok := slowComm(ev, v, comms)
	if !ok {
		return nil
	}
	type spell struct {
		incident.Spell
		fn string
	}
	byNumber := map[int64][]spell{}
	most := int64(0)
	lastEnd := map[int]int64{}
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		if s.Comm == id && s.Kind == rca.SegmentOp && s.Peer < 0 {
			most = max(most, s.Bytes)
		}
	}
	for i := range ev.Timeline { // By rank, in the order of their beginning.
		s := &ev.Timeline[i]
		if s.Comm != id || s.Kind != rca.SegmentOp || s.Peer >= 0 || 2*s.Bytes < most {
			continue
		}
		begin := begun(s)
		x := spell{incident.Spell{Rank: s.Rank, Before: -1, Inside: seconds(s.End - begin), Network: rca.Round(s.Active.Seconds())}, s.Func}
		if at, known := lastEnd[s.Rank]; known && begin >= at {
			x.Before = seconds(begin - at)
		}
		lastEnd[s.Rank] = s.End
		byNumber[s.Number] = append(byNumber[s.Number], x)
	}
	var numbers []int64
	for n, list := range byNumber {
		if len(list) > 1 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var out []incident.Round
	for _, n := range numbers[max(0, len(numbers)-mostRounds):] {
		r := incident.Round{Comm: commName(comms, id), Op: fmt.Sprintf("%s #%d", byNumber[n][0].fn, n)}
		// Of many, those that came last are kept: they were in it for the shortest time.
		slices.SortFunc(byNumber[n], func(a, b spell) int { return cmp.Or(cmp.Compare(a.Inside, b.Inside), cmp.Compare(a.Rank, b.Rank)) })
		kept := byNumber[n][:min(len(byNumber[n]), mostSpells)]
		if first := byNumber[n][len(byNumber[n])-1]; len(kept) < len(byNumber[n]) {
			kept[len(kept)-1] = first // And who came first, to see how long that waited.
		}
		for _, x := range kept {
			r.Members = append(r.Members, x.Spell)
		}
		slices.SortFunc(r.Members, func(a, b incident.Spell) int { return cmp.Compare(a.Rank, b.Rank) })
		out = append(out, r)
	}
	return out
}

// slowComm gives the communicator that shows how a job is slow: the one that the verdict names; else, of the accused rank's, the one in
// which others wait for it longest; else the one with most ranks that finished something.
func slowComm(ev *rca.Evidence, v *rca.Verdict, comms map[rca.CommID]*rca.Comm) (rca.CommID, bool) {
	accused := -1
	if len(v.Culprits) > 0 {
		accused = v.Culprits[0].Rank
	}
	type instance struct {
		comm   rca.CommID
		number int64
	}
	longest, own := map[instance]int64{}, map[instance]int64{} // Time inside: of whoever came first, of the accused.
	ranks := map[rca.CommID]map[int]bool{}
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		if s.Kind != rca.SegmentOp || s.Peer >= 0 || s.Comm == "" {
			continue
		}
		if ranks[s.Comm] == nil {
			ranks[s.Comm] = map[int]bool{}
		}
		ranks[s.Comm][s.Rank] = true
		at := instance{s.Comm, s.Number}
		inside := s.End - begun(s)
		longest[at] = max(longest[at], inside)
		if s.Rank == accused {
			own[at] = inside
		}
	}
	waited := map[rca.CommID]int64{}
	for at, inside := range own {
		waited[at.comm] += longest[at] - inside
	}
	var ids []rca.CommID
	for id, in := range ranks {
		if len(in) > 1 && (accused < 0 || in[accused]) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", false
	}
	named := func(id rca.CommID) int {
		if v.Comm != "" && commName(comms, id) == v.Comm {
			return 0
		}
		return 1
	}
	return slices.MinFunc(ids, func(a, b rca.CommID) int {
		return cmp.Or(cmp.Compare(named(a), named(b)), cmp.Compare(waited[b], waited[a]), cmp.Compare(len(ranks[b]), len(ranks[a])), cmp.Compare(a, b))
	}), true
}

// begun gives when the GPU came to an operation, where that was seen; a program enqueues it long before. Else when it was enqueued.
func begun(s *rca.Segment) int64 {
	if s.Entered > s.Start && s.Entered <= s.End {
		return s.Entered
	}
	return s.Start
}

func seconds(ns int64) float64 { return rca.Round(time.Duration(ns).Seconds()) }
