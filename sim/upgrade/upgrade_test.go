// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build upgrade

// Package upgrade has parts of this tree work with parts of another release, as they do while a cluster is upgraded.
package upgrade

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/pace"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	hosts = 2
	ranks = 4
	rank  = 2 // The faulty one.
)

// folders are where this tree and the old one lie; go run ./tools/ci run test-upgrade builds the latter.
func folders(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"new": root, "old": filepath.Join(root, "build", "upgrade", "old")}
}

// bin is a folder with parts of both.
func bin(t *testing.T, trees map[string]string, shim, exporter, analyzer string) string {
	t.Helper()
	dir := t.TempDir()
	for name, release := range map[string]string{
		"libnccl-profiler-culprit.so": shim, "culprit-exporter": exporter, "culprit-analyzer": analyzer, "ringjob": "new",
	} {
		from := filepath.Join(trees[release], "bin", name)
		if _, err := os.Stat(from); err != nil {
			t.Fatalf("%v; go run ./tools/ci run test-upgrade builds it", err)
		}
		if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMatrix has a link stall named whichever part is the older one. Rules are upgraded with the exporters.
func TestMatrix(t *testing.T) {
	trees := folders(t)
	for _, c := range []struct{ shim, exporter, analyzer string }{
		{"old", "old", "old"}, // Otherwise the next ones say nothing.
		{"old", "new", "new"},
		{"new", "old", "old"},
		{"new", "new", "old"},
		{"new", "old", "new"},
		{"old", "new", "old"},
		{"old", "old", "new"},
	} {
		t.Run(fmt.Sprintf("shim %s, exporter %s, analyzer %s", c.shim, c.exporter, c.analyzer), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), pace.Stretch(3*time.Minute))
			defer cancel()
			s, err := stack.Start(ctx, stack.Config{
				Root: trees["new"], BinDir: bin(t, trees, c.shim, c.exporter, c.analyzer), ToolsDir: filepath.Join(trees["new"], "bin", "tools"),
				Dir: t.TempDir(), Hosts: hosts, Interval: time.Second, Rules: filepath.Join(trees[c.exporter], "rules", "*.yaml"), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			job, err := s.StartJob(ctx, stack.JobConfig{ID: "upgraded", Ranks: ranks, Layout: "dp4", Fault: "link-stall", Rank: rank, FaultAtStep: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer job.Stop()
			if err := job.WaitStep(ctx, 20); err != nil {
				t.Fatal(err)
			}
			if _, err := job.Inject(ctx); err != nil {
				t.Fatal(err)
			}
			page, err := s.WaitPage(ctx, "upgraded")
			if err != nil {
				t.Fatal(err)
			}
			if page.Labels["rank"] != strconv.Itoa(rank) || page.Labels["host"] != s.HostName(s.HostOfRank(rank, ranks)) {
				t.Errorf("the page names %v", page.Labels)
			}
		})
	}
}
