// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// secondOpinions lists the runs in which no paper's method names anybody whom the engine names, although at least two of them name
// somebody.
func (r *Report) secondOpinions() table {
	t := table{
		title: "Where the engine and every paper's method disagree",
		note:  "Runs in which two or more of the papers' methods name a rank, and the engine names none of those. The last column says who was right.",
		head:  []string{"run", "truth", "verdict", "the methods", "right"},
	}
	runs := filter(r.effective(), func(o *judge.Outcome) bool { return len(dissent(o)) > 0 })
	for i := range runs {
		o := &runs[i]
		if i == maxFailures {
			t.rows = append(t.rows, []string{fmt.Sprintf("and %d more: see the JSON", len(runs)-i), "", "", "", ""})
			break
		}
		named := dissent(o)
		said := make([]string, len(named))
		method := false
		for k, name := range named {
			said[k] = fmt.Sprintf("%s: %d", name, o.Methods[name].Rank)
			method = method || o.Methods[name].Right
		}
		t.rows = append(t.rows, []string{
			o.Name, fmt.Sprintf("%s %v", o.TruthClass, judge.Short(o.TruthRanks)), fmt.Sprintf("%s/%s %v", o.Class, o.Cause, judge.Short(o.Culprits)),
			strings.Join(said, ", "), who(o.Right, method),
		})
	}
	return t
}

// dissent gives the papers' methods that name somebody, where there are several and the engine names none of those.
func dissent(o *judge.Outcome) []string {
	var named []string
	for _, m := range baseline.Methods {
		g, asked := o.Methods[m.Name]
		if !asked || !m.Paper || g.Rank < 0 {
			continue
		}
		if slices.Contains(o.Culprits, g.Rank) {
			return nil
		}
		named = append(named, m.Name)
	}
	if len(named) < 2 {
		return nil
	}
	return named
}

// who says which of the two was right.
func who(engine, method bool) string {
	switch {
	case engine && method:
		return "both"
	case engine:
		return "the engine"
	case method:
		return "a method"
	}
	return "none"
}
