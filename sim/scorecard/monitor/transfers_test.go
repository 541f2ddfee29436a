// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/deploy/alertmanager"
	"github.com/culprit-project/culprit/rules"
	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
)

// TestP5TransfersSlow has the rules that ship tell a NIC at half its rate by its rank, and no transfers where a GPU is slow: its peers
// wait for it, with nothing in flight.
func TestP5TransfersSlow(t *testing.T) {
	for _, tc := range []struct{ fault, want string }{
		{"nic_bandwidth:rank=9:severity=0.5", "Transfers of rank 9 of job sim are in flight 2.0× longer than before and than on other ranks."},
		{"gpu_throttle:rank=9", ""},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			var told string
			if a, _ := fires(t, tc.fault, "CulpritTransfersSlow"); a != nil {
				told = a.Annotations["description"]
			}
			if told != tc.want {
				t.Errorf("it is told %q, want %q", told, tc.want)
			}
		})
	}
}

// TestC5CommunicatorSlow has the rules that ship tell the communicator of a NIC at a tenth of its rate, one that its rank
// is in, and none of a healthy job.
func TestC5CommunicatorSlow(t *testing.T) {
	if a, _ := fires(t, "", "CulpritCommunicatorSlow"); a != nil {
		t.Errorf("a healthy job: %+v", a)
	}
	a, of := fires(t, "nic_bandwidth:rank=9:severity=0.1", "CulpritCommunicatorSlow")
	if a == nil || !of[a.Labels["comm"]] {
		t.Errorf("of rank 9, which is in %v, it tells %+v", of, a)
	}
}

// fires runs a job of 16 ranks under the rules that ship, with a fault after ten minutes, and gives the first trigger of the name that was delivered, nil for none, and the
// communicators of rank 9.
func fires(t *testing.T, fault, trigger string) (first *webhook.Alert, of map[string]bool) {
	t.Helper()
	const (
		// Usual is ten evaluations, of three minutes ago; the triggers wait for two.
		at    = 10 * time.Minute
		until = at + 5*time.Minute
	)
	bandwidth, err := os.ReadFile("../../../rules/culprit-bandwidth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Of the triggers' groups it needs the one that tells runs apart.
	const begin = "\n  - interval:"
	text := string(bandwidth)
	for group := range strings.SplitSeq(string(rules.Triggers), begin) {
		if strings.Contains(group, `name: "culprit-progress"`) {
			text += begin + group
		}
	}
	w, err := catalog.FindWorkload("gpt-16")
	if err != nil {
		t.Fatal(err)
	}
	w.Job.ID = "sim"
	var faults []cluster.Fault
	if fault != "" {
		f, err := catalog.ParseFault(fault)
		if err != nil {
			t.Fatal(err)
		}
		f.At = at
		faults = append(faults, f)
	}
	epoch := time.Unix(1_800_000_000, 0)
	job, err := live.New(slog.New(slog.DiscardHandler), cluster.Config{
		Seed: 1, Hardware: w.Hardware, Job: w.Job, Until: until, Epoch: epoch.Unix(), Faults: faults,
	})
	if err != nil {
		t.Fatal(err)
	}
	var targets []Target
	for _, n := range job.Nodes() {
		targets = append(targets, n)
	}
	m, err := New(Options{
		Scrape: 5 * time.Second, Rules: []byte(text), Alertmanager: alertmanager.Config,
		Deliver: func(m *webhook.Message) error {
			for i := range m.Alerts {
				if a := &m.Alerts[i]; first == nil && a.Labels["alertname"] == trigger && a.Status == webhook.Firing {
					first = a
				}
			}
			return nil
		},
	}, targets, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for end := epoch.Add(until); m.Next().Before(end); {
		if err := job.Advance(t.Context(), m.Next().Sub(epoch)); err != nil {
			t.Fatal(err)
		}
		if err := m.Handle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	of = map[string]bool{}
	for _, n := range job.Nodes() {
		var shown bytes.Buffer
		if err := n.WriteMetrics(&shown); err != nil {
			t.Fatal(err)
		}
		for _, c := range regexp.MustCompile(`culprit_nccl_comm_info\{[^}]*comm="([^"]+)"[^}]*,rank="9"`).FindAllStringSubmatch(shown.String(), -1) {
			of[c[1]] = true
		}
	}
	return first, of
}
