// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Analyze explains a job that stands still. ok is false when nothing does.
func Analyze(x *job.Index) (v rca.Verdict, ok bool) {
	if x.DiedTogether() {
		return diedTogether(x), true
	}
	w := buildWaitFor(x)
	if len(w.stuck) == 0 {
		return w.nobodyStuck()
	}
	d := w.choose(w.candidates())
	moving := len(d.chosen) > 0 && !slices.ContainsFunc(d.chosen, func(c candidate) bool { return c.kind != kindMoving })
	if moving && len(x.Ev.Timeline) > 0 {
		return rca.Verdict{}, false // The ranks that others wait for make progress: the job is slow, not hung.
	}
	v = w.compose(&d)
	if v.Moving = moving; moving {
		v.Standstill = 0
	}
	return v, true
}

// diedTogether is the verdict on a job of which all processes died at once, with nothing before it.
func diedTogether(x *job.Index) rca.Verdict {
	v := job.NewVerdict(x)
	v.RanksVisited = x.Seen
	v.Confidence = groupWeight
	v.Summary = fmt.Sprintf(words.DiedTogether, x.Seen)
	v.Action = words.ReadLauncher
	return v
}

// nobodyStuck looks at processes alone: one that died while others live is a culprit before anybody waits for it.
func (w *waitFor) nobodyStuck() (rca.Verdict, bool) {
	d := decision{chosen: w.dead()}
	switch {
	case len(d.chosen) > 0:
		d.dist = make([]int32, w.n)
		d.covered = 1
		v := w.compose(&d)
		return v, true
	case w.jobEnding():
		v := job.NewVerdict(w.Index)
		v.Class, v.Cause, v.Confidence = rca.Benign, rca.CauseJobEnd, jobEnds.weight
		v.Summary = words.JobEnds
		v.Action = rca.ActionFor(rca.Benign, rca.CauseJobEnd)
		return v, true
	}
	return rca.Verdict{}, false
}
