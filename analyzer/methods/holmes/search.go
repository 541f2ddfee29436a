// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

// Graph is the communication operator graph (H4): the operators of each rank in order, and the ranks that took part in the same
// one. The search queries it step by step, so only the visited ranks need to be fetched (H6).
type Graph interface {
	// Group gives the operators of all ranks that are the same collective as op, op included.
	Group(op int) []int
	// Peer gives the other side of a send or receive, -1 unknown.
	Peer(op int) int
	// Before gives the operators of op's rank before it within the iteration, the nearest first.
	Before(op int) []int
	// P2P reports whether op is a send or receive.
	P2P(op int) bool
	// Abnormal reports whether op took abnormally long.
	Abnormal(op int) bool
}

// Cause is the kind of a root cause.
type Cause int

// Causes.
const (
	Compute Cause = iota
	Network
)

// Found is where a search ended.
type Found struct {
	Op    int // Operator: its rank is the culprit for Compute, its group or link for Network.
	Cause Cause
}

// Search walks from an abnormal operator to root causes (algorithm 1): breadth first through a collective's group, depth first
// along send and receive. If all of a collective is abnormal, the network is the cause. A normal operator among abnormal ones
// means that the others waited for its rank. The search then looks at what that rank did before: if nothing there is abnormal, it
// computed.
func Search(g Graph, op int) []Found {
	s := &search{g: g, seen: map[int]bool{}, out: map[Found]bool{}}
	s.visit(op)
	return s.found
}

type search struct {
	g     Graph
	seen  map[int]bool
	out   map[Found]bool
	found []Found
}

func (s *search) add(f Found) {
	if !s.out[f] {
		s.out[f] = true
		s.found = append(s.found, f)
	}
}

func (s *search) visit(op int) {
	if s.seen[op] {
		return
	}
	s.seen[op] = true
	if s.g.P2P(op) {
		s.p2p(op)
		return
	}
	for _, n := range s.g.Group(op) {
		if s.g.Abnormal(n) {
			continue
		}
		if !s.back(n) {
			s.add(Found{n, Compute})
		}
		return
	}
	s.add(Found{op, Network})
}

func (s *search) p2p(op int) {
	peer := s.g.Peer(op)
	if peer < 0 || s.g.Abnormal(peer) {
		s.add(Found{op, Network})
		return
	}
	if !s.back(peer) {
		s.add(Found{peer, Compute})
	}
}

// back looks for an abnormal operator before op on its rank and continues there; false when there is none.
func (s *search) back(op int) bool {
	for _, b := range s.g.Before(op) {
		if s.g.Abnormal(b) {
			s.visit(b)
			return true
		}
	}
	return false
}
