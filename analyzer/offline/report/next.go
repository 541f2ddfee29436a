// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// nextSteps says what a person would do with the verdict.
func nextSteps(r *diagnosis.Result) []string {
	v := r.Verdict
	var out []string
	if v.Action != "" {
		out = append(out, v.Action)
	}
	who := rankList(diagnosis.Accused(v))
	hasStacks := false
	for _, rank := range r.Evidence.Ranks {
		hasStacks = hasStacks || len(rank.Stack) > 0
	}
	switch v.Cause {
	case rca.CauseNotCalled, rca.CauseUnknown, rca.CauseKernelNotRunning, rca.CauseStorage:
		if who != "" && !hasStacks {
			out = append(out, fmt.Sprintf("if the job still hangs, take stacks of %s: py-spy dump --pid PID > stack.txt, and give the file to this command too", who))
		}
	case rca.CauseProcessGone, rca.CauseHostLost, rca.CauseProcessStopped:
		out = append(out, fmt.Sprintf("look at the kernel log and the exit status of %s on its host", who))
	case rca.CauseOtherOp, rca.CauseDeadlock:
		out = append(out, "compare the code paths of the ranks named: the operations or their order differ")
	}
	if v.Class == rca.Unknown {
		out = append(out, unknownSteps(r)...)
	}
	var absent []int
	for _, m := range r.Evidence.Missing {
		if m.What == "rank" {
			absent = append(absent, m.Ranks...)
		}
	}
	if len(absent) > 0 {
		out = append(out, fmt.Sprintf("find what %s left behind (dump, log, exit status): a rank that says nothing is a suspect", rankList(absent)))
	}
	return out
}

func unknownSteps(r *diagnosis.Result) []string {
	var have []string
	for _, s := range r.Sources {
		have = append(have, s.Name)
	}
	out := []string{"add evidence of another kind to what there is (" + strings.Join(have, ", ") + ")"}
	for _, s := range r.Sources {
		if s.Name == "NCCL RAS" && s.Files == 1 {
			out = append(out, "take a second RAS report some seconds later and give both: counts that still move are no hang")
		}
	}
	return out
}
