// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// withoutWaiting says that the table's communication begins when all members have entered: they begin together although
// they come from work of different length. Some tools cut off the waiting, which is what tells who is late.
func (b *job) withoutWaiting() bool {
	type key struct {
		comm rca.CommID
		op   string
		instance
	}
	type entered struct {
		first, last, took int64
		n                 int
	}
	ops := map[key]entered{}
	for i := range b.rows {
		r := &b.rows[i]
		if b.kind[i] != rca.SegmentOp || b.comm[i] == "" || direction(r.Op) != 0 {
			continue // Senders do not wait for their receivers everywhere.
		}
		k := key{b.comm[i], r.Op, instance{r.Step, b.seq[i]}}
		e, ok := ops[k]
		if !ok {
			e = entered{r.Start, r.Start, r.End - r.Start, 0}
		}
		ops[k] = entered{min(e.first, r.Start), max(e.last, r.Start), max(e.took, r.End-r.Start), e.n + 1}
	}
	together, all := 0, 0
	for _, e := range ops {
		if e.n < 2 {
			continue
		}
		all++
		if e.last-e.first <= max(togetherNS, int64(togetherShare*float64(e.took))) {
			together++
		}
	}
	const most = 0.9
	return all >= instancesNeeded && float64(together) >= most*float64(all)
}

// addWaiting lets communication begin when its rank had nothing else to do, so that it holds the waiting.
func (b *job) addWaiting() bool {
	changed := false
	for from := 0; from < len(b.rows); {
		to := from
		for to < len(b.rows) && b.rows[to].Rank == b.rows[from].Rank && b.rows[to].Step == b.rows[from].Step {
			to++
		}
		ends := make([]int64, 0, to-from)
		for i := from; i < to; i++ {
			ends = append(ends, b.rows[i].End)
		}
		slices.Sort(ends)
		for i := from; i < to; i++ {
			if b.kind[i] != rca.SegmentOp || len(b.members[b.comm[i]]) < 2 {
				continue // Alone, a rank waits for nobody.
			}
			at, _ := slices.BinarySearch(ends, b.rows[i].Start+1)
			if at > 0 && ends[at-1] < b.rows[i].Start {
				b.rows[i].Start = ends[at-1]
				changed = true
			}
		}
		from = to
	}
	return changed
}
