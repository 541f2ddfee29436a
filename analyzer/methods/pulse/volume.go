// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pulse

import "slices"

// Algorithm is how a collective moves its data.
type Algorithm int

// Algorithms that Pulse tells apart by the peers of a rank.
const (
	UnknownAlgorithm Algorithm = iota
	Ring
	Tree
)

// ExpectedVolume is the number of bytes that one rank sends in an operation over size ranks (appendix B, P3), 0 unknown. For
// AllReduce, bytes is the size of the reduced buffer; for AllGather and ReduceScatter, each rank's own part.
func ExpectedVolume(operation string, algorithm Algorithm, bytes int64, size int) int64 {
	s := int64(size)
	if size < 2 {
		return 0
	}
	switch operation {
	case "AllReduce":
		if algorithm == Tree {
			return bytes // Split over two trees, each of which passes half of the data up and down once.
		}
		return 2 * bytes * (s - 1) / s
	case "AllGather", "ReduceScatter":
		return bytes * (s - 1)
	case "Send":
		return bytes
	}
	return 0
}

// InferAlgorithm tells ring from tree by the ranks to which a rank sends: a ring's member sends only to its successor, a tree's
// member to its parent and children. ring and tree are the neighbours in each topology; peers are the ranks to which data was
// seen to flow.
func InferAlgorithm(peers, ring, tree []int) Algorithm {
	fits := func(topology []int) bool {
		for _, p := range peers {
			if !slices.Contains(topology, p) {
				return false
			}
		}
		return len(peers) > 0
	}
	r, t := fits(ring), fits(tree)
	switch {
	case r && !t, r && t && len(ring) <= len(tree):
		return Ring
	case t:
		return Tree
	}
	return UnknownAlgorithm
}
