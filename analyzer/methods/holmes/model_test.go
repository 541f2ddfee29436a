// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/methods/forest"
)

// TestH3DriftFigure10: the mean of the iteration time goes from 9.0 s to 9.2 s, and so does the threshold.
func TestH3DriftFigure10(t *testing.T) {
	leaf := func(p float64) forest.Node { return forest.Node{Feature: -1, Positive: p} }
	iteration := 11
	if FeatureNames[iteration] != "iteration" {
		t.Fatal("the feature's place has changed")
	}
	m := &Model{
		Forest: &forest.Forest{Version: 1, Features: FeatureNames, Trees: []forest.Tree{{{Feature: iteration, Threshold: 9, Left: 1, Right: 2}, leaf(0), leaf(1)}}},
		Means:  map[string]float64{"iteration": 9, "mean": 1},
	}
	tuned := m.Tuned(map[string]float64{"iteration": 9.2})
	if got := tuned.Forest.Trees[0][0].Threshold; math.Abs(got-9.2) > 1e-9 || m.Forest.Trees[0][0].Threshold != 9 {
		t.Errorf("the threshold moves to %g, want 9.2; the trained one is %g", got, m.Forest.Trees[0][0].Threshold)
	}
	f := Features{Iteration: 9.1, Count: 10}
	if !m.Abnormal(&f) || tuned.Abnormal(&f) {
		t.Error("9.1 s is abnormal before and normal after the drift")
	}
}

func FuzzReadModel(f *testing.F) {
	f.Add(fmt.Sprintf(`{"forest":{"version":1,"features":["%s"],"trees":[[{"f":-1,"p":1}]]},"means":{"mean":1}}`, strings.Join(FeatureNames, `","`)))
	f.Fuzz(func(_ *testing.T, text string) {
		if m, err := ReadModel(strings.NewReader(text)); err == nil {
			m.Tuned(map[string]float64{"mean": 2}).Abnormal(&Features{Count: 9})
		}
	})
}
