// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package mycroft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Failure is AnalyzeFailureRootCause of algorithm 2. It begins in the affected group: the one whose operation, collective or send and receive,
// has stood longest of those that break a principle of table 3. There, the rank with the lowest operation is suspected (CheckMinOp), else the
// one whose flows moved least (CheckMinData). A suspect that itself waits in another group passes the blame on to that group (section 5.4). ok
// is false when nothing stands.
func Failure(j *record.Job) (v record.Vote, ok bool) {
	all := j.Standing()
	for _, s := range all {
		v = follow(s, all)
		if len(v.Ranks) > 0 {
			return v, true
		}
		if !ok {
			v.Note, ok = cmp.Or(v.Note, "no group breaks a principle"), true
		}
	}
	return v, ok
}

// follow goes from one affected group to the cause.
func follow(s *record.Standing, all []*record.Standing) record.Vote {
	v := record.Vote{Method: "mycroft", Class: rca.Unknown, Ranks: []int{}}
	var notes []string
	seen := []*record.Standing{}
	for s != nil {
		if slices.Contains(seen, s) {
			v.Class, v.Ranks, v.Note = rca.Unknown, []int{}, "groups wait for each other"
			return v
		}
		seen = append(seen, s)
		low := minOp(s)
		if len(low) == 0 {
			v.Class, v.Ranks = rca.Fault, minData(s, all)
			notes = append(notes, "CheckMinData on "+s.Group.Label()+tableOf(s, v.Ranks))
			if len(v.Ranks) != 1 || !blocked(s, v.Ranks[0]) {
				break
			}
			if s = waitsIn(v.Ranks[0], all, s); s == nil {
				break
			}
			continue
		}
		v.Class, v.Ranks = rca.NotEntered, low
		notes = append(notes, "CheckMinOp on "+s.Group.Label())
		s = waitsIn(low[0], all, s)
	}
	if len(v.Ranks) == 0 {
		v.Class, v.Ranks = rca.Unknown, []int{}
	}
	v.Note = strings.Join(notes, ", ")
	return v
}

// blocked reports whether nothing of a rank's is under way in an operation that stands: its GPU gives nothing, which may be because it waits
// elsewhere. Of a pair that stands, the rank may be at the end of another transfer of the group.
func blocked(s *record.Standing, rank int) bool {
	op := s.Has(rank)
	if op == nil {
		return true
	}
	for i := range op.Flows {
		f := &op.Flows[i]
		if f.Send && !f.Finished() && (f.Ready > f.Transmitted || f.Transmitted > f.Done) {
			return false
		}
	}
	return true
}

// waitsIn gives the operation of another group in which a rank stands, the longest first; nil none.
func waitsIn(rank int, all []*record.Standing, not *record.Standing) *record.Standing {
	for _, s := range all {
		if s != not && s.Has(rank) != nil {
			return s
		}
	}
	return nil
}

// minOp gives the ranks whose last operation in the group is the lowest; none when all have begun the one that stands. A member without
// logs has begun nothing.
func minOp(s *record.Standing) []int {
	if s.P2P {
		return missingEnd(s)
	}
	low := slices.Clone(s.Group.Silent)
	least, most := s.Group.Members[0].Last(), s.Group.Members[0].Last()
	for i := range s.Group.Members {
		n := s.Group.Members[i].Last()
		least, most = min(least, n), max(most, n)
	}
	if len(low) > 0 {
		return low
	}
	if least == most {
		return nil
	}
	for i := range s.Group.Members {
		if m := &s.Group.Members[i]; m.Last() == least {
			low = append(low, m.Rank.ID)
		}
	}
	slices.Sort(low)
	return low
}

// missingEnd gives the end of a send and receive that has not begun it.
func missingEnd(s *record.Standing) []int {
	if len(s.Parts) > 1 {
		return nil
	}
	peer := s.First.Peer
	if m := s.Group.At(peer); m != nil {
		return []int{m.Rank.ID}
	}
	if peer >= 0 && peer < len(s.Group.Comm.Members) && s.Group.Comm.Members[peer] >= 0 {
		return []int{s.Group.Comm.Members[peer]}
	}
	return nil
}

// least are the senders' flows of an operation that moved the smallest share of what they should; none when those of several ranks all moved as much.
func least(parts []record.Part) (low []end) {
	share := func(f *rca.Flow) float64 { return float64(f.Done) / float64(max(1, f.Total)) }
	lowest, highest := 2.0, -1.0
	for _, p := range parts {
		for k := range p.Op.Flows {
			f := &p.Op.Flows[k]
			if !f.Send {
				continue
			}
			x := share(f)
			if x < lowest {
				lowest, low = x, nil
			}
			highest = max(highest, x)
			if x == lowest {
				low = append(low, end{p.Member, f})
			}
		}
	}
	if lowest == highest && slices.ContainsFunc(low, func(e end) bool { return e.from != low[0].from }) {
		return nil
	}
	return low
}

// end is a flow at its sender.
type end struct {
	from *record.Member
	flow *rca.Flow
}

// minData aggregates the flows that moved least by rank (section 5.2): when all flows of a rank are stuck, the rank is the cause. Flows are
// compared by direction, and counted at the sender, whose counters they are, and at the receiver. Of two ends alike it is the sender.
func minData(s *record.Standing, all []*record.Standing) []int {
	parts := s.Parts
	if s.P2P { // All transfers of the group that stand.
		parts = nil
		for _, o := range all {
			if o.P2P && o.Group == s.Group {
				parts = append(parts, o.Parts...)
			}
		}
	}
	type count struct{ touched, sends int }
	by := map[int]count{}
	for _, e := range least(parts) {
		c := by[e.from.Rank.ID]
		by[e.from.Rank.ID] = count{c.touched + 1, c.sends + 1}
		if to := s.Group.At(e.flow.Peer); to != nil {
			c = by[to.Rank.ID]
			by[to.Rank.ID] = count{c.touched + 1, c.sends}
		}
	}
	var out []int
	var best count
	for r, c := range by {
		switch {
		case c == best:
			out = append(out, r)
		case c.touched > best.touched || c.touched == best.touched && c.sends > best.sends:
			best, out = c, []int{r}
		}
	}
	slices.Sort(out)
	return out
}

// tableOf is CheckRCTable: what table 4 and section 5.3 say of the sends of the one rank that is suspected, and the channel on which it moved
// least, where it is one.
func tableOf(s *record.Standing, ranks []int) string {
	if len(ranks) != 1 || s.Has(ranks[0]) == nil {
		return ""
	}
	me, op := s.Group.Of(ranks[0]), s.Has(ranks[0])
	var rows []Row
	said := ""
	for i := range op.Flows {
		f := &op.Flows[i]
		if !f.Send || f.Finished() {
			continue
		}
		for _, r := range Table(countersOf(f)) {
			if !slices.Contains(rows, r) {
				rows = append(rows, r)
			}
		}
		if to, r := s.Matching(me, f); r != nil && said == "" {
			switch Compare(countersOf(f), countersOf(r)) {
			case Receiver:
				said = fmt.Sprintf("; section 5.3 blames the receiver, rank %d", to.Rank.ID)
			case Sender:
				said = "; section 5.3 blames the sender's GPU"
			case Unclear:
			}
		}
	}
	if len(rows) == 0 {
		return ": its sends are finished"
	}
	states := make([]string, 0, len(rows))
	for _, r := range rows {
		causes := "here: " + r.Local
		if r.Remote != "" {
			causes += ", receiver: " + r.Remote
		}
		states = append(states, r.State+" ("+causes+")")
	}
	text := ": " + strings.Join(states, "; ")
	if low := least(s.Parts); len(low) > 0 {
		ch := low[0].flow.Channel
		if slices.ContainsFunc(op.Flows, func(f rca.Flow) bool { return f.Send && f.Channel != ch }) && !slices.ContainsFunc(low, func(e end) bool { return e.flow.Channel != ch }) {
			text += fmt.Sprintf("; channel %d: %s", ch, UnequalAmount)
		}
	}
	return text + said
}

func countersOf(f *rca.Flow) Counters {
	return Counters{Ready: f.Ready, Transmitted: f.Transmitted, Done: f.Done}
}
