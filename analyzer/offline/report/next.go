// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// nextSteps says what a person would do with the verdict.
func nextSteps(r *diagnosis.Result) []string {
	v := r.Verdict
	var out []string
	if v.Action != "" {
		out = append(out, v.Action)
	}
	if told.Best(&v) {
		return out // The advice fits the message, and the job has ended, as a rule.
	}
	accused := diagnosis.Accused(v)
	who := rankList(accused)
	switch v.Cause {
	case rca.CauseNotCalled, rca.CauseUnknown, rca.CauseKernelNotRunning, rca.CauseStorage:
		if who != "" && !haveStacks(r, accused) {
			out = append(out, fmt.Sprintf("if the job still hangs, take stacks of %s and give them to this command too: %s", who, TakeStacks))
		}
	case rca.CauseProcessGone, rca.CauseHostLost, rca.CauseProcessStopped:
		if who != "" {
			out = append(out, fmt.Sprintf("give the kernel log of %s's host to this command too, and look at the exit status: dmesg -T > dmesg.txt", who))
		}
	}
	if v.Class == rca.Unknown {
		out = append(out, unknownSteps(r)...)
	}
	var absent []int
	for _, m := range r.Evidence.Missing {
		if m.What == "rank" && !haveStacks(r, m.Ranks) {
			absent = append(absent, m.Ranks...)
		}
	}
	if len(absent) > 0 && v.Cause != rca.CauseException && v.Cause != rca.CauseProcessGone && v.Class != rca.Inconsistent {
		out = append(out, fmt.Sprintf("find what %s left behind (dump, log, exit status): a rank that says nothing is a suspect", rankList(absent)))
	}
	return out
}

// ended reports whether the job is over, as far as its files show: a watchdog that had a timeout ends its process, and so do
// exceptions. Stacks and reports of NCCL are taken while it runs.
func ended(r *diagnosis.Result) bool {
	over := false
	for i := range r.Sources {
		s := &r.Sources[i]
		switch s.Name {
		case "stacks", "NCCL RAS", "traces":
			return false
		case "job log":
			over = over || len(s.Findings) > 0 || slices.ContainsFunc(s.Evidence.Ranks, func(k rca.Rank) bool {
				return k.State == rca.ProcessGone || slices.ContainsFunc(k.Memberships, func(m rca.Membership) bool {
					return slices.ContainsFunc(m.InFlight, func(o rca.Op) bool { return o.Age > 0 })
				})
			})
		}
	}
	return over
}

// haveStacks says that the stacks of all these ranks were given.
func haveStacks(r *diagnosis.Result, ranks []int) bool {
	have := map[int]bool{}
	for _, rank := range r.Evidence.Ranks {
		have[rank.ID] = len(rank.Stack) > 0
	}
	for _, rank := range ranks {
		if !have[rank] {
			return false
		}
	}
	return true
}

// Commands that take evidence, for people who have none of it yet.
const (
	TakeStacks = "mkdir -p stacks; for p in $(pgrep -f train.py); do py-spy dump --subprocesses --pid $p > stacks/$p.txt; done"
	takeDumps  = "start the job with TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 and give /tmp/nccl_trace_rank_* of all ranks"
	takeRAS    = "ncclras -v > ras.txt on the node of any rank"
)

// unknownSteps says which evidence is lacking, and how to get it. What was given already is not asked for again.
func unknownSteps(r *diagnosis.Result) []string {
	have := map[string]bool{}
	for _, s := range r.Sources {
		have[s.Name] = true
	}
	var out []string
	timed := have["op table"] || have["Chrome traces"] || have["NCCL Inspector"] || have["flows"] // Of jobs that get on, or with advice of their own.
	switch {
	case have["stacks"] || len(have) == 0 || timed:
	case ended(r):
		out = append(out, "if it hangs again, take stacks of all ranks before a timeout ends it: "+TakeStacks)
	default:
		out = append(out, "while the job hangs, take stacks of all ranks: "+TakeStacks)
	}
	if !have["Flight Recorder"] && !have["traces"] && (have["job log"] || have["stacks"] || have["NCCL RAS"]) {
		out = append(out, "for the next time, record what ranks call: "+takeDumps)
	}
	if have["stacks"] && !have["NCCL RAS"] && !have["job log"] && !have["Flight Recorder"] {
		out = append(out, "while the job hangs, ask NCCL (2.24 and newer) how far each rank is: "+takeRAS)
	}
	if !have["job log"] && have["Flight Recorder"] {
		out = append(out, "give the job's log, too: it tells how processes ended and what each waited in")
	}
	return out
}
