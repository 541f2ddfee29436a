// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
)

// blame turns what ranks said when their communication broke off into what each waited in, and for whom. It says as well
// which processes ended by themselves.
func (b *builder) blame(logs []*Log, states map[Place]*State) {
	waited := map[int]bool{}
	for place, s := range states {
		waited[place.Rank] = waited[place.Rank] || len(s.Ops) > 0
	}
	b.waiting = map[int]*Exception{}
	b.interrupted = interrupted(logs)
	for _, l := range logs {
		for i := range l.Exceptions {
			if e := &l.Exceptions[i]; e.Rank >= 0 && e.Victim() && !e.Tail && b.waiting[e.Rank] == nil && !waited[e.Rank] && e.Rank != b.interrupted {
				b.waiting[e.Rank] = e
				b.Rank(e.Rank)
			}
		}
		for _, c := range l.Claims {
			for _, r := range append(c.Absent, c.By) {
				if r >= 0 {
					b.Rank(r)
				}
			}
		}
	}
	for r, op := range b.loose {
		if b.waiting[r] == nil && !waited[r] {
			b.waiting[r] = &Exception{Rank: r, Class: "Timeout", Doing: flightrecorder.Canonical(op)}
			b.Rank(r)
		}
	}
	for r := range b.waiting {
		waited[r] = true
	}
	b.ended(logs, waited)
	if b.over {
		return
	}
	claimed := b.claimed(logs)
	b.compared(logs)
	b.waits(claimed)
}

// claimed makes an operation of everything that ranks did not come to, as others say, and gives the ranks that are in one.
func (b *builder) claimed(logs []*Log) map[int]bool {
	inside, absent := map[string][]int{}, map[string][]int{}
	for _, l := range logs {
		for _, c := range l.Claims {
			if c.By >= 0 {
				inside[c.What] = append(inside[c.What], c.By)
			} else {
				inside[c.What] = append(inside[c.What], bareExits(l)...)
			}
			absent[c.What] = append(absent[c.What], c.Absent...)
		}
	}
	done := map[int]bool{}
	for _, what := range slices.Sorted(maps.Keys(absent)) {
		out := slices.DeleteFunc(told.Set(absent[what]), func(r int) bool { return slices.Contains(inside[what], r) })
		if len(out) == 0 {
			continue
		}
		in := told.Set(inside[what])
		c := b.group("log: "+what, slices.Concat(in, out))
		for _, r := range in {
			b.put(c, r, what, b.stackOf(r), 1, true)
			done[r] = true
		}
		for _, r := range out {
			// A process that ended by itself speaks for itself, and one that waits elsewhere does so there.
			if b.waiting[r] == nil {
				done[r] = true
			}
			b.put(c, r, what, nil, 0, false)
		}
	}
	return done
}

// bareExits are the ranks that ended with a plain exit code: of those are the exceptions that do not name their rank.
func bareExits(l *Log) []int {
	var out []int
	for _, e := range l.Ends {
		if !e.Task && strings.HasPrefix(e.Why, exited) {
			out = append(out, e.Rank)
		}
	}
	return out
}

func (b *builder) stackOf(rank int) []string {
	if e := b.waiting[rank]; e != nil {
		return e.Stack
	}
	return nil
}

// compared makes an operation of what the comparison of collectives shows of each rank.
func (b *builder) compared(logs []*Log) {
	var all []Print
	at := map[int]int{}
	for _, l := range logs {
		for _, f := range l.Prints {
			i, ok := at[f.Rank]
			switch {
			case !ok:
				at[f.Rank] = len(all)
				all = append(all, f)
			case f.Own && !all[i].Own:
				all[i] = f
			}
		}
	}
	if len(all) == 1 {
		f := told.New(grammar.Disagree, "called "+flightrecorder.Canonical(all[0].Type)+" where other ranks called another operation, or with another shape")
		f.Rank = all[0].Rank
		b.found = append(b.found, f)
	}
	if len(all) < 2 {
		return
	}
	slices.SortFunc(all, func(x, y Print) int { return cmp.Compare(x.Rank, y.Rank) })
	var members []int
	seqs := map[int64]bool{}
	for _, f := range all {
		members = append(members, f.Rank)
		if f.Own {
			seqs[f.Seq] = true
		}
	}
	c := b.group("log: comparison of collectives", members)
	for i := range all {
		f := &all[i]
		kind := flightrecorder.Canonical(f.Type)
		if len(seqs) > 1 && f.Own {
			kind = fmt.Sprintf("%s (number %d)", kind, f.Seq)
		}
		m := b.put(c, f.Rank, kind, b.stackOf(f.Rank), 1, true)
		m.InFlight[0].Count, m.InFlight[0].Datatype = f.elements(), f.Dtype
		delete(b.waiting, f.Rank)
	}
}

// Waits is the group of ranks that waited for each other, of which the log does not say in which group they did.
const Waits rca.CommID = "log: waits"

// waits makes one operation of what is left: ranks whose communication broke off waited for some of those that say nothing.
// Their messages do not name a group.
func (b *builder) waits(claimed map[int]bool) {
	var in []int
	names := map[string]bool{}
	for r, e := range b.waiting {
		if claimed[r] || len(b.Rank(r).Memberships) > 0 {
			continue
		}
		in = append(in, r)
		names[cmp.Or(e.Doing, frames.Of(e.Stack).What)] = true
	}
	if len(in) == 0 || len(claimed) > 0 {
		return
	}
	slices.Sort(in)
	name := "communication"
	if len(names) == 1 && !names[""] {
		for n := range names {
			name = strings.TrimSpace(n)
		}
	}
	c := b.group(string(Waits), gather.All(b.World))
	for _, r := range in {
		b.put(c, r, name, b.waiting[r].Stack, 1, true)
	}
}

func (b *builder) group(id string, members []int) *rca.Comm {
	members = told.Set(members)
	c := b.Comm(rca.CommID(id), "the job", len(members))
	c.Members = members
	return c
}

// put makes a rank a member of an operation that it is in, or has not come to.
func (b *builder) put(c *rca.Comm, rank int, what string, stack []string, called int64, in bool) *rca.Membership {
	m := gather.Member(c.ID, slices.Index(c.Members, rank))
	m.Called, m.Completed = called, 0
	if in {
		op := gather.Op(what)
		op.Number, op.Age, op.Stack, op.Unnumbered = 0, 1, stack, true
		m.InFlight = []rca.Op{op}
	}
	r := b.Rank(rank)
	r.Memberships = append(r.Memberships, m)
	return &r.Memberships[len(r.Memberships)-1]
}
