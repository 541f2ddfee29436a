// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestExporterTriggers: Prometheus scrapes every 15 s and evaluates no trigger. The exporters notice by themselves that the job has stopped,
// and the page names the rank.
func TestExporterTriggers(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Config{Hosts: fewHosts, Interval: 15 * time.Second, Rules: "rules/culprit-health.yaml", Triggers: true})
	j := startJobOn(t, s, few(0, "posted", "link-stall", 1))
	j.train(t, healthySteps)
	if err := s.WaitScrapes(waiting(t), 1); err != nil { // Who is in the job the analyzer asks Prometheus.
		t.Fatal(err)
	}
	j.pagesNobody(t)
	at, err := j.Inject(waiting(t))
	if err != nil {
		t.Fatal(err)
	}
	page := j.page(t)
	t.Logf("paged %.1f s after the fault", page.At.Sub(at).Seconds())
	if page.Labels["rank"] != "1" {
		t.Errorf("the page names rank %s, want 1\n%s", page.Labels["rank"], j.describe(t))
	}
}
