// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
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
	Open bool  // The world leaves open what is seen.
	Of   int32 // Nodes that show it.
}

// bad reports whether a world explains an observation badly.
func (t *Term) bad() bool { return t.Nats <= unlikely*float64(t.Of) }

// fine is the unit of terms: sums of its multiples are exact.
const fine = 1.0 / (1 << 20)

// score is the log-likelihood of everything seen. Each observation is one term, and every world has the same terms.
func (w *World) score() sum {
	all := w.total
	add := func(t Term) { all.nats += t.Nats }
	w.processes(w.ended, add)
	w.others(add)
	return all
}

// each gives all terms of the score, with the number of nodes for which each stands.
func (w *World) each(do func(Term)) {
	for p := range w.Parts {
		w.ofPart(int32(p), do)
	}
	w.processes(w.known, do)
	w.others(do)
}

// rate rates the letters of a part anew.
func (w *World) rate(p int32) {
	var now sum
	w.ofPart(p, func(t Term) {
		now.nats += t.Nats
		if t.Open {
			now.open += t.Of
		}
	})
	w.total.nats += now.nats - w.terms[p].nats
	w.total.open += now.open - w.terms[p].open
	w.terms[p] = now
}

// believed is what a term counts for: what contradicts the world may be missing where records were dropped, and false where a host lies.
func (w *World) believed(n int32, what What, nats float64) float64 {
	weight, lying := float64(w.Weight[n]), float64(w.lying[n])
	if r := w.Index.Nodes[n].Rank; r != nil && r.Lost > 0 && what == OfPart {
		lying = weight
	}
	return math.Round((weight-lying)*nats/fine+lying*max(nats, lossy)/fine) * fine
}

func (w *World) ofPart(p int32, add func(Term)) {
	part := &w.Parts[p]
	if w.Weight[part.Node] == 0 || !w.Operations[part.Operation].Still || part.Seen == observe.Left || part.Seen == observe.Unknown || part.Blank || part.Op != nil && !part.Still && !part.Moving {
		return
	}
	nats := w.kernel(p)
	if part.Seen == observe.NotCalled {
		nats /= float64(w.Awaited[part.Node]) // That a rank makes no calls is one observation.
	}
	add(Term{Node: part.Node, Part: p, Flow: -1, Seen: part.Seen, Nats: w.believed(part.Node, OfPart, nats), Open: w.open(p, -1), Of: w.Weight[part.Node]})
	for k := range part.Flows {
		f := &part.Flows[k]
		add(Term{Node: part.Node, Part: p, Flow: int32(k), Seen: f.Seen, Nats: w.believed(part.Node, OfPart, w.flow(p, f)), Open: w.open(p, f.Peer), Of: w.Weight[part.Node]})
	}
}

// others gives the terms that are no letters of an operation.
func (w *World) others(add func(Term)) {
	term := func(what What, n int32, nats float64) {
		add(Term{What: what, Node: n, Part: -1, Flow: -1, Nats: w.believed(n, what, nats), Of: w.Weight[n]})
	}
	for _, odd := range w.odd {
		nats := certain
		if slices.ContainsFunc(odd, func(n int32) bool { return w.has(n, 1<<OtherCall) }) {
			nats = likely
		}
		term(OfCall, odd[len(odd)-1], nats)
	}
	for o := range w.Orders {
		nats, odd := certain, w.Orders[o].Odd
		if w.Orders[o].Tie {
			odd = slices.Concat(odd, w.Orders[o].Rest)
		}
		if slices.ContainsFunc(odd, func(n int32) bool { return w.has(n, 1<<Crossed|1<<OtherCall) }) {
			nats = likely // A rank that left out a call is one short, and seems to have called the next operation too late.
		}
		term(OfOrder, w.Orders[o].Odd[0], nats)
	}
	for i := range w.Sources {
		src := &w.Sources[i]
		nats := likely
		switch lost := w.has(src.Nodes[0], 1<<Lost); {
		case src.Fell == Maybe: // It may be either.
			nats = possible
		case lost != (src.Fell == Yes):
			nats = chance // An exporter fails at this very moment, or a host is lost and the job goes on.
		}
		term(OfSource, src.Nodes[0], nats)
	}
	for _, f := range w.Facts {
		nats := unreported
		if slices.ContainsFunc(f.Nodes, func(n int32) bool { return w.has(n, reports[f.Kind]) }) {
			nats = reported
		}
		term(OfFact, f.Nodes[0], nats)
	}
}

// processes gives a term for each of these nodes, whose process's state is known.
func (w *World) processes(nodes []int32, add func(Term)) {
	for _, n := range nodes {
		state := w.Index.Nodes[n].Rank.State
		ended, stopped := state == rca.ProcessGone || state == rca.ProcessExited, state == rca.ProcessStopped
		nats := certain
		if w.has(n, 1<<Gone) == ended && w.has(n, 1<<Stopped) == stopped {
			nats = 0
		}
		add(Term{What: OfProcess, Node: n, Part: -1, Flow: -1, Nats: w.believed(n, OfProcess, nats), Of: w.Weight[n]})
	}
}

// reports has the faults that a host's report follows from. A process may die of its GPU's error.
var reports = [...]kindSet{observe.DeadGPU: 1<<GPU | 1<<Gone, observe.DeadPort: 1 << NIC}

// open tells whether the world leaves open what this part or its peer does.
func (w *World) open(p, peer int32) bool {
	maybe := func(p int32) bool { return w.parts[p].calls == Maybe || w.parts[p].runs == Maybe }
	return maybe(p) || peer >= 0 && maybe(peer)
}

// kernel grades the letter of a part.
func (w *World) kernel(p int32) float64 {
	part, is := &w.Parts[p], w.parts[p]
	switch {
	case part.Seen == observe.NotCalled && is.calls == No:
		return likely
	case part.Seen == observe.NotCalled && is.calls == Maybe:
		return unlikely // Most programs call ahead.
	case part.Seen == observe.NotCalled:
		return wrong
	case part.Moving && is.ends == No: // It may just have stopped. One clock tells of all ranks of a host.
		return likely + (possible-likely)/float64(w.Moving[part.Node])
	case part.Moving:
		return likely
	case is.ends == Yes:
		return wrong // It should have ended.
	case part.Seen == observe.Called, is.runs == Maybe, (part.Seen == observe.Inside) == (is.runs == Yes):
		return likely
	}
	return wrong
}

// flow grades the letter of a flow: the best of what its two ends may be doing.
func (w *World) flow(p int32, f *observe.Flow) float64 {
	part := &w.Parts[p]
	switch {
	case part.Moving || f.Seen == observe.Passed:
		return likely
	case w.parts[p].ends == Yes:
		return wrong // Data should have passed.
	}
	mine, theirs, deaths := w.ways(p), uint8(1<<runs), uint8(1)<<w.dead(p, f)
	if f.Peer >= 0 {
		theirs = w.ways(f.Peer)
		if w.has(w.Parts[f.Peer].Node, 1<<Unseen) {
			deaths |= 1<<sender | 1<<receiver | 1<<wire
		}
	}
	best := 2 * wrong // It fits nothing that its ends may be doing.
	for m := way(0); mine>>m != 0; m++ {
		for t := way(0); mine>>m&1 != 0 && theirs>>t != 0; t++ {
			for d := death(0); theirs>>t&1 != 0 && deaths>>d != 0; d++ {
				if deaths>>d&1 != 0 {
					best = max(best, w.between(p, f, m, t, d))
				}
			}
		}
	}
	return best
}

// between grades the letter of a flow for what its two ends do.
func (w *World) between(p int32, f *observe.Flow, mine, theirs way, d death) float64 {
	from, to, of := mine, theirs, sends
	if !f.Send {
		from, to, of = theirs, mine, receives
	}
	want := of(from, to, d, &w.Operations[w.Parts[p].Operation])
	g := want.grade(f.Seen)
	if g == possible && d == alive && from == runs && to == runs && (f.Seen == observe.Full || f.Seen == observe.Unconsumed) && w.jam(p, f) {
		return likely // The receiver passes it on where nobody sees.
	}
	return g
}

// jam tells whether the receiver of a flow does not hand on what it gets: where nobody sees, or to a rank that does not take it.
func (w *World) jam(p int32, f *observe.Flow) bool {
	at, from := p, f.Peer
	if f.Send {
		at, from = f.Peer, p
	}
	if at < 0 {
		return false
	}
	stays, full := !f.Send, false
	for _, g := range w.Parts[at].Flows {
		mine := !g.Send && g.Peer == from
		if mine && g.Onward {
			return true
		}
		stays = stays || mine && g.Seen == observe.Unconsumed
		full = full || g.Send && g.Seen == observe.Full
	}
	return stays && full
}
