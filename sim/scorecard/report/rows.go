// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// rowTable says how often each row of the engine's tables decided a verdict, and how often that was right: a row that never decides
// anything, or is mostly wrong, has to be asked what it is for.
func (r *Report) rowTable() table {
	t := table{
		title: "By row of the engine's tables",
		note: "The row that a verdict rests on (`--explain` prints it; docs/rca.md has the tables), at all levels of evidence, drawn jobs included. *Right* as in the headline; of quiet runs, that nobody is accused or paged. " +
			"Under harm each moment counts once for every harm done to it.",
		head: []string{"row", "runs", "right", "unknown", "an innocent", "under harm", "right", "unknown", "an innocent"},
	}
	clean, harmed := map[string][]judge.Outcome{}, map[string][]judge.Outcome{}
	var rows []string
	add := func(to map[string][]judge.Outcome, list []judge.Outcome) {
		for i := range list {
			row := list[i].Row
			if row == "" {
				continue // Nobody was asked.
			}
			if clean[row] == nil && harmed[row] == nil {
				rows = append(rows, row)
			}
			to[row] = append(to[row], list[i])
		}
	}
	add(clean, r.Outcomes)
	add(harmed, asOutcomes(r.Outcomes))
	slices.Sort(rows)
	for _, row := range rows {
		cells := []string{row}
		for _, list := range [][]judge.Outcome{clean[row], harmed[row]} {
			cells = append(cells, strconv.Itoa(len(list)))
			for _, holds := range []func(*judge.Outcome) bool{
				func(o *judge.Outcome) bool { return o.Right && !o.False },
				func(o *judge.Outcome) bool { return o.Unknown },
				func(o *judge.Outcome) bool { return o.False },
			} {
				cells = append(cells, strconv.Itoa(share(list, holds).Hits))
			}
		}
		t.rows = append(t.rows, cells)
	}
	return t
}
