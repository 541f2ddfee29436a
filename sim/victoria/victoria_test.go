// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build victoria

// Package victoria has VictoriaMetrics and vmalert take Prometheus's place.
package victoria

import (
	"context"
	"log/slog"
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

// TestPage has a stopped rank and a stalled link named by the rules that ship, and the doctor find nothing wrong.
func TestPage(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []string{"stop", "link-stall"} {
		t.Run(fault, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), pace.Stretch(4*time.Minute))
			defer cancel()
			s, err := stack.Start(ctx, stack.Config{
				Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: t.TempDir(), Hosts: 2,
				Interval: time.Second, Victoria: true, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			const ranks, rank = 4, 2
			job, err := s.StartJob(ctx, stack.JobConfig{ID: "llama", Ranks: ranks, Layout: "dp4", Fault: fault, Rank: rank, FaultAtStep: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer job.Stop()
			if err := job.WaitStep(ctx, 20); err != nil {
				t.Fatal(err)
			}
			// VictoriaMetrics finds a new series only after some time.
			if err := s.WaitSeries(ctx, `job_id:culprit_nccl_stall_seconds:threshold{job_id="llama"}`, 1); err != nil {
				t.Fatalf("%v; %v", err, s.Ended())
			}
			doctor(ctx, t, s, root)
			injected := time.Now()
			if _, err := job.Inject(ctx); err != nil {
				t.Fatal(err)
			}
			page, err := s.WaitPage(ctx, "llama")
			if err != nil {
				t.Fatalf("%v; %v", err, s.Ended())
			}
			if page.Labels["rank"] != strconv.Itoa(rank) || page.Labels["host"] != s.HostName(s.HostOfRank(rank, ranks)) {
				t.Errorf("the page names %v", page.Labels)
			}
			t.Logf("after %s: %s", time.Since(injected).Round(100*time.Millisecond), page.Annotations["summary"])
		})
	}
}

// doctor is asked on the first host until it finds nothing wrong: the rules are evaluated once the storage answers.
func doctor(ctx context.Context, t *testing.T, s *stack.Stack, root string) {
	t.Helper()
	// As culprit-exporter --trace.prepare leaves it.
	if err := os.Chmod(s.TraceDir(0), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for {
		out, err := exec.CommandContext(ctx, filepath.Join(root, "bin", "culprit-exporter"), "doctor", "--trace.dir="+s.TraceDir(0),
			"--exporter.url="+s.ExporterURL(0), "--prometheus.url="+s.PrometheusURL(), "--rules.url="+s.RulesURL(),
			"--alertmanager.url="+s.AlertmanagerURL(), "--analyzer.url="+s.AnalyzerURL()).CombinedOutput()
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
