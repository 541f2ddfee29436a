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
		h := hurt{harm: "liar", liar: c.liar, verdict: c.v}
		got := h.judged(c.answer, true, fours(12))
		if got.fate() != c.want {
			t.Errorf("%s: %s, want %s (%+v)", name, got.fate(), c.want, got.Judgement)
		}
	}
}

func TestScoreHarms(t *testing.T) {
	list := some(groupHang, "gpu_error", "gpt-64", "dead", 64, 4, 4)
	list[0].Harmed = []Harmed{{Harm: "clock", Confidence: 0.9, Judgement: Judgement{Right: true}}, {Harm: "liar", Confidence: 0.5, Page: true, Judgement: Judgement{False: true}}}
	list[1].Harmed = []Harmed{{Harm: "liar", Confidence: 0.7, Liar: true, Judgement: Judgement{False: true}}, {Harm: "liar", Judgement: Judgement{Unknown: true}}}
	list[2].Harmed = []Harmed{{Harm: "clock", Confidence: 0.8, Judgement: Judgement{GroupRight: true}}}
	s := summarize(list)
	if len(s.Harms) != 3 {
		t.Fatalf("%d harms", len(s.Harms))
	}
	clock, liar, all := s.Harms[0], s.Harms[1], s.Harms[2]
	if clock.Harm != "clock" || clock.Right.Hits != 1 || clock.Wider.Hits != 1 || clock.Right.Of != 2 || clock.Was.Value() != 0.5 {
		t.Errorf("clock: %+v", clock)
	}
	if liar.Innocent.Hits != 1 || liar.Paged.Hits != 1 || liar.Liar.Hits != 1 || liar.Unknown.Hits != 1 || liar.Was.Of != 2 {
		t.Errorf("liar: %+v", liar)
	}
	if all.Harm != allTogether || all.Right.Of != 5 || all.Innocent.Hits != 1 || harmedAll(&s).Innocent.Of != 5 {
		t.Errorf("all: %+v", all)
	}
}
