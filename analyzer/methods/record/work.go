// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// barrierBytes is the size up to which CCL-D takes an AllReduce for a barrier (section 4.2.1).
const barrierBytes = 4

// Work is finished work. Times are on one clock, from the first operation on.
type Work struct {
	Rounds []*Round // Collectives of which two members or more were seen, by their end.
	ByRank map[int][]*Piece
	// Iterations are the bounds of those that were seen whole, from the repetition of one rank's operations (H2).
	Iterations []time.Duration
	Span       time.Duration
}

// Round is one collective.
type Round struct {
	Group   *Group
	Func    string
	Bytes   int64
	Barrier bool
	Parts   []*Piece // By global rank.
}

// Piece is one rank's part in finished work.
type Piece struct {
	*rca.Segment
	Begin, Left time.Duration
	Iteration   int    // -1: before the first or after the last that was seen whole.
	Round       *Round // nil: a send or receive, or no other member was seen.
	Other       *Piece // The other end of a send or receive, nil unknown.
}

// Stay is how long the rank was in it.
func (p *Piece) Stay() time.Duration { return p.Left - p.Begin }

// Active is how long transfers were under way: the mean of its sending flows, which leaves gaps out; 0 unknown.
func (p *Piece) Active() time.Duration {
	switch {
	case p.SendFlows > 0 && p.SendActive > 0:
		return p.SendActive / time.Duration(p.SendFlows)
	case p.Segment.Active > 0:
		return p.Segment.Active
	}
	return p.SendWait[2]
}

func (j *Job) read() {
	j.ByRank = map[int][]*Piece{}
	if len(j.Ev.Timeline) == 0 {
		return
	}
	type key struct {
		comm     rca.CommID
		fn       string // Where the source does not number all operations together.
		number   int64
		src, dst int
	}
	rounds, ends := map[key]*Round{}, map[key]*Piece{}
	parts := make([]Piece, 0, len(j.Ev.Timeline))
	for i := range j.Ev.Timeline {
		s := &j.Ev.Timeline[i]
		if s.Kind != rca.SegmentOp || s.End < s.Start {
			continue
		}
		parts = append(parts, Piece{Segment: s, Iteration: -1})
	}
	for i := range parts {
		p := &parts[i]
		j.ByRank[p.Rank] = append(j.ByRank[p.Rank], p)
		if p.Peer >= 0 {
			k := key{p.Comm, "", p.Seq, p.Rank, p.Peer}
			if p.Func == "Recv" {
				k.src, k.dst = k.dst, k.src
			}
			if o := ends[k]; o != nil && o.Rank != p.Rank {
				o.Other, p.Other = p, o
			}
			ends[k] = p
			continue
		}
		k := key{comm: p.Comm, number: p.Number}
		if p.Number < 0 {
			k.fn, k.number = p.Func, p.Seq
		}
		r := rounds[k]
		if r == nil {
			r = &Round{Group: j.byID[p.Comm], Func: p.Func, Bytes: p.Bytes, Barrier: p.Func == "AllReduce" && p.Bytes > 0 && p.Bytes <= barrierBytes}
			rounds[k] = r
			j.Rounds = append(j.Rounds, r)
		}
		r.Parts = append(r.Parts, p)
	}
	j.Rounds = slices.DeleteFunc(j.Rounds, func(r *Round) bool { return len(r.Parts) < 2 || r.Group == nil })
	for _, r := range j.Rounds {
		for _, p := range r.Parts {
			p.Round = r
		}
		slices.SortFunc(r.Parts, func(a, b *Piece) int { return cmp.Compare(a.Rank, b.Rank) })
	}
	j.setClock(parts)
	for _, list := range j.ByRank {
		slices.SortStableFunc(list, func(a, b *Piece) int { return cmp.Compare(a.Left, b.Left) })
	}
	slices.SortStableFunc(j.Rounds, func(a, b *Round) int { return cmp.Compare(a.Parts[0].Left, b.Parts[0].Left) })
	j.findIterations()
}

// setClock puts all parts on one clock. Members leave a collective together, so the middle of the differences of their ends is the
// difference of their clocks. The papers' systems rely on NTP instead; the methods are not to be blamed for a clock.
func (j *Job) setClock(parts []Piece) {
	type pair struct{ a, b int }
	diffs := map[pair][]int64{}
	add := func(a, b *Piece) { diffs[pair{a.Rank, b.Rank}] = append(diffs[pair{a.Rank, b.Rank}], b.End-a.End) }
	for _, r := range j.Rounds {
		for _, p := range r.Parts[1:] {
			add(r.Parts[0], p)
		}
	}
	for i := range parts {
		if p := &parts[i]; p.Other != nil && p.Func == "Send" {
			add(p, p.Other)
		}
	}
	next := map[int][]int{}
	for p := range diffs {
		next[p.a], next[p.b] = append(next[p.a], p.b), append(next[p.b], p.a)
	}
	middle := func(a, b int) int64 {
		v, sign := diffs[pair{a, b}], int64(1)
		if len(v) == 0 || len(diffs[pair{b, a}]) > len(v) {
			v, sign = diffs[pair{b, a}], -1
		}
		slices.Sort(v)
		return sign * v[len(v)/2]
	}
	offset := map[int]int64{}
	ranks := make([]int, 0, len(j.ByRank))
	for r := range j.ByRank {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	for _, root := range ranks {
		if _, known := offset[root]; known {
			continue
		}
		offset[root] = 0
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			slices.Sort(next[at])
			for _, to := range next[at] {
				if _, known := offset[to]; !known {
					offset[to] = offset[at] + middle(at, to)
					queue = append(queue, to)
				}
			}
		}
	}
	begun := func(p *Piece) int64 { return cmp.Or(p.Entered, p.Start) - offset[p.Rank] }
	first := begun(&parts[0])
	for i := range parts {
		first = min(first, begun(&parts[i]))
	}
	for i := range parts {
		p := &parts[i]
		p.Begin, p.Left = time.Duration(begun(p)-first), time.Duration(p.End-offset[p.Rank]-first)
		j.Span = max(j.Span, p.Left)
	}
}

// findIterations finds what one rank's operations repeat (H2). The source's own numbers come first.
func (j *Job) findIterations() {
	pivot := -1
	for r, list := range j.ByRank {
		if pivot < 0 || len(list) > len(j.ByRank[pivot]) || len(list) == len(j.ByRank[pivot]) && r < pivot {
			pivot = r
		}
	}
	if pivot < 0 {
		return
	}
	list := j.ByRank[pivot]
	if list[0].Segment.Iteration >= 0 {
		for i, p := range list {
			if i == 0 || p.Segment.Iteration != list[i-1].Segment.Iteration {
				j.Iterations = append(j.Iterations, p.Begin)
			}
		}
		j.Iterations = append(j.Iterations, list[len(list)-1].Left)
	} else {
		for _, p := range markers(list) {
			j.Iterations = append(j.Iterations, p.Left)
		}
	}
	for _, ps := range j.ByRank {
		for _, p := range ps {
			at, _ := slices.BinarySearch(j.Iterations, p.Left)
			if p.Left > j.first() && at < len(j.Iterations) {
				p.Iteration = at - 1
			}
		}
	}
}

func (j *Job) first() time.Duration {
	if len(j.Iterations) == 0 {
		return j.Span
	}
	return j.Iterations[0]
}

// Lengths are those of the iterations, in seconds.
func (j *Job) Lengths() []float64 {
	var out []float64
	for i := 1; i < len(j.Iterations); i++ {
		out = append(out, (j.Iterations[i] - j.Iterations[i-1]).Seconds())
	}
	return out
}

// markers gives the operations of one kind that a rank makes once an iteration: the rarest kind between whose operations there are always about
// as many others. Operations overlap, so that their order varies, and a checkpoint or an evaluation comes now and then.
func markers(list []*Piece) []*Piece {
	type like struct {
		fn    string
		comm  rca.CommID
		bytes int64
		peer  int
	}
	const fewest = 4 // Operations, for three intervals.
	at := map[like][]int{}
	for i, p := range list {
		k := like{p.Func, p.Comm, p.Bytes, p.Peer}
		at[k] = append(at[k], i)
	}
	var best []int
	for _, places := range at {
		if len(places) < fewest || best != nil && (len(places) > len(best) || len(places) == len(best) && places[0] > best[0]) {
			continue
		}
		gaps := make([]int, 0, len(places))
		for i := 1; i < len(places); i++ {
			gaps = append(gaps, places[i]-places[i-1])
		}
		slices.Sort(gaps)
		mid, near := gaps[len(gaps)/2], 0
		for _, g := range gaps {
			if 4*g >= 3*mid && 4*g <= 5*mid {
				near++
			}
		}
		if 4*near >= 3*len(gaps) {
			best = places
		}
	}
	out := make([]*Piece, 0, len(best))
	for _, i := range best {
		out = append(out, list[i])
	}
	return out
}
