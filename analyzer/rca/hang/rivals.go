// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// rival is a rank that was seen and may as well hold those of which nothing is known: in a communicator that it shares with
// one of them it stands where all its mates, the ranks of its host that do the same in communicators of their own, have got
// on. A lost host holds all of them alike; one of its ranks that hangs, or a wrong call of the rival's, holds the rival alone.
type rival struct {
	node int32
	comm int32
	odd  string // What it called otherwise than its mates, for people; empty when nothing shows that.
	row  row    // Which says so.
}

const fewestMates = 2 // Of one alone nobody could say which of the two is odd.

// rivals gives those who compete with the unseen for having caused it all.
func (w *waitFor) rivals() []rival {
	var out []rival
	for ci := range w.Comms {
		c := &w.Comms[ci]
		if c.Call || c.P2P || !slices.ContainsFunc(c.Members, func(m job.Member) bool { return w.Nodes[m.Node].Rank == nil }) {
			continue
		}
		for k := range c.Members {
			if s := &c.Members[k]; s.Membership != nil && !w.Unseen(s.Node) {
				if r, ok := w.rivalIn(int32(ci), s); ok {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

func (w *waitFor) rivalIn(ci int32, s *job.Member) (rival, bool) {
	mates := w.matesBeside(ci, s)
	if len(mates) < fewestMates {
		return rival{}, false
	}
	r := rival{node: s.Node, comm: ci, odd: w.calledOtherwise(s, mates), row: calledElsewhere}
	if r.odd == "" {
		r.odd, r.row = w.enteredOtherwise(s, mates), enteredElsewhere
	}
	if slices.ContainsFunc(mates, w.missesUnseen) {
		return rival{}, false // One lacks somebody unseen like this one.
	}
	behind := !slices.ContainsFunc(mates, func(m *job.Member) bool { return m.Membership.Completed <= s.Membership.Completed })
	return r, s.Membership.Completed >= 0 && (behind || r.odd != "")
}

// matesBeside gives the ranks on a member's host in the other communicators of the family: of the same size and name but for
// its number. None where one host has two ranks in one of them: they do not each do the same in one of their own.
func (w *waitFor) matesBeside(ci int32, s *job.Member) []*job.Member {
	c := &w.Comms[ci]
	var out []*job.Member
	for i := range w.Comms {
		o := &w.Comms[i]
		if int32(i) == ci || o.P2P || o.Call || !w.Siblings(c, o) {
			continue
		}
		for _, n := range w.Mates[w.Host(s.Node)] {
			if m := o.Find(n); m != nil && m.Membership != nil && n != s.Node {
				out = append(out, m)
			}
		}
	}
	return out
}

// missesUnseen reports whether a member stands in an operation of its communicator that lacks somebody of whom nothing is known.
func (w *waitFor) missesUnseen(m *job.Member) bool {
	ci := w.CommOf[m.Membership.Comm]
	return slices.ContainsFunc(w.acts[m.Node], func(a active) bool {
		if a.comm != ci || !a.stuck {
			return false
		}
		for _, e := range w.out[w.row[int32(len(w.Nodes))+a.inst]:w.row[int32(len(w.Nodes))+a.inst+1]] {
			if w.edges[e].kind == edgeUnseen {
				return true
			}
		}
		return false
	})
}

// calledOtherwise says in which call a member differs from all its mates, which agree: another operation at one place of
// their order, or fewer calls although it has gone on to what they went on to.
func (w *waitFor) calledOtherwise(s *job.Member, mates []*job.Member) string {
	if w.Nodes[s.Node].Rank.Lost > 0 {
		return ""
	}
	for _, ops := range [2][]rca.Op{s.Membership.Recent, s.Membership.InFlight} {
		for i := range ops {
			for _, f := range signatureFields {
				mine := f.get(&ops[i])
				if theirs, ok := agreed(mates, ops[i].Number, f.get); ok && mine != (signature{}) && mine != theirs {
					return fmt.Sprintf(words.CalledElsewhere,
						mine.text(f.name), ops[i].Number, w.Comms[w.CommOf[s.Membership.Comm]].Name, theirs.text(f.name))
				}
			}
		}
	}
	called := mates[0].Membership.Called
	for _, m := range mates {
		if m.Membership.Called != called || !w.together(s.Node, m.Node) || w.Nodes[m.Node].Rank.Lost > 0 {
			return ""
		}
	}
	if s.Membership.Called >= 0 && s.Membership.Called < called {
		return fmt.Sprintf(words.CalledFewer,
			s.Membership.Called, w.Comms[w.CommOf[s.Membership.Comm]].Name, called)
	}
	return ""
}

// enteredOtherwise reports whether a member is in an operation that its mates are in, too, and has one behind it which they have
// finished in their communicators: an unseen member is in that one, for its data has come.
func (w *waitFor) enteredOtherwise(s *job.Member, mates []*job.Member) string {
	for i := range s.Membership.InFlight {
		o := &s.Membership.InFlight[i]
		r := w.Nodes[s.Node].Rank
		came := slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return !f.Send && f.Ready > 0 && f.Done == 0 })
		if !came || o.Number < 0 || started(r, o) == startYes {
			continue
		}
		if slices.ContainsFunc(mates, func(m *job.Member) bool { return m.Membership.Completed <= o.Number || !w.together(s.Node, m.Node) }) {
			continue
		}
		return fmt.Sprintf(words.EnteredElsewhere,
			w.opName(w.acts[s.Node][0].inst), job.OpLabel(o), w.Comms[w.CommOf[s.Membership.Comm]].Name)
	}
	return ""
}

// agreed gives what all mates called at one place of their order; ok is false where one of them differs or two do not show it.
func agreed(mates []*job.Member, number int64, get func(*rca.Op) signature) (v signature, ok bool) {
	shown := 0
	for _, m := range mates {
		for _, ops := range [2][]rca.Op{m.Membership.Recent, m.Membership.InFlight} {
			for i := range ops {
				o := &ops[i]
				if number < 0 || o.Number != number || get(o) == (signature{}) {
					continue
				}
				if shown > 0 && get(o) != v {
					return signature{}, false
				}
				v = get(o)
				shown++
			}
		}
	}
	return v, shown >= fewestMates
}

// together reports whether both ranks stand in one operation.
func (w *waitFor) together(a, b int32) bool {
	return slices.ContainsFunc(w.acts[a], func(i active) bool {
		return i.stuck && slices.ContainsFunc(w.acts[b], func(k active) bool { return k.inst == i.inst })
	})
}

// ofRivals is the answer where the waiting ends at ranks without a record, and somebody who was seen may hold these. The one that
// called something else than its neighbours is named, for nothing unseen explains its call; two of them have no lead over each other. Else
// the rivals and the unseen are suspects together.
func (w *waitFor) ofRivals(d *decision, rivals []rival, unseen []int, confidence float64) answer {
	if odd := slices.DeleteFunc(slices.Clone(rivals), func(r rival) bool { return r.odd == "" }); len(odd) == 1 {
		r := &odd[0]
		a := answer{row: r.row}
		a.weight *= d.explained() * w.KeptFactor()
		c := w.Culprit(r.node)
		c.Why = r.odd
		a.culprits = []rca.Culprit{c}
		a.summary = fmt.Sprintf(words.RivalOdd, words.Opener(w.RankName(r.node)), r.odd, w.waiters(), w.Comms[r.comm].Name)
		return a
	}
	var nodes []int32
	for _, r := range rivals {
		nodes = append(nodes, r.node)
	}
	seen, others := words.RankNumbers(w.allIDs(nodes)), words.RankNumbers(unseen)
	var hosts []string
	for i := range w.Ev.Missing {
		if m := &w.Ev.Missing[i]; slices.ContainsFunc(m.Ranks, func(r int) bool { return slices.Contains(unseen, r) }) {
			hosts = append(hosts, m.Name)
		}
	}
	if len(hosts) > 0 {
		others += " of " + strings.Join(hosts, ", ")
	}
	a := answer{row: unseenOrRival, summary: fmt.Sprintf(words.Rivals, words.Opener(w.waiters()), others, seen)}
	a.weight = min(a.weight, confidence)
	a.culprits = []rca.Culprit{{Rank: -1, Channel: -1, Group: fmt.Sprintf("suspects: %s or %s", seen, others), Why: words.OneOfTwo}}
	return a
}
