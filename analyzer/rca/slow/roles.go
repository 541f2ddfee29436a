// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import "slices"

// assignRoles gives ranks their roles and segments their positions. Ranks that do the same operations equally often in an iteration have
// one role; the k-th operation of a kind in an iteration is one position for all of them. Averages decide, because operations of concurrent
// streams may fall on either side of an iteration's edge.
func (t *timeline) assignRoles() {
	t.role = make([]int32, len(t.Nodes))
	var shapes []roleShape
	type turn struct{ role, token, partner, k int32 }
	posID := map[turn]int32{}
	for n := range t.ranks {
		t.role[n] = -1
		if len(t.ranks[n]) == 0 {
			continue
		}
		sh := t.shape(t.ranks[n])
		k := slices.IndexFunc(shapes, func(o roleShape) bool { return o.like(&sh) })
		if k < 0 {
			k = len(shapes)
			shapes = append(shapes, sh)
		}
		id := int32(k)
		t.role[n] = id
		seen, turns := map[int32]int32{}, t.turnsOf(int32(n))
		at := int32(noIteration)
		for _, i := range t.ranks[n] {
			s := &t.segs[i]
			if s.iter != at {
				clear(seen)
				at = s.iter
			}
			p := turn{role: id, token: t.tokenAt[i], k: seen[t.tokenAt[i]]}
			seen[t.tokenAt[i]]++
			if partner, k, ok := turns.of(s); ok {
				p.partner, p.k = partner, k
			}
			k, ok := posID[p]
			if !ok {
				k = int32(len(posID))
				posID[p] = k
			}
			s.pos = k
		}
	}
	t.roles = len(shapes)
}

// turns tells a rank's sends and receives within an iteration apart by their numbers, which lost records do not shift.
type turns struct {
	first   map[sequence]int64 // By iteration.
	partner map[sequence]int32 // The other side, alike on ranks that do the same.
}

// turnsOf gives the turns of a node.
func (t *timeline) turnsOf(n int32) *turns {
	r := &turns{first: map[sequence]int64{}, partner: map[sequence]int32{}}
	var comms []int32
	peers := map[int32][]int{}
	for _, i := range t.ranks[n] {
		s := &t.segs[i]
		if s.dir == 0 || s.peer < 0 || s.seq < 0 {
			continue
		}
		k := turnOf(s)
		if first, ok := r.first[k]; !ok || s.seq < first {
			r.first[k] = s.seq
		}
		if peers[s.comm] == nil {
			comms = append(comms, s.comm)
		}
		if !slices.Contains(peers[s.comm], s.peer) {
			peers[s.comm] = append(peers[s.comm], s.peer)
		}
	}
	rank := t.Nodes[n].ID
	for _, c := range comms {
		// The higher ranks first, then the lower ones.
		slices.SortFunc(peers[c], func(x, y int) int {
			if above := t.before(c, x, rank) > 0; above != (t.before(c, y, rank) > 0) {
				return pick(above, -1, 1)
			}
			return t.before(c, x, y)
		})
		for _, p := range peers[c] {
			r.partner[sequence{comm: c, fn: -1, peer: int32(p)}] = int32(len(r.partner))
		}
	}
	return r
}

func turnOf(s *seg) sequence {
	return sequence{comm: s.comm, fn: s.fn, peer: int32(s.peer), iter: s.iter}
}

// of gives the partner of a send or receive and its ordinal within the iteration; false for anything else.
func (r *turns) of(s *seg) (partner, k int32, ok bool) {
	first, ok := r.first[turnOf(s)]
	if !ok || s.seq < 0 {
		return 0, 0, false
	}
	return r.partner[sequence{comm: s.comm, fn: -1, peer: int32(s.peer)}], int32(s.seq - first), true
}

// roleShape is the operations of a rank in an average iteration.
type roleShape struct {
	stage  int
	tokens []int32   // Sorted.
	per    []float64 // Times per iteration.
}

func (t *timeline) shape(list []int32) roleShape {
	count := map[int32]int{}
	sh := roleShape{stage: -1}
	first, last := int32(-1), int32(noIteration)
	for _, i := range list {
		s := &t.segs[i]
		if s.iter == noIteration || s.comm == hiddenNumber {
			continue // What was not recorded is no part of the program as far as it is known.
		}
		if first < 0 {
			first = s.iter
		}
		last = max(last, s.iter)
		sh.stage = max(sh.stage, int(s.stage))
		count[t.tokenAt[i]]++
	}
	for k := range count {
		sh.tokens = append(sh.tokens, k)
	}
	slices.Sort(sh.tokens)
	for _, k := range sh.tokens {
		sh.per = append(sh.per, float64(count[k])/float64(max(1, last-first+1)))
	}
	return sh
}

// like allows for what the window's edges cut off.
func (a *roleShape) like(b *roleShape) bool {
	if a.stage != b.stage {
		return false
	}
	i, j := 0, 0
	for i < len(a.tokens) || j < len(b.tokens) {
		var x, y float64
		switch {
		case j == len(b.tokens) || i < len(a.tokens) && a.tokens[i] < b.tokens[j]:
			x = a.per[i]
			i++
		case i == len(a.tokens) || a.tokens[i] > b.tokens[j]:
			y = b.per[j]
			j++
		default:
			x, y = a.per[i], b.per[j]
			i++
			j++
		}
		if d := max(x-y, y-x); d > max(countRoom, countShare*max(x, y)) {
			return false
		}
	}
	return true
}
