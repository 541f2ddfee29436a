// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// Maybe is how a world says what it does not know: whether two communicators share a stream, whether two sends are of one group, whether
// buffers hold all data, what happens where nobody sees.
const (
	No    = observe.No
	Maybe = observe.Maybe
	Yes   = observe.Yes
)

// States is what a world does to each part: whether the rank calls it, whether its kernel begins, whether it ends.
type States struct {
	w                 *World
	Calls, Runs, Ends []observe.Tri
	nodes, operations []bool // That have to be looked at again.
}

// Settle lets every rank go on as far as it can in this world. All parts begin as ended, and fall as what they need does not come.
func (w *World) Settle() *States {
	j := w.job
	s := &States{w: w, Calls: allYes(len(j.Parts)), Runs: allYes(len(j.Parts)), Ends: allYes(len(j.Parts))}
	s.nodes, s.operations = make([]bool, len(j.Of)), make([]bool, len(j.Operations))
	for p := range j.Parts {
		if j.Parts[p].Midway {
			s.Ends[p] = Maybe
			s.nodes[j.Parts[p].Node] = true
		}
	}
	for _, f := range w.Faults {
		if f.Kind == Liar {
			continue
		}
		for n := range j.Of {
			if w.at(f, int32(n)) {
				s.touch(int32(n))
			}
		}
		switch {
		case f.Kind == Ahead:
			for _, p := range j.Operations[f.B].Parts {
				s.touch(j.Parts[p].Node)
			}
		case f.Kind == Crossed:
			for _, n := range slices.Concat(j.Orders[f.B].Odd, j.Orders[f.B].Rest) {
				s.touch(n)
			}
		case f.B >= 0:
			s.touch(f.B)
		}
	}
	for range mostRounds {
		changed := false
		for n := range s.nodes {
			if s.nodes[n] {
				s.nodes[n] = false
				changed = s.callOn(int32(n)) || changed
			}
		}
		for i := range s.operations {
			if s.operations[i] {
				s.operations[i] = false
				changed = s.exchange(int32(i)) || changed
			}
		}
		if !changed {
			break
		}
	}
	return s
}

func allYes(n int) []observe.Tri {
	out := make([]observe.Tri, n)
	for i := range out {
		out[i] = Yes
	}
	return out
}

func (s *States) touch(n int32) {
	s.nodes[n] = true
	for _, p := range s.w.job.Of[n] {
		s.operations[s.w.job.Parts[p].Operation] = true
	}
}

// callOn goes over one rank's calls in their order: kernels of one communicator run one after another, those of two may.
func (s *States) callOn(n int32) (changed bool) {
	j := s.w.job
	list := j.Of[n]
	inside := slices.ContainsFunc(list, func(p int32) bool { return j.Parts[p].Seen == observe.Inside && j.Parts[p].Still })
	gpu, unseen, silenced := s.w.has(n, GPU, Starting), s.w.has(n, Unseen), s.w.has(n, Absent, Stopped, Gone, Lost, Saving)
	for i, p := range list {
		part := &j.Parts[p]
		if part.Seen == observe.Left {
			continue
		}
		calls, runs := Yes, Yes
		switch {
		case part.Op != nil:
		case silenced, slices.ContainsFunc(s.w.Faults, func(f Fault) bool { return f.Kind == Ahead && f.B == part.Operation }):
			calls = No
		case unseen:
			calls = Maybe
		}
		if gpu || part.Hidden && s.blockedElsewhere(list, p, true) {
			runs = Maybe
		}
		if s.crossed(list[:i], part.Operation) {
			runs = No
		}
		for _, q := range list[:i] {
			s.behind(q, p, inside, &calls, &runs)
		}
		if part.Op == nil && j.Silent[n] && calls == Yes && s.blockedElsewhere(list, p, false) {
			calls = Maybe
		}
		held := part.Op != nil && job.IsP2P(part.Op) && s.heldByGroup(list, p) && s.Ends[p].Lower(Maybe)
		called, ran := s.Calls[p].Lower(calls), s.Runs[p].Lower(min(runs, calls))
		if held || called || ran {
			changed, s.operations[part.Operation] = true, true
		}
	}
	return changed
}

// behind lowers what a part p can do behind an earlier one of its rank.
func (s *States) behind(q, p int32, inside bool, calls, runs *observe.Tri) {
	j := s.w.job
	earlier, part := &j.Parts[q], &j.Parts[p]
	switch {
	case s.Ends[q] == Yes, earlier.Seen == observe.Left:
	case earlier.Hidden && inside:
		// A rank that is seen inside one operation is not held in another that is not seen.
	case part.Op == nil && earlier.Op == nil && !earlier.Hidden:
		// It has called neither.
	case part.Op == nil:
		*calls = min(*calls, Maybe) // The program may wait there.
	case j.Operations[earlier.Operation].Comm == j.Operations[part.Operation].Comm && !mayBeGrouped(earlier, part):
		*runs = min(*runs, s.Ends[q])
	default:
		*runs = min(*runs, Maybe)
	}
}

// heldByGroup: all of a group of sends and receives stay in its kernel until the last of them is done.
func (s *States) heldByGroup(list []int32, p int32) bool {
	j := s.w.job
	part := &j.Parts[p]
	return slices.ContainsFunc(list, func(q int32) bool {
		other := &j.Parts[q]
		return q != p && s.Ends[q] != Yes && j.Operations[other.Operation].Comm == j.Operations[part.Operation].Comm && mayBeGrouped(other, part)
	})
}

// crossed: the operation is the later one at this rank of two that others called the other way round.
func (s *States) crossed(earlier []int32, operation int32) bool {
	for _, f := range s.w.Faults {
		if f.Kind != Crossed {
			continue
		}
		o := &s.w.job.Orders[f.B]
		if operation != o.X && operation != o.Y {
			continue
		}
		for _, q := range earlier {
			if i := s.w.job.Parts[q].Operation; (i == o.X || i == o.Y) && i != operation {
				return true
			}
		}
	}
	return false
}

// blockedElsewhere: what is not seen may be behind what the rank is in. Nobody knows in what order a rank calls that was not seen.
func (s *States) blockedElsewhere(list []int32, p int32, in bool) bool {
	for _, q := range list {
		part := &s.w.job.Parts[q]
		if q != p && s.Ends[q] != Yes && (!in || !part.Blank && (part.Seen == observe.Inside || part.Seen == observe.Called)) {
			return true
		}
	}
	return false
}

// mayBeGrouped: sends and receives of one group run in one kernel. Where the source does not tell groups apart, calls within a
// millisecond may be of one; two of one peer and direction are not, unless both are seen to run.
func mayBeGrouped(a, b *observe.Part) bool {
	if a.Op == nil || b.Op == nil || !job.IsP2P(a.Op) || !job.IsP2P(b.Op) {
		return false
	}
	if a.Op.GroupOrdinal > 0 && b.Op.GroupOrdinal > 0 {
		return a.Op.Number-a.Op.GroupOrdinal == b.Op.Number-b.Op.GroupOrdinal
	}
	if b.Seen != observe.Inside && a.Op.Func == b.Op.Func && a.Op.Peer == b.Op.Peer {
		return false
	}
	return a.Age < 0 || b.Age < 0 || (a.Age-b.Age).Abs() < time.Millisecond
}
