// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/internal/ports"
	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/replay"
)

func TestListNamesEverything(t *testing.T) {
	var out bytes.Buffer
	if err := list(&out); err != nil {
		t.Fatal(err)
	}
	for _, w := range catalog.Workloads() {
		if !strings.Contains(out.String(), w.Name+" ") {
			t.Errorf("workload %s is not listed", w.Name)
		}
	}
	for _, k := range catalog.FaultKinds() {
		if !strings.Contains(out.String(), string(k.Kind)+" ") {
			t.Errorf("fault %s is not listed", k.Kind)
		}
	}
}

func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{
		"record", "-w", "gpt-16", "--set", "dp=2", "--set", "job-id=mine", "-f", "nic_down:rank=5:at=10s", "-f", "gpu_throttle:rank=1:at=5s",
		"--until", "15s", "--history", "5s", "-o", dir,
	}
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	s, err := replay.ReadSealed(dir)
	if err != nil || s.Ranks != 8 || len(s.Answer.Truths) != 2 {
		t.Errorf("sealed %+v, %v", s, err)
	}
	nodes, err := os.ReadDir(filepath.Join(dir, replay.NodesDir))
	if err != nil || len(nodes) != 4 {
		t.Errorf("%d files of two nodes, %v", len(nodes), err)
	}
	for _, bad := range [][]string{
		{"record"},
		{"record", "-w", "bert", "-o", dir + "2"},
		{"record", "-f", "fire", "-o", dir + "2"},
		{"record", "-f", "nic_down:rank=64", "-o", dir + "2"},
		{"record", "--set", "wings=2", "-o", dir + "2"},
		{"record", "-w", "gpt-16", "--set", "tp=0", "--set", "ep=3", "-o", dir + "2"},
		{"serve", "--speed=0"},
	} {
		if err := run(t.Context(), bad); err == nil {
			t.Errorf("%v was done", bad)
		}
	}
}

// A served job answers on its address, goes on with time, and ends with its context.
func TestServe(t *testing.T) {
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	address := free[0]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"serve", "-w", "gpt-16", "--web.listen-address", address, "--speed", "20", "--skip", "10s", "--tick", "20ms"})
	}()
	completed := func() string {
		resp, err := http.Get("http://" + address + "/node-0001/metrics")
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return ""
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, `culprit_nccl_function_ops_total{function="AllReduce"`) {
				return line
			}
		}
		return ""
	}
	seen := map[string]bool{}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(time.Minute)
	for len(seen) < 3 {
		select {
		case err := <-done:
			t.Fatalf("serving ended: %v", err)
		case <-limit:
			t.Fatalf("counters seen: %v", seen)
		case <-ticker.C:
			if c := completed(); c != "" {
				seen[c] = true
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}
