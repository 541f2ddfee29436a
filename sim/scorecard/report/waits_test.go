// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// TestWaits: runs at other scrape intervals count in the table of what a person waits for, beside those of the matrix on the same jobs,
// and nowhere else.
func TestWaits(t *testing.T) {
	run := func(scrape, told, paged float64, workload string) judge.Outcome {
		o := judge.Outcome{
			Name: workload, Group: "slow", Workload: workload, Level: "kernels", Scrape: scrape, Effect: true, Triggered: true,
			Told: told, Latency: told, Paged: paged, TruthClass: "slow_compute", TruthRanks: []int{3}, Judgement: judge.Judgement{Right: true, Top1: true},
		}
		o.Class, o.Culprits = "slow_compute", []int{3}
		return o
	}
	open := run(1, 0, 0, "gpt-32") // An incident was open before the fault: no trigger tells of it.
	open.Latency = 2
	r := New("full", 1, "", "", time.Time{}, 0, []judge.Outcome{run(0, 9, 20, "gpt-32"), run(0, 90, 0, "gpt-64"), run(1, 7, 12, "gpt-32"), run(1, 11, 0, "gpt-32"), open})
	if len(r.Outcomes) != 2 || len(r.Scraped) != 3 || r.Summary.Slow.Runs != 2 {
		t.Errorf("%d runs of the matrix, %d at other intervals, %d in the headline; want 2, 3 and 2", len(r.Outcomes), len(r.Scraped), r.Summary.Slow.Runs)
	}
	want := [][]string{
		{"1 s", "kernels", "slow_compute", "100% of 3", "7.0 / 11.0 / 11.0 s", "2", "7.0 / 11.0 / 11.0 s", "12.0 / 12.0 / 12.0 s", "1"},
		{"5 s", "kernels", "slow_compute", "100% of 1", "9.0 / 9.0 / 9.0 s", "1", "9.0 / 9.0 / 9.0 s", "20.0 / 20.0 / 20.0 s", "1"},
	}
	tables := r.waits()
	if len(tables) != 1 || !slices.EqualFunc(tables[0].rows, want, slices.Equal[[]string]) {
		t.Errorf("tables %v, want rows %v", tables, want)
	}
}
