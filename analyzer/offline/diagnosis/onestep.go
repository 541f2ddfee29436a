// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// What must be seen of one step to suspect a rank: so many operations of all, for most of whose waiting it is the last, and
// waiting that is worth it.
const (
	oneStepOps   = 3
	mostly       = 0.6
	worthWaiting = 0.05 // Of the time that was seen.
)

// oneStep suspects the rank that others mostly wait for where a single step was recorded, which the engine does not judge: one
// step says nothing of whether a rank stays slow. All leave a collective together, so who stays in it for the shortest time
// entered last, whatever its clock.
func (r *Result) oneStep() {
	v := &r.Verdict
	ops, span, ok := singleStep(&r.Evidence)
	if v.Class != rca.Unknown || len(v.Culprits) > 0 || !ok {
		return
	}
	waited, last := map[int]time.Duration{}, map[int]int{}
	var all time.Duration
	n := 0
	for _, members := range ops {
		if len(members) < 3 { // Of two neither is the odd one.
			continue
		}
		slices.SortFunc(members, func(a, b rca.Segment) int { return int(min(max(took(a)-took(b), -1), 1)) })
		wait := took(members[len(members)/2]) - took(members[0])
		n++
		all += wait
		waited[members[0].Rank] += wait
		last[members[0].Rank]++
	}
	if n < oneStepOps || float64(all) < worthWaiting*float64(span) {
		return
	}
	for rank, wait := range waited {
		if float64(wait) < mostly*float64(all) {
			continue
		}
		why := fmt.Sprintf("last to enter %d of %d operations; the others waited %s for it, %.0f%% of the step", last[rank], n, wait.Round(10*time.Microsecond), 100*float64(wait)/float64(span))
		v.Summary = fmt.Sprintf("The others mostly wait for rank %d: %s. Only one step was recorded, which does not tell whether rank %d stays slow.", rank, why, rank)
		v.Culprits = []rca.Culprit{{Rank: -1, Channel: -1, Group: fmt.Sprintf("suspects: rank %d", rank), Why: why}}
		v.Action = "Record more steps of all ranks (torch.profiler.schedule(active=10)), and see whether it is the same rank again."
	}
}

// took is how long a rank was in an operation.
func took(s rca.Segment) time.Duration { return time.Duration(s.End - s.Start) }

type stepOp struct {
	comm rca.CommID
	seq  int64
}

// singleStep gives the collectives of a recording of one step, and the time from the first to the last. ok is false for more.
func singleStep(ev *rca.Evidence) (ops map[stepOp][]rca.Segment, span time.Duration, ok bool) {
	ops = map[stepOp][]rca.Segment{}
	step, seen := 0, false
	first, last := map[int]int64{}, map[int]int64{}
	for _, s := range ev.Timeline {
		if s.Kind != rca.SegmentOp {
			continue
		}
		if seen && s.Iteration != step {
			return nil, 0, false
		}
		step, seen = s.Iteration, true
		if at, known := first[s.Rank]; !known || s.Start < at {
			first[s.Rank] = s.Start
		}
		last[s.Rank] = max(last[s.Rank], s.End)
		span = max(span, time.Duration(last[s.Rank]-first[s.Rank]))
		if s.Comm != "" && s.Peer < 0 {
			key := stepOp{s.Comm, s.Seq}
			ops[key] = append(ops[key], s)
		}
	}
	return ops, span, seen && step >= 0
}
