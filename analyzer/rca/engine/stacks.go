// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// stackVerdict reasons from stacks where they are all there is. Ranks that stand in communication wait; if nearly all do
// and a few stand elsewhere, those few are who they wait for. That all stand at one place says nothing. ok is false when
// the evidence has operations or times to go by, or no stacks.
func stackVerdict(x *job.Index) (rca.Verdict, bool) {
	var inside, outside []int32
	for n := range x.Nodes {
		r := x.Nodes[n].Rank
		if r == nil {
			continue
		}
		if len(r.Memberships) > 0 || r.Caps != 0 {
			return rca.Verdict{}, false
		}
		if len(r.Stack) == 0 {
			continue
		}
		if communicates(r.Stack) {
			inside = append(inside, int32(n)) //nolint:gosec // Far fewer than 2^31 ranks.
		} else {
			outside = append(outside, int32(n)) //nolint:gosec // As above.
		}
	}
	if len(x.Ev.Timeline) > 0 || len(inside)+len(outside) == 0 {
		return rca.Verdict{}, false
	}
	v := job.NewVerdict(x)
	v.RanksVisited = x.Seen
	v.Action = "Add what the ranks have called: a Flight Recorder dump, a RAS report or trace files."
	for i := range x.Ev.Missing {
		m := &x.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	// A quarter: RAS calls that an outlier too, and half of the ranks elsewhere is two phases of a program.
	const outliers = 4
	if len(outside) == 0 || len(inside) < 2 || outliers*len(outside) > len(inside)+len(outside) {
		v.Confidence = 0.2
		v.Summary = "Stacks alone do not name anybody: " + words.Opener(words.Plural(len(inside), "rank")) + " in communication, " + words.Plural(len(outside), "rank") + " elsewhere."
		return v, true
	}
	v.Class, v.Code, v.Cause, v.Confidence = rca.NotEntered, rca.NotEntered.Code(), rca.CauseNotCalled, rca.Round(0.6*(1-0.4*x.Unseen()))
	v.Summary = fmt.Sprintf("%s%s outside communication while %s%s inside and waiting.",
		words.Opener(x.RankList(outside)), is(len(outside)), words.Plural(len(inside), "rank"), is(len(inside)))
	for _, n := range outside {
		c := x.Culprit(n)
		c.Why = "in " + x.Nodes[n].Rank.Stack[len(x.Nodes[n].Rank.Stack)-1]
		v.Culprits = append(v.Culprits, c)
		v.Evidence = append(v.Evidence, fmt.Sprintf("%s is in %s.", words.Opener(x.RankName(n)), x.Nodes[n].Rank.Stack[len(x.Nodes[n].Rank.Stack)-1]))
	}
	v.Contradictions = []string{"A stack is a moment: take another and see whether it is the same."}
	v.Page = x.Opt.Carries(v.Class, v.Confidence)
	return v, true
}

func is(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// communicationFrames are parts of frames in which a rank waits for others.
var communicationFrames = []string{
	"all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all", "alltoall", "barrier", "broadcast",
	"batch_isend_irecv", "irecv", "isend", "distributed_c10d", "nccl", "synchronize", "wait (torch", "c10d",
}

// communicates looks at the innermost frames: every training loop has communication somewhere below.
func communicates(stack []string) bool {
	const inner = 4
	for _, f := range stack[max(0, len(stack)-inner):] {
		f = strings.ToLower(f)
		for _, w := range communicationFrames {
			if strings.Contains(f, w) {
				return true
			}
		}
	}
	return false
}
