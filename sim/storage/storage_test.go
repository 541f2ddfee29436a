// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build storage

// Package storage has VictoriaMetrics, Thanos and Mimir take Prometheus's place.
package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/pace"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	ranks = 4
	rank  = 2 // That the faults are at: on the second host.
)

// run is a job under the rules that ship.
type run struct {
	*stack.Stack
	root string
	job  *stack.Job
}

// start brings up two hosts and a healthy job.
func start(ctx context.Context, t *testing.T, storage stack.Storage, fault string) run {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(ctx, stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: t.TempDir(), Hosts: 2,
		Interval: time.Second, Storage: storage, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	job, err := s.StartJob(ctx, stack.JobConfig{ID: "llama", Ranks: ranks, Layout: "dp4", Fault: fault, Rank: rank, FaultAtStep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.Stop)
	if err := job.WaitStep(ctx, 20); err != nil {
		t.Fatal(err)
	}
	// VictoriaMetrics finds a new series only after some time, and Thanos a store.
	for query, n := range map[string]int{`culprit_nccl_process_info{job_id="llama"}`: ranks, `job_id:culprit_nccl_stall_seconds:threshold{job_id="llama"}`: 1} {
		if err := s.WaitSeries(ctx, query, n); err != nil {
			t.Fatalf("%v; %v", err, s.Ended())
		}
	}
	return run{s, root, job}
}

// page injects the fault and wants its rank paged.
func (r run) page(ctx context.Context, t *testing.T) {
	t.Helper()
	injected := time.Now()
	if _, err := r.job.Inject(ctx); err != nil {
		t.Fatal(err)
	}
	page, err := r.WaitPage(ctx, "llama")
	if err != nil {
		t.Fatalf("%v; %v", err, r.Ended())
	}
	if page.Labels["rank"] != strconv.Itoa(rank) || page.Labels["host"] != r.HostName(r.HostOfRank(rank, ranks)) {
		t.Errorf("the page names %v", page.Labels)
	}
	t.Logf("after %s: %s", time.Since(injected).Round(100*time.Millisecond), page.Annotations["summary"])
}

// pages has a stopped rank and a stalled link named by the rules that ship.
func pages(t *testing.T, storage stack.Storage, healthy func(ctx context.Context, t *testing.T, r run)) {
	for _, fault := range []string{"stop", "link-stall"} {
		t.Run(fault, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), pace.Stretch(4*time.Minute))
			defer cancel()
			r := start(ctx, t, storage, fault)
			healthy(ctx, t, r)
			r.page(ctx, t)
		})
	}
}

// TestVictoriaMetrics has the doctor find nothing wrong, too.
func TestVictoriaMetrics(t *testing.T) { pages(t, stack.Victoria, doctor) }

// TestMimir posts the rules to Mimir's ruler, and a request without its tenant gets no answer.
func TestMimir(t *testing.T) {
	pages(t, stack.Mimir, func(ctx context.Context, t *testing.T, r run) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.PrometheusURL()+"/api/v1/query?query=up", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a tenant: %s", resp.Status)
		}
	})
}

// TestThanos has each host's exporter scraped by a Prometheus of its own.
func TestThanos(t *testing.T) {
	pages(t, stack.Thanos, func(ctx context.Context, t *testing.T, r run) {
		if warnings := query(ctx, t, r, "culprit_nccl_process_info"); len(warnings) > 0 {
			t.Errorf("warnings of a healthy Thanos: %v", warnings)
		}
	})
}

// TestThanosWithoutAStore has the Prometheus lost that scrapes the faulty rank's host, after the analyzer has looked at the job once.
func TestThanosWithoutAStore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), pace.Stretch(4*time.Minute))
	defer cancel()
	r := start(ctx, t, stack.Thanos, "stop")
	if _, err := r.Analyze(ctx, "llama"); err != nil {
		t.Fatal(err)
	}
	r.LoseStore(r.HostOfRank(rank, ranks))
	for len(query(ctx, t, r, "culprit_nccl_process_info")) == 0 {
		select {
		case <-ctx.Done():
			t.Fatal("no warning tells that a store is lost")
		case <-time.After(100 * time.Millisecond):
		}
	}
	r.page(ctx, t)
}

// query gives the warnings of an answer.
func query(ctx context.Context, t *testing.T, r run, expr string) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.PrometheusURL()+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status   string   `json:"status"`
		Error    string   `json:"error"`
		Warnings []string `json:"warnings"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		return []string{fmt.Sprintf("%s: %s", answer.Status, answer.Error)}
	}
	return answer.Warnings
}

// doctor is asked on the first host until it finds nothing wrong: the rules are evaluated once the storage answers.
func doctor(ctx context.Context, t *testing.T, r run) {
	t.Helper()
	// As culprit-exporter --trace.prepare leaves it.
	if err := os.Chmod(r.TraceDir(0), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for {
		out, err := exec.CommandContext(ctx, filepath.Join(r.root, "bin", "culprit-exporter"), "doctor", "--trace.dir="+r.TraceDir(0),
			"--exporter.url="+r.ExporterURL(0), "--prometheus.url="+r.PrometheusURL(), "--rules.url="+r.RulesURL(),
			"--alertmanager.url="+r.AlertmanagerURL(), "--analyzer.url="+r.AnalyzerURL()).CombinedOutput()
		if err == nil && strings.Contains(string(out), "0 failed") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v: %s", err, out)
		case <-time.After(time.Second):
		}
	}
}
