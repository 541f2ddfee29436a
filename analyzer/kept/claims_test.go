// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"strings"
	"testing"
	"time"

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

// Where the evidence may be another's, it does not show that the job is well: somebody is told, once the trouble has lasted. An accusation
// stands, and what is in conflict is listed once.
func TestConflictIsNoAllClear(t *testing.T) {
	c := Context{Conflict: "users 1001 and 1002 run processes of this name", Claims: []string{"claim job x: users 1001 and 1002"}, Told: 10 * time.Second, Patient: true, Patience: 30 * time.Second}
	for _, class := range []rca.Class{rca.Healthy, rca.Unknown, rca.Benign} {
		v := rca.Verdict{Class: class, Summary: "Nothing was seen."}
		c.Apply(&v)
		c.Apply(&v)
		if v.Class != rca.Unknown || v.Page || v.PageIn != 20 || !strings.Contains(v.Summary, c.Conflict) || len(v.Missing) != 1 {
			t.Errorf("%s becomes %+v", class, v)
		}
		late := c
		late.Told = time.Minute
		v = rca.Verdict{Class: class}
		if late.Apply(&v); !v.Page || v.PageIn != 0 {
			t.Errorf("after a minute %s becomes %+v", class, v)
		}
	}
	named := rca.Verdict{Class: rca.Fault, Cause: rca.CauseGPU, Confidence: 0.9, Page: true, Culprits: []rca.Culprit{{Rank: 3}}}
	if c.Apply(&named); named.Class != rca.Fault || !named.Page || len(named.Culprits) != 1 || len(named.Missing) != 1 {
		t.Errorf("an accusation becomes %+v", named)
	}
	slow := rca.Verdict{Class: rca.GlobalSlow}
	if c.Apply(&slow); slow.Class != rca.GlobalSlow || slow.Page {
		t.Errorf("slowness of all becomes %+v", slow)
	}
	calm := rca.Verdict{Class: rca.Healthy}
	if (&Context{}).Apply(&calm); calm.Class != rca.Healthy || calm.Page || len(calm.Missing) != 0 {
		t.Errorf("without a conflict: %+v", calm)
	}
}
