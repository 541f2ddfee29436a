// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"
)

// line is a clock against the reference's: reference = (1+slope)*(own-at) + at + offset.
type line struct {
	at     int64
	offset float64
	slope  float64
	known  bool
	root   int32 // The node whose clock is the reference; those of different roots cannot be compared.
}

// toReference converts a time on the clock.
func (l *line) toReference(own int64) int64 {
	return own + int64(l.offset+l.slope*float64(own-l.at))
}

// fromReference converts a time on the reference's clock back.
func (l *line) fromReference(ref int64) int64 {
	own := ref - int64(l.offset)
	return ref - int64(l.offset+l.slope*float64(own-l.at))
}

// alignClocks estimates every rank's clock from operations that all leave together (X6), along a spanning tree over
// ranks that share some. Offsets of hours and drifts of hundreds of parts per million come out; ranks that share no
// synchronising operation with the rest stay unknown.
func (t *timeline) alignClocks() {
	t.clock = make([]line, len(t.Nodes))
	type pair struct {
		a, b int32
		tier int8 // 0: all left together; 1: a send that was waited for; 2: one that was not, if nothing better links them.
	}
	samples := map[pair][]sample{}
	var pairs []pair
	for j := range t.jobs {
		ps := t.jobs[j].parts
		if t.jobs[j].compute {
			continue
		}
		if len(ps) > 1 && rooted(t.FuncNames[t.segs[ps[0]].fn]) {
			continue // A root leaves early.
		}
		for k := 1; k < len(ps); k++ {
			a, b := &t.segs[ps[0]], &t.segs[ps[k]]
			if a.node == b.node {
				continue
			}
			p := pair{a.node, b.node, 0}
			if t.jobs[j].p2p {
				p.tier = 1
				if max(a.stay, b.stay) < 2*t.jobs[j].transfer {
					p.tier = 2 // Nobody waited: the send may have ended before its receive began.
				}
			}
			if len(samples[p]) == 0 {
				pairs = append(pairs, p)
			}
			if len(samples[p]) < 4096 {
				samples[p] = append(samples[p], sample{a.end, b.end - a.end})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		// Pairs with most in common first: their estimate is best.
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(len(samples[b]), len(samples[a])), cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b))
	})
	next := make([][]pair, len(t.Nodes))
	tree := newForest(len(t.Nodes))
	for _, p := range pairs {
		if tree.join(p.a, p.b) {
			next[p.a] = append(next[p.a], p)
			next[p.b] = append(next[p.b], p)
		}
	}
	for root := range t.Nodes {
		if len(t.ranks[root]) == 0 || t.clock[root].known {
			continue
		}
		t.clock[root] = line{known: true, root: int32(root)}
		queue := []int32{int32(root)}
		for len(queue) > 0 {
			n := queue[0]
			queue = queue[1:]
			for _, p := range next[n] {
				if to := p.a + p.b - n; !t.clock[to].known {
					t.clock[to] = compose(t.clock[n], lineThrough(samples[p]), p.a == n)
					t.clock[to].root = int32(root)
					queue = append(queue, to)
				}
			}
		}
	}
}

// forest tells which ranks are already linked.
type forest []int32

func newForest(n int) forest {
	f := make(forest, n)
	for i := range f {
		f[i] = int32(i)
	}
	return f
}

// join links two ranks; false when they were.
func (f forest) join(a, b int32) bool {
	for f[a] != a {
		f[a] = f[f[a]]
		a = f[a]
	}
	for f[b] != b {
		f[b] = f[f[b]]
		b = f[b]
	}
	f[max(a, b)] = min(a, b)
	return a != b
}

func rooted(fn string) bool {
	switch fn {
	case "Broadcast", "Reduce", "Gather", "Scatter":
		return true
	}
	return false
}

// sample is one operation that two ranks left together: when by the clock of one, and by how much the other's is ahead, ns.
type sample struct{ at, diff int64 }

// lineThrough gives the clock that samples lie on, by the medians of the first and the last third of them.
func lineThrough(ss []sample) line {
	slices.SortFunc(ss, func(a, b sample) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.diff, b.diff)) })
	third := max(1, len(ss)/3)
	early, late := middle(ss[:third]), middle(ss[len(ss)-third:])
	l := line{at: early.at, offset: float64(early.diff), known: true}
	if over := late.at - early.at; over > int64(1e9) && len(ss) >= 9 {
		l.slope = float64(late.diff-early.diff) / float64(over)
	}
	return l
}

// middle gives the medians of samples.
func middle(ss []sample) sample {
	at, diff := make([]int64, len(ss)), make([]int64, len(ss))
	for i, s := range ss {
		at[i], diff[i] = s.at, s.diff
	}
	return sample{median64(at), median64(diff)}
}

// compose gives the clock of the far end of a pair from that of the near end. The pair's line gives b - a as a function of a's time.
func compose(near, d line, nearIsA bool) line {
	if nearIsA {
		// a = b - diff(a): to first order diff at b's own time.
		d = line{at: d.at + int64(d.offset), offset: -d.offset, slope: -d.slope}
	}
	return through(d, near)
}

// through gives first, then second, as one line around first's origin.
func through(first, second line) line {
	mid := first.toReference(first.at)
	return line{at: first.at, offset: first.offset + second.offset + second.slope*float64(mid-second.at), slope: first.slope + second.slope, known: true}
}
