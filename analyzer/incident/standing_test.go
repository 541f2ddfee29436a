// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestSupersedes(t *testing.T) {
	with := func(v rca.Verdict, confidence float64) *rca.Verdict {
		v.Confidence = confidence
		return &v
	}
	less := func(v rca.Verdict, confidence float64) *rca.Verdict {
		v.Confidence, v.Missing = confidence, []string{"exporter node-3: no answer in time"}
		return &v
	}
	slow := func(rank int) *rca.Verdict {
		return &rca.Verdict{Class: rca.SlowCompute, Culprits: []rca.Culprit{{Rank: rank}}}
	}
	suspected := func(ranks ...int) *rca.Verdict {
		return &rca.Verdict{Class: rca.Unknown, Row: rca.RowMayBeChance, Hypotheses: []rca.Hypothesis{{Class: rca.SlowCompute, Ranks: ranks}}}
	}
	blameUnpaged := func(rank int) rca.Verdict {
		v := blame(rank)
		v.Page = false
		return v
	}
	otherwise := func(rank int) rca.Verdict {
		v := blame(rank)
		v.Cause = rca.CauseKernelNotRunning
		return v
	}
	nobody := func() rca.Verdict {
		v := unknown()
		v.Page = true
		return v
	}
	for _, tc := range []struct {
		name           string
		standing, next *rca.Verdict
		confirmed      bool
		unmoved        bool
		want           bool
	}{
		{"first", nil, with(unknown(), 0), false, false, true},
		{"page over benign", with(benign(), 0.9), with(blame(1), 0.5), false, false, true},
		{"benign over unknown", with(unknown(), 0.9), with(benign(), 0.1), false, false, true},
		{"healthy over unknown", with(unknown(), 0.9), with(healthy(), 0.9), false, false, true},
		{"healthy over benign", with(benign(), 0.5), with(healthy(), 0.9), true, false, false},
		{"unknown over benign", with(benign(), 0.5), with(unknown(), 0.9), false, false, true},
		{"unknown over everybody slower", with(rca.Verdict{Class: rca.GlobalSlow}, 0.8), with(unknown(), 0.3), true, false, false},
		{"healthy over everybody slower", with(rca.Verdict{Class: rca.GlobalSlow}, 0.8), with(healthy(), 0.9), true, false, false},
		{"unknown standstill over everybody slower", with(rca.Verdict{Class: rca.GlobalSlow}, 0.8), with(rca.Verdict{Class: rca.Unknown, Stalled: 8}, 0.3), true, false, true},
		{"the same ranks suspected", slow(3), suspected(3), true, false, false},
		{"another rank suspected", slow(3), suspected(4), false, false, true},
		{"nobody suspected", slow(3), suspected(), false, false, true},
		{"the same ranks, and a reason against them", slow(3), &rca.Verdict{Class: rca.Unknown, Row: "all_hosts_busy", Hypotheses: suspected(3).Hypotheses}, false, false, true},
		{"the same ranks suspected, after a standstill", with(blameUnpaged(3), 0.4), suspected(3), false, false, true},
		{"page over uneven work", with(rca.Verdict{Class: rca.Imbalance}, 0.8), with(blame(1), 0.5), false, false, true},
		{"benign over page", with(blame(1), 0.5), with(benign(), 0.9), true, false, false},
		{"unknown over page", with(blame(1), 0.5), with(unknown(), 0.9), true, false, false},
		{"the same, less sure", with(blame(1), 0.9), with(blame(1), 0.6), false, false, true},
		{"another, surer", with(blame(1), 0.6), with(blame(2), 0.9), false, false, true},
		{"another, as sure", with(blame(1), 0.9), with(blame(2), 0.9), false, false, false},
		{"another, less sure, twice", with(blame(1), 0.9), with(blame(2), 0.6), true, false, true},
		{"another, less sure, twice, of the same standstill", with(blame(1), 0.9), with(blame(2), 0.6), true, true, true},
		{"another, less sure, twice, on less evidence", with(blame(1), 0.9), less(blame(2), 0.6), true, true, false},
		{"another, surer, on less evidence", with(blame(1), 0.6), less(blame(2), 0.9), false, true, true},
		{"another cause, less sure, twice", with(blame(1), 0.9), with(otherwise(1), 0.6), true, true, false},
		{"another cause, surer", with(blame(1), 0.6), with(otherwise(1), 0.9), false, true, true},
		{"another cause, less sure, twice, of a later standstill", with(blame(1), 0.9), with(otherwise(1), 0.6), true, false, true},
		{"nobody, surer, twice", with(blame(1), 0.3), with(nobody(), 0.9), true, true, false},
		{"nobody, twice, of a later standstill", with(blame(1), 0.9), with(nobody(), 0.3), true, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := supersedes(tc.standing, tc.next, tc.confirmed, tc.unmoved); got != tc.want {
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

// The beginning of a standstill does not move while analyses of it differ a little, and moves when the job has gone on in between.
func TestStandsSince(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)
	first := standsSince(nil, &rca.Verdict{Waited: 8}, now)
	if first == nil || !first.Equal(now.Add(-8*time.Second)) {
		t.Fatalf("%v", first)
	}
	if got := standsSince(first, &rca.Verdict{Waited: 19.3}, now.Add(10*time.Second)); got != first {
		t.Errorf("it moved to %v", got)
	}
	if got := standsSince(first, &rca.Verdict{Standstill: 3}, now.Add(time.Minute)); !got.Equal(now.Add(57 * time.Second)) {
		t.Errorf("another standstill began at %v", got)
	}
	if got := standsSince(first, &rca.Verdict{Class: rca.SlowCompute}, now); got != nil {
		t.Errorf("a slow job stands still since %v", got)
	}
}
