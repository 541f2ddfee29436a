// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// callPrefix begins the names of calls that make or end a communicator.
const callPrefix = "nccl"

// callComm begins the identifiers of communicators that stand for the callers of such a call.
const callComm = "call "

func isCall(id rca.CommID) bool { return strings.HasPrefix(string(id), callComm) }

// joinCalls turns calls that have not returned into operations. Making a communicator is a collective like any other: all its
// members must call it, and ranks inside wait for those that have not. So each such call becomes a communicator of the ranks that
// must make it, with one operation on it. All other rules then apply.
func joinCalls(ev *rca.Evidence) {
	groups := map[rca.CommID]*callers{}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		for k := range r.Calls {
			if c := &r.Calls[k]; !c.Returned {
				if id := callID(r, c); groups[id] == nil {
					groups[id] = &callers{id: id, of: map[int]*rca.Call{}}
				}
			}
		}
	}
	if len(groups) == 0 {
		return
	}
	ev.Ranks = slices.Clone(ev.Ranks)
	ev.Comms = slices.Clone(ev.Comms)
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		for k := range r.Calls {
			if g := groups[callID(r, &r.Calls[k])]; g != nil {
				g.add(r.ID, &r.Calls[k])
			}
		}
	}
	js := newJoining(ev, groups)
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		groups[id].join(js)
	}
}

// joining holds what joinCalls needs from the evidence, gathered once for all calls.
type joining struct {
	ev       *rca.Evidence
	known    map[rca.CommID]bool // Communicators in the evidence.
	names    map[rca.CommID]string
	members  map[rca.CommID][]int // Members of communicators on which a call is made, sorted.
	everyone []int                // Ranks of the job, sorted: all that should exist, where the size is known and plausible.
	dead     []int                // Ranks that can no longer call anything.
	rank     map[int][]*rca.Rank  // By rank; a rank may be reported twice.
}

// mostRanks bounds the memory that a claimed job size may cost.
const mostRanks = 1 << 20

func newJoining(ev *rca.Evidence, groups map[rca.CommID]*callers) *joining {
	js := &joining{ev: ev, known: map[rca.CommID]bool{}, names: map[rca.CommID]string{}, members: map[rca.CommID][]int{}, rank: map[int][]*rca.Rank{}}
	for _, g := range groups {
		if g.any.On != "" {
			js.members[g.any.On] = nil
		}
	}
	member := func(id rca.CommID, ranks ...int) {
		if list, wanted := js.members[id]; wanted {
			js.members[id] = append(list, ranks...)
		}
	}
	for i := range ev.Comms {
		c := &ev.Comms[i]
		js.known[c.ID], js.names[c.ID] = true, c.Name
		member(c.ID, c.Members...)
	}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if r.ID < 0 {
			continue
		}
		js.rank[r.ID] = append(js.rank[r.ID], r)
		js.everyone = append(js.everyone, r.ID)
		if Dead(r) {
			js.dead = append(js.dead, r.ID)
		}
		for k := range r.Memberships {
			member(r.Memberships[k].Comm, r.ID)
		}
	}
	for i := range ev.Missing {
		js.everyone = append(js.everyone, ev.Missing[i].Ranks...)
	}
	// A size that only the launcher reports may be garbage. A size that a call also takes is the job's.
	most := 4*len(ev.Ranks) + 1024
	for _, g := range groups {
		if g.any.Size == ev.WorldSize {
			most = max(most, mostRanks)
		}
	}
	if ev.WorldSize > 0 && ev.WorldSize <= most {
		for r := range ev.WorldSize {
			js.everyone = append(js.everyone, r)
		}
	}
	js.everyone = distinct(js.everyone)
	for id, list := range js.members {
		js.members[id] = slices.DeleteFunc(distinct(list), func(r int) bool { return r < 0 })
	}
	return js
}

func distinct(ranks []int) []int {
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// callID identifies a call by what all its callers share. Without that, the call concerns only its rank. Ending a communicator by
// force waits for no other rank.
func callID(r *rca.Rank, c *rca.Call) rca.CommID {
	switch {
	case c.ID == "" || c.Name == "ncclCommAbort":
		return rca.CommID(callComm + c.Name + " of rank " + strconv.Itoa(r.ID))
	case c.Makes:
		return rca.CommID(callComm + c.ID)
	}
	return rca.CommID(callComm + c.Name + " " + c.ID)
}

// callers are the ranks of one call: those inside it and those that have returned.
type callers struct {
	id   rca.CommID
	of   map[int]*rca.Call // By rank; of two reports for a rank, the one inside the call.
	any  *rca.Call
	name string
}

func (g *callers) add(rank int, c *rca.Call) {
	if old := g.of[rank]; old == nil || old.Returned && !c.Returned || old.Returned == c.Returned && old.Since < c.Since {
		g.of[rank] = c
	}
	// Variants of a name are one call. At the end of a group the call has no name of its own, and another caller may know it.
	name := strings.TrimSuffix(strings.TrimSuffix(c.Name, "Config"), "Scalable")
	if g.name == "" || strings.HasPrefix(g.name, "ncclGroup") || name < g.name && !strings.HasPrefix(name, "ncclGroup") {
		g.name = name
	}
	if g.any == nil || cmp.Or(cmp.Compare(g.any.Size, c.Size), cmp.Compare(g.any.On, c.On)) < 0 {
		g.any = c
	}
}

// join puts the call into the evidence.
func (g *callers) join(js *joining) {
	if js.known[g.id] {
		return
	}
	c := rca.Comm{ID: g.id, Members: g.members(js), Name: g.place(js)}
	c.Size = max(g.any.Size, len(c.Members))
	if g.own() {
		c.Size = 1
	}
	js.ev.Comms = append(js.ev.Comms, c)
	for at, id := range c.Members {
		for _, r := range js.rank[id] {
			if m, ok := g.membership(r); ok {
				m.CommRank = at
				r.Memberships = append(slices.Clone(r.Memberships), m)
			}
		}
	}
}

// membership gives what a rank that must make the call has done about it; not ok: unknown.
func (g *callers) membership(r *rca.Rank) (m rca.Membership, ok bool) {
	m = rca.Membership{Comm: g.id, SinceCompleted: -1, SinceCalled: -1}
	switch call := g.of[r.ID]; {
	case call == nil && r.Caps&rca.SeesInit == 0:
		return m, false
	case call == nil && !g.any.Makes && !isMember(r, g.any.On):
		m.Called, m.Started, m.Completed = 1, 1, 1 // The communicator has ended there.
	case call == nil:
	case call.Returned:
		m.Called, m.Started = 1, 1
		if call.Done {
			m.Completed = 1
		}
	default:
		m.Called, m.Started = 1, 1
		m.InFlight = []rca.Op{{
			Func: g.name, Peer: -1, Root: -1, State: rca.OpEntered, Age: call.Since, Stuck: call.Since, KernelStarted: -1, KernelStopped: -1,
		}}
	}
	return m, true
}

// own reports whether no other rank has to make the call.
func (g *callers) own() bool {
	return g.any.ID == "" && g.any.Size == 0 || g.any.Name == "ncclCommAbort"
}

// members lists the ranks that must make the call, sorted, as far as they are known: all of the communicator on which it is
// called, or all of the job where it takes as many ranks. Else it lists the ranks that have called, and the processes that can no
// longer call, if there are no more of them than ranks are lacking.
func (g *callers) members(js *joining) []int {
	known := slices.Sorted(maps.Keys(g.of))
	if g.own() {
		return known
	}
	for _, all := range [2][]int{js.members[g.any.On], js.everyone} {
		if len(all) == g.any.Size && within(known, all) {
			return all
		}
	}
	if with := distinct(slices.Concat(known, js.dead)); len(with) <= g.any.Size {
		return with
	}
	return known
}

// within reports whether all of part are in all; both are sorted.
func within(part, all []int) bool {
	for _, r := range part {
		if _, ok := slices.BinarySearch(all, r); !ok {
			return false
		}
	}
	return true
}

func isMember(r *rca.Rank, id rca.CommID) bool {
	for i := range r.Memberships { // By index: a membership is too large to copy for each of 10,240 ranks.
		if id != "" && r.Memberships[i].Comm == id {
			return true
		}
	}
	return false
}

// place says, for people, where the call is made.
func (g *callers) place(js *joining) string {
	switch {
	case js.names[g.any.On] != "":
		return js.names[g.any.On]
	case g.any.On != "":
		return string(g.any.On)
	case !g.any.Makes:
		return "a communicator"
	case g.any.Size > 0:
		return fmt.Sprintf("a new communicator of %s", words.Plural(g.any.Size, "rank"))
	}
	return "new communicators"
}
