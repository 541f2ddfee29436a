// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// startStack starts a stack of the test's own: with other settings than the shared one, or to be broken.
func startStack(t *testing.T, cfg stack.Config) *stack.Stack {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Root, cfg.BinDir, cfg.ToolsDir = root, filepath.Join(root, "bin"), filepath.Join(root, "bin", "tools")
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Interval == 0 {
		cfg.Interval = interval
	}
	s, err := stack.Start(waiting(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// few is a job of four ranks on two hosts.
func few(group int, id, fault string, rank int) stack.JobConfig {
	return stack.JobConfig{
		ID: id, Ranks: 4, Layout: "dp2,pp2", Group: group, Fault: fault, Rank: rank, FaultAtStep: -1,
	}
}

// analyze asks for an analysis until there is an answer.
func analyze(t *testing.T, s *stack.Stack, id string) stack.Incident {
	t.Helper()
	ctx := waiting(t)
	for {
		incident, err := s.Analyze(ctx, id)
		if err == nil {
			return incident
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(time.Second):
		}
	}
}

// TestSilentExporterIsSaid: the exporter of the culprit's host is gone when its rank stops. The verdict must say what is
// missing and may not accuse a rank of another host.
func TestSilentExporterIsSaid(t *testing.T) {
	t.Parallel()
	const rank = 2
	j := startJob(t, few(silentHosts, "silent", "op-not-entered", rank))
	silent := j.HostOfRank(rank)
	j.train(t, healthySteps)
	cluster.StopExporter(silent)
	j.inject(t)
	incident := j.incident(t, func(v *rca.Verdict) bool { return len(v.Missing) > 0 })
	t.Logf("%s\nmissing: %q", incident.Verdict.Summary, incident.Verdict.Missing)
	for _, c := range incident.Verdict.Culprits {
		if c.Rank >= 0 && j.HostOfRank(c.Rank) != silent {
			t.Errorf("rank %d of a host that answers is accused: %s", c.Rank, incident.Verdict.Summary)
		}
	}
}

// TestPrometheusDownIsSurvived: Prometheus dies after the membership was learnt. An analysis asked for through the API
// still names the culprit from the exporters, or says that Prometheus is missing.
func TestPrometheusDownIsSurvived(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Config{Hosts: fewHosts, Patience: patience})
	const rank = 3
	j := startJobOn(t, s, few(0, "blind", "stop", rank))
	j.train(t, healthySteps)
	if err := s.WaitSeries(waiting(t), `culprit_nccl_process_info{job_id="blind"}`, j.Config.Ranks); err != nil {
		t.Fatal(err)
	}
	// An analysis of the healthy job: the analyzer has seen its members.
	analyze(t, s, j.Config.ID)
	s.StopPrometheus()
	if _, err := j.Inject(waiting(t)); err != nil {
		t.Fatal(err)
	}
	ctx := waiting(t)
	var said rca.Verdict
	for {
		incident := analyze(t, s, j.Config.ID)
		if v := incident.Verdict; v != nil && (len(v.Culprits) > 0 || v.Class == rca.Unknown) {
			said = *v
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no verdict: %+v", incident)
		}
	}
	t.Logf("%s\nmissing: %q", said.Summary, said.Missing)
	if !strings.Contains(strings.Join(said.Missing, " "), "prometheus") {
		t.Errorf("verdict does not say that Prometheus is missing: %q", said.Missing)
	}
	for _, c := range said.Culprits {
		if c.Rank != rank {
			t.Errorf("rank %d is accused, want %d or nobody", c.Rank, rank)
		}
	}
}

// TestMalformedWebhookIsRefused: 400 with the reason, and counted.
func TestMalformedWebhookIsRefused(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":       "{",
		"other version": `{"version":"3","alerts":[]}`,
		"no object":     `[1,2]`,
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Post(cluster.AnalyzerURL()+"/api/v1/alerts", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusBadRequest || len(bytes.TrimSpace(text)) == 0 {
				t.Errorf("status %d, body %q; want 400 with the reason", resp.StatusCode, text)
			}
		})
	}
	metrics := fetch(t, cluster.AnalyzerURL()+"/metrics")
	if !strings.Contains(metrics, `culprit_analyzer_webhook_requests_total{code="400"}`) {
		t.Error("refused requests are not counted")
	}
}

// TestCorruptTraceFileIsSkipped: counted, and the job beside it is watched as before.
func TestCorruptTraceFileIsSkipped(t *testing.T) {
	t.Parallel()
	const rank = 2
	corrupt := hosts + hosts + fewHosts + 1 // The second of its group.
	traces := cluster.TraceDir(corrupt)
	for name, content := range map[string][]byte{
		"1-1-random.trace": bytes.Repeat([]byte("not a trace "), 10000),
		"2-2-empty.trace":  nil,
		"3-3-cut.trace":    append([]byte("culprit\x00\x01\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 5000)...),
	} {
		if err := os.WriteFile(filepath.Join(traces, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j := startJob(t, few(corruptHosts, "beside", "op-not-entered", rank))
	j.train(t, healthySteps)
	j.inject(t)
	if page := j.page(t); page.Labels["rank"] != fmt.Sprint(rank) {
		t.Errorf("paged for rank %q, want %d", page.Labels["rank"], rank)
	}
	metrics := fetch(t, cluster.ExporterURL(corrupt)+"/metrics")
	if !strings.Contains(metrics, `culprit_exporter_trace_files{state="unreadable"} 3`) {
		t.Errorf("unreadable files are not counted:\n%s", grep(metrics, "culprit_exporter_trace"))
	}
}

// TestJobOutlivesItsTrace: a directory that cannot be written harms no job, and one line says why.
func TestJobOutlivesItsTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for host := range fewHosts {
		// A file where the directory should be: not even root can write into it.
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("host%d", host)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg := few(silentHosts, "untraced", "", -1)
	cfg.Dir = dir
	j := startJob(t, cfg)
	j.train(t, healthySteps)
	log, err := os.ReadFile(j.Log())
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(log), "Not a directory"); lines != j.Config.Ranks {
		t.Errorf("%d lines say why there is no trace, want one a rank:\n%s", lines, log)
	}
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(waiting(t), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func grep(text, part string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
