// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"log/slog"
	"os"
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
	const (
		// Usual is ten evaluations, of three minutes ago; the trigger waits for two.
		fault = 10 * time.Minute
		until = fault + 5*time.Minute
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
	for _, tc := range []struct{ fault, want string }{
		{"nic_bandwidth:rank=9:severity=0.5", "Transfers of rank 9 of job sim are in flight 2.0× longer than before and than on other ranks."},
		{"gpu_throttle:rank=9", ""},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			w, err := catalog.FindWorkload("gpt-16")
			if err != nil {
				t.Fatal(err)
			}
			w.Job.ID = "sim"
			f, err := catalog.ParseFault(tc.fault)
			if err != nil {
				t.Fatal(err)
			}
			f.At = fault
			epoch := time.Unix(1_800_000_000, 0)
			job, err := live.New(slog.New(slog.DiscardHandler), cluster.Config{
				Seed: 1, Hardware: w.Hardware, Job: w.Job, Until: until, Epoch: epoch.Unix(), Faults: []cluster.Fault{f},
			})
			if err != nil {
				t.Fatal(err)
			}
			var targets []Target
			for _, n := range job.Nodes() {
				targets = append(targets, n)
			}
			var told string
			m, err := New(Options{
				Scrape: 5 * time.Second, Rules: []byte(text), Alertmanager: alertmanager.Config,
				Deliver: func(m *webhook.Message) error {
					for _, a := range m.Alerts {
						if a.Labels["alertname"] == "CulpritTransfersSlow" && a.Status == webhook.Firing {
							told = a.Annotations["description"]
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
			if told != tc.want {
				t.Errorf("it is told %q, want %q", told, tc.want)
			}
		})
	}
}
