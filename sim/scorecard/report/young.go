// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// young sets jobs that stop in their first half minute beside the same jobs, minutes old: empty without any.
func (r *Report) young() []table {
	if len(r.Young) == 0 {
		return nil
	}
	names, _ := groupBy(r.Young, func(o *judge.Outcome) string { return o.Workload })
	t := table{
		title: "Young jobs",
		note: "Jobs of " + levelNames(names) + " that stop 25 to 30 s after their start, and the same faults two minutes later, as every other table has them. In the first minute no rate has a past, and the look at each new job is still to come or open; " +
			"no trigger tells of a fault while an incident is open. Seconds are from the fault: p50 / p90 / max.",
		head: []string{"level", "age", "hangs", "right", "unknown", "an innocent", "told", "told of", "named"},
	}
	settled := filter(r.Outcomes, func(o *judge.Outcome) bool { return o.Group == r.Young[0].Group && o.Workload == r.Young[0].Workload })
	for _, level := range cluster.Levels {
		if !slices.ContainsFunc(r.Young, func(o judge.Outcome) bool { return o.Level == string(level) }) {
			continue
		}
		for _, age := range []struct {
			name string
			of   []judge.Outcome
		}{{"young", r.Young}, {"settled", settled}} {
			list := filter(age.of, func(o *judge.Outcome) bool { return o.Level == string(level) && o.Effect })
			told := filter(list, (*judge.Outcome).ToldAnew)
			named := filter(list, func(o *judge.Outcome) bool { return o.Triggered && o.Accuses() })
			t.rows = append(t.rows, []string{
				string(level), age.name, strconv.Itoa(len(list)),
				share(list, func(o *judge.Outcome) bool { return o.Right && !o.False }).Short(),
				share(list, func(o *judge.Outcome) bool { return o.Unknown }).Short(),
				share(list, func(o *judge.Outcome) bool { return o.False }).Short(),
				spread(told, func(o *judge.Outcome) float64 { return o.Told }), strconv.Itoa(len(told)),
				spread(named, func(o *judge.Outcome) float64 { return o.Latency + o.AnalysisMS/1000 }),
			})
		}
	}
	return []table{t}
}
