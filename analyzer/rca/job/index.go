// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package job is a training job as the evidence shows it: ranks, hosts and communicators resolved to each other, with their names
// for people. The order of the evidence does not matter.
package job

import (
	"cmp"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Visibility is what the evidence shows of a rank, or why it shows no more.
type Visibility uint8

const (
	NotRecorded Visibility = iota // Other ranks name it, and no source has a record of it.
	NoAnswer                      // Its source was asked and did not answer.
	Unnamed                       // It stands for all members of a communicator whose ranks are unknown.
	CountsOnly                    // Its host was not asked. Prometheus has its counts of operations.
	Recorded                      // Its source gave its record.
)

// Node is a rank as the engine knows it: recorded, or only named by others.
type Node struct {
	ID         int       // Global rank; -1 for unnamed members.
	Rank       *rca.Rank // nil: no record and no counts.
	Visibility Visibility
	Comm       int32 // Communicator whose unnamed members it stands for, else -1.
	Undated    bool  // Its process has ended, perhaps before anything stood still.
}

// Comm is a communicator with its members resolved to nodes.
type Comm struct {
	id      rca.CommID
	Name    string // The name that its framework gave it, else its identifier.
	Named   bool   // Its framework gave it a name.
	Size    int
	At      []int32 // Node by rank in the communicator; -1 unknown.
	Members []Member
	// P2P reports that send/recv runs on it too, so that call numbers differ between the ranks of a correct program. Collectives
	// are then identified by function and sequence number.
	P2P     bool
	Call    bool  // It stands for the ranks of a Call.
	Unnamed int32 // Node that stands for members whose ranks are unknown, -1 none.
}

// Member is one rank's record of one communicator.
type Member struct {
	Node       int32
	CommRank   int32 // -1 unknown.
	Membership *rca.Membership
}

// Index holds the evidence in sorted slices, so that the order of the input does not matter and hot loops need no map of maps.
type Index struct {
	Ev        *rca.Evidence
	Opt       rca.Options
	Level     rca.Level
	Nodes     []Node
	dense     []int32       // Node by global rank, -1 none; nil where ranks are sparse.
	byID      map[int]int32 // Node by global rank where ranks are sparse.
	Comms     []Comm
	CommOf    map[rca.CommID]int32
	funcs     map[string]int32
	FuncNames []string           // By FuncNumber.
	Seen      int                // Nodes with a rank.
	World     int                // Ranks that the job should have.
	Mates     map[string][]int32 // Nodes by host.
	Apart     []rca.Fact         // The facts that set their host apart.
	Over      bool               // All ranks were seen, and none of their processes is alive.
	Victim    bool               // The end of some process was set aside, because its long standstill may be what ended it.
}

// NewIndex resolves the evidence. Changes that it needs go into its own copies of the lists.
func NewIndex(ev *rca.Evidence, opt rca.Options) *Index { return newIndex(ev, opt, false) }

// NewIndexKeepingEnds is NewIndex, but keeps the ends of processes that had long stood still.
func NewIndexKeepingEnds(ev *rca.Evidence, opt rca.Options) *Index { return newIndex(ev, opt, true) }

func newIndex(ev *rca.Evidence, opt rca.Options, keepEnds bool) *Index {
	x := &Index{Ev: ev, Opt: opt, Level: ev.Level(), funcs: map[string]int32{}, CommOf: map[rca.CommID]int32{}}
	forgetEarlierRuns(ev)
	x.Over = len(ev.Ranks) > 0 && len(ev.Ranks) >= ev.WorldSize && !slices.ContainsFunc(ev.Ranks, func(r rca.Rank) bool { return !ended(&r) })
	forgetOrderlyEnds(ev)
	forgetLaterEnds(ev, opt.HangAfter)
	var undated map[int]bool
	if !keepEnds {
		var victims int
		victims, undated = forgetVictims(ev, opt.HangAfter)
		x.Victim = victims == 1
	}
	joinCalls(ev)
	x.addNodes()
	for n := range x.Nodes {
		x.Nodes[n].Undated = undated[x.Nodes[n].ID]
	}
	x.addComms()
	x.Mates = make(map[string][]int32)
	for n := range x.Nodes {
		if h := x.Host(int32(n)); h != "" {
			x.Mates[h] = append(x.Mates[h], int32(n))
		}
	}
	x.Apart = x.apart()
	return x
}

func (x *Index) addNodes() {
	ev := x.Ev
	x.Nodes = make([]Node, 0, len(ev.Ranks)+16)
	for i := range ev.Ranks {
		x.Nodes = append(x.Nodes, Node{ID: ev.Ranks[i].ID, Rank: &ev.Ranks[i], Visibility: visibility(ev, &ev.Ranks[i]), Comm: -1})
	}
	slices.SortStableFunc(x.Nodes, func(a, b Node) int {
		if c := cmp.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return cmp.Compare(a.Rank.Host, b.Rank.Host)
	})
	// Where a rank is reported twice, the first host in order counts: a rank cannot run in two places.
	x.Nodes = slices.CompactFunc(x.Nodes, func(a, b Node) bool { return a.ID == b.ID })
	x.Seen = len(x.Nodes)
	known := make(map[int]struct{}, len(x.Nodes))
	for i := range x.Nodes {
		known[x.Nodes[i].ID] = struct{}{}
	}
	add := func(id int, v Visibility) {
		if _, ok := known[id]; ok || id < 0 {
			return
		}
		known[id] = struct{}{}
		x.Nodes = append(x.Nodes, Node{ID: id, Visibility: v, Comm: -1})
	}
	for i := range ev.Missing {
		for _, r := range ev.Missing[i].Ranks {
			add(r, NoAnswer)
		}
	}
	for i := range ev.Comms {
		for _, r := range ev.Comms[i].Members {
			add(r, NotRecorded)
		}
	}
	if ev.WorldSize > 0 && ev.WorldSize <= 4*len(known)+1024 {
		for r := range ev.WorldSize {
			add(r, NotRecorded)
		}
	}
	slices.SortStableFunc(x.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	x.World = max(ev.WorldSize, len(x.Nodes))
	x.indexIDs()
}

// visibility gives how much the evidence shows of a rank in its list.
func visibility(ev *rca.Evidence, r *rca.Rank) Visibility {
	if ev.Partial && r.Caps == rca.SeesCalls && r.State == rca.ProcessUnknown {
		return CountsOnly
	}
	return Recorded
}

// Unseen reports whether nothing but counts is known of a rank. Such a rank is never accused, and can be asked.
func (x *Index) Unseen(n int32) bool { return x.Nodes[n].Visibility != Recorded }

// UnseenMember reports whether a communicator has members without a record, named or not.
func (x *Index) UnseenMember(c *Comm) bool {
	return c.Unnamed >= 0 || slices.ContainsFunc(c.Members, func(m Member) bool { return x.Nodes[m.Node].Rank == nil })
}

func (x *Index) indexIDs() {
	top := -1
	for i := range x.Nodes {
		top = max(top, x.Nodes[i].ID)
	}
	if top < 4*len(x.Nodes)+1024 {
		x.dense = make([]int32, top+1)
		for i := range x.dense {
			x.dense[i] = -1
		}
		for i := range x.Nodes {
			if id := x.Nodes[i].ID; id >= 0 {
				x.dense[id] = int32(i)
			}
		}
		return
	}
	x.byID = make(map[int]int32, len(x.Nodes))
	for i := range x.Nodes {
		x.byID[x.Nodes[i].ID] = int32(i)
	}
}

// NodeOf gives the node of a global rank, -1 when the evidence does not name it.
func (x *Index) NodeOf(id int) int32 {
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

func (x *Index) addComms() {
	ids, of := x.numberComms()
	x.Comms = make([]Comm, len(ids))
	for i, id := range ids {
		x.Comms[i] = Comm{id: id, Name: string(id), Unnamed: -1}
	}
	for i := range x.Ev.Comms {
		c := &x.Ev.Comms[i]
		k := &x.Comms[x.CommOf[c.ID]]
		k.Call = k.Call || isCall(c.ID)
		if c.Name != "" {
			k.Name, k.Named = c.Name, c.Name != string(c.ID)
		}
		k.Size = max(k.Size, c.Size, len(c.Members))
		k.place(len(c.Members))
		for cr, id := range c.Members {
			if n := x.NodeOf(id); n >= 0 {
				k.At[cr] = n
			}
		}
	}
	x.addMembers(of)
}

// numberComms numbers the communicators in the order of their identifiers, and gives the number of each membership, node by node: to look
// them up again by name takes long for many ranks.
func (x *Index) numberComms() (ids []rca.CommID, of []int32) {
	came := func(id rca.CommID) int32 { // In the order in which they come.
		n, ok := x.CommOf[id]
		if !ok {
			n = int32(len(ids))
			x.CommOf[id] = n
			ids = append(ids, id)
		}
		return n
	}
	for i := range x.Ev.Comms {
		came(x.Ev.Comms[i].ID)
	}
	for i := range x.Nodes {
		if r := x.Nodes[i].Rank; r != nil {
			for j := range r.Memberships {
				of = append(of, came(r.Memberships[j].Comm))
			}
		}
	}
	slices.Sort(ids)
	sorted := make([]int32, len(ids)) // By when they came.
	for i, id := range ids {
		sorted[x.CommOf[id]] = int32(i)
		x.CommOf[id] = int32(i)
	}
	for i := range of {
		of[i] = sorted[of[i]]
	}
	return ids, of
}

func (c *Comm) place(n int) {
	for len(c.At) < n {
		c.At = append(c.At, -1)
	}
}

// mostPlaces bounds the places that members claim beyond the evidence's own lists: the claims may be lies.
const mostPlaces = 1 << 20

// addMembers gives the communicators their members, in the order of nodes; of has the communicator of each membership.
func (x *Index) addMembers(of []int32) {
	left := mostPlaces
	for i := range x.Comms {
		x.Comms[i].Members = make([]Member, 0, min(x.Comms[i].Size, len(x.Nodes)))
	}
	for n := range x.Nodes {
		r := x.Nodes[n].Rank
		if r == nil {
			continue
		}
		for j := range r.Memberships {
			m := &r.Memberships[j]
			c := &x.Comms[of[0]]
			of = of[1:]
			if more := m.CommRank + 1 - len(c.At); m.CommRank >= 0 && more <= left {
				left -= max(0, more)
				c.place(m.CommRank + 1)
				if c.At[m.CommRank] < 0 {
					c.At[m.CommRank] = int32(n)
				}
			}
			c.Members = append(c.Members, Member{Node: int32(n), CommRank: int32(m.CommRank), Membership: m})
			c.P2P = c.P2P || usesP2P(m)
		}
	}
	for i := range x.Comms {
		x.finishComm(int32(i))
	}
}

// finishComm fills in what needs the whole communicator: the ranks of members that did not report them, and members that were not
// seen.
func (x *Index) finishComm(ci int32) {
	c := &x.Comms[ci]
	c.Size = max(c.Size, len(c.At))
	if slices.ContainsFunc(c.Members, func(m Member) bool { return m.CommRank < 0 }) {
		c.rankMembers()
	}
	var silent []Member // That only the communicator's order names.
	for cr, n := range c.At {
		if n >= 0 && c.Find(n) == nil {
			silent = append(silent, Member{Node: n, CommRank: int32(cr)})
		}
	}
	c.Members = append(c.Members, silent...)
	slices.SortStableFunc(c.Members, func(a, b Member) int { return cmp.Compare(a.Node, b.Node) })
	c.Members = slices.CompactFunc(c.Members, func(a, b Member) bool { return a.Node == b.Node })
	if c.Size > len(c.Members) {
		c.Unnamed = int32(len(x.Nodes))
		x.Nodes = append(x.Nodes, Node{ID: -1, Visibility: Unnamed, Comm: ci})
	}
}

// rankMembers gives the members that did not say their rank the one that the communicator's order has for them.
func (c *Comm) rankMembers() {
	rankOf := make(map[int32]int32, len(c.At))
	for cr, n := range c.At {
		if n >= 0 {
			rankOf[n] = int32(cr)
		}
	}
	for i := range c.Members {
		if cr, ok := rankOf[c.Members[i].Node]; ok && c.Members[i].CommRank < 0 {
			c.Members[i].CommRank = cr
		}
	}
}

// Find gives a node's view of the communicator, nil when it is not a member.
func (c *Comm) Find(n int32) *Member {
	// By hand: slices.BinarySearchFunc calls a function for each step, and this is asked for each member of each operation.
	low, high := 0, len(c.Members)
	for low < high {
		if mid := (low + high) / 2; c.Members[mid].Node < n {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(c.Members) || c.Members[low].Node != n {
		return nil
	}
	return &c.Members[low]
}

// FuncNumber gives the number of an operation's name, its place in FuncNames.
func (x *Index) FuncNumber(name string) int32 {
	if i, ok := x.funcs[name]; ok {
		return i
	}
	i := int32(len(x.FuncNames))
	x.funcs[name] = i
	x.FuncNames = append(x.FuncNames, name)
	return i
}

// Host gives a node's host, "" unknown.
func (x *Index) Host(n int32) string {
	if r := x.Nodes[n].Rank; r != nil {
		return r.Host
	}
	return ""
}

// Dead reports whether the process can take part in nothing, for good or until somebody resumes it.
func Dead(r *rca.Rank) bool {
	return r != nil && (r.State == rca.ProcessStopped || r.State == rca.ProcessGone || r.State == rca.ProcessExited)
}

// PeersOn gives the nodes at the other ends of an operation's flows, one for each flow.
func (x *Index) PeersOn(comm int32, op *rca.Op) []int32 {
	at := x.Comms[comm].At
	var out []int32
	for i := range op.Flows {
		if p := op.Flows[i].Peer; p >= 0 && p < len(at) && at[p] >= 0 {
			out = append(out, at[p])
		}
	}
	return out
}
