// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestProcessOfSeveralRanksStops: a signal stops a whole process, whatever each of its threads was doing. Some of its ranks are
// then inside an operation and others are not. They are reported together and alike, so that one alert names all of them.
func TestProcessOfSeveralRanksStops(t *testing.T) {
	for state, cause := range map[rca.ProcessState]rca.Cause{rca.ProcessStopped: rca.CauseProcessStopped, rca.ProcessGone: rca.CauseProcessGone} {
		j := newHungJob(8).comm("dp", 0, 1, 2, 3, 4, 5, 6, 7).comm("tp", 4, 5, 6, 7)
		for r := range 8 {
			j.rank(r).Host, j.rank(r).PID = "node0", 100
			if r >= 4 {
				j.rank(r).Host, j.rank(r).PID, j.rank(r).State = "node1", 200, state
			}
		}
		j.in("dp", "AllReduce", []int{0, 1, 2, 3}).in("tp", "AllReduce", []int{4, 5, 6})
		v := j.verdict()
		if v.Cause != cause || !slices.Equal(rcatest.CulpritRanks(v), []int{4, 5, 6, 7}) || !v.Page {
			t.Fatalf("%s %v: %s", v.Cause, rcatest.CulpritRanks(v), v.Summary)
		}
		for _, c := range v.Culprits {
			if c.Class != "" && c.Class != v.Class {
				t.Errorf("rank %d is told apart, as %s beside %s: %s", c.Rank, c.Class, v.Class, v.Summary)
			}
		}
		if !strings.HasPrefix(v.Summary, "Ranks 4, 5, 6 and 7 (node1, process 200): their process") {
			t.Errorf("the process is not named: %s", v.Summary)
		}
	}
}
