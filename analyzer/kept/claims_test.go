// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestDisputedRanksAreNotNamed(t *testing.T) {
	c := Context{Disputed: map[int]string{5: "processes on a and b claim to be it"}}
	accuse := func(ranks ...int) *rca.Verdict {
		v := &rca.Verdict{Class: rca.NotEntered, Cause: rca.CauseProcessGone, Confidence: 0.9, Page: true, Summary: "All wait."}
		for _, r := range ranks {
			v.Culprits = append(v.Culprits, rca.Culprit{Rank: r})
		}
		return v
	}
	if v := accuse(4); true {
		c.Name(v)
		if len(v.Culprits) != 1 || v.Class != rca.NotEntered {
			t.Errorf("an undisputed rank is not named: %+v", v)
		}
	}
	if v := accuse(4, 5); true {
		c.Name(v)
		if len(v.Culprits) != 1 || v.Culprits[0].Rank != 4 || v.Class != rca.NotEntered {
			t.Errorf("of two: %+v", v)
		}
	}
	if v := accuse(5); true {
		c.Name(v)
		if len(v.Culprits) != 0 || v.Class != rca.Unknown || !strings.Contains(v.Summary, "processes on a and b claim to be it") {
			t.Errorf("a disputed rank: %+v", v)
		}
	}
}
