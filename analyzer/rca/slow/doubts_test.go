// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// TestAccountsForTheSlowdown: a job that is slower than its own past is not well because nobody stands out in what was read, and where
// kernels are not seen, somebody whose removal would win back little of it is a suspect and no culprit.
func TestAccountsForTheSlowdown(t *testing.T) {
	for _, c := range []struct {
		name     string
		compute  float64 // Of rank 5, against the others.
		kernels  bool
		slowdown float64
		class    rca.Class
		accused  []int
	}{
		{"nobody, no past known", 1, true, 0, rca.Healthy, nil},
		{"nobody, as fast as before", 1, true, 1.02, rca.Healthy, nil},
		{"nobody, slower than before", 1, true, 1.4, rca.Unknown, nil},
		{"somebody who accounts for it", 1.6, false, 1.5, rca.SlowCompute, []int{5}},
		{"somebody who accounts for little", 1.6, false, 4, rca.Unknown, nil},
		{"somebody whose kernels show it", 1.6, true, 4, rca.SlowCompute, []int{5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(8, 1, 1)
			j.Compute = rcatest.One(5, c.compute)
			ev := j.Evidence()
			ev.Slowdown = c.slowdown
			for i := range ev.Ranks {
				if !c.kernels {
					ev.Ranks[i].Caps &^= rca.SeesKernels
				}
			}
			v := verdictOf(ev, rca.Options{})
			if v.Class != c.class || !slices.Equal(rcatest.Accused(v), c.accused) || v.Page != (c.accused != nil) {
				t.Errorf("%s/%s accuses %v, page %v: %s", v.Class, v.Cause, rcatest.Accused(v), v.Page, v.Summary)
			}
		})
	}
}

// TestWhatToWaitFor: where hosts did not tell what their ranks did in time, more of the job does not help.
func TestWhatToWaitFor(t *testing.T) {
	j := rcatest.NewSlowJob(4, 1, 2)
	j.Iters = 8
	j.Compute = func(_, it int) float64 { return pick(it == 6, 2, 1.0) }
	ev := j.Evidence()
	if v := verdictOf(ev, rca.Options{}); v.Action != words.LookLater {
		t.Errorf("%s: %s", v.Row, v.Action)
	}
	ev.Missing = append(ev.Missing, rca.Missing{What: "history", Name: "node9", Why: "no answer in time"})
	if v := verdictOf(ev, rca.Options{}); v.Action != words.HistoriesLate {
		t.Errorf("%s: %s", v.Row, v.Action)
	}
}
