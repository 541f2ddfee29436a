// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		hits, of  int
		low, high float64
	}{
		{0, 0, 0, 1},
		{0, 10, 0, 0.2775},
		{10, 10, 0.7225, 1},
		{8, 10, 0.4902, 0.9433}, // Wilson 1927, as every textbook has it.
		{81, 263, 0.2553, 0.3662},
	} {
		low, high := wilson(c.hits, c.of)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("wilson(%d, %d) = %.4f, %.4f, want %.4f, %.4f", c.hits, c.of, low, high, c.low, c.high)
		}
	}
}

func TestPercentile(t *testing.T) {
	v := []float64{4, 1, 3, 2}
	for _, c := range []struct{ q, want float64 }{{0.5, 2}, {0.51, 3}, {0.9, 4}, {1, 4}, {0, 1}} {
		if got := percentile(v, c.q); got != c.want {
			t.Errorf("percentile %g = %g, want %g", c.q, got, c.want)
		}
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("percentile of nothing = %g", got)
	}
	if v[0] != 4 {
		t.Error("the values have been sorted in place")
	}
}

func TestShare(t *testing.T) {
	list := make([]judge.Outcome, 4)
	for i := range list {
		list[i].Right = i > 0
	}
	s := share(list, func(o *judge.Outcome) bool { return o.Right })
	if got, want := s.String(), "75.0% (3/4, 30–95)"; got != want {
		t.Errorf("share = %q, want %q", got, want)
	}
	if got := (Share{}).String(); got != "–" {
		t.Errorf("share of nothing = %q", got)
	}
}
