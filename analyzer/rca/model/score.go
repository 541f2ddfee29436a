// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// What is an observation that is no letter of an operation.
type What uint8

// Kinds of observations.
const (
	OfPart    What = iota // A letter of a part or of one of its flows.
	OfProcess             // The state of a process.
	OfCall                // Members of an operation called different things.
	OfOrder               // Ranks called two operations in opposite orders.
	OfSource              // A source does not answer.
	OfFact                // A host reports a fault.
)

// Term is one observation, and what a world makes of it.
type Term struct {
	What What
	Node int32
	Part int32 // -1 unless OfPart.
	Flow int32 // Of the part; -1: the part itself.
	Seen observe.Letter
	Nats float64
	Open bool // The world leaves open what is seen.
}

// Score adds up the log-likelihood of everything seen. Each observation is one term, and every world has the same terms.
func (s *States) Score(each func(Term)) (sum float64) {
	add := func(t Term) {
		if t.Nats < lossy && s.unreliable(t) {
			t.Nats = lossy
		}
		sum += t.Nats
		if each != nil {
			each(t)
		}
	}
	s.scoreParts(add)
	s.scoreProcesses(add)
	s.scoreCalls(add)
	s.scoreSources(add)
	return sum
}

// unreliable: what contradicts the world may be missing where records were dropped, and false where a host lies.
func (s *States) unreliable(t Term) bool {
	if s.w.has(t.Node, Liar) {
		return true
	}
	r := s.w.job.Index.Nodes[t.Node].Rank
	return r != nil && r.Lost > 0 && t.What == OfPart
}

func (s *States) scoreParts(add func(Term)) {
	j := s.w.job
	for p := range j.Parts {
		part := &j.Parts[p]
		if !j.Operations[part.Operation].Still || part.Seen == observe.Left || part.Seen == observe.Unknown || part.Blank || part.Op != nil && !part.Still && !part.Moving {
			continue
		}
		nats := s.kernel(int32(p))
		if part.Seen == observe.NotCalled {
			nats /= float64(j.Awaited[part.Node]) // That a rank makes no calls is one observation.
		}
		add(Term{Node: part.Node, Part: int32(p), Flow: -1, Seen: part.Seen, Nats: nats, Open: s.open(int32(p), -1)})
		for k := range part.Flows {
			f := &part.Flows[k]
			add(Term{Node: part.Node, Part: int32(p), Flow: int32(k), Seen: f.Seen, Nats: s.flow(int32(p), f), Open: s.open(int32(p), f.Peer)})
		}
	}
}

func (s *States) scoreProcesses(add func(Term)) {
	for n := range s.w.job.Index.Nodes {
		r := s.w.job.Index.Nodes[n].Rank
		if r == nil || r.State == rca.ProcessUnknown {
			continue
		}
		ended := r.State == rca.ProcessGone || r.State == rca.ProcessExited
		stopped := r.State == rca.ProcessStopped
		nats := certain
		if s.w.has(int32(n), Gone) == ended && s.w.has(int32(n), Stopped) == stopped {
			nats = 0
		}
		add(Term{What: OfProcess, Node: int32(n), Part: -1, Flow: -1, Nats: nats})
	}
}

func (s *States) scoreCalls(add func(Term)) {
	j := s.w.job
	for i := range j.Operations {
		nats, n := certain, int32(-1)
		for _, p := range j.Operations[i].Parts {
			if j.Parts[p].Odd {
				n = j.Parts[p].Node
				if s.w.has(n, OtherCall) {
					nats = likely
				}
			}
		}
		if n >= 0 && j.Judged(&j.Operations[i]) {
			add(Term{What: OfCall, Node: n, Part: -1, Flow: -1, Nats: nats})
		}
	}
	for o := range j.Orders {
		nats := certain
		for _, f := range s.w.Faults {
			if f.Kind == Crossed && (slices.Contains(j.Orders[o].Odd, f.A) || slices.Contains(j.Orders[o].Rest, f.A) && j.Orders[o].Even()) {
				nats = likely
			}
		}
		add(Term{What: OfOrder, Node: j.Orders[o].Odd[0], Part: -1, Flow: -1, Nats: nats})
	}
}

func (s *States) scoreSources(add func(Term)) {
	j := s.w.job
	for i := range j.Sources {
		src := &j.Sources[i]
		nats := likely
		switch lost := s.w.has(src.Nodes[0], Lost); {
		case src.Fell == Maybe: // It may be either.
			nats = possible
		case lost != (src.Fell == Yes):
			nats = wrong // An exporter fails at this very moment, or a host is lost and the job goes on.
		}
		add(Term{What: OfSource, Node: src.Nodes[0], Part: -1, Flow: -1, Nats: nats})
	}
	for _, f := range j.Facts {
		nats := unreported
		for _, n := range f.Nodes {
			if s.w.has(n, reports[f.Kind]...) {
				nats = reported
			}
		}
		add(Term{What: OfFact, Node: f.Nodes[0], Part: -1, Flow: -1, Nats: nats})
	}
}

// reports has the faults that a host's report follows from. A process may die of its GPU's error.
var reports = [...][]Kind{observe.DeadGPU: {GPU, Gone}, observe.DeadPort: {NIC}}

// open tells whether the world leaves open what this part or its peer does.
func (s *States) open(p, peer int32) bool {
	maybe := func(p int32) bool { return s.Calls[p] == Maybe || s.Runs[p] == Maybe }
	return maybe(p) || peer >= 0 && maybe(peer)
}

// kernel grades the letter of a part.
func (s *States) kernel(p int32) float64 {
	part := &s.w.job.Parts[p]
	switch {
	case part.Seen == observe.NotCalled && s.Calls[p] == No:
		return likely
	case part.Seen == observe.NotCalled && s.Calls[p] == Maybe:
		return unlikely // Most programs call ahead.
	case part.Seen == observe.NotCalled:
		return wrong
	case part.Moving && s.Ends[p] == No: // It may just have stopped. One clock tells of all ranks of a host.
		return likely + (possible-likely)/float64(s.w.job.Moving[part.Node])
	case part.Moving:
		return likely
	case s.Ends[p] == Yes:
		return wrong // It should have ended.
	case part.Seen == observe.Called, s.Runs[p] == Maybe, (part.Seen == observe.Inside) == (s.Runs[p] == Yes):
		return likely
	}
	return wrong
}

// flow grades the letter of a flow: the best of what its two ends may be doing.
func (s *States) flow(p int32, f *observe.Flow) float64 {
	j := s.w.job
	part := &j.Parts[p]
	switch {
	case part.Moving || f.Seen == observe.Passed:
		return likely
	case s.Ends[p] == Yes:
		return wrong // Data should have passed.
	}
	mine, theirs, deaths := s.ways(p), []way{runs}, []death{s.dead(p, f)}
	if f.Peer >= 0 {
		theirs = s.ways(f.Peer)
		if s.w.has(j.Parts[f.Peer].Node, Unseen) {
			deaths = append(deaths, sender, receiver, wire)
		}
	}
	best := 2 * wrong // It fits nothing that its ends may be doing.
	for _, m := range mine {
		for _, t := range theirs {
			for _, d := range deaths {
				best = max(best, s.between(p, f, m, t, d))
			}
		}
	}
	return best
}

// between grades the letter of a flow for what its two ends do.
func (s *States) between(p int32, f *observe.Flow, mine, theirs way, d death) float64 {
	from, to, of := mine, theirs, sends
	if !f.Send {
		from, to, of = theirs, mine, receives
	}
	want := of(from, to, d, &s.w.job.Operations[s.w.job.Parts[p].Operation])
	g := want.grade(f.Seen)
	if g == possible && d == alive && from == runs && to == runs && (f.Seen == observe.Full || f.Seen == observe.Unconsumed) && s.jam(p, f) {
		return likely // The receiver passes it on where nobody sees.
	}
	return g
}

// jam tells whether the receiver of a flow hands on what it gets where nobody sees.
func (s *States) jam(p int32, f *observe.Flow) bool {
	if !f.Send {
		return f.Onward
	}
	return f.Peer >= 0 && slices.ContainsFunc(s.w.job.Parts[f.Peer].Flows, func(g observe.Flow) bool { return g.Onward && g.Peer == p })
}
