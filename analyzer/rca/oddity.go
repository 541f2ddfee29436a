// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"fmt"
	"slices"
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

// signatureFields are compared in this order; the first that differs is reported.
var signatureFields = []struct {
	name string
	get  func(*Op) signature
}{
	{"operation", func(o *Op) signature { return signature{s: o.Func} }},
	{"root", func(o *Op) signature {
		switch o.Func {
		case "Broadcast", "Reduce", "Gather", "Scatter":
			return signature{n: int64(o.Root) + 1}
		}
		return signature{}
	}},
	{"datatype", func(o *Op) signature {
		// NCCL turns AllGather and Broadcast into bytes between the call and the launch.
		if o.Func == "AllGather" || o.Func == "Broadcast" || isP2P(o) {
			return signature{}
		}
		return signature{s: o.Datatype}
	}},
	{"size", func(o *Op) signature {
		if unevenSizes(o.Func) {
			return signature{}
		}
		return signature{n: max(0, o.Bytes)}
	}},
	{"elements", func(o *Op) signature {
		if unevenSizes(o.Func) || o.Bytes > 0 { // Sources that know no datatypes know no bytes.
			return signature{}
		}
		return signature{n: max(0, o.Count)}
	}},
	{"algorithm", func(o *Op) signature {
		if o.Algo == "unknown" {
			return signature{}
		}
		return signature{s: o.Algo}
	}},
	{"protocol", func(o *Op) signature {
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

// unevenSizes names the operations whose size may differ between ranks of a correct program.
func unevenSizes(fn string) bool {
	switch fn {
	case "AlltoAll", "AllToAll", "AllToAllv", "Gather", "Scatter", "all_to_all", "alltoall_base":
		return true
	}
	return false
}

// compareSignatures finds a disagreement in the instance, nil when all agree. Members that already left are compared
// through their last finished operations.
func (x *index) compareSignatures(in *instance) *oddity {
	parts := make([]join, 0, len(in.joins))
	parts = append(parts, in.joins...)
	if !in.key.p2p() && len(in.joins) < len(x.comms[in.key.comm].mem) {
		mems := x.comms[in.key.comm].mem
		for i := range mems {
			mem := &mems[i]
			if mem.m == nil || in.has(mem) {
				continue
			}
			if o := recentLike(mem.m, in); o != nil {
				parts = append(parts, join{node: mem.node, commRank: mem.commRank, op: o})
			} else if o := shifted(mem.m, in); o != nil {
				return x.orderOddity(in, mem.node, o)
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

func agree(parts []join, get func(*Op) signature) bool {
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
func (x *index) moreThanSent(in *instance) *oddity {
	c := &x.comms[in.key.comm]
	if in.key.fn >= 0 || 2*len(in.joins) > len(c.mem) {
		return nil // Call numbers are not comparable, or those who are still in it are no minority.
	}
	od := &oddity{field: "size", common: "less", tie: 2*len(in.joins) == len(c.mem)}
	for i := range in.joins {
		j := &in.joins[i]
		if !j.active || j.op.ProxyUnreliable || commonSize(c, j.op) {
			return nil
		}
		for k := range j.op.Flows {
			f := &j.op.Flows[k]
			if !f.Send && f.starved() && f.Total > f.Posted && x.hasFinished(c, f.Peer, in.key.place) {
				od.odd = append(od.odd, oddMember{j.node, fmt.Sprintf("%s of %d bytes", j.op.Func, j.op.Bytes)})
				break
			}
		}
	}
	if len(od.odd) == 0 {
		return nil
	}
	if od.tie {
		// Of two, the one whose size is not what the other's next call of the kind has.
		for i := range c.mem {
			if mem := &c.mem[i]; mem.m != nil && !in.has(mem) && len(od.odd) < len(c.mem) && !usualSize(mem.m, in.op()) {
				od.odd = append(od.odd, oddMember{mem.node, "a smaller one"})
			}
		}
		od.tie = len(od.odd) > len(in.joins)
	}
	return od
}

// hasFinished says that a member has finished the operation at a place, and that its source would have shown it if not.
func (x *index) hasFinished(c *comm, commRank int, place int64) bool {
	if commRank < 0 || commRank >= len(c.at) || c.at[commRank] < 0 {
		return false
	}
	mem := c.find(c.at[commRank])
	if mem == nil || mem.m == nil || mem.m.Completed <= place || mem.m.Completed > mem.m.Called {
		return false
	}
	r := x.nodes[mem.node].rank
	return r.Caps&SeesCompletion != 0 && r.Lost == 0 && !slices.ContainsFunc(mem.m.InFlight, func(o Op) bool { return o.Number <= place })
}

// commonSize says that somebody calls the same operation with the same size at another place: it is no accident.
func commonSize(c *comm, o *Op) bool {
	for i := range c.mem {
		if m := c.mem[i].m; m != nil && slices.ContainsFunc(m.InFlight, func(f Op) bool {
			return f.Func == o.Func && f.Bytes == o.Bytes && f.Number != o.Number
		}) {
			return true
		}
	}
	return false
}

// usualSize says that the member's later calls of the same function have another size than o: o's is the unusual one.
func usualSize(m *Membership, o *Op) bool {
	for i := range m.InFlight {
		if f := &m.InFlight[i]; f.Func == o.Func && f.Bytes > 0 && f.Bytes != o.Bytes {
			return true
		}
	}
	return false
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
		o.odd = append(o.odd, oddMember{parts[i].node, fmt.Sprintf("%s of %d bytes", parts[i].op.Func, parts[i].op.Bytes)})
	}
	return o
}

// has says whether the member is in the instance.
func (in *instance) has(mem *member) bool {
	if mem.commRank >= 0 {
		return in.at(mem.commRank) != nil
	}
	return slices.ContainsFunc(in.joins, func(j join) bool { return j.node == mem.node })
}

// orderOddity: two members called the same operation at different places. Most members decide which place is right; of
// two equal camps the one is wrong that called a function which nobody else calls, or whose place is not the one that
// the sibling communicators have.
func (x *index) orderOddity(in *instance, n int32, o *Op) *oddity {
	like := in.op()
	here := fmt.Sprintf("%s number %d as operation %d", like.Func, like.Seq, in.key.place)
	there := fmt.Sprintf("%s number %d as operation %d", o.Func, o.Seq, o.Number)
	camps := [2][]oddMember{}
	for i := range in.joins {
		camps[0] = append(camps[0], oddMember{in.joins[i].node, here})
	}
	mems := x.comms[in.key.comm].mem
	for i := range mems {
		if m := mems[i].m; m != nil && !in.has(&mems[i]) {
			if s := shifted(m, in); s != nil && s.Number == o.Number {
				camps[1] = append(camps[1], oddMember{mems[i].node, there})
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
func (x *index) calledAlone(ci int32, camps [2][]oddMember) int {
	count := map[string]int{}
	c := &x.comms[ci]
	for i := range x.comms {
		s := &x.comms[i]
		if int32(i) != ci && (s.size != c.size || stem(s.name) != stem(c.name)) {
			continue
		}
		for k := range s.mem {
			if m := s.mem[k].m; m != nil {
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
			for fn, n := range c.find(o.node).m.FuncCalled {
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
func (x *index) wrongPlace(in *instance, like, o *Op) int {
	votes := x.familyVotes(in, func(s *Op) signature {
		return pick(s.Func == like.Func && s.Seq == like.Seq, signature{n: s.Number + 1}, signature{})
	}, false)
	here, there := in.key.place+1, o.Number+1
	if len(votes) == 0 {
		const bias = 1 << 40 // A difference may be nothing, which is no vote.
		votes = x.familyVotes(in, func(s *Op) signature {
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
func shifted(m *Membership, in *instance) *Op {
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

func recentLike(m *Membership, in *instance) *Op {
	o := in.op()
	for i := range m.Recent {
		r := &m.Recent[i]
		if in.key.fn < 0 && r.Number == in.key.place && r.Number >= 0 && !isP2P(r) {
			return r
		}
		if in.key.fn >= 0 && r.Func == o.Func && r.Seq == in.key.place {
			return r
		}
	}
	return nil
}

// split names those who called otherwise than most. Where no camp is larger, the sibling communicators (same size, same
// place in their order) are asked; where they do not know, both camps are named.
func split(x *index, in *instance, field string, get func(*Op) signature, parts []join) *oddity {
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
func (x *index) siblings(in *instance, get func(*Op) signature, camps map[signature]int) signature {
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

func (x *index) familyVotes(in *instance, get func(*Op) signature, samePlace bool) map[signature]int {
	votes := map[signature]int{}
	if in.key.fn >= 0 || in.key.p2p() {
		return votes
	}
	var none signature
	c := &x.comms[in.key.comm]
	family := stem(c.name)
	for i := range x.comms {
		s := &x.comms[i]
		if int32(i) == in.key.comm || s.size != c.size || stem(s.name) != family {
			continue
		}
		for _, mem := range s.mem {
			if mem.m == nil {
				continue
			}
			for _, ops := range [2][]Op{mem.m.InFlight, mem.m.Recent} {
				for k := range ops {
					if (!samePlace || ops[k].Number == in.key.place) && !isP2P(&ops[k]) {
						votes[get(&ops[k])]++
					}
				}
			}
		}
	}
	delete(votes, none)
	return votes
}

// unusual says that a rank's call at this place is not known to be what the same place holds elsewhere in the family.
func (x *index) unusual(in *instance) bool {
	get := signatureFields[0].get
	votes := x.familyVotes(in, get, true)
	return len(votes) != 1 || votes[get(in.op())] == 0
}

// stem is a communicator's name without its number: "dp_1" and "dp_0" are of one family. Names that are identifiers
// have no family.
func stem(name string) string {
	end := len(name)
	for end > 0 && (name[end-1] >= '0' && name[end-1] <= '9') {
		end--
	}
	return name[:end]
}
