// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestPairOfAlertmanagersCallsOnce: two Alertmanagers as they come, with the shipped configuration, and two analyzers. The second
// Alertmanager notifies 15 s after it looked at its alerts: what has ended meanwhile fires for it. Nobody is called again for that.
func TestPairOfAlertmanagersCallsOnce(t *testing.T) {
	t.Parallel()
	// The last turn comes so long after a look, and looks are so far apart (group_interval).
	const turn, between = 15 * time.Second, 10 * time.Second
	cfg := stack.Config{Dir: t.TempDir(), Hosts: 1, Pairs: true}
	cfg.Analyzer = filepath.Join(cfg.Dir, "analyzer.yml")
	// An analyzer waits with the end for one and a half of the other's tellings.
	if err := os.WriteFile(cfg.Analyzer, []byte("incidents: {grace: 2s}\nnotify: {resend_interval: 5s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, cfg)
	const id = "pair"
	j := startJobOn(t, s, stack.JobConfig{ID: id, Ranks: 2, Layout: "dp2", Fault: "kill", Rank: 1, FaultAtStep: -1})
	j.train(t, healthySteps)
	j.inject(t)
	j.page(t)
	j.Stop()
	ended := func(p stack.Page) bool { return p.OfVerdict() && p.Status == "resolved" }
	for ctx := waiting(t); !slices.ContainsFunc(s.Notified(id), ended); {
		select {
		case <-ctx.Done():
			t.Fatalf("nobody was told of the end\n%s", describe(t, s, id))
		case <-time.After(time.Second):
		}
	}
	// Whoever looked before the end speaks by then.
	<-time.After(between + turn + 5*time.Second)
	calls := 0
	for _, p := range s.Notified(id) {
		t.Logf("%s %s %s from %s, calls: %v", p.At.Format(time.TimeOnly), p.Labels["alertname"], p.Status, p.From, p.Calls)
		if p.Calls && p.OfVerdict() {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("somebody was called %d times", calls)
	}
}
