// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	cfg := Config{Seed: 1, Until: 30 * time.Second, Job: Job{Model: GPT70B, TP: 8, DP: 4, PP: 2, MicroBatches: 8, Sharding: ZeRO, Overlap: true}}
	start := time.Now()
	rec, _, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(start), rec.s.ranks[0].ends, len(rec.s.ranks[0].history))
	for sl := range numSlots {
		t.Log(slotNames[sl], rec.s.ranks[0].count[sl])
	}
	st, err := rec.State(0)
	if err != nil {
		t.Fatal(err)
	}
	p := st.Processes[0]
	t.Logf("%d comms %d ops %d flows %d completions", len(p.Comms), len(p.Ops), len(p.Flows), len(p.Completions))
	for _, c := range p.Completions {
		t.Logf("%s %s n=%d bytes=%d dur=%v send=%+v", c.Func, c.Algo, c.Number, c.Bytes, time.Duration(c.LeftNS-c.EnteredNS), c.Send)
	}
}
