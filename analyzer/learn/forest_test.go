// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/methods/forest"
)

// ring gives points of a square, positive inside a ring: no single threshold tells them apart.
func ring(n int, seed uint64) (x [][]float64, positive []bool) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		a, b, noise := 2*rng.Float64()-1, 2*rng.Float64()-1, rng.Float64()
		x = append(x, []float64{a, b, noise})
		r := math.Hypot(a, b)
		positive = append(positive, r > 0.5 && r < 0.7)
	}
	return x, positive
}

var names = []string{"a", "b", "noise"}

func score(f *forest.Forest, x [][]float64, positive []bool) (s Score) {
	for i := range x {
		s.Add(f.Probability(x[i]) >= 0.5, positive[i])
	}
	return s
}

func TestH3ForestLearns(t *testing.T) {
	x, positive := ring(4000, 1)
	f, own, err := Grow(t.Context(), names, x, positive, Options{Seed: 1, Try: 2})
	if err != nil {
		t.Fatal(err)
	}
	test, want := ring(2000, 2)
	s := score(f, test, want)
	if s.F1() < 0.9 {
		t.Errorf("F1 %.3f on unseen samples (%+v)", s.F1(), s)
	}
	if math.Abs(own.F1()-s.F1()) > 0.05 {
		t.Errorf("out of the bag F1 %.3f, on unseen samples %.3f", own.F1(), s.F1())
	}
}

func TestTrainingIsDeterministic(t *testing.T) {
	x, positive := ring(500, 1)
	a, _, err := Grow(t.Context(), names, x, positive, Options{Seed: 7, Trees: 5})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Grow(t.Context(), names, x, positive, Options{Seed: 7, Trees: 5})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed gives two forests")
	}
	var text bytes.Buffer
	if err := a.Write(&text); err != nil {
		t.Fatal(err)
	}
	c, err := forest.Parse(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		if a.Probability(x[i]) != c.Probability(x[i]) {
			t.Fatalf("sample %d: %g written, %g read", i, a.Probability(x[i]), c.Probability(x[i]))
		}
	}
}

// TestH3ForestShifts: what was learned holds for data that has drifted when the thresholds drift with it.
func TestH3ForestShifts(t *testing.T) {
	x, positive := ring(3000, 1)
	f, _, err := Grow(t.Context(), names, x, positive, Options{Seed: 1, Try: 2})
	if err != nil {
		t.Fatal(err)
	}
	test, want := ring(1000, 2)
	for i := range test {
		test[i][0] += 0.4
	}
	stale, tuned := score(f, test, want), score(f.Shifted(map[string]float64{"a": 0.4, "unknown": 9}), test, want)
	if stale.F1() > 0.7 || tuned.F1() < 0.88 {
		t.Errorf("F1 %.3f without, %.3f with shifted thresholds", stale.F1(), tuned.F1())
	}
}

func TestTrainErrors(t *testing.T) {
	both := []bool{true, false}
	for _, c := range []struct {
		name     string
		x        [][]float64
		positive []bool
		want     string
	}{
		{"one class", [][]float64{{1, 1, 1}, {2, 2, 2}}, []bool{true, true}, "both classes"},
		{"labels", [][]float64{{1, 1, 1}}, both, "1 samples and 2 labels"},
		{"values", [][]float64{{1, 1, 1}, {1}}, both, "has 1 values, want 3"},
		{"not a number", [][]float64{{1, 1, 1}, {1, math.NaN(), 1}}, both, "b is NaN"},
	} {
		if _, _, err := Grow(t.Context(), names, c.x, c.positive, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Grow(ctx, names, [][]float64{{1, 1, 1}, {2, 2, 2}}, both, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestScore(t *testing.T) {
	s := Score{TruePositive: 8, FalsePositive: 2, TrueNegative: 5, FalseNegative: 8}
	if s.Precision() != 0.8 || s.Recall() != 0.5 || math.Abs(s.F1()-0.6154) > 1e-4 {
		t.Errorf("precision %g, recall %g, F1 %g", s.Precision(), s.Recall(), s.F1())
	}
	if (Score{}).F1() != 0 {
		t.Error("nothing counted is perfect")
	}
}
