// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// The job's own past says by how much it is slower, whatever the finished work that was read shows. An answer has to account for that.

// leastOwed is the least part of a job's slowdown that an explanation has to account for, as far as the replay can tell.
const leastOwed = 0.5

// owes says that the job is slower than in its past, and by how much.
func (a *slowAnalysis) owes() (times float64, ok bool) {
	return a.Ev.Slowdown, a.Ev.Slowdown >= a.Opt.IrregularFactor
}

// fallsShort says that an explanation accounts for little of the slowdown, while most of the work that could account for the rest is not
// seen.
func (a *slowAnalysis) fallsShort(f *finding) bool {
	times, ok := a.owes()
	return ok && a.startsUnseen() && f.gain-1 < leastOwed*(times-1)
}

// unexplained is what is said of a job that is slower than in its past where nothing that was seen shows why.
func (a *slowAnalysis) unexplained(v *rca.Verdict, times float64) {
	v.Class, v.Confidence = rca.Unknown, 0.3
	v.Summary = fmt.Sprintf(words.SlowerThanHealthy, times)
	if limits := a.limits(); len(limits) > 0 {
		v.Summary = strings.TrimSuffix(v.Summary, ".") + ": " + strings.Join(limits, "; ") + "."
	}
	v.Ask = a.unseenPartners()
}
