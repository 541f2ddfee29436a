// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

// How much less a verdict is believed when less of the job was seen: with hardly any rank seen, or with records lost at all
// ranks.
const (
	UnseenDiscount = 0.4
	lossDiscount   = 0.2
)

// SeenFactor is the factor for a weight that accounts for the ranks of which nothing is known.
func (x *Index) SeenFactor() float64 { return 1 - UnseenDiscount*x.UnseenShare() }

// KeptFactor is the factor for a weight that accounts for the ranks whose source lost records.
func (x *Index) KeptFactor() float64 { return 1 - lossDiscount*x.Lossy() }

// UnseenShare is the share of the job's ranks of which nothing is known.
func (x *Index) UnseenShare() float64 {
	return float64(x.World-x.Seen) / float64(max(1, x.World))
}

// Lossy is the share of the seen ranks whose source lost records.
func (x *Index) Lossy() float64 {
	n := 0
	for i := range x.Nodes {
		if r := x.Nodes[i].Rank; r != nil && r.Lost > 0 {
			n++
		}
	}
	return float64(n) / float64(max(1, x.Seen))
}
