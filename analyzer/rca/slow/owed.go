// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// The job's own past says by how much it is slower, whatever the finished work that was read shows. An answer has to account for that. Of a
// job that has no past nobody knows whether it is slow at all.

// owes says that the job is slower than in its past, and by how much.
func (a *analysis) owes() (times float64, ok bool) {
	return a.Ev.Slowdown, a.Ev.Slowdown >= a.Opt.IrregularFactor
}

// fallsShort says that an explanation accounts for little of the slowdown, while most of the work that could account for the rest is not
// seen.
func (a *analysis) fallsShort(f *finding) bool {
	times, ok := a.owes()
	return ok && a.startsUnseen() && f.gain-1 < leastOwed*(times-1)
}

// unexplained is what is said of a job that is slower than in its past where nothing that was seen shows why.
func (a *analysis) unexplained(v *rca.Verdict, times float64) {
	v.Class, v.Confidence = rca.Unknown, unknownWeight
	v.Summary = fmt.Sprintf(words.SlowerThanHealthy, times)
	if limits := a.limits(); len(limits) > 0 {
		v.Summary = strings.TrimSuffix(v.Summary, ".") + ": " + strings.Join(limits, "; ") + "."
	}
	v.Ask = a.unseenPartners()
}

// unproven says that a place in the network differs from others by no more than places do, that the job is not known to have been
// faster, and that the place's node complains of nothing.
func (a *analysis) unproven(f *finding) bool {
	_, slower := a.owes()
	return f.class == rca.SlowComm && f.times > 0 && f.times < leastTimes && a.past == nil && !slower && !a.anySick(f.nodes)
}

func (a *analysis) verdictWithoutPast(v rca.Verdict, f *finding) rca.Verdict {
	who := f.group
	if len(f.nodes) > 0 {
		who = words.RankNumbers(a.IDs(f.nodes))
	}
	v.Class, v.Confidence, v.Slowdown = rca.Unknown, unknownWeight, rca.Round(f.gain)
	v.Culprits = []rca.Culprit{{Rank: -1, Channel: f.lane, Group: "suspects: " + who, Why: f.what}}
	v.Summary = a.slowSentence(f) + words.NeverFaster
	v.Action = words.CompareRuns
	return v
}
