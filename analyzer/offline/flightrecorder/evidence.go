// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// recentKept is how many finished operations per group go into the evidence, to compare types and sizes.
const recentKept = 8

// Evidence turns a job's dumps into what the engine takes. Ages are lower bounds: a dump does not say when it was
// written, so the newest time stamp in any of them stands for now.
func Evidence(dumps []Assigned) rca.Evidence {
	a := assembly{Job: gather.New(rca.SeesCalls), mixed: map[rca.CommID]bool{}, collective: map[rca.CommID]bool{}, batched: map[rca.CommID]bool{}, users: map[rca.CommID][]int{}}
	for i := range dumps {
		a.survey(&dumps[i])
	}
	a.membersByUse()
	a.agreed = agreedNumbers(dumps, a.id)
	silent := map[int]bool{}
	for i := range dumps {
		if d := &dumps[i]; d.Truncated && len(d.Status) == 0 && len(d.Entries) == 0 {
			silent[d.Rank] = true
			continue
		}
		a.rank(&dumps[i])
	}
	a.implied(dumps)
	for _, r := range slices.Sorted(maps.Keys(silent)) {
		if !a.Shows(r) {
			a.Silent(r, "its Flight Recorder dump is cut off before it says anything")
		}
	}
	a.Rest("no Flight Recorder dump of this rank")
	return a.Evidence()
}

type assembly struct {
	*gather.Job
	now   int64               // Newest time stamp, Unix ns.
	mixed map[rca.CommID]bool // Groups whose counters count send/recv too.
	// collective are groups in which any rank called a collective.
	collective map[rca.CommID]bool
	// batched are groups in which any rank launched sends and receives in batches.
	batched map[rca.CommID]bool
	timing  bool // PyTorch was told to record starts: an operation without one has not begun.
	agreed  map[rca.CommID]int64
	users   map[rca.CommID][]int // Ranks that use a group whose members no dump lists.
}

// id gives the identity of a group that a dump's entry names.
func (a *assembly) id(d *Assigned, group string) rca.CommID {
	for _, g := range d.Groups {
		if g.Name == group {
			return g.ID
		}
	}
	return rca.CommID(group)
}

// survey collects groups, the world's size, the newest time and which groups do send/recv.
func (a *assembly) survey(d *Assigned) {
	for _, g := range d.Groups {
		a.Adopt(rca.Comm{ID: g.ID, Name: groupName(g.Name, g.Desc), Size: len(g.Ranks), Members: g.Ranks})
		for _, r := range g.Ranks {
			a.World = max(a.World, r+1)
		}
	}
	a.World = max(a.World, d.Rank+1)
	a.now = max(a.now, d.NewestNS)
	a.timing = a.timing || d.Timing
	for name := range d.batched {
		a.batched[a.id(d, name)] = true
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		id := a.id(d, e.Group)
		c := a.Comm(id, groupName(e.Group, e.Desc), 0)
		if n := len(a.users[id]); len(c.Members) == 0 && (n == 0 || a.users[id][n-1] != d.Rank) {
			a.users[id] = append(a.users[id], d.Rank)
		}
		if e.P2P {
			a.mixed[id] = true
		} else {
			a.collective[id] = true
		}
	}
}

func groupName(name, desc string) string {
	if desc == "" || desc == "undefined" || desc == name {
		return name
	}
	return fmt.Sprintf("%s %q", desc, name)
}

// membersByUse fills in members that no dump lists: all ranks are in the default group, and in any other those are that
// use it.
func (a *assembly) membersByUse() {
	for id, users := range a.users {
		c := a.Knows(id)
		if strings.HasPrefix(c.Name, "default_pg") || c.Name == "0" {
			users = gather.All(a.World)
		}
		c.Members = users
		if len(users) > 1 { // A group of one needs no communication: its other members have not used it yet.
			c.Size = len(users)
		}
	}
}

func (a *assembly) rank(d *Assigned) {
	r := a.Rank(d.Rank)
	r.Host = d.Host
	if !d.Assumed {
		r.Caps |= rca.SeesCompletion
	}
	if a.timing {
		r.Caps |= rca.SeesKernels
	}
	// The recorder of backends on the CPU sees no sends and receives. A job with a device uses them beside it, for little.
	if len(d.Entries) > 0 && !slices.ContainsFunc(d.Entries, func(e Entry) bool { return !e.Host }) {
		r.Caps |= rca.MissesCalls
	}
	if d.Truncated || !d.HasEntries {
		r.Lost = 1
	}
	names := d.localNames(a.agreed)
	status := map[string]Status{}
	for id, name := range names {
		if st, ok := d.Status[id]; ok {
			status[name] = st
		}
	}
	// With every counter attributed, a group without one was never used by this rank.
	unusedKnown := d.HasStatus && !d.Truncated && len(status) == len(d.Status)

	byGroup := map[string][]*Entry{}
	for i := range d.Entries {
		e := &d.Entries[i]
		byGroup[e.Group] = append(byGroup[e.Group], e)
	}
	groups := map[string]bool{}
	for _, g := range d.Groups {
		groups[g.Name] = true
	}
	for name := range byGroup {
		groups[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		st, ok := status[name]
		if !ok {
			st = Status{-1, -1, -1}
			if unusedKnown && len(byGroup[name]) == 0 {
				st = Status{0, 0, 0}
			}
		}
		r.Memberships = append(r.Memberships, a.membership(d, name, st, ok, byGroup[name]))
	}
}

func (a *assembly) membership(d *Assigned, name string, st Status, counted bool, entries []*Entry) rca.Membership {
	id := a.id(d, name)
	c := a.Knows(id)
	m := gather.Member(id, slices.Index(c.Members, d.Rank))
	if counted { // -1 means that it happened never.
		st.Enqueued, st.Completed = max(st.Enqueued, 0), max(st.Completed, 0)
		if st.Started < 0 && st.Enqueued > 0 {
			st.Started = -1 // Never reported without timing.
		}
	}
	if !a.mixed[id] {
		m.Called, m.Started, m.Completed = st.Enqueued, st.Started, st.Completed
	}
	calls := map[string]int64{} // Pending send/recv so far, per peer and direction.
	for _, e := range entries {
		if e.Name == coalesced && e.P2P {
			continue // Its members are recorded themselves.
		}
		if a.batched[id] && e.P2P && e.Pending() && !e.InBatch && counted && st.Completed >= e.P2PSeq {
			continue // Of a batch that has completed and whose end is not in the dump.
		}
		if !e.P2P && e.CollectiveSeq >= 0 {
			m.Called = max(m.Called, e.CollectiveSeq)
			if e.State == Completed {
				m.Completed = max(m.Completed, e.CollectiveSeq)
			}
			if e.State != Scheduled {
				m.Started = max(m.Started, e.CollectiveSeq)
			}
		}
		op := a.op(e, c)
		list := &m.InFlight
		if !e.Pending() {
			list = &m.Recent
		} else if op.Peer >= 0 {
			key := fmt.Sprint(op.Func, op.Peer)
			op.Seq = calls[key]
			calls[key]++
		}
		// Operations of one coalesced launch share a number: they are one.
		if n := len(*list); n > 0 && op.Number >= 0 && (*list)[n-1].Number == op.Number {
			if last := &(*list)[n-1]; e.Name != coalesced {
				last.Count, last.Bytes = -1, -1
			}
			continue
		}
		*list = append(*list, op)
		if len(m.Recent) > recentKept {
			m.Recent = slices.Delete(m.Recent, 0, 1)
		}
	}
	if d.Truncated && counted && a.collective[id] && !a.mixed[id] {
		m.InFlight = lostPending(m)
	}
	return m
}

// lostPending adds the operation that a cut-off dump's counters say is pending where the end that tells of it is lacking.
func lostPending(m rca.Membership) []rca.Op {
	if m.Completed < 0 || m.Called <= m.Completed || slices.ContainsFunc(m.InFlight, func(op rca.Op) bool { return op.Number == m.Completed }) {
		return m.InFlight
	}
	op := gather.Op("")
	op.Number, op.Seq, op.Age = m.Completed, m.Completed+1, 1
	return append([]rca.Op{op}, m.InFlight...)
}

func (a *assembly) op(e *Entry, c *rca.Comm) rca.Op {
	elements, datatype := e.Size(c.Size)
	op := gather.Op(e.Name)
	op.State, op.Count, op.Datatype, op.Barrier, op.Stack = rca.OpUnknown, elements, datatype, e.Barrier, e.Stack
	if size := datatypeBytes[datatype]; size > 0 && elements >= 0 && elements < 1<<50 {
		op.Bytes = elements * size
	}
	switch {
	case e.Name == "send":
		op.Func, op.Peer = "Send", e.Dst
	case e.Name == "recv":
		op.Func, op.Peer = "Recv", e.Src
	case e.CollectiveSeq > 0:
		op.Seq, op.Number = e.CollectiveSeq, e.CollectiveSeq-1
	}
	switch e.State {
	case Scheduled:
		op.State = rca.OpEnqueued
		if a.timing {
			op.Channels, op.KernelStarted, op.KernelStopped = 1, 0, 0
		}
	case Started:
		op.State = rca.OpEntered
		op.Channels, op.KernelStarted, op.KernelStopped = 1, 1, 0
	case Completed:
		op.State = rca.OpLeft
	}
	if e.CreatedNS > 0 {
		op.Age = max(time.Duration(a.now-e.CreatedNS), 1)
	}
	if e.Retired && e.Pending() { // Retired without having completed: it timed out.
		op.Age = max(op.Age, time.Duration(e.TimeoutMS)*time.Millisecond)
	}
	return op
}

// implied adds memberships that only peers know of: a rank whose dump is there and complete, and that does not know a
// group of which it is a member, has never used that group.
func (a *assembly) implied(dumps []Assigned) {
	complete := map[int]bool{}
	for i := range dumps {
		complete[dumps[i].Rank] = dumps[i].HasStatus && !dumps[i].Truncated
	}
	for _, c := range a.Comms() {
		for place, member := range c.Members {
			if !complete[member] || !a.Shows(member) {
				continue
			}
			r := a.Rank(member)
			if !slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool { return m.Comm == c.ID }) {
				r.Memberships = append(r.Memberships, rca.Membership{Comm: c.ID, CommRank: place, SinceCompleted: -1, SinceCalled: -1})
			}
		}
	}
}
