// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestSupersedes(t *testing.T) {
	with := func(v rca.Verdict, confidence float64) *rca.Verdict {
		v.Confidence = confidence
		return &v
	}
	for _, tc := range []struct {
		name           string
		standing, next *rca.Verdict
		confirmed      bool
		want           bool
	}{
		{"first", nil, with(unknown(), 0), false, true},
		{"page over benign", with(benign(), 0.9), with(blame(1), 0.5), false, true},
		{"benign over unknown", with(unknown(), 0.9), with(benign(), 0.1), false, true},
		{"healthy over unknown", with(unknown(), 0.9), with(healthy(), 0.9), false, true},
		{"healthy over benign", with(benign(), 0.5), with(healthy(), 0.9), true, false},
		{"unknown over benign", with(benign(), 0.5), with(unknown(), 0.9), false, true},
		{"unknown over everybody slower", with(rca.Verdict{Class: rca.GlobalSlow}, 0.8), with(unknown(), 0.3), true, false},
		{"healthy over everybody slower", with(rca.Verdict{Class: rca.GlobalSlow}, 0.8), with(healthy(), 0.9), true, false},
		{"unknown standstill over everybody slower", with(rca.Verdict{Class: rca.GlobalSlow}, 0.8), with(rca.Verdict{Class: rca.Unknown, Stalled: 8}, 0.3), true, true},
		{"page over uneven work", with(rca.Verdict{Class: rca.Imbalance}, 0.8), with(blame(1), 0.5), false, true},
		{"benign over page", with(blame(1), 0.5), with(benign(), 0.9), true, false},
		{"unknown over page", with(blame(1), 0.5), with(unknown(), 0.9), true, false},
		{"the same, less sure", with(blame(1), 0.9), with(blame(1), 0.6), false, true},
		{"another, surer", with(blame(1), 0.6), with(blame(2), 0.9), false, true},
		{"another, as sure", with(blame(1), 0.9), with(blame(2), 0.9), false, false},
		{"another, less sure, twice", with(blame(1), 0.9), with(blame(2), 0.6), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := supersedes(tc.standing, tc.next, tc.confirmed); got != tc.want {
				t.Errorf("supersedes is %v", got)
			}
		})
	}
}

func TestAccusationIgnoresOrder(t *testing.T) {
	a := rca.Verdict{Class: rca.Fault, Culprits: []rca.Culprit{{Rank: 1}, {Rank: 2, Why: "x"}}}
	b := rca.Verdict{Class: rca.Fault, Culprits: []rca.Culprit{{Rank: 2, Why: "y"}, {Rank: 1}}, Confidence: 1}
	if accusation(&a) != accusation(&b) {
		t.Errorf("%q and %q", accusation(&a), accusation(&b))
	}
	b.Culprits[0].Host = "h"
	if accusation(&a) == accusation(&b) {
		t.Error("another host is the same accusation")
	}
}
