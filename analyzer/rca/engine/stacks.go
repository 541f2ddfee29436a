// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// standings groups the ranks by where their stacks stand.
type standings struct {
	*job.Index
	at                map[int32]frames.Standing
	inside, may, outs []int32 // In communication; where it may be hidden; elsewhere.
}

// stackVerdict reasons from stacks where the evidence has nothing else. Ranks inside communication wait. If nearly all ranks do
// and a few stand elsewhere, the others wait for those few. If all stand at one place, that shows nothing. ok is false when the
// evidence has operations or times, or no stacks.
func stackVerdict(x *job.Index) (rca.Verdict, bool) {
	s := standings{Index: x, at: map[int32]frames.Standing{}}
	for i := range x.Nodes {
		r, n := x.Nodes[i].Rank, int32(i) // Far fewer than 2^31 ranks.
		if r == nil {
			continue
		}
		if len(r.Memberships) > 0 || r.Caps != 0 {
			return rca.Verdict{}, false
		}
		s.add(n, r.Stack)
	}
	if len(x.Ev.Timeline) > 0 || len(s.at) == 0 {
		return rca.Verdict{}, false
	}
	v := job.NewVerdict(x)
	v.RanksVisited = x.Seen
	for i := range x.Ev.Missing {
		m := &x.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	held, weight := s.holders()
	if weight == 0 {
		s.undecided(&v, held)
		return v, true
	}
	v.Class, v.Code, v.Cause, v.Confidence = rca.NotEntered, rca.NotEntered.Code(), rca.CauseNotCalled, rca.Round(weight*x.SeenFactor())
	first := s.at[held[0]]
	v.Summary = fmt.Sprintf(words.StacksShow, words.Opener(x.RankList(held)), is(len(held)), first, s.others(held))
	v.Action = first.Action()
	for _, n := range held {
		c := x.Culprit(n)
		c.Why = s.at[n].String()
		v.Culprits = append(v.Culprits, c)
		v.Evidence = append(v.Evidence, fmt.Sprintf("%s is %s.", words.Opener(x.RankName(n)), s.at[n]))
	}
	v.Contradictions = []string{words.OneMoment}
	return v, true
}

func (s *standings) add(n int32, stack []string) {
	st := frames.Of(stack)
	switch {
	case st.Kind == frames.None:
		return
	case st.Kind == frames.Communicate:
		s.inside = append(s.inside, n)
	case st.Kind.MayWait():
		s.may = append(s.may, n)
	default:
		s.outs = append(s.outs, n)
	}
	s.at[n] = st
}

// holders gives the ranks that hold up the others, with the weight of that evidence; suspects have a weight of 0.
func (s *standings) holders() (ranks []int32, weight float64) {
	wait := len(s.inside) + len(s.may)
	// The limit is a quarter: RAS calls that an outlier too, and half of the ranks elsewhere may be two phases of a program.
	const outliers = 4
	few := len(s.outs) > 0 && (len(s.outs) == 1 || outliers*len(s.outs) <= wait+len(s.outs))
	switch {
	case few && len(s.inside) > 0:
		if weight := s.weightOf(s.outs); wait > 1 || weight > outsideWeight {
			return s.outs, weight
		}
		return s.outs, 0 // One rank that works and one that waits for it: a healthy job looks the same.
	case few && wait > 1:
		return s.outs, min(alikeWeight, s.weightOf(s.outs))
	case wait == 0:
		if odd, ok := s.odd(s.outs, func(n int32) string { return s.at[n].String() }); ok && s.at[odd].Kind > frames.Running {
			return []int32{odd}, alikeWeight
		}
		return nil, 0
	case len(s.outs) > 0:
		if len(s.outs) < wait {
			return s.outs, 0
		}
		return nil, 0
	}
	// All ranks may wait. A rank in another call than all the others may have taken another path in the program.
	if odd, ok := s.odd(s.inside, func(n int32) string { return s.at[n].What + s.at[n].Site }); ok && len(s.may) == 0 {
		return []int32{odd}, 0
	}
	return nil, 0
}

// weightOf gives the weight of naming some ranks: less where any of them may simply be working.
func (s *standings) weightOf(ranks []int32) float64 {
	if slices.ContainsFunc(ranks, func(n int32) bool { return s.at[n].Kind == frames.Running }) {
		return outsideWeight
	}
	return blockedWeight
}

// odd gives the one rank that stands elsewhere than all the others, which stand at one place.
func (s *standings) odd(ranks []int32, place func(int32) string) (int32, bool) {
	by := map[string][]int32{}
	for _, n := range ranks {
		by[place(n)] = append(by[place(n)], n)
	}
	if len(by) != 2 || len(ranks) < 3 {
		return 0, false
	}
	for _, at := range by {
		if len(at) == 1 {
			return at[0], true
		}
	}
	return 0, false
}

// others says where the ranks stand that wait for the named ones.
func (s *standings) others(held []int32) string {
	places := map[string]int{}
	n := 0
	for node, st := range s.at {
		if !slices.Contains(held, node) {
			places[st.String()]++
			n++
		}
	}
	who := words.OtherRankIs
	if n > 1 {
		who = fmt.Sprintf(words.OtherRanksAre, n)
	}
	if len(places) == 1 {
		for place := range places {
			return who + " " + place
		}
	}
	return who + " in communication"
}

// undecided says what the stacks show where they name no rank.
func (s *standings) undecided(v *rca.Verdict, suspects []int32) {
	v.Confidence = partlySeenWeight
	v.Action = words.SecondStacks
	var parts []string
	for _, p := range s.places() {
		parts = append(parts, fmt.Sprintf("%s %s", s.RankList(p.nodes), p.what))
	}
	const few = 4
	if len(parts) > few {
		parts = append(parts[:few], "…")
	}
	v.Summary = words.StacksNameNobody + strings.Join(parts, "; ") + "."
	if len(suspects) > 0 {
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: -1, Group: "suspects: " + s.RankList(suspects), Why: s.at[suspects[0]].String()})
	}
}

type place struct {
	what  string
	nodes []int32
}

// places groups the ranks by where they stand, the smallest group first.
func (s *standings) places() []place {
	var out []place
	for n := range s.Nodes {
		st, ok := s.at[int32(n)]
		if !ok {
			continue
		}
		i := slices.IndexFunc(out, func(p place) bool { return p.what == st.String() })
		if i < 0 {
			i = len(out)
			out = append(out, place{what: st.String()})
		}
		out[i].nodes = append(out[i].nodes, int32(n))
	}
	slices.SortStableFunc(out, func(a, b place) int { return cmp.Compare(len(a.nodes), len(b.nodes)) })
	return out
}

func is(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}
