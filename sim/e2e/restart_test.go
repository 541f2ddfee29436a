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
	train(t, first, healthySteps)
	if _, err := first.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.WaitPage(within(t, deadline), id); err != nil {
		t.Fatalf("%v\n%s", err, describe(t, cluster, id))
	}
	first.Stop()
	again := time.Now()
	second, err := cluster.StartJob(t.Context(), stack.JobConfig{ID: id, Ranks: fewer, Layout: "dp4", Fault: "op-not-entered", Rank: late, FaultAtStep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Stop)
	train(t, second, healthySteps)
	if _, err := second.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
	fault, _ := stack.FindFault("op-not-entered")
	incident, err := cluster.WaitIncident(within(t, time.Minute), id, func(v *rca.Verdict) bool { return fault.Named(v, late) })
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, cluster, id))
	}
	t.Logf("%s", incident.Verdict.Summary)
	for _, p := range cluster.Pages(id) {
		if p.StartsAt.After(again) && p.Labels["rank"] != "1" {
			t.Errorf("paged for the run that is over: %v %s", p.Labels, p.Annotations["summary"])
		}
	}
}
