// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca"
)

func printed(t *testing.T, r *diagnosis.Result, s Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatIf(t *testing.T) {
	r := &diagnosis.Result{Verdict: rca.Verdict{Class: rca.Imbalance, WhatIf: []rca.WhatIf{
		{Kind: "all", Name: "everything", StepSeconds: 1.5, Saved: 0.25},
		{Kind: "transfers", Name: "all transfers", StepSeconds: 1.99, Saved: 0.005},
		{Kind: "stage", Name: "stage 3", Ranks: []int{6, 7}, StepSeconds: 1.6, Saved: 0.2},
		{Kind: "stage", Name: "stage 2", Ranks: []int{4, 5}, StepSeconds: 2.02, Saved: -0.01},
		{Kind: "op_type", Name: "forward-compute", StepSeconds: 1.8, Saved: 0.1},
	}}}
	short := printed(t, r, Style{})
	for _, want := range []string{
		"(a step takes 2000 ms now)", "  everything            1500 ms  25.0%     1.33x\n",
		"  all transfers         1990 ms  0.5%      1.01x\n", "  stage 3 (ranks 6, 7)  1600 ms  20.0%     1.25x\n", "forward-compute",
	} {
		if !strings.Contains(short, want) {
			t.Errorf("no %q in\n%s", want, short)
		}
	}
	if strings.Contains(short, "stage 2") || !strings.Contains(printed(t, r, Style{Explain: true}), "stage 2 (ranks 4, 5)") {
		t.Errorf("what saves nothing is for --explain\n%s", short)
	}
	r.Verdict.Class = rca.Healthy
	if strings.Contains(printed(t, r, Style{}), "win back") {
		t.Error("a healthy job has nothing to win back")
	}
}

// The table of ranks shows what there is to show, and ranks with nothing to say on one line.
func TestRankTable(t *testing.T) {
	r := &diagnosis.Result{Verdict: rca.Verdict{Class: rca.Healthy}}
	for i := range 12 {
		r.Evidence.Ranks = append(r.Evidence.Ranks, rca.Rank{ID: i, State: rca.ProcessRunning})
	}
	r.Evidence.Missing = []rca.Missing{
		{What: "rank", Name: "12", Ranks: []int{12}, Why: "no trace"}, {What: "rank", Name: "13", Ranks: []int{13}, Why: "no trace"},
	}
	want := "\nRanks\n  RANK  STATE\n  12    missing\n  13    missing\n  0-11  running\n\nNot seen\n  ranks 12, 13: no trace\n"
	if got := printed(t, r, Style{}); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	if got := printed(t, r, Style{Explain: true}); !strings.Contains(got, "\n  7     running\n") {
		t.Errorf("%s", got)
	}
}

func TestRankList(t *testing.T) {
	var odd []int
	for r := 1; r < 100; r += 2 {
		odd = append(odd, r)
	}
	if got := rankList(odd); got != "ranks 1, 3, 5, 7, 9, 11, …, 99 (50)" {
		t.Error(got)
	}
	for want, ranks := range map[string][]int{
		"": nil, "rank 4": {4}, "ranks 4, 5": {4, 5}, "ranks 0-3, 7": {0, 1, 2, 3, 7}, "ranks 1, 3, 5-7": {1, 3, 5, 6, 7},
	} {
		if got := rankList(ranks); got != want {
			t.Errorf("%v: %q, want %q", ranks, got, want)
		}
	}
	if waits(1) != "1 rank waits" || waits(2) != "2 ranks wait" {
		t.Errorf("%q, %q", waits(1), waits(2))
	}
}

// Names are their makers' choice. In a terminal they move nothing, and write no line that could pass for the report's.
func TestNamesMoveNothingInATerminal(t *testing.T) {
	const evil = "node\x1b[2K\rrank 3 on node-3\x1b]52;c;aGk=\x07\x1b[8m\u009b1A\u202e\nrank 3 on node-3"
	r := &diagnosis.Result{
		Verdict: rca.Verdict{
			Class: rca.NotEntered, Summary: "Rank 5 did not come.", Evidence: []string{evil}, Comm: evil,
			Culprits: []rca.Culprit{{Rank: 5, Host: evil, Channel: -1}},
		},
		Evidence: rca.Evidence{Ranks: []rca.Rank{{ID: 5, Host: evil}}},
		Files:    []load.File{{Path: evil, Kind: evil, Warning: evil}},
	}
	for _, s := range []Style{{}, {Color: true}, {Explain: true}} {
		for line := range strings.Lines(printed(t, r, s)) {
			if strings.HasPrefix(line, "rank 3") {
				t.Errorf("%+v: a line is %q", s, line)
			}
			if rest := strings.TrimSuffix(painting.ReplaceAllString(line, ""), "\n"); strings.ContainsFunc(rest, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }) {
				t.Errorf("%+v: a line is %q", s, line)
			}
		}
	}
	if got := Plain(evil); strings.ContainsFunc(got, unicode.IsControl) {
		t.Errorf("plain text is %q", got)
	}
}
