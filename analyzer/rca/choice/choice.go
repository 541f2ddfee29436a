// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package choice is the engine's one rule of choice. Of several explanations of the same thing the best is named when it beats its best
// disjoint rival by a margin. Otherwise the answer widens: to the link between two ends, to the NIC, the host or the group that several
// ranks share. Where nothing covers both, the answer is unknown and says what would decide it.
package choice

import "slices"

// Margin is by how much of what is seen the best explanation must explain more than a disjoint rival. Measured times scatter by a few
// percent on healthy hosts, so a smaller lead tells nothing.
const Margin = 0.03

// Option is one explanation.
type Option struct {
	Score float64 // Share of what is seen that it explains, less the cost of its scope. At most 1.
	Nodes []int32 // Ranks that it accuses; empty where it accuses something between ranks.
}

// Leads reports whether a score is ahead of another one by the margin.
func Leads(score, other float64) bool { return score-other >= Margin }

// Rival returns the index of the first option that the best does not lead and that accuses none of the same ranks, -1 if there is none.
// Options are sorted by score, best first.
func Rival(options []Option) int {
	for i := 1; i < len(options); i++ {
		if Leads(options[0].Score, options[i].Score) {
			return -1
		}
		if Disjoint(options[0].Nodes, options[i].Nodes) {
			return i
		}
	}
	return -1
}

// Disjoint reports whether two explanations have no rank in common. One without ranks is disjoint from every other.
func Disjoint(a, b []int32) bool {
	return !slices.ContainsFunc(a, func(n int32) bool { return slices.Contains(b, n) })
}
