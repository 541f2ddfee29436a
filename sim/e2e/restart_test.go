// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// TestRestartWithFewerRanks: a job loses a rank and runs on as a smaller one under the same name. The lost rank is named for the first
// standstill and has no part in the next.
func TestRestartWithFewerRanks(t *testing.T) {
	t.Parallel()
	const id, lost, fewer, late = "elastic", 7, 4, 1
	first := startJob(t, stack.JobConfig{ID: id, Fault: "kill", Rank: lost, FaultAtStep: -1})
	first.train(t, healthySteps)
	first.inject(t)
	first.page(t)
	first.Stop()
	again := time.Now()
	second := startJob(t, stack.JobConfig{ID: id, Ranks: fewer, Layout: "dp4", Fault: "op-not-entered", Rank: late, FaultAtStep: -1})
	second.train(t, healthySteps)
	second.inject(t)
	fault, _ := stack.FindFault("op-not-entered")
	incident := second.incident(t, func(v *rca.Verdict) bool { return fault.Named(v, late) })
	t.Logf("%s", incident.Verdict.Summary)
	for _, p := range cluster.Pages(id) {
		if r := p.Labels["rank"]; p.StartsAt.After(again) && r != "" && r != "1" {
			t.Errorf("paged for the run that is over: %v %s", p.Labels, p.Annotations["summary"])
		}
	}
}
