// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// TestStandstillWithNothingInFlight: on one node without kernel events nobody sees the end of an operation, so nothing counts as in
// flight. Calls and processes are seen, and they name the rank.
func TestStandstillWithNothingInFlight(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Config{Hosts: 1})
	start := func(t *testing.T, fault string, rank int) *job {
		j := startJobOn(t, s, stack.JobConfig{
			ID: "blind-" + fault, Ranks: 4, Layout: "dp4", Fault: fault, Rank: rank, FaultAtStep: -1, Args: []string{"--intra=shm"},
			Env: append(s.PluginEnv(), "CULPRIT_EVENTS=-kernelch"),
		})
		j.train(t, healthySteps)
		return j
	}
	for rank, name := range []string{"op-not-entered", "stop", "kill"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, ok := stack.FindFault(name)
			if !ok {
				t.Fatalf("no fault %s", name)
			}
			j := start(t, name, rank)
			j.inject(t)
			incident := j.incident(t, func(v *rca.Verdict) bool { return len(v.Culprits) > 0 })
			t.Log(incident.Verdict.Summary)
			if !fault.Named(incident.Verdict, rank) {
				t.Errorf("verdict %+v, want rank %d, class in %v, cause in %v", incident.Verdict, rank, fault.Classes, fault.Causes)
			}
			for _, p := range s.Pages(j.Config.ID) {
				if r := p.Labels["rank"]; r != "" && r != fmt.Sprint(rank) {
					t.Errorf("paged for %v", p.Labels)
				}
			}
		})
	}
	t.Run("gpu-freeze", func(t *testing.T) {
		t.Parallel()
		j := start(t, "gpu-freeze", 1)
		j.inject(t)
		// All have called the same: the evidence carries no name. Somebody is told all the same, and what would decide it.
		page, err := s.WaitPage(waiting(t), j.Config.ID)
		if err != nil {
			t.Fatalf("%v\n%s", err, j.describe(t))
		}
		t.Logf("paged: %s", page.Annotations["summary"])
		if page.Labels["class"] != string(rca.Unknown) || page.Labels["rank"] != "" || !strings.Contains(page.Annotations["description"], "py-spy") {
			t.Errorf("paged %v: %s", page.Labels, page.Annotations["description"])
		}
	})
	t.Run("checkpoint=8", func(t *testing.T) {
		t.Parallel()
		j := start(t, "checkpoint=8", 2)
		j.inject(t)
		j.train(t, j.Step()+healthySteps)
		j.pagesNobody(t)
	})
}
