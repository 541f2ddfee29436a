// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// scalesOf gives the sizes of job that outcomes are of, and those that the design asks for.
func scalesOf(all []judge.Outcome) []int {
	out := slices.Clone(matrix.Scales)
	for i := range all {
		out = append(out, all[i].Ranks)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ofRanks(all []judge.Outcome, ranks int) []judge.Outcome {
	return filter(all, func(o *judge.Outcome) bool { return o.Ranks == ranks })
}

// notRun lists scales of the design, within bounds, at which nothing that is to be counted was run.
func notRun(counted []judge.Outcome, low, high int) []string {
	var out []string
	for _, n := range matrix.Scales {
		if n >= low && n <= high && len(ofRanks(counted, n)) == 0 {
			out = append(out, fmt.Sprintf("none counted at %s ranks", thousands(n)))
		}
	}
	return out
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// coverage is what was run at which scale.
func (r *Report) coverage() table {
	t := table{
		title: "What was run",
		note: "Every scale that the design asks for, and those between. *Kinds* are of faults that have an effect at some severity; *severities* counts fault and severity together. " +
			"Seconds are of a whole run, beside whatever ran at the same time.",
		head: []string{"ranks", "jobs", "runs", "hangs", "slow", "of them with an effect", "healthy, benign", "kinds", "severities", "seeds", "seconds a run"},
	}
	for _, n := range scalesOf(r.usual()) {
		list := ofRanks(r.usual(), n)
		if len(list) == 0 {
			t.rows = append(t.rows, []string{thousands(n), "", "nothing was run", "", "", "", "", "", "", "", ""})
			continue
		}
		count := func(keep func(*judge.Outcome) bool) string { return strconv.Itoa(len(filter(list, keep))) }
		distinct := func(of []judge.Outcome, key func(*judge.Outcome) string) []string {
			order, _ := groupBy(of, key)
			return order
		}
		faults := filter(list, func(o *judge.Outcome) bool { return !o.Quiet() })
		seconds := 0.0
		for i := range list {
			seconds += list[i].Seconds / float64(len(list))
		}
		t.rows = append(t.rows, []string{
			thousands(n), strings.Join(distinct(list, func(o *judge.Outcome) string { return o.Workload }), ", "), strconv.Itoa(len(list)),
			count(func(o *judge.Outcome) bool { return o.Group == matrix.GroupHang }),
			count(func(o *judge.Outcome) bool { return o.Group == matrix.GroupSlow }),
			count(func(o *judge.Outcome) bool { return o.Group == matrix.GroupSlow && o.Effect }),
			count((*judge.Outcome).Quiet),
			strconv.Itoa(len(distinct(filter(faults, func(o *judge.Outcome) bool { return o.Effect }), func(o *judge.Outcome) string { return o.Scenario }))),
			strconv.Itoa(len(distinct(faults, func(o *judge.Outcome) string { return o.Scenario + "/" + o.Severity }))),
			strconv.Itoa(len(distinct(list, func(o *judge.Outcome) string { return strconv.FormatUint(o.Seed, 10) }))),
			fmt.Sprintf("%.1f", seconds),
		})
	}
	return t
}
