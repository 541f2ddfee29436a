// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// Analyze finds the culprit in the evidence. It is pure and deterministic: the same evidence and options give the same
// verdict, byte for byte, whatever the order of ranks and communicators in the evidence.
func Analyze(ev Evidence, opt Options) Verdict {
	v := analyze(ev, opt)
	calibrate(&v)
	return v
}

func analyze(ev Evidence, opt Options) Verdict {
	x := newIndex(&ev, opt.withDefaults())
	if v, ok := hangVerdict(x); ok {
		return v
	}
	if v, ok := slowVerdict(x); ok {
		return v
	}
	if v, ok := launchVerdict(x); ok {
		return v
	}
	if v, ok := stackVerdict(x); ok {
		return v
	}
	v := newVerdict(x)
	if x.seen == 0 || silent(x.ev) {
		v.Summary = "Nothing was seen of the job: the evidence does not carry a name."
		v.Action = actionFor(Unknown, CauseUnknown)
		return v
	}
	v.Class, v.Confidence = Healthy, round(0.9*(1-0.4*x.unseen()))
	v.Summary = "No rank stands still."
	return v
}

// silent says whether the evidence holds no more than that there are ranks: sources of finished work in which nothing
// could be compared.
func silent(ev *Evidence) bool {
	if len(ev.Timeline) > 0 {
		return false
	}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		if len(r.Memberships) > 0 || r.State != ProcessUnknown || len(r.Stack) > 0 || r.Caps&(SeesProcess|SeesCalls) != 0 {
			return false
		}
	}
	return true
}
