// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
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

// ownCluster starts a stack of the test's own, to be broken.
func ownCluster(t *testing.T) (*stack.Stack, string) {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, err := stack.Start(within(t, time.Minute), stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"),
		Dir: dir, Hosts: hosts, GPUs: ranks / hosts, Interval: time.Second, Patience: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, dir
}

func startJobOn(t *testing.T, s *stack.Stack, cfg stack.JobConfig) *stack.Job {
	t.Helper()
	cfg.Ranks, cfg.Layout = ranks, layout
	job, err := s.StartJob(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.Stop)
	return job
}

// TestSilentExporterIsSaid: the exporter of the culprit's host is gone when its rank stops. The verdict must say what is
// missing and may not accuse a rank of another host.
func TestSilentExporterIsSaid(t *testing.T) {
	t.Parallel()
	s, _ := ownCluster(t)
	const rank = 4
	silent := s.HostOfRank(rank, ranks)
	job := startJobOn(t, s, stack.JobConfig{ID: "silent", Fault: "op-not-entered", Rank: rank, FaultAtStep: -1})
	train(t, job, healthySteps)
	s.StopExporter(silent)
	if _, err := job.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
	incident, err := s.WaitIncident(within(t, 20*time.Second), job.Config.ID, func(v *rca.Verdict) bool {
		return len(v.Missing) > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\nmissing: %q", incident.Verdict.Summary, incident.Verdict.Missing)
	for _, c := range incident.Verdict.Culprits {
		if c.Rank >= 0 && s.HostOfRank(c.Rank, ranks) != silent {
			t.Errorf("rank %d of a host that answers is accused: %s", c.Rank, incident.Verdict.Summary)
		}
	}
}

// TestPrometheusDownIsSurvived: Prometheus dies after the membership was learnt. An analysis asked for through the API
// still names the culprit from the exporters, or says that Prometheus is missing.
func TestPrometheusDownIsSurvived(t *testing.T) {
	t.Parallel()
	s, _ := ownCluster(t)
	const rank = 6
	job := startJobOn(t, s, stack.JobConfig{ID: "blind", Fault: "stop", Rank: rank, FaultAtStep: -1})
	train(t, job, healthySteps)
	if err := s.WaitSeries(within(t, 20*time.Second), `culprit_nccl_process_info{job_id="blind"}`, ranks); err != nil {
		t.Fatal(err)
	}
	// An analysis of the healthy job: the analyzer has seen its members.
	if _, err := s.Analyze(within(t, 20*time.Second), job.Config.ID); err != nil {
		t.Fatal(err)
	}
	s.StopPrometheus()
	if _, err := job.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 30*time.Second)
	var said rca.Verdict
	for {
		incident, err := s.Analyze(ctx, job.Config.ID)
		if err != nil {
			t.Fatal(err)
		}
		if v := incident.Verdict; v != nil && (len(v.Culprits) > 0 || v.Class == rca.Unknown) {
			said = *v
			break
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
	s, dir := ownCluster(t)
	traces := filepath.Join(dir, "trace", "host1")
	for name, content := range map[string][]byte{
		"1-1-random.trace": bytes.Repeat([]byte("not a trace "), 10000),
		"2-2-empty.trace":  nil,
		"3-3-cut.trace":    append([]byte("culprit\x00\x01\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 5000)...),
	} {
		if err := os.WriteFile(filepath.Join(traces, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job := startJobOn(t, s, stack.JobConfig{ID: "beside", Fault: "op-not-entered", Rank: 2, FaultAtStep: -1})
	train(t, job, healthySteps)
	if _, err := job.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
	page, err := s.WaitPage(within(t, deadline+patience), job.Config.ID)
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, s, job.Config.ID))
	}
	if page.Labels["rank"] != "2" {
		t.Errorf("paged for rank %q, want 2", page.Labels["rank"])
	}
	metrics := fetch(t, s.ExporterURL(1)+"/metrics")
	if !strings.Contains(metrics, `culprit_exporter_trace_files{state="unreadable"} 3`) {
		t.Errorf("unreadable files are not counted:\n%s", grep(metrics, "culprit_exporter_trace"))
	}
}

// TestJobOutlivesItsTrace: a directory that cannot be written harms no job, and one line says why.
func TestJobOutlivesItsTrace(t *testing.T) {
	t.Parallel()
	s, dir := ownCluster(t)
	for host := range hosts {
		traces := filepath.Join(dir, "trace", "host"+string(rune('0'+host)))
		if err := os.RemoveAll(traces); err != nil {
			t.Fatal(err)
		}
		// A file where the directory should be: not even root can write into it.
		if err := os.WriteFile(traces, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job := startJobOn(t, s, stack.JobConfig{ID: "untraced", FaultAtStep: -1})
	train(t, job, healthySteps)
	log, err := os.ReadFile(filepath.Join(dir, "job-untraced.log"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(log), "Not a directory"); lines != ranks {
		t.Errorf("%d lines say why there is no trace, want one a rank:\n%s", lines, log)
	}
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t, 10*time.Second), http.MethodGet, address, nil)
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
