// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// recorded is a timeline of operations in which the rank of late enters the last; clocks differ.
func recorded(steps, ops int, late func(op int) int, by int64) []rca.Segment {
	var out []rca.Segment
	for step := range steps {
		for op := range ops {
			for rank := range 8 {
				at := int64(step*ops+op)*1_000_000 + int64(rank)*77_000_000
				s := rca.Segment{Kind: rca.SegmentOp, Rank: rank, Comm: "dp", Seq: int64(op), Iteration: step, Peer: -1, Start: at, End: at + 500_000}
				if rank == late(op) {
					s.Start += by
				}
				out = append(out, s)
			}
		}
	}
	return out
}

func TestOneStep(t *testing.T) {
	seven := func(int) int { return 7 }
	for name, tc := range map[string]struct {
		timeline []rca.Segment
		class    rca.Class
		want     bool
	}{
		"one rank is late":            {recorded(1, 10, seven, 300_000), rca.Unknown, true},
		"every time another":          {recorded(1, 10, func(op int) int { return op % 8 }, 300_000), rca.Unknown, false},
		"hardly late":                 {recorded(1, 10, seven, 20_000), rca.Unknown, false},
		"nobody is":                   {recorded(1, 10, seven, 0), rca.Unknown, false},
		"two operations":              {recorded(1, 2, seven, 300_000), rca.Unknown, false},
		"more steps: the engine's":    {recorded(2, 10, seven, 300_000), rca.Unknown, false},
		"the engine has said already": {recorded(1, 10, seven, 300_000), rca.Healthy, false},
		"no operations":               {nil, rca.Unknown, false},
	} {
		r := Result{Verdict: rca.Verdict{Class: tc.class, Summary: "x"}, Evidence: rca.Evidence{Timeline: tc.timeline}}
		r.oneStep()
		if r.Verdict.Class != tc.class || len(Accused(r.Verdict)) > 0 || r.Verdict.Page {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
		if got := strings.Contains(r.Verdict.Summary, "mostly wait for rank 7") && len(r.Verdict.Culprits) == 1; got != tc.want {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
	}
}
