// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import "slices"

// A rank writes its own records, so a bug or a lie in them shows only where they contradict the records of other ranks. The rank that
// most others contradict is taken as not seen: wrong records would make the waiting of others look like work. Lost records contradict
// nobody: they leave a hole, and they are few.

// believed leaves out the records of ranks that most others contradict.
func (t *timeline) believed() (*timeline, repair) {
	ranks, left := t.contradicted()
	if len(ranks) == 0 {
		return t, repair{left: left}
	}
	tl := t.records(func(s *seg) bool { return !slices.Contains(ranks, s.node) })
	return newTimeline(t.Index, tl), repair{changed: len(t.segs) - len(tl), doubted: ranks}
}

// said counts what other ranks' records say of a rank's.
type said struct {
	checked int             // Records that another rank's records confirm or deny.
	odd     int             // How many of them most members of a communicator contradict,
	denied  map[int32]int32 // and how many one other rank does, by rank.
}

// contradicted gives the ranks, all of one host, whose records most others deny. Where several hosts would have to lie, it gives no rank,
// and left is how many records may be false.
func (t *timeline) contradicted() (ranks []int32, left int) {
	of, spans := make([]said, len(t.Nodes)), t.spans()
	for j := range t.jobs {
		t.compareWords(&t.jobs[j], of, spans)
	}
	for {
		worst, most := int32(-1), 0
		for n := range of {
			sum := of[n].odd
			for by, count := range of[n].denied {
				if !slices.Contains(ranks, by) {
					sum += int(count)
				}
			}
			if sum > most && !slices.Contains(ranks, int32(n)) {
				worst, most = int32(n), sum
			}
		}
		if most < leastContradicted || float64(most) < mostContradicted*float64(of[worst].checked) {
			return ranks, 0
		}
		ranks = append(ranks, worst)
		if t.Host(ranks[0]) != t.Host(worst) {
			for _, n := range ranks {
				left += len(t.ranks[n])
			}
			return nil, left
		}
	}
}

// compareWords notes for an operation what its members' records say about each other.
func (t *timeline) compareWords(j *joint, of []said, spans [][2]int64) {
	switch {
	case j.compute:
	case j.p2p:
		for _, p := range j.parts {
			of[t.segs[p].node].checked++
		}
		s := &t.segs[j.parts[0]]
		if other := t.NodeOf(s.peer); len(j.parts) == 1 && other >= 0 && t.within(s, other, spans) {
			of[other].checked++
			deny(of, s.node, other)
		}
	case len(j.parts) == 2:
		a, b := &t.segs[j.parts[0]], &t.segs[j.parts[1]]
		of[a.node].checked++
		of[b.node].checked++
		if a.fn != b.fn {
			deny(of, a.node, b.node)
		}
	case len(j.parts) > 2:
		fn := t.functionOfMost(j)
		for _, p := range j.parts {
			s := &t.segs[p]
			of[s.node].checked++
			if fn >= 0 && s.fn != fn {
				of[s.node].odd++
			}
		}
	}
}

// functionOfMost gives the function that more than half of an operation's members recorded; -1 there is none.
func (t *timeline) functionOfMost(j *joint) int32 {
	fn, lead := int32(-1), 0 // Boyer and Moore's vote: a majority leads at the end.
	for _, p := range j.parts {
		switch s := &t.segs[p]; {
		case lead == 0:
			fn, lead = s.fn, 1
		case s.fn == fn:
			lead++
		default:
			lead--
		}
	}
	count := 0
	for _, p := range j.parts {
		if t.segs[p].fn == fn {
			count++
		}
	}
	return pick(2*count > len(j.parts), fn, -1)
}

// deny notes that the records of two ranks contradict each other.
func deny(of []said, a, b int32) {
	for _, pair := range [][2]int32{{a, b}, {b, a}} {
		s := &of[pair[0]]
		if s.denied == nil {
			s.denied = map[int32]int32{}
		}
		s.denied[pair[1]]++
	}
}
