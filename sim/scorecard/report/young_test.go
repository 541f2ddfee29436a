// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// TestYoung: jobs that stop in their first half minute count in a table of their own, beside the settled ones of the same workload.
func TestYoung(t *testing.T) {
	run := func(young, right bool, workload string, told float64) judge.Outcome {
		o := judge.Outcome{
			Name: workload, Group: "hang", Workload: workload, Level: "kernels", Young: young, Effect: true, Triggered: true, Told: told, Latency: told,
			TruthClass: "fault", TruthRanks: []int{3}, Judgement: judge.Judgement{Right: right, Top1: right, False: !right},
		}
		o.Class, o.Culprits = "fault", []int{3}
		return o
	}
	r := New("quick", 1, "", "", time.Time{}, 0, []judge.Outcome{
		run(false, true, "gpt-32", 6), run(false, true, "gpt-64", 90), run(true, true, "gpt-32", 2), run(true, false, "gpt-32", 4),
	})
	if len(r.Outcomes) != 2 || r.Summary.Hang.Runs != 2 || r.Summary.Young.Hits != 1 || r.Summary.YoungInnocent.Hits != 1 {
		t.Errorf("%d runs, %d hangs in the headline, young %+v, of them an innocent %+v; want 2, 2, 1 of 2 and 1 of 2",
			len(r.Outcomes), r.Summary.Hang.Runs, r.Summary.Young, r.Summary.YoungInnocent)
	}
	want := [][]string{
		{"kernels", "young", "2", "50% of 2", "0% of 2", "50% of 2", "2.0 / 4.0 / 4.0 s", "2", "2.0 / 4.0 / 4.0 s"},
		{"kernels", "settled", "1", "100% of 1", "0% of 1", "0% of 1", "6.0 / 6.0 / 6.0 s", "1", "6.0 / 6.0 / 6.0 s"},
	}
	tables := r.young()
	if len(tables) != 1 || len(tables[0].rows) < 2 || !slices.EqualFunc(tables[0].rows[:2], want, slices.Equal[[]string]) {
		t.Errorf("tables %v, want rows %v first", tables, want)
	}
}
