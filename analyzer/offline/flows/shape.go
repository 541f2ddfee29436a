// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
)

// shape is who sends to whom.
type shape struct {
	next  map[int]int   // Of a ring: the rank that each sends to. Nil: no ring.
	peers map[int][]int // Whom each rank sends to, synchronisation left out.
	tree  map[int][]int // Whom each rank exchanges data with both ways. Nil: no tree.
	mesh  bool          // Everybody sends to everybody.
}

func shapeOf(ranks []int, sent map[int]map[int]int64) shape {
	s := shape{peers: map[int][]int{}}
	pairs, known := 0, true
	next := map[int]int{}
	for _, r := range ranks {
		sum := int64(0)
		main := -1
		for p, n := range sent[r] {
			sum += n
			if main < 0 || n > sent[r][main] || n == sent[r][main] && p < main {
				main = p
			}
			known = known && p >= 0
		}
		next[r] = main
		for p, n := range sent[r] {
			if p != r && n > 0 && float64(n) >= minorPeer*float64(sum) {
				s.peers[r] = append(s.peers[r], p)
			}
		}
		slices.Sort(s.peers[r])
		pairs += len(s.peers[r])
	}
	if !known || len(ranks) < 2 {
		return s
	}
	if cycle(next, ranks) {
		s.next = next
	}
	s.tree = treeOf(ranks, s.peers)
	s.mesh = len(ranks) > 2 && pairs == len(ranks)*(len(ranks)-1)
	if s.algorithm() != pulse.Ring {
		s.next = nil
	}
	return s
}

// cycle says that following next from a rank leads through all of them and back.
func cycle(next map[int]int, ranks []int) bool {
	at := ranks[0]
	for range len(ranks) - 1 {
		to, sends := next[at]
		if at = to; !sends || at == ranks[0] {
			return false
		}
	}
	return next[at] == ranks[0]
}

// treeOf gives the neighbours where all data goes both ways along the edges of a tree, or of two over the same ranks.
func treeOf(ranks []int, peers map[int][]int) map[int][]int {
	edges := 0
	for _, r := range ranks {
		for _, p := range peers[r] {
			if _, back := slices.BinarySearch(peers[p], r); !back {
				return nil
			}
			edges++
		}
	}
	const trees, ways = 2, 2
	if edges/ways > trees*(len(ranks)-1) {
		return nil
	}
	return peers
}

// algorithm is how the group moves data, as far as all its members show the same (P3).
func (s *shape) algorithm() pulse.Algorithm {
	found := pulse.UnknownAlgorithm
	for r, peers := range s.peers {
		var ring []int
		if s.next != nil {
			ring = []int{s.next[r]}
		}
		a := pulse.InferAlgorithm(peers, ring, s.tree[r])
		if a == pulse.UnknownAlgorithm || found != pulse.UnknownAlgorithm && a != found {
			return pulse.UnknownAlgorithm
		}
		found = a
	}
	return found
}

// holder gives the one of the ranks behind the others that holds them up, -1 where that cannot be told.
//
// In a ring a rank that has not come has not posted buffers either, so the one before it cannot send: of two neighbours the
// one that comes later in the ring is late by itself, because the rank after it has sent and thus posted. More cannot
// follow from one rank.
func (s *shape) holder(behind []int, seen func(rank int) bool) int {
	if len(behind) == 0 || s.next == nil && !s.mesh {
		return -1
	}
	if s.mesh {
		return single(behind)
	}
	const most = 2
	if len(behind) > most {
		return -1
	}
	last := -1
	for _, r := range behind {
		if !slices.Contains(behind, s.next[r]) {
			if last >= 0 {
				return -1 // Two places.
			}
			last = r
		}
	}
	if last < 0 || !seen(s.next[last]) {
		return -1
	}
	return last
}

func single(ranks []int) int {
	if len(ranks) == 1 {
		return ranks[0]
	}
	return -1
}

// order gives the ring's ranks from one on.
func (s *shape) order(from int) []int {
	out := []int{from}
	for r := s.next[from]; r != from; r = s.next[r] {
		out = append(out, r)
	}
	return out
}
