// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// hypotheses are the explanations that the engine weighed against each other.
type hypotheses struct {
	Effect string // What the column of effects is called.
	Rows   []hypothesis
}

type hypothesis struct {
	Who, What, Weight, Effect, Outcome, Reason string
	Chosen                                     bool
}

func newHypotheses(v *rca.Verdict) *hypotheses {
	if len(v.Hypotheses) == 0 {
		return nil
	}
	out := &hypotheses{Effect: "Ranks that wait for it"}
	for i := range v.Hypotheses {
		h := &v.Hypotheses[i]
		row := hypothesis{
			Who: words.Opener(named(h.Ranks, 0)), What: string(h.Class) + ", " + string(h.Cause), Weight: fmt.Sprintf("%.2f", h.Weight), Effect: count(h.Explains), Chosen: h.Chosen,
			Outcome: "set aside", Reason: h.Reason,
		}
		if len(h.Ranks) == 0 {
			row.Who = h.Group
		} else if h.Group != "" {
			row.Who += ", " + h.Group
		}
		if h.Saves > 0 {
			out.Effect, row.Effect = "Change of an iteration without it", "−"+percent(h.Saves)
		}
		switch {
		case !h.Chosen:
		case v.Class == rca.Unknown:
			row.Outcome = "suspected"
		case v.Class == rca.Benign:
			row.Outcome = "the reason, nothing is broken"
		default:
			row.Outcome = "to blame"
			if v.Class == rca.Imbalance || v.Class == rca.GlobalSlow {
				row.Outcome = "the reason, no machine is bad"
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
