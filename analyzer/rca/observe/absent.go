// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// addAbsent adds the members that are not in the operation: they have not called it, have left it, or were not seen.
func (j *Job) addAbsent(i int32) {
	in := &j.Operations[i]
	first := j.Parts[in.Parts[0]]
	c, has := &j.Index.Comms[in.Comm], map[int32]bool{}
	for _, p := range in.Parts {
		has[j.Parts[p].Node] = true
	}
	add := func(n int32, seen Letter) {
		if n >= 0 && !has[n] {
			has[n] = true
			p := Part{Node: n, Operation: i, Seen: seen, Age: -1}
			if r := j.Index.Nodes[n].Rank; r != nil && seen == Left && r.Lost > 0 {
				p.Seen, p.Blank, p.Hidden = Unknown, true, true // It has called it, and its record may be one of those that were lost.
			}
			in.Parts = append(in.Parts, int32(len(j.Parts)))
			j.Parts = append(j.Parts, p)
		}
	}
	if in.P2P {
		if o := first.Op; o.Peer < len(c.At) && c.At[o.Peer] >= 0 {
			n := c.At[o.Peer]
			add(n, j.otherEnd(c, &first, c.Find(n)))
		} else {
			add(c.Unnamed, Unknown)
		}
		return
	}
	for k := range c.Members {
		add(c.Members[k].Node, position(c, first.Op, c.Members[k].Membership))
	}
	for _, n := range c.At {
		add(n, Unknown)
	}
	add(c.Unnamed, Unknown)
}

// position tells whether a member that is not in a collective has left it or not called it.
func position(c *job.Comm, o *rca.Op, m *rca.Membership) Letter {
	if m == nil {
		return Unknown
	}
	called, number := m.Called, o.Number
	if len(m.InFlight) > mostAhead && slices.ContainsFunc(m.InFlight, func(p rca.Op) bool { return p.Number == number && p.Func == o.Func }) {
		return Unknown // It is in it, and was not read.
	}
	if c.P2P {
		n, ok := m.FuncCalled[o.Func]
		if !ok {
			return Unknown
		}
		called, number = n, o.Seq
	}
	switch {
	case called < 0 || number < 0:
		return Unknown
	case called <= number:
		return NotCalled
	}
	return Left
}

// otherEnd tells the same of the other end of a send or receive, by the calls of the same kind that it has made.
func (j *Job) otherEnd(c *job.Comm, p *Part, m *job.Member) Letter {
	if m == nil || m.Membership == nil || j.Index.Nodes[m.Node].Rank.Caps&rca.MissesCalls != 0 {
		return Unknown
	}
	fn, me := "Send", -1
	if p.Op.Func == "Send" {
		fn = "Recv"
	}
	if k := c.Find(p.Node); k != nil {
		me = int(k.CommRank)
	}
	last := int64(-1)
	for _, list := range [][]rca.Op{m.Membership.Recent, m.Membership.InFlight} {
		for k := range list {
			if o := &list[k]; o.Func == fn && o.Peer == me {
				last = max(last, o.Seq)
			}
		}
	}
	switch n, ok := m.Membership.FuncCalled[fn]; {
	case slices.ContainsFunc(m.Membership.InFlight, func(o rca.Op) bool { return o.Func == fn && o.Peer == me && o.Seq == p.Op.Seq }): // It was not read.
		return Unknown
	case last >= p.Op.Seq:
		return Left
	case last >= 0, ok && n <= p.Op.Seq, !ok && m.Membership.Called == 0:
		return NotCalled
	}
	return Unknown
}
