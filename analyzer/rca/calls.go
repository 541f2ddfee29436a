// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// callPrefix begins the names of calls that make or end a communicator.
const callPrefix = "nccl"

// callComm begins the identifiers of the communicators that stand for the callers of such a call.
const callComm = "call "

func isCall(id CommID) bool { return strings.HasPrefix(string(id), callComm) }

// joinCalls makes operations of the calls that ranks are in and do not come back from. Making a communicator is a collective
// like any other: all its members must call it, and whoever has waits for those that have not. So each such call becomes a
// communicator of those that must make it, with one operation on it; all else follows from there.
func (ev *Evidence) joinCalls() {
	groups := map[CommID]*callers{}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		for k := range r.Calls {
			if c := &r.Calls[k]; !c.Returned {
				if id := callID(r, c); groups[id] == nil {
					groups[id] = &callers{id: id, of: map[int]*Call{}}
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
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		groups[id].join(ev)
	}
}

// callID tells one call from another: by what all its callers share, else it is the rank's own affair. An end of a
// communicator by force waits for nobody.
func callID(r *Rank, c *Call) CommID {
	switch {
	case c.ID == "" || c.Name == "ncclCommAbort":
		return CommID(callComm + c.Name + " of rank " + strconv.Itoa(r.ID))
	case c.Makes:
		return CommID(callComm + c.ID)
	}
	return CommID(callComm + c.Name + " " + c.ID)
}

// callers are the ranks of one call: those in it and those that have come back.
type callers struct {
	id   CommID
	of   map[int]*Call // By rank; the newest of one that has made it more than once.
	any  *Call
	name string
}

func (g *callers) add(rank int, c *Call) {
	if old := g.of[rank]; old == nil || old.Returned && !c.Returned {
		g.of[rank] = c
	}
	// Variants of a name are one call; at the end of a group it has none of its own, and another caller may know better.
	name := strings.TrimSuffix(strings.TrimSuffix(c.Name, "Config"), "Scalable")
	if g.name == "" || strings.HasPrefix(g.name, "ncclGroup") || name < g.name && !strings.HasPrefix(name, "ncclGroup") {
		g.name = name
	}
	if g.any == nil || cmp.Or(cmp.Compare(g.any.Size, c.Size), cmp.Compare(g.any.On, c.On)) < 0 {
		g.any = c
	}
}

// join puts the call into the evidence.
func (g *callers) join(ev *Evidence) {
	if slices.ContainsFunc(ev.Comms, func(c Comm) bool { return c.ID == g.id }) {
		return
	}
	c := Comm{ID: g.id, Members: g.members(ev), Name: g.place(ev)}
	c.Size = max(g.any.Size, len(c.Members))
	if g.own() {
		c.Size = 1
	}
	ev.Comms = append(ev.Comms, c)
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		at := slices.Index(c.Members, r.ID)
		if at < 0 {
			continue
		}
		m := Membership{Comm: g.id, CommRank: at, SinceCompleted: -1, SinceCalled: -1}
		call := g.of[r.ID]
		switch {
		case call == nil && r.Caps&SeesInit == 0:
			continue // Whether it has called is not known.
		case call == nil && !g.any.Makes && !r.has(g.any.On):
			m.Called, m.Started, m.Completed = 1, 1, 1 // The communicator has ended there.
		case call == nil:
		case call.Returned:
			m.Called, m.Started = 1, 1
			if call.Done {
				m.Completed = 1
			}
		default:
			m.Called, m.Started = 1, 1
			m.InFlight = []Op{{
				Func: g.name, Peer: -1, Root: -1, State: OpEntered, Age: call.Since, Stuck: call.Since, KernelStarted: -1, KernelStopped: -1,
			}}
		}
		r.Memberships = append(slices.Clip(slices.Clone(r.Memberships)), m)
	}
}

// own says that nobody else has to make the call.
func (g *callers) own() bool {
	return g.any.ID == "" && g.any.Size == 0 || g.any.Name == "ncclCommAbort"
}

// members lists who must make the call, as far as it can be told: all of the communicator that it is called on, or all of the
// job where it takes as many; else those that have.
func (g *callers) members(ev *Evidence) []int {
	known := slices.Sorted(maps.Keys(g.of))
	if g.own() {
		return known
	}
	all := ev.membersOf(g.any.On)
	if world := ev.everybody(); len(all) != g.any.Size && len(world) == g.any.Size {
		all = world
	}
	if len(all) != g.any.Size || slices.ContainsFunc(known, func(r int) bool { return !slices.Contains(all, r) }) {
		return g.withDead(ev, known)
	}
	return all
}

// withDead adds the processes that cannot call any more to callers whose other members nobody can name, if there are no more of
// them than are lacking.
func (g *callers) withDead(ev *Evidence, known []int) []int {
	out := slices.Clone(known)
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; dead(r) && r.ID >= 0 && g.of[r.ID] == nil {
			out = append(out, r.ID)
		}
	}
	if len(out) > g.any.Size {
		return known
	}
	slices.Sort(out)
	return out
}

// membersOf lists a communicator's members by rank, sorted.
func (ev *Evidence) membersOf(id CommID) []int {
	if id == "" {
		return nil
	}
	var out []int
	for i := range ev.Comms {
		if ev.Comms[i].ID == id {
			out = append(out, ev.Comms[i].Members...)
		}
	}
	for i := range ev.Ranks {
		if ev.Ranks[i].has(id) {
			out = append(out, ev.Ranks[i].ID)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(r int) bool { return r < 0 })
}

// everybody lists the job's ranks, sorted: all that there should be, where that is known and no garbage.
func (ev *Evidence) everybody() []int {
	var out []int
	for i := range ev.Ranks {
		if ev.Ranks[i].ID >= 0 {
			out = append(out, ev.Ranks[i].ID)
		}
	}
	for i := range ev.Missing {
		out = append(out, ev.Missing[i].Ranks...)
	}
	if ev.WorldSize > 0 && ev.WorldSize <= 4*len(ev.Ranks)+1024 {
		for r := range ev.WorldSize {
			out = append(out, r)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *Rank) has(id CommID) bool {
	return id != "" && slices.ContainsFunc(r.Memberships, func(m Membership) bool { return m.Comm == id })
}

// place says for people where the call is made.
func (g *callers) place(ev *Evidence) string {
	for i := range ev.Comms {
		if c := &ev.Comms[i]; c.ID == g.any.On && c.Name != "" {
			return c.Name
		}
	}
	switch {
	case g.any.On != "":
		return string(g.any.On)
	case !g.any.Makes:
		return "a communicator"
	case g.any.Size > 0:
		return fmt.Sprintf("a new communicator of %s", plural(g.any.Size, "rank"))
	}
	return "new communicators"
}
