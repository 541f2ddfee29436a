// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Sums of how time was passed are those over the completions that the nodes tell.
func TestUsageIsTheSumOverCompletions(t *testing.T) {
	cfg := Config{Seed: 5, Until: 25 * time.Second, Job: gpt64(), Faults: []Fault{{Kind: NICBandwidth, Rank: 9, At: 12 * time.Second, Remaining: 0.3}}}
	rec, _ := mustRun(t, cfg)
	for _, span := range []time.Duration{5 * time.Second, time.Hour} {
		for h := range rec.Hosts() {
			want := map[string]*Usage{}
			if err := rec.Trace(h, span, func(l *nodeapi.TraceLine) error {
				if l.Completion == nil {
					return nil
				}
				c := &l.Completion.Completion
				w := want[l.Completion.File]
				if w == nil {
					w = &Usage{First: c.LeftNS}
					want[l.Completion.File] = w
				}
				for i := range c.Send.WaitNS {
					w.Waits[i] += float64(c.Send.WaitNS[i])
					w.Waits[3+i] += float64(c.Recv.WaitNS[i])
				}
				w.Kernels[c.Func] += float64(c.LeftNS - c.EnteredNS)
				w.First, w.Last = min(w.First, c.LeftNS), max(w.Last, c.LeftNS)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, r := range rec.RanksOf(h) {
				if got := rec.Usage(r, span); want[rec.File(r)] == nil || got != *want[rec.File(r)] {
					t.Errorf("rank %d: %+v in %v, want %+v", r, got, span, want[rec.File(r)])
				}
			}
		}
	}
}
