// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

func TestScoreHarms(t *testing.T) {
	list := some(matrix.GroupHang, "gpu_error", "gpt-64", "dead", 64, 4, 4)
	list[0].Harmed = []judge.Harmed{{Harm: "clock", Said: judge.Said{Confidence: 0.9}, Judgement: judge.Judgement{Right: true}}, {Harm: "liar", Said: judge.Said{Confidence: 0.5, Page: true}, Judgement: judge.Judgement{False: true}}}
	list[1].Harmed = []judge.Harmed{{Harm: "liar", Said: judge.Said{Confidence: 0.7}, Liar: true, Judgement: judge.Judgement{False: true}}, {Harm: "liar", Judgement: judge.Judgement{Unknown: true}}}
	list[2].Harmed = []judge.Harmed{{Harm: "clock", Said: judge.Said{Confidence: 0.8}, Judgement: judge.Judgement{GroupRight: true}}}
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
