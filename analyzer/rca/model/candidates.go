// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// candidates lists what may be wrong. In a large job only the nodes are tried of whom most is to be learned.
func candidates(w *World) (out []Fault) {
	j, wires := w.Job, map[Fault]bool{}
	grades, nodes := make([]oddness, len(j.Of)), []int32{}
	for n := range j.Of {
		grades[n] = oddnessOf(j, int32(n), wires)
	}
	for _, f := range j.Facts {
		for _, n := range f.Nodes {
			grades[n] = proven
		}
	}
	for n := range j.Of {
		if grades[n] > nothing && j.Weight[n] == 1 {
			nodes = append(nodes, int32(n))
		}
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(grades[b], grades[a]) })
	try := func(n int32, ks ...Kind) {
		for _, k := range ks {
			if f := (Fault{k, n, -1}); possibleAt(w, f) {
				out = append(out, f)
			}
		}
	}
	for _, n := range nodes[:min(len(nodes), mostNodes)] {
		try(n, Absent, Stopped, Gone, GPU, Proxy, NIC, OtherCall, Saving, Starting)
	}
	for n := range j.Of { // Each silent source and each host counts, however odd its ranks are.
		try(int32(n), Lost, Unseen, Liar)
	}
	for o := range j.Orders {
		of := j.Orders[o].Odd
		if j.Orders[o].Tie {
			of = slices.Concat(of, j.Orders[o].Rest)
		}
		for _, n := range of {
			out = append(out, Fault{Crossed, n, int32(o)})
		}
	}
	for i, n := range w.sole { // Of the operations that only one rank has called, the first of each communicator.
		if n >= 0 && !slices.ContainsFunc(out, func(f Fault) bool {
			return f.Kind == Ahead && f.A == n && w.Operations[f.B].Comm == w.Operations[i].Comm
		}) {
			out = append(out, Fault{Ahead, n, int32(i)})
		}
	}
	for w := range wires {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return out
}

// oddness is how little what a node shows follows from what else is seen of it.
type oddness uint8

const (
	nothing  oddness = iota
	waiting          // It waits, as others do, or was not seen.
	retained         // Its kernel does not run, or data stays with it.
	called           // It called something else, or is in nothing and has not called.
	proven           // Its process has ended, or its host reports a fault.
)

// oddnessOf grades a node; wires gets the ways on which data seems to stay.
func oddnessOf(j *observe.Job, n int32, wires map[Fault]bool) (odd oddness) {
	if r := j.Index.Nodes[n].Rank; r != nil && (r.State == rca.ProcessStopped || r.State == rca.ProcessGone) {
		odd = proven
	}
	in := slices.ContainsFunc(j.Of[n], func(p int32) bool { return j.Parts[p].Still })
	for _, p := range j.Of[n] {
		part := &j.Parts[p]
		switch {
		case !j.Operations[part.Operation].Still && !part.Blank:
			continue
		case part.Odd, part.Seen == observe.NotCalled && !in:
			odd = max(odd, called)
		case part.Seen == observe.Queued, slices.ContainsFunc(part.Flows, func(f observe.Flow) bool { return f.Seen != observe.Starved && f.Seen != observe.Unsent }):
			odd = max(odd, retained)
		default:
			odd = max(odd, waiting)
		}
		for _, f := range part.Flows {
			if f.Peer >= 0 && (f.Seen == observe.Undelivered || f.Seen == observe.Full) && len(wires) < mostNodes {
				wires[Fault{Wire, n, j.Parts[f.Peer].Node}] = true
			}
		}
	}
	return odd
}

// possibleAt leaves out what could change nothing, and what the node's own record rules out.
func possibleAt(w *World, f Fault) bool {
	j, n, state, first := w.Job, f.A, rca.ProcessUnknown, slices.Index(w.at(f), f.A) == 0
	if j.Silent[n] {
		return first && (f.Kind == Unseen || f.Kind == Lost && j.Group[n] >= 0)
	}
	some := func(is func(*observe.Part) bool) bool {
		return slices.ContainsFunc(j.Of[n], func(p int32) bool { return is(&j.Parts[p]) })
	}
	r := j.Index.Nodes[n].Rank
	if r != nil {
		state = r.State
	}
	switch f.Kind {
	case Absent:
		return some(func(p *observe.Part) bool { return p.Op == nil && p.Seen != observe.Left })
	case Stopped:
		return state == rca.ProcessUnknown || state == rca.ProcessStopped
	case Gone:
		return state == rca.ProcessUnknown || state == rca.ProcessGone || state == rca.ProcessExited
	case GPU:
		return true
	case Proxy:
		return some(func(p *observe.Part) bool { return len(p.Flows) > 0 })
	case NIC:
		return first && (j.Reports(n, observe.DeadPort) || some(func(p *observe.Part) bool { return len(p.Flows) > 0 }))
	case OtherCall:
		return some(func(p *observe.Part) bool { return p.Odd })
	case Saving:
		return r != nil && r.WriteBytesPerSec >= j.Index.Opt.StorageBytesPerSec
	case Starting:
		return j.Young(n) && !some(func(p *observe.Part) bool { return p.Seen == observe.Inside && p.Still })
	case Liar:
		return first && len(j.Index.Mates) > 1 && j.Index.Host(n) != ""
	}
	return false
}
