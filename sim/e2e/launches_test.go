// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// TestStandstillWithNothingInFlight: on one node without kernel events nobody sees the end of an operation, so nothing counts as in
// flight. Calls and processes are seen, and they name the rank.
func TestStandstillWithNothingInFlight(t *testing.T) {
	t.Parallel()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(within(t, time.Minute), stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"),
		Dir: t.TempDir(), Hosts: 1, Interval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	start := func(t *testing.T, fault string, rank int) *stack.Job {
		job, err := s.StartJob(t.Context(), stack.JobConfig{
			ID: "blind-" + fault, Ranks: 4, Layout: "dp4", Fault: fault, Rank: rank, FaultAtStep: -1, Args: []string{"--intra=shm"},
			Env: append(s.PluginEnv(), "CULPRIT_EVENTS=-kernelch"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(job.Stop)
		train(t, job, healthySteps)
		return job
	}
	for rank, name := range []string{"op-not-entered", "stop", "kill"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, ok := stack.FindFault(name)
			if !ok {
				t.Fatalf("no fault %s", name)
			}
			job := start(t, name, rank)
			at, err := job.Inject(within(t, injectTimeout))
			if err != nil {
				t.Fatal(err)
			}
			incident, err := s.WaitIncident(within(t, 30*time.Second), job.Config.ID, func(v *rca.Verdict) bool { return len(v.Culprits) > 0 })
			if err != nil {
				t.Fatalf("%v\n%s", err, describe(t, s, job.Config.ID))
			}
			t.Logf("%.1f s after the fault: %s", time.Since(at).Seconds(), incident.Verdict.Summary)
			if !fault.Named(incident.Verdict, rank) {
				t.Errorf("verdict %+v, want rank %d, class in %v, cause in %v", incident.Verdict, rank, fault.Classes, fault.Causes)
			}
			for _, p := range s.Pages(job.Config.ID) {
				if p.Labels["rank"] != fmt.Sprint(rank) {
					t.Errorf("paged for %v", p.Labels)
				}
			}
		})
	}
	t.Run("gpu-freeze", func(t *testing.T) {
		t.Parallel()
		job := start(t, "gpu-freeze", 1)
		at, err := job.Inject(within(t, injectTimeout))
		if err != nil {
			t.Fatal(err)
		}
		// All have called the same: the evidence carries no name. Somebody is told all the same, and what would decide it.
		const shipped = 30 * time.Second // Of patience: a shorter one would page for a loaded machine.
		page, err := s.WaitPage(within(t, deadline+shipped), job.Config.ID)
		if err != nil {
			t.Fatalf("%v\n%s", err, describe(t, s, job.Config.ID))
		}
		t.Logf("paged after %.1f s: %s", page.At.Sub(at).Seconds(), page.Annotations["summary"])
		if page.Labels["class"] != string(rca.Unknown) || page.Labels["rank"] != "" || !strings.Contains(page.Annotations["description"], "py-spy") {
			t.Errorf("paged %v: %s", page.Labels, page.Annotations["description"])
		}
	})
	t.Run("checkpoint=8", func(t *testing.T) {
		t.Parallel()
		job := start(t, "checkpoint=8", 2)
		if _, err := job.Inject(within(t, injectTimeout)); err != nil {
			t.Fatal(err)
		}
		train(t, job, job.Step()+healthySteps)
		if pages := s.Pages(job.Config.ID); len(pages) > 0 {
			t.Errorf("paged: %+v\n%s", pages, describe(t, s, job.Config.ID))
		}
	})
}
