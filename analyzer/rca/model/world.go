// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// Maybe is how a world says what it does not know: whether two communicators share a stream, whether two sends are of one group, whether
// buffers hold all data, what happens where nobody sees.
const (
	No    = observe.No
	Maybe = observe.Maybe
	Yes   = observe.Yes
)

// state is what a world does to a part: whether the rank calls it, whether its kernel begins, whether it ends.
type state struct{ calls, runs, ends observe.Tri }

// World is a job in which some faults are wrong and nothing else. Faults are put in one after another and taken out in turn, so that a fault
// costs what it changes and not the whole job.
type World struct {
	*plan
	Faults []Fault
	parts  []state
	kinds  []kindSet // By node: the faults at it.
	lying  []int32   // By node: how many of those that it stands for are on hosts that report what is false.

	terms []sum // By part: what its letters are worth.
	total sum

	// What was changed since a fault was put in, so that it can be taken out.
	marks      []mark
	was        []saved
	seen       []int32 // By part: the last change for which it was saved.
	change     int32
	nodes, ops due     // To be looked at again.
	ahead      []int32 // Room for the queue of one rank.
}

// sum is what some terms are worth together. Terms are multiples of a small unit, so that the order in which they are added does not matter.
type sum struct {
	nats float64
	open int32 // Terms that the world leaves open.
}

// saved is a part before a change.
type saved struct {
	part  int32
	state state
	terms sum
}

// mark is where a change begins.
type mark struct {
	saved int
	total sum
}

// newWorld gives the world in which nothing is wrong.
func newWorld(j *observe.Job) *World {
	n, m := len(j.Of), len(j.Parts)
	w := &World{
		plan: newPlan(j), parts: make([]state, m), kinds: make([]kindSet, n), lying: make([]int32, n), terms: make([]sum, m), seen: make([]int32, m),
		nodes: due{in: make([]bool, n)}, ops: due{in: make([]bool, len(j.Operations))},
	}
	for p := range w.parts {
		w.parts[p] = state{Yes, Yes, Yes}
	}
	for p := range j.Parts {
		if j.Parts[p].Midway {
			w.lower(int32(p), state{Yes, Yes, Maybe})
			w.nodes.add(j.Parts[p].Node)
		}
	}
	w.settle()
	w.was = w.was[:0]
	for p := range j.Parts {
		w.rate(int32(p))
	}
	return w
}

// become takes out what faults there are and puts in others.
func (w *World) become(faults []Fault) {
	same := 0
	for same < len(faults) && same < len(w.Faults) && faults[same] == w.Faults[same] {
		same++
	}
	for len(w.Faults) > same {
		w.pop()
	}
	for _, f := range faults[same:] {
		w.push(f)
	}
}

// push puts a fault in, and lets every rank go on as far as it can.
func (w *World) push(f Fault) {
	w.marks = append(w.marks, mark{len(w.was), w.total})
	w.Faults = append(w.Faults, f)
	w.change++
	if f.Kind == Liar {
		for _, n := range w.at(f) {
			n = w.StandsFor(n)
			w.lying[n]++
			for _, p := range w.Of[n] {
				w.keep(p)
			}
		}
	} else {
		w.take(f)
		w.settle()
	}
	for _, s := range w.was[w.marks[len(w.marks)-1].saved:] {
		w.rate(s.part)
	}
}

// take marks what a fault is about.
func (w *World) take(f Fault) {
	for _, n := range w.at(f) {
		w.kinds[n] |= 1 << f.Kind
		w.touch(n)
	}
	switch {
	case f.Kind == Ahead:
		for _, p := range w.Operations[f.B].Parts {
			w.touch(w.Parts[p].Node)
		}
	case f.Kind == Crossed:
		for _, n := range slices.Concat(w.Orders[f.B].Odd, w.Orders[f.B].Rest) {
			w.touch(n)
		}
	case f.B >= 0:
		w.touch(f.B)
	}
}

// pop takes out the fault that was put in last.
func (w *World) pop() {
	f := w.Faults[len(w.Faults)-1]
	w.Faults = w.Faults[:len(w.Faults)-1]
	for _, n := range w.at(f) {
		if f.Kind == Liar {
			w.lying[w.StandsFor(n)]--
		} else if !slices.ContainsFunc(w.Faults, func(g Fault) bool { return g.Kind == f.Kind && slices.Contains(w.at(g), n) }) {
			w.kinds[n] &^= 1 << f.Kind
		}
	}
	m := w.marks[len(w.marks)-1]
	w.marks = w.marks[:len(w.marks)-1]
	for _, s := range w.was[m.saved:] {
		w.parts[s.part], w.terms[s.part] = s.state, s.terms
	}
	w.was, w.total = w.was[:m.saved], m.total
	w.change++ // What was saved before is no longer known to be.
}

// keep saves a part before it changes, or before what a fault does to it is rated anew.
func (w *World) keep(p int32) {
	if w.seen[p] != w.change {
		w.seen[p] = w.change
		w.was = append(w.was, saved{p, w.parts[p], w.terms[p]})
	}
}

// lower lowers what becomes of a part, and reports whether that changes it.
func (w *World) lower(p int32, to state) bool {
	was := w.parts[p]
	to = state{min(was.calls, to.calls), min(was.runs, to.runs), min(was.ends, to.ends)}
	if to == was {
		return false
	}
	w.keepFlows(p)
	w.parts[p] = to
	return true
}

// keepFlows saves a part and those that have a flow to it: what they show depends on it.
func (w *World) keepFlows(p int32) {
	w.keep(p)
	for k := range w.Parts[p].Flows {
		if q := w.Parts[p].Flows[k].Peer; q >= 0 {
			w.keep(q)
		}
	}
	for _, q := range w.back[p] {
		w.keep(q)
	}
}

// due is a list without doubles.
type due struct {
	list []int32
	in   []bool
}

func (d *due) add(i int32) {
	if !d.in[i] {
		d.in[i] = true
		d.list = append(d.list, i)
	}
}

// each takes one after another until none is left.
func (d *due) each(do func(int32)) {
	for len(d.list) > 0 {
		i := d.list[len(d.list)-1]
		d.list, d.in[i] = d.list[:len(d.list)-1], false
		do(i)
	}
}

func (w *World) touch(n int32) {
	w.nodes.add(n)
	for _, p := range w.Of[n] {
		w.keepFlows(p)
		w.ops.add(w.Parts[p].Operation)
	}
}

// settle lets every rank go on as far as it can. All parts begin as ended, and fall as what they need does not come; since they only fall, the
// order in which they are looked at does not matter.
func (w *World) settle() {
	for len(w.nodes.list)+len(w.ops.list) > 0 {
		w.nodes.each(w.callOn)
		w.ops.each(w.exchange)
	}
}

// callOn goes over one rank's calls in their order: kernels of one communicator run one after another, those of two may.
func (w *World) callOn(n int32) {
	list := w.Of[n]
	inside := slices.ContainsFunc(list, func(p int32) bool { return w.Parts[p].Seen == observe.Inside && w.Parts[p].Still })
	first := queue{list: w.ahead[:0]}
	defer func() { w.ahead = first.list }()
	gpu, unseen, silenced := w.has(n, stopsGPU), w.has(n, 1<<Unseen), w.has(n, stopsCalls)
	for i, p := range list {
		part := &w.Parts[p]
		if part.Seen == observe.Left {
			continue
		}
		calls, runs, ends := Yes, Yes, Yes
		switch {
		case part.Op != nil:
		case silenced, w.leftBehind(part.Operation):
			calls = No
		case unseen:
			calls = Maybe
		}
		if gpu || part.Hidden && w.blockedElsewhere(list, p, true) {
			runs = Maybe
		}
		if w.crossed(list[:i], part.Operation) {
			runs = No
		}
		first.hold(w, p, &calls, &runs)
		if part.Op == nil && w.Silent[n] && calls == Yes && w.blockedElsewhere(list, p, false) {
			calls = Maybe
		}
		if part.Op != nil && job.IsP2P(part.Op) && w.heldByGroup(list, p) {
			ends = Maybe
		}
		if ends < w.parts[p].ends {
			w.nodes.add(n) // Those before it may be of its group, too.
		}
		if w.lower(p, state{calls, min(runs, calls), ends}) {
			w.ops.add(part.Operation)
		}
		if w.parts[p].ends != Yes && !(part.Hidden && inside) { // A rank that is seen inside one operation is not held in another that is not seen.
			first.add(w, p)
		}
	}
}

// leftBehind reports whether only a rank that is ahead of the others has called an operation.
func (w *World) leftBehind(operation int32) bool {
	return slices.ContainsFunc(w.Faults, func(f Fault) bool {
		return f.Kind == Ahead && w.sole[operation] == f.A && w.Operations[operation].Comm == w.Operations[f.B].Comm
	})
}

// queue is what a rank has called and not ended, up to some place in the order of its calls.
type queue struct {
	list []int32
	some bool // Of them, some are called, or may be.
}

func (q *queue) add(w *World, p int32) {
	q.list = append(q.list, p)
	q.some = q.some || w.Parts[p].Op != nil || w.Parts[p].Hidden
}

// hold lowers what a part can do behind the earlier ones.
func (q *queue) hold(w *World, p int32, calls, runs *observe.Tri) {
	part := &w.Parts[p]
	if part.Op == nil {
		if q.some {
			*calls = min(*calls, Maybe) // The program may wait there.
		}
		return
	}
	for _, e := range q.list {
		earlier := &w.Parts[e]
		if w.Operations[earlier.Operation].Comm == w.Operations[part.Operation].Comm && !mayBeGrouped(earlier, part) {
			*runs = min(*runs, w.parts[e].ends)
		} else {
			*runs = min(*runs, Maybe)
		}
		if *runs == No {
			return
		}
	}
}

// heldByGroup: all of a group of sends and receives stay in its kernel until the last of them is done.
func (w *World) heldByGroup(list []int32, p int32) bool {
	part := &w.Parts[p]
	return slices.ContainsFunc(list, func(q int32) bool {
		other := &w.Parts[q]
		return q != p && w.parts[q].ends != Yes && w.Operations[other.Operation].Comm == w.Operations[part.Operation].Comm && mayBeGrouped(other, part)
	})
}

// crossed: the operation is the later one at this rank of two that others called the other way round.
func (w *World) crossed(earlier []int32, operation int32) bool {
	for _, f := range w.Faults {
		if f.Kind != Crossed {
			continue
		}
		o := &w.Orders[f.B]
		if operation != o.X && operation != o.Y {
			continue
		}
		for _, q := range earlier {
			if i := w.Parts[q].Operation; (i == o.X || i == o.Y) && i != operation {
				return true
			}
		}
	}
	return false
}

// blockedElsewhere: what is not seen may be behind what the rank is in. Nobody knows in what order a rank calls that was not seen.
func (w *World) blockedElsewhere(list []int32, p int32, in bool) bool {
	for _, q := range list {
		part := &w.Parts[q]
		if q != p && w.parts[q].ends != Yes && (!in || !part.Blank && (part.Seen == observe.Inside || part.Seen == observe.Called)) {
			return true
		}
	}
	return false
}

// mayBeGrouped: sends and receives of one group run in one kernel. Where the source does not tell groups apart, calls within a
// millisecond may be of one; two of one peer and direction are not, unless both are seen to run.
func mayBeGrouped(a, b *observe.Part) bool {
	if a.Op == nil || b.Op == nil || !job.IsP2P(a.Op) || !job.IsP2P(b.Op) {
		return false
	}
	if a.Op.GroupOrdinal > 0 && b.Op.GroupOrdinal > 0 {
		return a.Op.Number-a.Op.GroupOrdinal == b.Op.Number-b.Op.GroupOrdinal
	}
	if b.Seen != observe.Inside && a.Op.Func == b.Op.Func && a.Op.Peer == b.Op.Peer {
		return false
	}
	return a.Age < 0 || b.Age < 0 || (a.Age-b.Age).Abs() < time.Millisecond
}
