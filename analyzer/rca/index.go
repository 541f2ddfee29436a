// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"slices"
)

// node is a rank as the engine knows it: seen, or only spoken of by others.
type node struct {
	id     int   // Global rank; -1 for the unseen members of a communicator.
	rank   *Rank // nil: nothing was seen of it.
	silent bool  // It was asked and did not answer.
	ghost  int32 // Communicator whose unseen members this stands for, else -1.
	why    string
}

// comm is a communicator with its members resolved to nodes.
type comm struct {
	id   CommID
	name string
	size int
	at   []int32 // Node by rank in the communicator; -1 unknown.
	mem  []member
	// p2p: send/recv runs on it too, so call numbers differ legitimately between ranks and collectives are told apart
	// by function and sequence number.
	p2p   bool
	call  bool  // It stands for the ranks of a Call.
	ghost int32 // Node standing for members that nobody could name, -1 none.
}

// member is one rank's view of one communicator.
type member struct {
	node     int32
	commRank int32 // -1 unknown.
	m        *Membership
}

// index holds the evidence in sorted slices: the order of the input never matters, and nothing in the hot loops needs a
// map of maps.
type index struct {
	ev      *Evidence
	opt     Options
	nodes   []node
	dense   []int32       // Node by global rank, -1 none; used when ranks are dense.
	byID    map[int]int32 // Otherwise.
	comms   []comm
	comOf   map[CommID]int32
	funcs   map[string]int32
	fname   []string
	acts    [][]active // Heads per node: what each rank is in.
	insts   []instance
	instAt  map[instKey]int32
	unclear map[int32]bool     // Nodes of which only counts are known, that do not tell what others wait for.
	seen    int                // Nodes with a rank.
	world   int                // Ranks the job should have.
	mates   map[string][]int32 // Nodes by host.
}

func newIndex(ev *Evidence, opt Options) *index {
	x := &index{ev: ev, opt: opt, funcs: map[string]int32{}, comOf: map[CommID]int32{}, unclear: map[int32]bool{}}
	ev.forgetOrderlyEnds()
	ev.joinCalls()
	x.addNodes()
	x.addComms()
	x.mates = make(map[string][]int32)
	for n := range x.nodes {
		if h := x.host(int32(n)); h != "" {
			x.mates[h] = append(x.mates[h], int32(n))
		}
	}
	return x
}

// forgetOrderlyEnds: when one process died and all others have exited, the launcher ended them. Their orderly end then
// says nothing, and what they show is from before.
func (ev *Evidence) forgetOrderlyEnds() {
	gone, exited := 0, 0
	for i := range ev.Ranks {
		switch ev.Ranks[i].State {
		case ProcessGone:
			gone++
		case ProcessExited:
			exited++
		default:
			return
		}
	}
	if gone == 0 || exited <= gone {
		return
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	for i := range ev.Ranks {
		if ev.Ranks[i].State == ProcessExited {
			ev.Ranks[i].State = ProcessUnknown
		}
	}
}

func (x *index) addNodes() {
	ev := x.ev
	x.nodes = make([]node, 0, len(ev.Ranks)+16)
	for i := range ev.Ranks {
		x.nodes = append(x.nodes, node{id: ev.Ranks[i].ID, rank: &ev.Ranks[i], ghost: -1})
	}
	slices.SortStableFunc(x.nodes, func(a, b node) int {
		if c := cmp.Compare(a.id, b.id); c != 0 {
			return c
		}
		return cmp.Compare(a.rank.Host, b.rank.Host)
	})
	// Two reports of one rank: the first host in order speaks; a rank cannot be in two places.
	x.nodes = slices.CompactFunc(x.nodes, func(a, b node) bool { return a.id == b.id })
	x.seen = len(x.nodes)
	known := make(map[int]struct{}, len(x.nodes))
	for i := range x.nodes {
		known[x.nodes[i].id] = struct{}{}
	}
	add := func(id int, silent bool, why string) {
		if _, ok := known[id]; ok || id < 0 {
			return
		}
		known[id] = struct{}{}
		x.nodes = append(x.nodes, node{id: id, silent: silent, why: why, ghost: -1})
	}
	for i := range ev.Missing {
		for _, r := range ev.Missing[i].Ranks {
			add(r, true, ev.Missing[i].Why)
		}
	}
	for i := range ev.Comms {
		for _, r := range ev.Comms[i].Members {
			add(r, false, "")
		}
	}
	if ev.WorldSize > 0 && ev.WorldSize <= 4*len(known)+1024 {
		for r := range ev.WorldSize {
			add(r, false, "")
		}
	}
	slices.SortStableFunc(x.nodes, func(a, b node) int { return cmp.Compare(a.id, b.id) })
	x.world = max(ev.WorldSize, len(x.nodes))
	x.indexIDs()
}

func (x *index) indexIDs() {
	top := -1
	for i := range x.nodes {
		top = max(top, x.nodes[i].id)
	}
	if top < 4*len(x.nodes)+1024 {
		x.dense = make([]int32, top+1)
		for i := range x.dense {
			x.dense[i] = -1
		}
		for i := range x.nodes {
			if id := x.nodes[i].id; id >= 0 {
				x.dense[id] = int32(i)
			}
		}
		return
	}
	x.byID = make(map[int]int32, len(x.nodes))
	for i := range x.nodes {
		x.byID[x.nodes[i].id] = int32(i)
	}
}

// nodeOf gives the node of a global rank, -1 when nobody speaks of it.
func (x *index) nodeOf(id int) int32 {
	if x.byID != nil {
		if n, ok := x.byID[id]; ok {
			return n
		}
		return -1
	}
	if id < 0 || id >= len(x.dense) {
		return -1
	}
	return x.dense[id]
}

func (x *index) addComms() {
	ids := make([]CommID, 0, len(x.ev.Comms))
	for i := range x.ev.Comms {
		ids = append(ids, x.ev.Comms[i].ID)
	}
	for i := range x.nodes {
		if r := x.nodes[i].rank; r != nil {
			for j := range r.Memberships {
				if _, ok := x.comOf[r.Memberships[j].Comm]; !ok {
					x.comOf[r.Memberships[j].Comm] = 0
					ids = append(ids, r.Memberships[j].Comm)
				}
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	x.comms = make([]comm, len(ids))
	for i, id := range ids {
		x.comms[i] = comm{id: id, name: string(id), ghost: -1}
		x.comOf[id] = int32(i)
	}
	for i := range x.ev.Comms {
		c := &x.ev.Comms[i]
		k := &x.comms[x.comOf[c.ID]]
		k.call = k.call || isCall(c.ID)
		if c.Name != "" {
			k.name = c.Name
		}
		k.size = max(k.size, c.Size, len(c.Members))
		k.place(len(c.Members))
		for cr, id := range c.Members {
			if n := x.nodeOf(id); n >= 0 {
				k.at[cr] = n
			}
		}
	}
	x.addMembers()
}

func (c *comm) place(n int) {
	for len(c.at) < n {
		c.at = append(c.at, -1)
	}
}

func (x *index) addMembers() {
	const sane = 1 << 24 // A rank in a communicator beyond this is garbage.
	for n := range x.nodes {
		r := x.nodes[n].rank
		if r == nil {
			continue
		}
		for j := range r.Memberships {
			m := &r.Memberships[j]
			c := &x.comms[x.comOf[m.Comm]]
			if m.CommRank >= 0 && m.CommRank < sane {
				c.place(m.CommRank + 1)
				if c.at[m.CommRank] < 0 {
					c.at[m.CommRank] = int32(n)
				}
			}
			c.mem = append(c.mem, member{node: int32(n), commRank: int32(m.CommRank), m: m})
			c.p2p = c.p2p || usesP2P(m)
		}
	}
	for i := range x.comms {
		x.finishComm(int32(i))
	}
}

// finishComm fills in what only the whole communicator shows: ranks of members that did not say, members nobody saw.
func (x *index) finishComm(ci int32) {
	c := &x.comms[ci]
	c.size = max(c.size, len(c.at))
	rankOf := make(map[int32]int32)
	for cr, n := range c.at {
		if n >= 0 {
			rankOf[n] = int32(cr)
		}
	}
	for i := range c.mem {
		if cr, ok := rankOf[c.mem[i].node]; ok && c.mem[i].commRank < 0 {
			c.mem[i].commRank = cr
		}
	}
	for _, n := range c.at {
		if n >= 0 && x.nodes[n].rank == nil {
			c.mem = append(c.mem, member{node: n, commRank: rankOf[n]})
		} else if n >= 0 && !slices.ContainsFunc(x.nodes[n].rank.Memberships, func(m Membership) bool { return m.Comm == c.id }) {
			c.mem = append(c.mem, member{node: n, commRank: rankOf[n]})
		}
	}
	slices.SortStableFunc(c.mem, func(a, b member) int { return cmp.Compare(a.node, b.node) })
	c.mem = slices.CompactFunc(c.mem, func(a, b member) bool { return a.node == b.node })
	if c.size > len(c.mem) {
		c.ghost = int32(len(x.nodes))
		x.nodes = append(x.nodes, node{id: -1, ghost: ci})
	}
}

// find gives a node's view of the communicator, nil when it is not a member.
func (c *comm) find(n int32) *member {
	i, ok := slices.BinarySearchFunc(c.mem, n, func(m member, n int32) int { return cmp.Compare(m.node, n) })
	if !ok {
		return nil
	}
	return &c.mem[i]
}

func usesP2P(m *Membership) bool {
	if m.FuncCalled["Send"] > 0 || m.FuncCalled["Recv"] > 0 {
		return true
	}
	return slices.ContainsFunc(m.InFlight, func(o Op) bool { return isP2P(&o) }) ||
		slices.ContainsFunc(m.Recent, func(o Op) bool { return isP2P(&o) })
}

func isP2P(o *Op) bool { return o.Func == "Send" || o.Func == "Recv" }

func (x *index) fn(name string) int32 {
	if i, ok := x.funcs[name]; ok {
		return i
	}
	i := int32(len(x.fname))
	x.funcs[name] = i
	x.fname = append(x.fname, name)
	return i
}

// host gives a node's host, "" unknown.
func (x *index) host(n int32) string {
	if r := x.nodes[n].rank; r != nil {
		return r.Host
	}
	return ""
}

// dead says that the process cannot take part in anything any more, or not until somebody wakes it.
func dead(r *Rank) bool {
	return r != nil && (r.State == ProcessStopped || r.State == ProcessGone || r.State == ProcessExited)
}

// peersOn gives the nodes that an operation's flows go to and come from, once a flow.
func (x *index) peersOn(comm int32, op *Op) []int32 {
	at := x.comms[comm].at
	var out []int32
	for i := range op.Flows {
		if p := op.Flows[i].Peer; p >= 0 && p < len(at) && at[p] >= 0 {
			out = append(out, at[p])
		}
	}
	return out
}
