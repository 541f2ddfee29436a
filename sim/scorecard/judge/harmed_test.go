// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package judge

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
		"right":                  {named(rca.Fault, 5), truth, "", FateRight},
		"wrong class":            {named(rca.NotEntered, 5), truth, "", FateWider},
		"group":                  {group, truth, "", FateWider},
		"its silent host":        {lost, truth, "", FateWider},
		"another silent host":    {other, truth, "", FateInnocent},
		"unknown":                {rca.Verdict{Class: rca.Unknown}, truth, "", FateUnknown},
		"healthy":                {rca.Verdict{Class: rca.Healthy}, truth, "", FateMissed},
		"innocent":               {named(rca.Fault, 9), truth, "", FateInnocent},
		"beside the culprit":     {named(rca.Fault, 5, 9), truth, "", FateInnocent},
		"the liar":               {named(rca.Fault, 9), truth, "node-0002", FateLiar},
		"the liar and another":   {named(rca.Fault, 9, 0), truth, "node-0002", FateInnocent},
		"the liar's culprit":     {named(rca.Fault, 5), truth, "node-0001", FateRight},
		"both who disagree":      {named(rca.Inconsistent, 1, 5), truth, "", FateWider},
		"nobody to accuse":       {named(rca.Fault, 5), quiet, "", FateInnocent},
		"rightly nobody":         {rca.Verdict{Class: rca.Healthy}, quiet, "", FateRight},
		"unknown, nothing paged": {rca.Verdict{Class: rca.Unknown}, quiet, "", FateRight},
	} {
		got := JudgeHarmed("liar", c.liar, &c.v, c.answer, true, fours(12))
		if got.Fate() != c.want {
			t.Errorf("%s: %s, want %s (%+v)", name, got.Fate(), c.want, got.Judgement)
		}
	}
}
