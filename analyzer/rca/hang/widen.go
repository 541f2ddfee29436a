// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Candidates that are not told apart become one: two ends a link, links a NIC, GPUs a host, members a group. What a node shows of
// itself settles between them.

// weakFlaw names a rank by what it shows, if no other explains it better; a link's ends are not told apart where only
// one end, or each differently, tells of it.
func (w *waitFor) weakFlaw(o *own, vs []int32) candidate {
	c := w.flawed(o, w.ownsOf(o.node))
	c.vertex = vs
	if o.strength == eitherEnd && o.peer >= 0 {
		c.kind = kindLink
	}
	if o.is(&gpuNotCome) {
		if mates := w.besideUnseen(o.node, o.inst); len(mates) > 1 {
			c.kind, c.nodes = kindGroup, mates
		}
	}
	if !o.mayBeInsideHost() {
		return c
	}
	mates := w.matesIn(o.node, o.inst)
	all := w.before(o.node, o.inst)
	for _, m := range mates {
		all = append(all, w.before(m, o.inst)...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) < 2 {
		return c
	}
	c.kind, c.nodes, c.channel = kindGroup, all, -1
	switch {
	case len(mates) < 2:
		c.weight = min(c.weight, hiddenWeight)
	case !o.doubted:
		c.weight = max(oneHostStands.weight, c.weight)
	}
	return c
}

// before gives a rank and, where nothing shows that it has come to an operation, those beside whom it may be in one before it.
func (w *waitFor) before(n, inst int32) []int32 {
	if j := w.part(&w.insts[inst], n); j != nil && j.started == startUnknown {
		return w.besideUnseen(n, inst)
	}
	return []int32{n}
}

// matesIn gives the members of an operation's communicator on a rank's host, the rank included.
func (w *waitFor) matesIn(n, inst int32) []int32 {
	c := &w.Comms[w.insts[inst].key.comm]
	return slices.DeleteFunc(slices.Clone(w.Mates[w.Host(n)]), func(m int32) bool { return c.Find(m) == nil })
}

// coverLinks turns several links that do not deliver into what they share. One link alone is its sender's. Links that
// all begin or end at one rank are that rank's NIC. Two directions between the same two ends tell nobody apart: the link is named.
func (w *waitFor) coverLinks(cs []candidate) []candidate {
	var links, rest []candidate
	for _, c := range cs {
		if c.kind == kindFlaw && c.cause == rca.CauseNetworkSend && c.peer >= 0 {
			links = append(links, w.allLinks(c)...)
		} else {
			rest = append(rest, c)
		}
	}
	// The rank that most links touch explains those; then the same of what is left.
	for len(links) > 0 {
		count := map[int32]int{}
		for _, l := range links {
			count[l.nodes[0]]++
			count[l.peer]++
		}
		hub := links[0].nodes[0]
		for n, k := range count {
			if k > count[hub] || k == count[hub] && k > 1 && n < hub {
				hub = n
			}
		}
		if count[hub] < 2 {
			return append(rest, links...)
		}
		var mine, others []candidate
		for _, l := range links {
			if l.nodes[0] == hub || l.peer == hub {
				mine = append(mine, l)
			} else {
				others = append(others, l)
			}
		}
		rest = append(rest, joinLinks(mine, hub))
		links = others
	}
	return rest
}

// allLinks splits a rank's undelivered flows by peer.
func (w *waitFor) allLinks(c candidate) []candidate {
	var out []candidate
	for _, o := range w.ownsOf(c.nodes[0]) {
		known := slices.ContainsFunc(out, func(l candidate) bool { return l.peer == o.peer })
		if o.strength == strong && o.cause == rca.CauseNetworkSend && o.peer >= 0 && !known {
			l := c
			l.row, l.weight, l.peer, l.inst = *o.row, o.weight, o.peer, o.inst
			if w.Nodes[o.peer].Undated { // It may have died first. What it left behind looks the same.
				l.kind, l.vertex = kindLink, []int32{o.node, o.peer}
			}
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return cmp.Compare(a.peer, b.peer) })
	return out
}

// joinLinks makes one candidate of several links that all begin or end at the hub: its NIC, or one link where they are the two directions
// between the same two ends, for the other end explains as much.
func joinLinks(links []candidate, hub int32) candidate {
	c := links[0]
	other := func(l *candidate) int32 { return pick(l.peer == hub, l.nodes[0], l.peer) }
	if !slices.ContainsFunc(links, func(l candidate) bool { return other(&l) != other(&c) }) {
		c.kind, c.vertex = kindLink, []int32{c.nodes[0], c.peer}
		c.weight *= bothWaysFactor
		return c
	}
	c.peer, c.channel, c.nodes = -1, -1, []int32{hub}
	for _, l := range links {
		c.vertex = append(c.vertex, l.nodes[0], l.peer)
		if l.nodes[0] == hub && l.weight >= c.weight {
			c.row, c.inst = l.row, l.inst
		}
	}
	slices.Sort(c.vertex)
	c.vertex = slices.Compact(c.vertex)
	return c
}

// settleByNode joins the nodes' own evidence in (X2): it settles between the ends of a link or the GPUs of a host where the
// flows cannot, and never accuses somebody whom the flows do not already suspect.
func (w *waitFor) settleByNode(c *candidate) {
	switch {
	case c.peer >= 0 && (c.kind == kindLink || c.kind == kindFlaw && c.cause == rca.CauseNetworkSend):
		from, to := w.Ailing(c.nodes[0], job.NetAilment), w.Ailing(c.peer, job.NetAilment)
		if from == to {
			return
		}
		r := senderAils
		r.weight, r.text = max(r.weight, c.weight), c.text
		if to {
			r.name, r.text = receiverAils.name, receiverAils.text
			c.nodes, c.peer = []int32{c.peer}, c.nodes[0]
		}
		c.row = r
	case c.kind == kindGroup:
		if n := w.OnlyAiling(c.nodes, job.GPUAilment); n >= 0 {
			c.row, c.nodes = gpuError, []int32{n}
		} else if n := w.OnlyAiling(c.nodes, job.DeadNIC); n >= 0 && c.class != rca.Fault {
			whose := w.NIC(w.Nodes[n].Rank) != "" || w.FactOf(n, job.DeadNIC)
			c.row, c.nodes = pick(whose, nicDown, nicDownSomewhere), []int32{n}
		}
	}
}

// oneOfEach makes one candidate of those that name the same group: each of its members may show that one of them holds it.
func oneOfEach(cs []candidate) []candidate {
	at := map[int32][]int{} // Groups so far, by their first member.
	var out []candidate
	for _, c := range cs {
		if c.kind != kindGroup || len(c.nodes) == 0 {
			out = append(out, c)
			continue
		}
		first := c.nodes[0]
		known := slices.IndexFunc(at[first], func(i int) bool {
			o := &out[i]
			return o.class == c.class && o.cause == c.cause && o.weight == c.weight && o.strength == c.strength && slices.Equal(o.nodes, c.nodes)
		})
		if known >= 0 {
			out[at[first][known]].join(nil, c.vertex)
			continue
		}
		at[first] = append(at[first], len(out))
		out = append(out, c)
	}
	return out
}

// join adds ranks and vertices to a candidate.
func (c *candidate) join(nodes, vertex []int32) {
	c.nodes = append(slices.Clone(c.nodes), nodes...)
	c.vertex = append(slices.Clone(c.vertex), vertex...)
}

// outnumbered takes those candidates away that are an operation's majority and its only fault is that they have not called it: one
// that is a call ahead explains the same with one mistake instead of many. Neither story is told from the other by counts, so a
// candidate that names both takes their place.
func (w *waitFor) outnumbered(cs []candidate) []candidate {
	out := map[int32][]candidate{} // Who is outside, by operation.
	for _, c := range cs {
		if c.is(&notCalledIt) && c.strong() && c.inst >= 0 {
			out[c.inst] = append(out[c.inst], c)
		}
	}
	var rest, apart []candidate
	for _, c := range cs {
		most := out[c.inst]
		if !c.is(&notCalledIt) || !c.strong() || !w.areMost(c.inst, most) {
			rest = append(rest, c)
		} else if most[0].nodes[0] == c.nodes[0] {
			apart = append(apart, w.ahead(c.inst, most))
		}
	}
	return append(rest, apart...)
}

// areMost reports whether those outside a collective outnumber those inside, and have come equally far.
func (w *waitFor) areMost(inst int32, out []candidate) bool {
	if inst < 0 || len(out) < 2 {
		return false
	}
	in := &w.insts[inst]
	c := &w.Comms[in.key.comm]
	return !in.key.p2p() && in.inside > 0 && len(out) > in.inside && !slices.ContainsFunc(out, func(o candidate) bool {
		m := c.Find(o.nodes[0])
		return m == nil || m.Membership == nil || m.Membership.Called != in.key.place
	})
}

func (w *waitFor) ahead(inst int32, out []candidate) candidate {
	c := candidate{row: aheadOfMost, peer: -1, inst: inst, channel: -1}
	for _, j := range w.insts[inst].joins {
		if j.active {
			c.nodes = append(c.nodes, j.node)
		}
	}
	for i := range out {
		c.others = append(c.others, out[i].nodes[0])
	}
	c.vertex = c.others
	return c
}

// mayBeInside makes one candidate of those that miss in one operation and may all be inside a hidden one before it, or wait for each
// other unseen: whoever of them holds the others there, or nobody of them.
func (w *waitFor) mayBeInside(cs []candidate) []candidate {
	first := map[int32]int{}
	var out []candidate
	for _, c := range cs {
		if c.kind != kindOutside || c.inside == nil && !c.rivals || c.inst < 0 {
			out = append(out, c)
			continue
		}
		at, known := first[c.inst]
		if !known {
			first[c.inst] = len(out)
			out = append(out, c)
			continue
		}
		o := &out[at]
		o.join(c.nodes, c.vertex)
		if o.inside != nil {
			o.note = fmt.Sprintf(words.EndsUnrecorded, job.OpLabel(o.inside))
		}
	}
	for i := range out {
		w.heldOnTheWay(&out[i])
	}
	return out
}

// heldOnTheWay: a member that has gone on cannot send to one of those that may be inside, for data in front of it on that
// connection. What those lack is on its way there.
func (w *waitFor) heldOnTheWay(c *candidate) {
	if c.kind != kindOutside || c.inside == nil {
		return
	}
	for i := range w.owns {
		if o := &w.owns[i]; o.is(&sendNotBegun) && slices.Contains(c.nodes, o.peer) {
			c.kind, c.nodes, c.peer, c.channel = kindLink, []int32{o.node}, o.peer, -1
			c.name, c.text, c.action = o.name, o.text, ""
			return
		}
	}
}

// alike joins the first candidate with those of which the same is to be said.
func alike(cs []candidate) (first candidate, rest []candidate) {
	first = cs[0]
	for _, c := range cs[1:] {
		switch {
		case first.is(&gpuNotCome) && c.is(&gpuNotCome) && slices.Equal(first.nodes, c.nodes):
			first.join(nil, c.vertex)
		case (c.kind == kindOutside || c.kind == kindDead) && c.kind == first.kind && c.inst == first.inst &&
			c.class == first.class && c.cause == first.cause && c.note == first.note:
			first.join(c.nodes, c.vertex)
		default:
			rest = append(rest, c)
		}
	}
	slices.Sort(first.nodes)
	return first, rest
}

// joinProcesses makes one candidate of those ranks of a process that has died or is stopped: whatever each rank was doing, it is one
// event, and has one class, that of the first.
func (w *waitFor) joinProcesses(cs []candidate) []candidate {
	type process struct {
		host  string
		pid   int
		cause rca.Cause
	}
	at := map[process]int{}
	var out []candidate
	for _, c := range cs {
		var key process
		if c.kind == kindDead {
			r := w.Nodes[c.nodes[0]].Rank
			key = process{r.Host, r.PID, c.cause}
		}
		i, ok := at[key]
		if key.pid == 0 || !ok {
			at[key] = len(out)
			out = append(out, c)
			continue
		}
		out[i].join(c.nodes, c.vertex)
		slices.Sort(out[i].nodes)
	}
	return out
}

// endsOf names ranks that died or are stopped, and says what became of them.
func (w *waitFor) endsOf(c *candidate) (who, note string) {
	who, note = w.RankList(c.nodes), c.note
	switch others := c.nodes[1:]; {
	case len(others) == 0:
		return who, note
	case slices.ContainsFunc(others, func(n int32) bool { return !w.SameProcess(c.nodes[0], n) }):
		return who, words.OfSeveral(note)
	}
	first := w.Nodes[c.nodes[0]].Rank
	return fmt.Sprintf(words.RanksOfProcess, who, first.Host, first.PID), words.OfProcess(note)
}
