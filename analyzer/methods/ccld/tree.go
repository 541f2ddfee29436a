// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ccld

import "github.com/culprit-project/culprit/analyzer/methods/record"

// up gives the parent of a node in NCCL's binary tree over n nodes, -1 of the root: node 0 is the root, and the lowest bit that is set in a
// node's number says how far its subtree reaches.
func up(node, n int) int {
	if node == 0 {
		return -1
	}
	bit := node & -node
	if p := node&^bit | bit<<1; p < n {
		return p
	}
	return node &^ bit
}

// depth is how far a node is from the root of one of NCCL's two trees. The second is the first in a mirror, or shifted by one where the number
// of nodes is odd, so that the leaves of one are inside the other.
func depth(node, n, tree int) int {
	if tree == 1 {
		if n%2 == 0 {
			node = n - 1 - node
		} else {
			node = (node - 1 + n) % n
		}
	}
	d := 0
	for ; node > 0; node = up(node, n) {
		d++
	}
	return d
}

// layers gives, by part of a round, the layers that the rank's node has in both trees as one number; nil where a node is not known. Each tree
// carries half of the data, on half of the channels.
func layers(g *record.Group, ranks []int) []int {
	n := g.Nodes()
	out := make([]int, len(ranks))
	for i, r := range ranks {
		node := g.Node(g.CommRank(r))
		if node < 0 {
			return nil
		}
		out[i] = depth(node, n, 0)<<8 | depth(node, n, 1) // A tree over 2^256 nodes is not deeper.
	}
	return out
}
