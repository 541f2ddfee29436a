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

// oddity is a disagreement between the members of an instance about what it is (CCL-D's H2, operation type set C3).
type oddity struct {
	field  string
	common string // What the majority called; empty when there is none.
	odd    []oddMember
	tie    bool // Two camps of equal size: both are named.
}

type oddMember struct {
	node  int32
	value string
}

// signature is one comparable property of an operation; the zero value is unknown.
type signature struct {
	n int64
	s string
}

// signatureField is a property by its name for people.
type signatureField struct {
	name string
	get  func(*rca.Op) signature
}

// signatureFields are compared in this order; the first that differs is reported.
var signatureFields = []signatureField{
	{"operation", func(o *rca.Op) signature { return signature{s: o.Func} }},
	{"root", func(o *rca.Op) signature {
		switch o.Func {
		case "Broadcast", "Reduce", "Gather", "Scatter":
			return signature{n: int64(o.Root) + 1}
		}
		return signature{}
	}},
	{"datatype", func(o *rca.Op) signature {
		// NCCL turns AllGather and Broadcast into bytes between the call and the launch.
		if o.Func == "AllGather" || o.Func == "Broadcast" || job.IsP2P(o) {
			return signature{}
		}
		return signature{s: o.Datatype}
	}},
	{"size", func(o *rca.Op) signature {
		if job.UnevenSizes(o.Func) {
			return signature{}
		}
		return signature{n: max(0, o.Bytes)}
	}},
	{"elements", func(o *rca.Op) signature {
		if job.UnevenSizes(o.Func) || o.Bytes > 0 { // Sources that know no datatypes know no bytes.
			return signature{}
		}
		return signature{n: max(0, o.Count)}
	}},
	{"algorithm", func(o *rca.Op) signature {
		if o.Algo == "unknown" {
			return signature{}
		}
		return signature{s: o.Algo}
	}},
	{"protocol", func(o *rca.Op) signature {
		if o.Proto == "unknown" {
			return signature{}
		}
		return signature{s: o.Proto}
	}},
}

// text says a property for people.
func (v signature) text(field string) string {
	switch field {
	case "size":
		return fmt.Sprintf("%d bytes", v.n)
	case "elements":
		return fmt.Sprintf("%d elements", v.n)
	case "root":
		return fmt.Sprintf("root %d", v.n-1)
	}
	return v.s
}

// compareSignatures finds a disagreement in the instance, nil when all agree. Members that already left are compared
// through their last finished operations.
func (x *standstill) compareSignatures(in *instance) *oddity {
	parts := make([]join, 0, len(in.joins))
	parts = append(parts, in.joins...)
	if !in.key.p2p() && len(in.joins) < len(x.Comms[in.key.comm].Members) {
		mems := x.Comms[in.key.comm].Members
		for i := range mems {
			mem := &mems[i]
			if mem.Membership == nil || in.has(mem) {
				continue
			}
			if o := recentLike(mem.Membership, in); o != nil {
				parts = append(parts, join{node: mem.Node, commRank: mem.CommRank, op: o})
			} else if o := shifted(mem.Membership, in); o != nil && !x.lostAt(mem, in) {
				return x.orderOddity(in, mem.Node, o)
			}
		}
	}
	if in.key.p2p() {
		return sizesOfPair(parts)
	}
	if od := x.moreThanSent(in); od != nil {
		return od
	}
	for _, f := range signatureFields {
		if agree(parts, f.get) {
			continue
		}
		return split(x, in, f.name, f.get, parts)
	}
	return nil
}

func agree(parts []join, get func(*rca.Op) signature) bool {
	var none, want signature
	for i := range parts {
		v := get(parts[i].op)
		if want == none {
			want = v
		} else if v != none && v != want {
			return false
		}
	}
	return true
}

// moreThanSent finds members that want more data than there is: the one they receive from has finished the operation,
// although they have not even posted buffers for all of what they expect. Nobody sends what no buffer is posted for, so
// they called a larger one.
func (x *standstill) moreThanSent(in *instance) *oddity {
	c := &x.Comms[in.key.comm]
	if in.key.fn >= 0 || 2*len(in.joins) > len(c.Members) {
		return nil // Call numbers are not comparable, or those who are still in it are no minority.
	}
	for i := range c.Members {
		if m := c.Members[i].Membership; m != nil && !in.has(&c.Members[i]) && m.Completed <= in.key.place {
			return nil // Nobody finishes what a member has not called, or has called and not finished.
		}
	}
	od := &oddity{field: "size", common: "less", tie: 2*len(in.joins) == len(c.Members)}
	for i := range in.joins {
		j := &in.joins[i]
		if !j.active || j.op.ProxyUnreliable || commonSize(c, j.op) {
			return nil
		}
		for k := range j.op.Flows {
			f := &j.op.Flows[k]
			if !f.Send && f.Starved() && f.Total > f.Posted && x.hasFinished(c, f.Peer, in.key.place) {
				od.odd = append(od.odd, oddMember{j.node, fmt.Sprintf(words.BytesOf, j.op.Func, j.op.Bytes)})
				break
			}
		}
	}
	if len(od.odd) == 0 {
		return nil
	}
	if od.tie {
		// Of two, the one whose size is not what the other's next call of the kind has.
		for i := range c.Members {
			if mem := &c.Members[i]; mem.Membership != nil && !in.has(mem) && len(od.odd) < len(c.Members) && !usualSize(mem.Membership, in.op()) {
				od.odd = append(od.odd, oddMember{mem.Node, "a smaller one"})
			}
		}
		od.tie = len(od.odd) > len(in.joins)
	}
	return od
}

// hasFinished reports whether a member has finished the operation at a place, and whether its source would have shown it if not.
func (x *standstill) hasFinished(c *job.Comm, commRank int, place int64) bool {
	if commRank < 0 || commRank >= len(c.At) || c.At[commRank] < 0 {
		return false
	}
	mem := c.Find(c.At[commRank])
	if mem == nil || mem.Membership == nil || mem.Membership.Completed <= place || mem.Membership.Completed > mem.Membership.Called {
		return false
	}
	r := x.Nodes[mem.Node].Rank
	return r.Caps&rca.SeesCompletion != 0 && r.Lost == 0 && !slices.ContainsFunc(mem.Membership.InFlight, func(o rca.Op) bool { return o.Number <= place })
}

// commonSize reports whether somebody calls the same operation with the same size at another place: it is no accident.
func commonSize(c *job.Comm, o *rca.Op) bool {
	for i := range c.Members {
		if m := c.Members[i].Membership; m != nil && slices.ContainsFunc(m.InFlight, func(f rca.Op) bool {
			return f.Func == o.Func && f.Bytes == o.Bytes && f.Number != o.Number
		}) {
			return true
		}
	}
	return false
}

// usualSize reports whether the member's later calls of the same function have another size than o: o's is the unusual one.
func usualSize(m *rca.Membership, o *rca.Op) bool {
	return slices.ContainsFunc(m.InFlight, func(f rca.Op) bool { return f.Func == o.Func && f.Bytes > 0 && f.Bytes != o.Bytes })
}

// sizesOfPair compares a send with its receive: NCCL wants both counts equal.
func sizesOfPair(parts []join) *oddity {
	if len(parts) != 2 {
		return nil
	}
	a, b := parts[0].op, parts[1].op
	if a.Bytes <= 0 || b.Bytes <= 0 || a.Bytes == b.Bytes {
		return nil
	}
	o := &oddity{field: "size", tie: true}
	for i := range parts {
		o.odd = append(o.odd, oddMember{parts[i].node, fmt.Sprintf(words.BytesOf, parts[i].op.Func, parts[i].op.Bytes)})
	}
	return o
}

// has reports whether the member is in the instance.
func (in *instance) has(mem *job.Member) bool {
	if mem.CommRank >= 0 {
		return in.at(mem.CommRank) != nil
	}
	return slices.ContainsFunc(in.joins, func(j join) bool { return j.node == mem.Node })
}

// lostAt reports whether a member has called something at the instance's place that it has not finished and does not show: the record
// was lost, and it may be the very operation.
func (x *standstill) lostAt(mem *job.Member, in *instance) bool {
	m := mem.Membership
	return x.Nodes[mem.Node].Rank.Lost > 0 && in.key.fn < 0 && m.Called > in.key.place && m.Completed <= in.key.place
}

// orderOddity: two members called the same operation at different places. Most members decide which place is right; of
// two equal camps the one is wrong that called a function which nobody else calls, or whose place is not the one that
// the sibling communicators have.
func (x *standstill) orderOddity(in *instance, n int32, o *rca.Op) *oddity {
	like := in.op()
	here := fmt.Sprintf(words.CallAsOperation, like.Func, like.Seq, in.key.place)
	there := fmt.Sprintf(words.CallAsOperation, o.Func, o.Seq, o.Number)
	camps := [2][]oddMember{}
	for i := range in.joins {
		camps[0] = append(camps[0], oddMember{in.joins[i].node, here})
	}
	mems := x.Comms[in.key.comm].Members
	for i := range mems {
		if m := mems[i].Membership; m != nil && !in.has(&mems[i]) && !x.lostAt(&mems[i], in) {
			if s := shifted(m, in); s != nil && s.Number == o.Number {
				camps[1] = append(camps[1], oddMember{mems[i].Node, there})
			}
		}
	}
	var wrong int
	if len(camps[0]) != len(camps[1]) {
		wrong = pick(len(camps[0]) < len(camps[1]), 0, 1)
	} else if stranger := x.calledAlone(in.key.comm, camps); stranger >= 0 {
		wrong = stranger
	} else {
		wrong = x.wrongPlace(in, like, o)
	}
	if wrong < 0 {
		return &oddity{field: "order", tie: true, odd: append(camps[0][:1:1], oddMember{n, there})}
	}
	return &oddity{field: "order", common: camps[1-wrong][0].value, odd: camps[wrong]}
}

// calledAlone gives the camp whose members have all called a function that nobody else in the communicator or its family
// has ever called, -1 none or both.
func (x *standstill) calledAlone(ci int32, camps [2][]oddMember) int {
	count := map[string]int{}
	c := &x.Comms[ci]
	for i := range x.Comms {
		s := &x.Comms[i]
		if int32(i) != ci && !x.Siblings(c, s) {
			continue
		}
		for k := range s.Members {
			if m := s.Members[k].Membership; m != nil {
				for fn, n := range m.FuncCalled {
					if n > 0 {
						count[fn]++
					}
				}
			}
		}
	}
	found := -1
	for k, camp := range camps {
		alone := len(camp) > 0
		for _, o := range camp {
			only := false
			for fn, n := range c.Find(o.node).Membership.FuncCalled {
				only = only || n > 0 && count[fn] == len(camp)
			}
			alone = alone && only
		}
		if alone && found >= 0 {
			return -1
		}
		if alone {
			found = k
		}
	}
	return found
}

// wrongPlace asks the sibling communicators where the operation belongs: by its own number, else by how far its number
// is behind its place there. 0: it is wrong here; 1: wrong where o is; -1: they do not say.
func (x *standstill) wrongPlace(in *instance, like, o *rca.Op) int {
	votes := x.familyVotes(in, func(s *rca.Op) signature {
		return pick(s.Func == like.Func && s.Seq == like.Seq, signature{n: s.Number + 1}, signature{})
	}, false)
	here, there := in.key.place+1, o.Number+1
	if len(votes) == 0 {
		const bias = 1 << 40 // A difference may be nothing, which is no vote.
		votes = x.familyVotes(in, func(s *rca.Op) signature {
			return pick(s.Func == like.Func && s.Seq >= 0, signature{n: s.Number - s.Seq + bias}, signature{})
		}, false)
		here, there = in.key.place-like.Seq+bias, o.Number-o.Seq+bias
	}
	if len(votes) != 1 {
		return -1
	}
	for v := range votes {
		switch v.n {
		case here:
			return 1
		case there:
			return 0
		}
	}
	return -1
}

// shifted finds the instance's operation, by its function's own number, at another place of the member's order: one of
// them called something that the other did not.
func shifted(m *rca.Membership, in *instance) *rca.Op {
	like := in.op()
	if in.key.fn >= 0 || like.Seq < 0 {
		return nil
	}
	for i := range m.InFlight {
		if o := &m.InFlight[i]; o.Func == like.Func && o.Seq == like.Seq && o.Number >= 0 && o.Number != in.key.place {
			return o
		}
	}
	return nil
}

func recentLike(m *rca.Membership, in *instance) *rca.Op {
	o := in.op()
	for i := range m.Recent {
		r := &m.Recent[i]
		if in.key.fn < 0 && r.Number == in.key.place && r.Number >= 0 && !job.IsP2P(r) {
			return r
		}
		if in.key.fn >= 0 && r.Func == o.Func && r.Seq == in.key.place {
			return r
		}
	}
	return nil
}

// split names those who called otherwise than most. Calls are counted and not measured, so a majority of one is a lead. Where no camp is larger, the sibling communicators (same size, same
// place in their order) are asked; where they do not know, both camps are named.
func split(x *standstill, in *instance, field string, get func(*rca.Op) signature, parts []join) *oddity {
	var none signature
	count := map[signature]int{}
	for i := range parts {
		if v := get(parts[i].op); v != none {
			count[v]++
		}
	}
	type camp struct {
		value signature
		n     int
	}
	camps := make([]camp, 0, len(count))
	for v, n := range count {
		camps = append(camps, camp{v, n})
	}
	slices.SortFunc(camps, func(a, b camp) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.value.n, b.value.n), cmp.Compare(a.value.s, b.value.s))
	})
	common := camps[0].value
	od := &oddity{field: field}
	if camps[0].n == camps[1].n {
		common = x.siblings(in, get, count)
		od.tie = common == none
	}
	if common != none {
		od.common = common.text(field)
	}
	for i := range parts {
		if v := get(parts[i].op); v != none && v != common {
			od.odd = append(od.odd, oddMember{parts[i].node, v.text(field)})
		}
	}
	slices.SortFunc(od.odd, func(a, b oddMember) int { return cmp.Compare(a.node, b.node) })
	return od
}

// siblings asks the other communicators of the same size and family what stands at this place in their order: the ranks
// of one program do the same thing in every data-parallel group. The zero signature when they do not agree on one of
// the camps.
func (x *standstill) siblings(in *instance, get func(*rca.Op) signature, camps map[signature]int) signature {
	var none signature
	votes := x.familyVotes(in, get, true)
	if len(votes) != 1 {
		return none
	}
	for v := range votes {
		if camps[v] > 0 {
			return v
		}
	}
	return none
}

func (x *standstill) familyVotes(in *instance, get func(*rca.Op) signature, samePlace bool) map[signature]int {
	votes := map[signature]int{}
	if in.key.fn >= 0 || in.key.p2p() {
		return votes
	}
	var none signature
	c := &x.Comms[in.key.comm]
	for i := range x.Comms {
		s := &x.Comms[i]
		if int32(i) == in.key.comm || !x.Siblings(c, s) {
			continue
		}
		for _, mem := range s.Members {
			if mem.Membership == nil {
				continue
			}
			for _, ops := range [2][]rca.Op{mem.Membership.InFlight, mem.Membership.Recent} {
				for k := range ops {
					if (!samePlace || ops[k].Number == in.key.place) && !job.IsP2P(&ops[k]) {
						votes[get(&ops[k])]++
					}
				}
			}
		}
	}
	delete(votes, none)
	return votes
}

// unusual reports whether a rank's call at this place is not known to be what the same place holds elsewhere in the family.
func (x *standstill) unusual(in *instance) bool {
	get := signatureFields[0].get
	votes := x.familyVotes(in, get, true)
	return len(votes) != 1 || votes[get(in.op())] == 0
}
