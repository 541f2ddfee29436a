// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// compareWith holds a diagnosis against a healthy recording's.
func (r *result) compareWith(healthy *result) {
	add := func(format string, args ...any) { r.comparison = append(r.comparison, fmt.Sprintf(format, args...)) }
	if c := healthy.verdict.Class; c != rca.Healthy && c != rca.Unknown && c != rca.Benign {
		add("the recording given as healthy is not: %s", healthy.verdict.Summary)
	}
	a, b := healthy.evidence, r.evidence
	if a.WorldSize > 0 && b.WorldSize > 0 && a.WorldSize != b.WorldSize {
		add("the healthy job has %d ranks, this one %d: times per rank are not compared", a.WorldSize, b.WorldSize)
		return
	}
	r.comparison = append(r.comparison, compareTimes(a, b)...)
	r.comparison = append(r.comparison, compareOps(a, b)...)
	if len(r.comparison) == 0 {
		add("nothing in them can be compared: neither has finished operations of the same kind with times")
	}
}

// key is what is compared: a kind of work of a rank.
type key struct {
	rank int
	kind string
}

// noticeable is the ratio from which a difference is told.
const noticeable = 1.1

// compareTimes holds the median time of each rank's kinds of work against each other, the largest differences first.
func compareTimes(healthy, sick rca.Evidence) []string {
	a, b := medians(healthy.Timeline), medians(sick.Timeline)
	type change struct {
		key
		before, after time.Duration
	}
	var changes []change
	common := 0
	for k, after := range b {
		before, ok := a[k]
		if !ok || before <= 0 {
			continue
		}
		common++
		if float64(after) >= noticeable*float64(before) {
			changes = append(changes, change{k, before, after})
		}
	}
	if common == 0 {
		return nil
	}
	slices.SortFunc(changes, func(x, y change) int {
		return cmp.Or(cmp.Compare(y.after-y.before, x.after-x.before), cmp.Compare(x.rank, y.rank), cmp.Compare(x.kind, y.kind))
	})
	var out []string
	for i, c := range changes {
		if i == listShown {
			out = append(out, fmt.Sprintf("… and %d more got slower", len(changes)-listShown))
			break
		}
		out = append(out, fmt.Sprintf("rank %d: %s takes %s, %.2fx of the healthy %s (median)", c.rank, c.kind,
			c.after.Round(time.Microsecond), float64(c.after)/float64(c.before), c.before.Round(time.Microsecond)))
	}
	if len(out) == 0 {
		out = append(out, fmt.Sprintf("none of %d kinds of work got slower by more than %.0f%%", common, 100*(noticeable-1)))
	}
	return out
}

func medians(timeline []rca.Segment) map[key]time.Duration {
	all := map[key][]int64{}
	for i := range timeline {
		s := &timeline[i]
		k := key{s.Rank, s.Func}
		all[k] = append(all[k], s.End-s.Start)
	}
	out := map[key]time.Duration{}
	for k, ds := range all {
		slices.Sort(ds)
		out[k] = time.Duration(ds[len(ds)/2])
	}
	return out
}

// compareOps names operations in flight that the healthy recording never showed on that communicator.
func compareOps(healthy, sick rca.Evidence) []string {
	known := map[string]map[string]bool{}
	each := func(ev rca.Evidence, f func(comm, op string)) {
		names := map[rca.CommID]string{}
		for _, c := range ev.Comms {
			names[c.ID] = c.Name
		}
		for _, r := range ev.Ranks {
			for _, m := range r.Memberships {
				for _, op := range slices.Concat(m.Recent, m.InFlight) {
					f(names[m.Comm], op.Func)
				}
			}
		}
	}
	each(healthy, func(comm, op string) {
		if known[comm] == nil {
			known[comm] = map[string]bool{}
		}
		known[comm][op] = true
	})
	strange := map[string]bool{}
	each(sick, func(comm, op string) {
		if known[comm] != nil && !known[comm][op] {
			strange[fmt.Sprintf("%s in %s does not occur in the healthy recording", op, comm)] = true
		}
	})
	return slices.Sorted(maps.Keys(strange))
}
