// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// Place is where one fault is.
type Place struct {
	Nodes []int32 // Among these; none: too many to name, or nobody who could be named.
	All   bool    // At all of them, not at one.
	Host  string  // The host that all of them are on, where it is to blame.
	// Hearsay: its own host alone shows it, and others show what stops the job. It may be false.
	Hearsay bool
	Ask     []int32 // Nodes that were not seen and whose record would decide it.
	Class   rca.Class
	Cause   rca.Cause
	Fits    []Fit // The worlds that cannot be told apart, the best first.
}

// Answer is what the model says of a job.
type Answer struct {
	world  *World
	Class  rca.Class
	Places []Place
	Left   float64 // Share of the observations that the best world explains badly.
}

// meaning is the class and cause of each kind of fault.
var meaning = [kinds]struct {
	class rca.Class
	cause rca.Cause
}{
	Absent:    {rca.NotEntered, rca.CauseNotCalled},
	Stopped:   {rca.NotEntered, rca.CauseProcessStopped},
	Gone:      {rca.NotEntered, rca.CauseProcessGone},
	GPU:       {rca.Fault, rca.CauseGPU},
	Proxy:     {rca.Fault, rca.CauseProxy},
	NIC:       {rca.Fault, rca.CauseNetworkSend},
	Wire:      {rca.Fault, rca.CauseNetworkSend},
	OtherCall: {rca.Inconsistent, rca.CauseOtherOp},
	Lost:      {rca.Fault, rca.CauseHostLost},
	Unseen:    {rca.Unknown, rca.CauseUnknown},
	Ahead:     {rca.Inconsistent, rca.CauseOtherOp},
	Crossed:   {rca.Inconsistent, rca.CauseDeadlock},
	Saving:    {rca.Benign, rca.CauseCheckpoint},
	Starting:  {rca.Unknown, rca.CauseFirstStep},
	Liar:      {rca.Unknown, rca.CauseUnknown},
}

// Explain says what the model makes of the evidence.
func Explain(ev rca.Evidence, opt rca.Options) *Answer {
	j := observe.Read(ev, opt)
	w := newWorld(j)
	a := &Answer{world: w, Class: rca.Healthy}
	found := best(w)
	for i := range found {
		p := placeOf(w, &found[i])
		p.Hearsay = len(found) > 1 && len(j.Index.Mates) > 1 && j.Still() && found[i].Elsewhere < witnessed
		a.Places = append(a.Places, p)
	}
	a.weigh()
	if a.Left = leftUnexplained(w, found); a.Left > leftOpen {
		for i := range a.Places {
			a.Places[i].Nodes = nil
		}
	}
	placed := true // What was found first carries what was found after it.
	for i := range a.Places {
		p := &a.Places[i]
		if !placed {
			p.Nodes = nil
		}
		placed = placed && (len(p.Nodes) > 0 || p.Hearsay || p.Fits[0].last().Kind == Liar)
		switch {
		case a.Class != rca.Healthy && a.Class != rca.Unknown:
		case len(p.Nodes) > 0, p.Class == rca.Benign:
			a.Class = p.Class
		default:
			a.Class = rca.Unknown
		}
	}
	if len(a.Places) == 0 && (j.Still() || j.Blind()) {
		a.Class = rca.Unknown
	}
	return a
}

// leftUnexplained is the share of the observations that the best world explains badly.
func leftUnexplained(w *World, found []Found) float64 {
	if len(found) == 0 {
		return 0
	}
	bad, n := int32(0), int32(0)
	w.become(found[0].Fits[0].Faults)
	w.each(func(t Term) {
		if n += t.Of; t.bad() {
			bad += t.Of
		}
	})
	return float64(bad) / float64(n)
}

// weigh takes faults that only their own hosts show off the places where another is shown by others, too. Where there is none, the job stands
// still for one of them at least, and the place is all of theirs; unless it is seen to stand still by the word of a host alone that lies.
func (a *Answer) weigh() {
	trusted, lying := map[string]bool{}, map[string]bool{}
	for i := range a.Places {
		p := &a.Places[i]
		host := a.world.Index.Host(p.Fits[0].last().A)
		lying[host] = lying[host] || p.Fits[0].last().Kind == Liar
		trusted[host] = trusted[host] || !p.Hearsay && len(p.Nodes) > 0
	}
	var all []int32
	shown, first := false, -1
	for i := range a.Places {
		p := &a.Places[i]
		host := a.world.Index.Host(p.Fits[0].last().A)
		if p.Hearsay = p.Hearsay && !trusted[host]; !p.Hearsay {
			shown = shown || len(p.Nodes) > 0
			continue
		}
		if !lying[host] && len(p.Nodes) > 0 {
			if all = append(all, p.Nodes...); first < 0 {
				first = i
			}
		}
		p.Nodes, p.All = nil, false
	}
	slices.Sort(all)
	if all = slices.Compact(all); !shown && first >= 0 && len(all) <= mostRanks {
		a.Places[first].Nodes = all
	}
}

// placeOf gives the place of a fault.
func placeOf(w *World, found *Found) Place {
	j := w.Job
	fits := found.Fits
	first := fits[0].last()
	p := Place{Class: meaning[first.Kind].class, Cause: meaning[first.Kind].cause, Fits: fits}
	if first.Kind == Saving || first.Kind == Liar {
		return p
	}
	p.All = first.Kind == Lost || first.Kind == NIC
	unseen, waits := false, func(n int32) bool {
		return slices.ContainsFunc(j.Of[n], func(q int32) bool { return j.Parts[q].Still })
	}
	for i := range fits {
		if fits[i].last().Kind == Liar {
			continue
		}
		nodes := nodesOf(w, &fits[i], &fits[0])
		p.All = p.All && (i == 0 || slices.Equal(nodes, p.Nodes))
		unseen = unseen || fits[i].last().Kind == Unseen || fits[i].last().Kind == Starting
		p.Nodes = append(p.Nodes, nodes...)
		slices.Sort(p.Nodes)
		p.Nodes = slices.Compact(p.Nodes)
	}
	for _, n := range p.Nodes {
		if j.Silent[n] {
			p.Ask = append(p.Ask, n)
		}
	}
	if host := fallen(j, fits); host != nil && len(p.Ask) == len(p.Nodes) {
		p.All, p.Host, unseen = true, host.Name, false
		p.Class, p.Cause = meaning[Lost].class, meaning[Lost].cause
	}
	// Of several that have not called what another waits in, each may be held by what it is in.
	if len(p.Nodes) > mostRanks || unseen || first.Kind == Absent && len(p.Nodes) > 1 && !slices.ContainsFunc(p.Nodes, func(n int32) bool { return !waits(n) }) || len(p.Ask) > 0 && len(p.Ask) < len(p.Nodes) {
		p.Nodes = nil
	}
	return p
}

// fallen gives the silent host that all of the worlds are about, where one of them is that it was lost as the job stopped; nil none.
func fallen(j *observe.Job, fits []Fit) *observe.Source {
	group := j.Group[fits[0].last().A]
	if group < 0 || j.Sources[group].Fell != Yes || slices.ContainsFunc(fits, func(f Fit) bool { return j.Group[f.last().A] != group }) ||
		!slices.ContainsFunc(fits, func(f Fit) bool { return f.last().Kind == Lost }) {
		return nil
	}
	return &j.Sources[group]
}

// nodesOf gives the nodes at which the last fault of a fit is.
func nodesOf(w *World, f, best *Fit) []int32 {
	last := f.last()
	switch last.Kind {
	case Lost, Unseen, NIC:
		return w.at(last)
	case Wire:
		if f.rank() >= best.rank()-near/2 { // Either end may be to blame, unless it is less likely than another story.
			return []int32{min(last.A, last.B), max(last.A, last.B)}
		}
	}
	return w.Alike(last.A)
}
