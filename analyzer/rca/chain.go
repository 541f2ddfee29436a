// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"fmt"
	"slices"
)

const maxChain = 12 // Longer walks repeat themselves.

// chain walks from a rank that suffers to the root, the shortest way from as far as is readable.
func (w *waitFor) chain(r *root) []Link {
	_, dist := w.cover([]root{*r})
	start := int32(-1)
	for _, s := range w.stuck {
		if dist[s] > 0 && dist[s] <= 2*maxChain && !slices.Contains(r.nodes, s) && (start < 0 || dist[s] > dist[start]) {
			start = s
		}
	}
	if start < 0 {
		return nil
	}
	var links []Link
	at, from := start, start
	for dist[at] > 0 && len(links) < maxChain {
		var step *edge
		for _, e := range w.out[w.row[at]:w.row[at+1]] {
			if t := w.edges[e].to; dist[t] == dist[at]-1 && (step == nil || !step.sure && w.edges[e].sure) {
				step = &w.edges[e]
			}
		}
		if step == nil {
			return links
		}
		at = step.to
		if int(at) >= len(w.nodes) {
			continue // The operation itself is not a person to name.
		}
		links = append(links, w.link(from, at, step))
		from = at
	}
	if r.kind == rootFlaw && len(links) > 0 {
		n := w.nodes[r.nodes[0]].id
		comm := links[len(links)-1].Comm
		if r.inst >= 0 {
			comm = w.opGroup(r)
		}
		links = append(links, Link{From: n, To: n, Reason: w.flawText(r), Comm: comm, Op: w.opLabelOf(r.inst), Sure: r.leaf.hard})
	}
	return links
}

func (w *waitFor) opLabelOf(inst int32) string {
	if inst < 0 {
		return ""
	}
	return opLabel(w.insts[inst].op())
}

func (w *waitFor) link(from, to int32, e *edge) Link {
	l := Link{From: w.nodes[from].id, To: w.nodes[to].id, Reason: e.kind.reason(), Sure: e.sure}
	if e.channel >= 0 {
		l.Reason += fmt.Sprintf(" (channel %d)", e.channel)
	}
	if e.inst >= 0 {
		l.Comm = w.comms[w.insts[e.inst].key.comm].name
		l.Op = opLabel(w.insts[e.inst].op())
	}
	return l
}

func (k edgeKind) reason() string {
	switch k {
	case edgeNotCalled:
		return "has not called the operation"
	case edgeQueued:
		return "has called the operation but is still in another"
	case edgeNotStarted:
		return "has called the operation but its kernel does not run"
	case edgeDead:
		return "its process is gone or stopped"
	case edgeSilent:
		return "nothing is known of it"
	case edgeOdd:
		return "called something else at this place"
	case edgeReceiver:
		return "has no buffer posted to receive into"
	case edgeNoData:
		return "has not sent"
	case edgeDelivery:
		return "does not take what was sent"
	case edgeLocal:
		return "hands over inside the host and waits itself"
	}
	return "is in an operation that lacks members"
}

// addEvidence lists what the verdict rests on and what speaks against it.
func (w *waitFor) addEvidence(d *decision, v *Verdict) {
	v.Evidence = append(v.Evidence, fmt.Sprintf("%s; %d%% of them wait for the named.", plural(len(w.stuck), "rank")+pick(len(w.stuck) == 1, " stands still", " stand still"), int(d.covered*100+0.5)))
	for i := range d.chosen {
		r := &d.chosen[i]
		if i == 8 {
			break
		}
		for k, n := range r.nodes {
			if k == 4 || r.kind == rootGroup {
				break
			}
			w.rankEvidence(n, r, v)
		}
	}
	var liars []int32
	for n := range w.lies {
		liars = append(liars, n)
	}
	slices.Sort(liars)
	for _, n := range liars {
		v.Contradictions = append(v.Contradictions, fmt.Sprintf("Rank %d reports that it is outside an operation in which rank %d has received its data.",
			w.nodes[n].id, w.nodes[w.lies[n]].id))
	}
	for i := range w.owns {
		o := &w.owns[i]
		if o.what == flawLostOnWire && o.peer >= 0 && len(v.Contradictions) < 8 {
			v.Contradictions = append(v.Contradictions, fmt.Sprintf("Rank %d says that more was delivered to rank %d than that has received.",
				w.nodes[o.node].id, w.nodes[o.peer].id))
		}
	}
}

// rankEvidence says what is known of one accused rank.
func (w *waitFor) rankEvidence(n int32, r *root, v *Verdict) {
	rk := w.nodes[n].rank
	if rk == nil {
		return
	}
	name := opener(w.rankName(n))
	if r.inst >= 0 {
		if mem := w.comms[w.insts[r.inst].key.comm].find(n); mem != nil && mem.m != nil && mem.m.Called >= 0 {
			most := int64(0)
			for _, o := range w.comms[w.insts[r.inst].key.comm].mem {
				if o.m != nil {
					most = max(most, o.m.Called)
				}
			}
			v.Evidence = append(v.Evidence, fmt.Sprintf("%s has called %d operations on %s; the most of any member is %d.",
				name, mem.m.Called, w.comms[w.insts[r.inst].key.comm].name, most))
		}
	}
	if rk.State != ProcessUnknown {
		v.Evidence = append(v.Evidence, fmt.Sprintf("%s: the kernel says its process is %s.", name, rk.State))
	}
	if rk.WriteBytesPerSec >= w.opt.StorageBytesPerSec {
		v.Evidence = append(v.Evidence, fmt.Sprintf("%s writes %.0f MB/s to storage.", name, rk.WriteBytesPerSec/1e6))
	}
	if len(rk.Stack) > 0 {
		v.Evidence = append(v.Evidence, fmt.Sprintf("%s is in %s.", name, rk.Stack[len(rk.Stack)-1]))
	}
	v.Evidence = append(v.Evidence, w.factsOf(n)...)
}

// factsOf gives the node's own evidence about a rank (X2).
func (x *index) factsOf(n int32) []string {
	var out []string
	r := x.nodes[n].rank
	for i := range x.ev.Facts {
		f := &x.ev.Facts[i]
		if f.Rank == x.nodes[n].id || f.Rank < 0 && r != nil && f.Host != "" && f.Host == r.Host {
			s := f.Text
			if s == "" {
				s = fmt.Sprintf("%s %s %g (expected %g)", f.Device, f.Kind, f.Value, f.Expected)
			}
			out = append(out, fmt.Sprintf("%s, %s: %s", f.Host, f.Component, s))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
