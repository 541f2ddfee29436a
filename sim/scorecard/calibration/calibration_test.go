// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package calibration

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// weighed makes verdicts of a weight, of which so many are right.
func weighed(weight float64, n, right int) []said {
	out := make([]said, n)
	for i := range out {
		out[i] = said{class: rca.Fault, weight: weight, right: i < right, counts: 1}
	}
	return out
}

func TestCurve(t *testing.T) {
	for name, c := range map[string]struct {
		verdicts []said
		want     rca.Curve // Verdicts and Right are not compared.
	}{
		"nothing": {nil, nil},
		// Three right ones are no certainty: (3 + 10*0.7) / 13.
		"few": {weighed(0.7, 3, 3), rca.Curve{{Weight: 0.7, Confidence: 0.769}}},
		// Many are, up to the ceiling.
		"ceiling": {weighed(0.9, 1000, 1000), rca.Curve{{Weight: 0.9, Confidence: ceiling}}},
		"rising": {
			slices.Concat(weighed(0.5, 90, 40), weighed(0.9, 90, 86)),
			rca.Curve{{Weight: 0.5, Confidence: 0.45}, {Weight: 0.9, Confidence: 0.95}},
		},
		// The heavier ones are right less often: both are pooled.
		"pooled": {
			slices.Concat(weighed(0.6, 50, 45), weighed(0.8, 50, 35)),
			rca.Curve{{Weight: 0.7, Confidence: 0.791}},
		},
		// Weights that few verdicts have share a knot with their neighbours.
		"thin": {
			slices.Concat(weighed(0.3, 5, 1), weighed(0.35, 5, 2), weighed(0.4, 20, 10), weighed(0.9, 3, 3)),
			rca.Curve{{Weight: 0.423, Confidence: 0.47}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := curve(c.verdicts)
			if len(got) != len(c.want) {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			for i, k := range got {
				if math.Abs(k.Weight-c.want[i].Weight) > 0.001 || math.Abs(k.Confidence-c.want[i].Confidence) > 0.001 {
					t.Errorf("knot %d is %+v, want %+v", i, k, c.want[i])
				}
			}
		})
	}
}

// outcomes are runs with verdicts of one class and weight.
func outcomes(class rca.Class, weight float64, n int, right bool) []judge.Outcome {
	o := judge.Outcome{Effect: true, Said: judge.Said{Class: string(class), Weight: weight}, Judgement: judge.Judgement{Right: right}}
	return slices.Repeat([]judge.Outcome{o}, n)
}

// What is fitted can be read, and makes the mixture's verdicts as sure as they are right. Harmed verdicts weigh as much as clean
// ones together, unknown ones and runs without effect nothing.
func TestCalibrate(t *testing.T) {
	hangs := outcomes(rca.Fault, 0.9, 400, true)
	for i := range hangs {
		bad := judge.Harmed{Harm: "liar", Said: judge.Said{Class: string(rca.Fault), Weight: 0.6}, Judgement: judge.Judgement{Right: i%2 == 0}}
		lost := bad
		lost.Unknown = true
		hangs[i].Harmed = []judge.Harmed{bad, bad, lost, lost}
	}
	ignored := outcomes(rca.Fault, 0.9, 400, false)
	for i := range ignored {
		ignored[i].Effect = false
	}
	c := Fit(slices.Concat(hangs, outcomes(rca.Healthy, 0.8, 100, true), ignored), nil, "command", "commit")
	for _, x := range []struct {
		class        rca.Class
		weight, want float64
	}{
		{rca.Fault, 0.9, 0.98},
		{rca.Fault, 0.6, 0.5 + 0.1*10/210}, // 400 verdicts of half a count, half of them right, and the prior.
		{rca.NotEntered, 0.6, 0.5 + 0.1*10/210},
		{rca.Healthy, 0.8, 0.98},
		{rca.SlowComm, 0.7, 0.7}, // None were seen.
		{rca.Unknown, 0.3, 0.3},
	} {
		if got := c.Confidence(rca.LevelKernels, x.class, x.weight); math.Abs(got-x.want) > 0.002 {
			t.Errorf("%s of weight %g: %g, want %g", x.class, x.weight, got, x.want)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rca.ReadCalibration(bytes.NewReader(text)); err != nil {
		t.Error(err)
	}
}

// What people said of verdicts on real jobs moves the confidence of such verdicts, and is on record in the mix.
func TestCalibrateByPeople(t *testing.T) {
	var feedback []incident.ListedFeedback
	add := func(n int, class rca.Class, weight float64, right bool) {
		f := incident.ListedFeedback{Feedback: incident.Feedback{Right: right, Said: incident.Said{Class: class, Weight: weight}}}
		feedback = append(feedback, slices.Repeat([]incident.ListedFeedback{f}, n)...)
	}
	add(100, rca.SlowComm, 0.8, false)
	add(5, rca.Unknown, 0.8, true) // It names nobody.
	add(5, rca.Fault, 0, true)     // An old incident, without its weight.
	runs := slices.Concat(outcomes(rca.Fault, 0.8, 100, true), outcomes(rca.SlowComm, 0.8, 100, true))
	before, after := Fit(runs, nil, "", ""), Fit(runs, feedback, "", "")
	if b, a := before.Confidence(rca.LevelKernels, rca.SlowComm, 0.8), after.Confidence(rca.LevelKernels, rca.SlowComm, 0.8); b < 0.9 || math.Abs(a-108.0/210) > 0.002 {
		t.Errorf("slow: %g, after people said that half of them are wrong %g", b, a)
	}
	if b, a := before.Confidence(rca.LevelKernels, rca.Fault, 0.8), after.Confidence(rca.LevelKernels, rca.Fault, 0.8); b != a {
		t.Errorf("hang: %g became %g, and nobody said anything of it", b, a)
	}
	if !strings.Contains(after.Mix, "and 100 verdicts on real jobs") || strings.Contains(before.Mix, "people") {
		t.Errorf("%q, %q", before.Mix, after.Mix)
	}
}

// A level's verdicts are as sure as they were right there; a level that was not measured is as sure as all together.
func TestFitByLevel(t *testing.T) {
	at := func(level rca.Level, n, right int) []judge.Outcome {
		list := outcomes(rca.SlowComm, 0.8, n, true)
		for i := range list {
			list[i].Level, list[i].Right = string(level), i < right
		}
		return list
	}
	c := Fit(slices.Concat(at(rca.LevelKernels, 300, 300), at(rca.LevelLaunches, 300, 150)), nil, "command", "commit")
	for _, x := range []struct {
		level rca.Level
		want  float64
	}{
		{rca.LevelKernels, 0.98},
		{rca.LevelLaunches, (150 + 10*0.8) / 310},
		{rca.LevelRecorder, (450 + 10*0.8) / 610},
	} {
		if got := c.Confidence(x.level, rca.SlowComm, 0.8); math.Abs(got-x.want) > 0.002 {
			t.Errorf("at %q: %g, want %g", x.level, got, x.want)
		}
	}
}
