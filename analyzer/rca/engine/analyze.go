// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is the root-cause analysis as a whole: evidence in, calibrated verdict out.
package engine

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/hang"
	"github.com/culprit-project/culprit/analyzer/rca/holmes"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/slow"
)

// Analyze finds the culprit in the evidence. It is pure and deterministic: the same evidence and options give the same
// verdict, byte for byte, whatever the order of ranks and communicators in the evidence.
func Analyze(ev rca.Evidence, opt rca.Options) rca.Verdict {
	v := analyze(ev, opt)
	rca.Calibrate(&v)
	return v
}

func analyze(ev rca.Evidence, opt rca.Options) rca.Verdict {
	x := job.NewIndex(&ev, opt.WithDefaults())
	if v, ok := hang.Analyze(x); ok {
		return v
	}
	if v, ok := slow.Analyze(x); ok {
		return v
	}
	if v, ok := launchVerdict(x); ok {
		return v
	}
	if v, ok := stackVerdict(x); ok {
		return v
	}
	v := job.NewVerdict(x)
	if x.Seen == 0 || silent(x.Ev) {
		v.Summary = "Nothing was seen of the job: the evidence does not carry a name."
		v.Action = rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		return v
	}
	if ev.PastAsked {
		v.Confidence = 0.3
		v.Summary = "No rank stands still, and no finished work was seen that would tell who is slow."
		v.Action = rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		return v
	}
	if n := x.World - x.Seen; x.Opt.Incident && (n > 0 || x.Lossy() > 0) {
		v.Confidence = 0.2
		v.Summary = "No rank of those seen stands still, " + pick(n > 0, fmt.Sprintf("but of %d of %d nothing is known.", n, x.World), "but what they show is not whole.")
		v.Action = rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		return v
	}
	if blind(x) {
		v.Summary = "No rank has called anything for a while, and whether what they have called goes on is not seen: nothing tells of its end."
		v.Action = rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		v.Confidence = 0.1
		return v
	}
	v.Class, v.Confidence = rca.Healthy, rca.Round(0.9*(1-0.4*x.Unseen()))
	v.Summary = "No rank stands still."
	return v
}

// Operators gives the finished operations of the evidence as Holmes' operator log (H1): what a model of abnormal operators is
// trained from.
func Operators(ev rca.Evidence, opt rca.Options) []holmes.Operator {
	return slow.Operators(job.NewIndex(&ev, opt.WithDefaults()))
}

// blind says that ranks have operations in flight of which nothing would tell the end, no others, and call nothing any more:
// whether they stand still cannot be told.
func blind(x *job.Index) bool {
	some := false
	for i := range x.Ev.Ranks {
		for k := range x.Ev.Ranks[i].Memberships {
			m := &x.Ev.Ranks[i].Memberships[k]
			if m.SinceCalled > 0 && m.SinceCalled < x.Opt.HangAfter {
				return false
			}
			for o := range m.InFlight {
				if !m.InFlight[o].NoCompletion {
					return false
				}
				some = true
			}
		}
	}
	return some
}

// silent says whether the evidence holds no more than that there are ranks: sources of finished work in which nothing
// could be compared.
func silent(ev *rca.Evidence) bool {
	if len(ev.Timeline) > 0 {
		return false
	}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if len(r.Memberships) > 0 || r.State != rca.ProcessUnknown || len(r.Stack) > 0 || r.Caps&(rca.SeesProcess|rca.SeesCalls) != 0 {
			return false
		}
	}
	return true
}

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}
