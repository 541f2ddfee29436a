// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"

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
	cfg := stack.Config{Dir: t.TempDir(), Hosts: fewHosts, Alertmanager: filepath.Join(theirs, alertmanager)}
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
		for _, j := range jobs {
			goOn(t, j.c) // What is looked at late is slow all the same.
		}
		cfg.Analyzer = patient(t, cfg.Dir)
	}
	return startStack(t, cfg)
}

// killed starts a job of which rank 3 is killed.
func killed(t *testing.T, s *stack.Stack, id string) *job {
	t.Helper()
	j := startJobOn(t, s, few(0, id, "kill", 3))
	j.train(t, healthySteps)
	j.inject(t)
	return j
}

// TestInhibitionOfKubePrometheusStack: while the page of a job that stands still fires, that of another job that got slow arrives, too,
// although Alertmanager holds back alerts of a lower severity with the same name and namespace.
func TestInhibitionOfKubePrometheusStack(t *testing.T) {
	t.Parallel()
	slow := &past{id: "slow", workload: "gpt-64", fault: "gpu_throttle:rank=5"}
	s := startSite(t, "alertmanager.yml", slow)
	hung := killed(t, s, "hung")
	first := hung.page(t)
	if first.Labels["alertname"] != "CulpritFound" || first.Labels["severity"] != "critical" || first.Labels["rank"] != "3" {
		t.Errorf("first page is %v", first.Labels)
	}
	analyze(t, s, slow.id)
	second, err := s.WaitPageThat(waiting(t), slow.id, func(p *stack.Page) bool { return p.Labels["rank"] != "" })
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, s, slow.id))
	}
	if second.Labels["alertname"] != "CulpritSlow" || second.Labels["severity"] != "warning" || second.Labels["rank"] != "5" {
		t.Errorf("second page is %v", second.Labels)
	}
	// Triggers came as alerts, and their copies were not taken for any.
	incident := hung.incident(t, func(v *rca.Verdict) bool { return v.Page })
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
	page := killed(t, s, "unrouted").page(t)
	if page.Labels["alertname"] != "CulpritFound" || page.Labels["rank"] != "3" {
		t.Errorf("page is %v", page.Labels)
	}
}
