// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// startSite starts a stack of its own with an Alertmanager configuration of testdata/kube-prometheus-stack, and a rule that copies alerts.
func startSite(t *testing.T, alertmanager string, jobs ...*past) *stack.Stack {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(root, "sim", "e2e", "testdata", "kube-prometheus-stack")
	cfg := stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: t.TempDir(),
		Hosts: hosts, Interval: time.Second, Alertmanager: filepath.Join(theirs, alertmanager),
	}
	cfg.Rules = filepath.Join(cfg.Dir, "rules-*.yaml")
	for name, file := range map[string]string{
		"rules-triggers.yaml": filepath.Join(root, "rules", "culprit-triggers.yaml"),
		"rules-health.yaml":   filepath.Join(root, "rules", "culprit-health.yaml"),
		"rules-theirs.yaml":   filepath.Join(theirs, "rules.yaml"),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range jobs {
		j.simulate(t)
		cfg.Discovery = append(cfg.Discovery, j.url+"/sd")
	}
	if len(jobs) > 0 {
		remember(t, cfg, jobs)
		cfg.Analyzer = patient(t, cfg.Dir)
	}
	s, err := stack.Start(within(t, time.Minute), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// killed trains a job on a site and kills a rank.
func killed(t *testing.T, s *stack.Stack, id string) {
	t.Helper()
	job, err := s.StartJob(t.Context(), stack.JobConfig{ID: id, Ranks: ranks, Layout: layout, Fault: "kill", Rank: 5, FaultAtStep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.Stop)
	train(t, job, healthySteps)
	if _, err := job.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
}

// TestInhibitionOfKubePrometheusStack: while the page of a job that stands still fires, that of another job that got slow arrives, too,
// although Alertmanager holds back alerts of a lower severity with the same name and namespace.
func TestInhibitionOfKubePrometheusStack(t *testing.T) {
	t.Parallel()
	slow := &past{id: "slow", workload: "gpt-64", fault: "gpu_throttle:rank=5"}
	s := startSite(t, "alertmanager.yml", slow)
	killed(t, s, "hung")
	first, err := s.WaitPage(within(t, deadline), "hung")
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, s, "hung"))
	}
	if first.Labels["alertname"] != "CulpritFound" || first.Labels["severity"] != "critical" || first.Labels["rank"] != "5" {
		t.Errorf("first page is %v", first.Labels)
	}
	if _, err := s.Analyze(within(t, time.Minute), slow.id); err != nil {
		t.Fatal(err)
	}
	second, err := s.WaitPage(within(t, time.Minute), slow.id)
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, s, slow.id))
	}
	if second.Labels["alertname"] != "CulpritSlow" || second.Labels["severity"] != "warning" || second.Labels["rank"] != "5" {
		t.Errorf("second page is %v", second.Labels)
	}
	// Triggers came as alerts, and their copies were not taken for any.
	incident, err := s.WaitIncident(within(t, 5*time.Second), "hung", func(v *rca.Verdict) bool { return v.Page })
	if err != nil {
		t.Fatal(err)
	}
	for _, trigger := range incident.Triggers {
		if trigger.Name == "InfoInhibitor" {
			t.Errorf("%+v is a copy of a trigger", trigger)
		}
	}
}

// TestTriggersWithoutARoute: no route takes triggers to the analyzer. It finds them in Prometheus.
func TestTriggersWithoutARoute(t *testing.T) {
	t.Parallel()
	s := startSite(t, "namespaced.yml")
	killed(t, s, "unrouted")
	page, err := s.WaitPage(within(t, time.Minute), "unrouted")
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, s, "unrouted"))
	}
	if page.Labels["alertname"] != "CulpritFound" || page.Labels["rank"] != "5" {
		t.Errorf("page is %v", page.Labels)
	}
}
