// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// call is what all members of an operation have to agree on.
type call struct {
	fn, datatype string
	bytes        int64
	root         int
}

func callOf(o *rca.Op) call {
	c := call{o.Func, o.Datatype, o.Bytes, o.Root}
	if job.UnevenSizes(o.Func) {
		c.bytes = 0
	}
	return c
}

// markOdd marks the members whose call differs from that of most. Where no call has a majority, those differ that do not do what the sibling
// communicators do at this place; where these do not tell, all are odd.
func (j *Job) markOdd(in *Operation) {
	votes, most, n := map[call]int{}, 0, 0
	called := make([]*rca.Op, len(in.Parts))
	for k, p := range in.Parts {
		if called[k] = j.Parts[p].Op; called[k] == nil && j.Parts[p].Seen != NotCalled {
			called[k] = j.leftCall(in, j.Parts[p].Node)
		}
		if o := called[k]; o != nil {
			n++
			votes[callOf(o)]++
			most = max(most, votes[callOf(o)])
		}
	}
	if len(votes) < 2 {
		return
	}
	in.Differ = true
	usual, known := call{}, false
	if 2*most <= n {
		usual, known = j.siblingCall(in)
		known = known && votes[usual] > 0
	}
	for k, p := range in.Parts {
		if o := called[k]; o != nil {
			j.Parts[p].Odd = known && callOf(o) != usual || !known && (votes[callOf(o)] < most || 2*most <= n)
		}
	}
}

// siblingCall gives what all members of the sibling communicators called at the place of an operation: the ranks of one program do the same in
// each of them.
func (j *Job) siblingCall(in *Operation) (usual call, known bool) {
	first, c := j.Parts[in.Parts[0]].Op, &j.Index.Comms[in.Comm]
	if c.P2P || first == nil {
		return usual, false
	}
	for i := range j.Index.Comms {
		s := &j.Index.Comms[i]
		if int32(i) == in.Comm || !j.Index.Siblings(c, s) {
			continue
		}
		for k := range s.Members {
			m := s.Members[k].Membership
			if m == nil {
				continue
			}
			for _, o := range slices.Concat(m.InFlight, m.Recent) {
				if o.Number != first.Number || job.IsP2P(&o) {
					continue
				}
				if o.Datatype == "" {
					o.Datatype = first.Datatype
				}
				if known && callOf(&o) != usual {
					return usual, false
				}
				usual, known = callOf(&o), true
			}
		}
	}
	return usual, known
}

// leftCall gives what a rank called at the place of an operation that it has left and others are in; nil unknown.
func (j *Job) leftCall(in *Operation, n int32) *rca.Op {
	c, first := &j.Index.Comms[in.Comm], j.Parts[in.Parts[0]].Op
	m := c.Find(n)
	if c.P2P || first == nil || m == nil || m.Membership == nil {
		return nil
	}
	for k := range m.Membership.Recent {
		if o := &m.Membership.Recent[k]; o.Number == first.Number {
			if o.Datatype == "" {
				return &rca.Op{Func: o.Func, Datatype: first.Datatype, Bytes: o.Bytes, Root: o.Root}
			}
			return o
		}
	}
	return nil
}

// findOrders finds pairs of stalled operations on two communicators that their common ranks called in opposite orders.
func (j *Job) findOrders() {
	at := map[[2]int32]int{}
	for n := range j.Of {
		for i, p := range j.Of[n] {
			for _, q := range j.Of[n][i+1:] {
				if !j.inOrder(&j.Parts[p], &j.Parts[q]) {
					continue
				}
				x, y := j.Parts[p].Operation, j.Parts[q].Operation
				k := [2]int32{min(x, y), max(x, y)}
				o, ok := at[k]
				if !ok {
					o = len(j.Orders)
					at[k] = o
					j.Orders = append(j.Orders, Order{X: k[0], Y: k[1]})
				}
				if x > y {
					j.Orders[o].Odd = append(j.Orders[o].Odd, int32(n))
				} else {
					j.Orders[o].Rest = append(j.Orders[o].Rest, int32(n))
				}
			}
		}
	}
	opposite := j.Orders[:0]
	for _, o := range j.Orders {
		if o.Tie = len(o.Odd) == len(o.Rest); o.Tie { // Odd are those that called Y first.
			x, y := j.ledBySiblings(o.X, o.Y), j.ledBySiblings(o.Y, o.X)
			o.Tie = x == y
			if y && !x {
				o.Odd, o.Rest = o.Rest, o.Odd
			}
		}
		if len(o.Odd) > len(o.Rest) {
			o.Odd, o.Rest = o.Rest, o.Odd
		}
		if len(o.Odd) > 0 {
			opposite = append(opposite, o)
		}
	}
	j.Orders = opposite
}

// ledBySiblings reports whether a rank that is in the second operation has left the like of the first, in the sibling communicator that it is
// a member of: the program then calls the first before the second.
func (j *Job) ledBySiblings(first, second int32) bool {
	in := &j.Operations[first]
	c, o := &j.Index.Comms[in.Comm], j.Parts[in.Parts[0]].Op
	if c.P2P || o == nil || o.Number < 0 {
		return false
	}
	return slices.ContainsFunc(j.Operations[second].Parts, func(p int32) bool {
		n := j.Parts[p].Node
		return j.Parts[p].Op != nil && c.Find(n) == nil && slices.ContainsFunc(j.Index.Nodes[n].Rank.Memberships, func(m rca.Membership) bool {
			return m.Called > o.Number && j.Index.Siblings(c, &j.Index.Comms[j.Index.CommOf[m.Comm]]) &&
				!slices.ContainsFunc(m.InFlight, func(p rca.Op) bool { return p.Number == o.Number })
		})
	})
}

// inOrder reports whether a rank is known to have called one operation before another, and their order matters to others. What it has called
// is before what it has not.
func (j *Job) inOrder(a, b *Part) bool {
	x, y := &j.Operations[a.Operation], &j.Operations[b.Operation]
	later := b.Op == nil && b.Seen == NotCalled || b.Op != nil && b.Age >= 0 && a.Age != b.Age
	return a.Op != nil && a.Age >= 0 && later && !x.P2P && !y.P2P && x.Comm != y.Comm && (x.Still || a.Blank) && (y.Still || b.Blank)
}
