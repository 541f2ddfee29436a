// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

// Unseen is the share of the job's ranks of which nothing is known.
func (x *Index) Unseen() float64 {
	return float64(x.World-x.Seen) / float64(max(1, x.World))
}

// Lossy is the share of the ranks seen whose source lost records.
func (x *Index) Lossy() float64 {
	n := 0
	for i := range x.Nodes {
		if r := x.Nodes[i].Rank; r != nil && r.Lost > 0 {
			n++
		}
	}
	return float64(n) / float64(max(1, x.Seen))
}
