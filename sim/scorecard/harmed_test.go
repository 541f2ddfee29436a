// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

func TestFates(t *testing.T) {
	truth := &cluster.Answer{Hang: true, Truths: []cluster.Truth{{Class: "fault", Classes: []string{"fault"}, Causes: []string{"gpu"}, Component: "gpu", Ranks: []int{5}}}}
	quiet := &cluster.Answer{}
	named := func(class rca.Class, ranks ...int) rca.Verdict {
		v := rca.Verdict{Class: class, Cause: rca.CauseGPU}
		for _, r := range ranks {
			v.Culprits = append(v.Culprits, rca.Culprit{Rank: r})
		}
		return v
	}
	lost := named(rca.Fault, 4, 5, 6, 7)
	for i := range lost.Culprits {
		lost.Culprits[i].Group = "node-0001"
	}
	other := named(rca.Fault, 0, 1, 2, 3)
	for i := range other.Culprits {
		other.Culprits[i].Group = "node-0000"
	}
	group := rca.Verdict{Class: rca.Fault, Culprits: []rca.Culprit{{Rank: -1, Group: "ranks 5, 6"}}}
	for name, c := range map[string]struct {
		v      rca.Verdict
		answer *cluster.Answer
		liar   string
		want   string
	}{
		"right":                  {named(rca.Fault, 5), truth, "", fateRight},
		"wrong class":            {named(rca.NotEntered, 5), truth, "", fateWider},
		"group":                  {group, truth, "", fateWider},
		"its silent host":        {lost, truth, "", fateWider},
		"another silent host":    {other, truth, "", fateInnocent},
		"unknown":                {rca.Verdict{Class: rca.Unknown}, truth, "", fateUnknown},
		"healthy":                {rca.Verdict{Class: rca.Healthy}, truth, "", fateMissed},
		"innocent":               {named(rca.Fault, 9), truth, "", fateInnocent},
		"beside the culprit":     {named(rca.Fault, 5, 9), truth, "", fateInnocent},
		"the liar":               {named(rca.Fault, 9), truth, "node-0002", fateLiar},
		"the liar and another":   {named(rca.Fault, 9, 0), truth, "node-0002", fateInnocent},
		"the liar's culprit":     {named(rca.Fault, 5), truth, "node-0001", fateRight},
		"both who disagree":      {named(rca.Inconsistent, 1, 5), truth, "", fateWider},
		"nobody to accuse":       {named(rca.Fault, 5), quiet, "", fateInnocent},
		"rightly nobody":         {rca.Verdict{Class: rca.Healthy}, quiet, "", fateRight},
		"unknown, nothing paged": {rca.Verdict{Class: rca.Unknown}, quiet, "", fateRight},
	} {
		got := judgeHarmed("liar", c.liar, &c.v, c.answer, true, fours(12))
		if got.fate() != c.want {
			t.Errorf("%s: %s, want %s (%+v)", name, got.fate(), c.want, got.Judgement)
		}
	}
}
