// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build transfers

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// longest is how long the test waits for anything: the rules know only after twelve minutes how long transfers usually are in flight.
const longest = 40 * time.Minute

// TestTransfersSlow (Pulse's active time, P5) slows the link of one rank down so little that the job hides it behind its computation
// for the most part. CulpritTransfersSlow fires with this rank, and not before.
func TestTransfersSlow(t *testing.T) {
	const rank = 5
	// A buffer is 3 ms on the wire, and 12 ms with the fault: far more than the time that a processor is late on a busy machine.
	j := startJob(t, stack.JobConfig{
		ID: "transfers", Fault: "link-slow=0.25", Rank: rank, FaultAtStep: -1,
		Args: []string{"--compute-ms=100", "--bytes=64K", "--link-mbps=5"},
	})
	growth := fmt.Sprintf("job_id:culprit_nccl_step_active_seconds:growth{job_id=%q}", j.Config.ID)
	firing := fmt.Sprintf(`ALERTS{alertname="CulpritTransfersSlow", alertstate="firing", job_id=%q}`, j.Config.ID)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if err := cluster.WaitSeries(ctx, growth, ranks); err != nil {
		t.Fatalf("%v\n%s", err, j.describe(t))
	}
	started := j.inject(t)
	if err := cluster.WaitSeries(ctx, firing, 1); err != nil {
		t.Fatalf("%v\n%s", err, j.describe(t))
	}
	triggers, err := cluster.Triggers(ctx, j.Config.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, trigger := range triggers {
		if trigger.Labels["alertname"] != "CulpritTransfersSlow" {
			continue
		}
		if !trigger.StartsAt.After(started) {
			t.Errorf("fired before the fault, at %s", trigger.StartsAt)
		}
		if got := trigger.Labels["rank"]; got != strconv.Itoa(rank) {
			t.Errorf("the alert names rank %q: %s", got, trigger.Annotations["description"])
		}
		t.Logf("fired after %.0f s: %s", trigger.StartsAt.Sub(started).Seconds(), trigger.Annotations["description"])
		return
	}
	t.Errorf("Alertmanager has no such trigger: %+v", triggers)
}
