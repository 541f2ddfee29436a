// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/deploy/alertmanager"
	"github.com/culprit-project/culprit/exporter/stall"
	"github.com/culprit-project/culprit/rules"
)

// standing is an exporter of one rank that waits now and then.
type standing struct {
	stall float64
	ops   float64
}

var (
	stallDesc = prometheus.NewDesc("culprit_nccl_stall_seconds", "Stall.", []string{"job_id", "owner", "rank"}, nil)
	upDesc    = prometheus.NewDesc("culprit_nccl_process_up", "Up.", []string{"job_id", "owner", "rank"}, nil)
	ranksDesc = prometheus.NewDesc("culprit_nccl_function_ops_total", "Operations.", []string{"job_id", "owner", "rank", "function"}, nil)
)

func (s *standing) Name() string { return "node0" }

func (s *standing) Collect(emit func(prometheus.Metric)) error {
	emit(prometheus.MustNewConstMetric(stallDesc, prometheus.GaugeValue, s.stall, "job", "1000", "0"))
	emit(prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 1, "job", "1000", "0"))
	emit(prometheus.MustNewConstMetric(ranksDesc, prometheus.CounterValue, s.ops, "job", "1000", "0", "AllReduce"))
	return nil
}

// TestExporterHasTheRulesLimit holds the exporter's own stall trigger to the rules', evaluated by Prometheus's engine on the same samples:
// the limit is the same at every second of twenty minutes of iterations, checkpoints and a hang.
func TestExporterHasTheRulesLimit(t *testing.T) {
	rule, err := stall.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		draw := rand.New(rand.NewPCG(seed, 1))
		begin, job := time.Unix(10_000, 0), &standing{}
		m, err := New(Options{Scrape: time.Second, Rules: rules.Triggers, Unread: true, Alertmanager: alertmanager.Config, Deliver: func(*webhook.Message) error { return nil }}, []Target{job}, begin)
		if err != nil {
			t.Fatal(err)
		}
		waits := stall.NewWaits(rule)
		wait, compared := 0.0, 0
		for second := range 20 * 60 {
			now := begin.Add(time.Duration(second+1) * time.Second)
			switch { // One wait after the other, most of them short; the last goes on for ever.
			case job.stall < wait || second > 19*60:
				job.stall++
			case second > 20:
				job.stall, wait = draw.Float64(), math.Floor(5*draw.Float64())
				if draw.IntN(60) == 0 {
					wait = 30
				}
				job.ops += 10
			}
			pass(t, m, now)
			ask := func(query string) model.Vector {
				v, _, _, err := m.Queries(func() time.Time { return now }, func(string) bool { return false }).Query(t.Context(), query, now)
				if err != nil {
					t.Fatal(err)
				}
				return v.(model.Vector)
			}
			seen, list := ask(`job_id:culprit_nccl_stall_seconds:max`), ask(`job_id:culprit_nccl_stall_seconds:threshold`)
			if len(seen) == 0 {
				continue // Before the first scrape.
			}
			// The rules know of a stall a scrape later than the exporter, and of completed operations some seconds: another group records them.
			waits.Evaluate(now, float64(seen[0].Value), 1, len(ask(`job_id:culprit_nccl_function_ops:sum > 0`)) > 0)
			compared++
			if got, want := waits.Limit(), float64(list[0].Value); math.Abs(got-want) > 1e-9 {
				t.Fatalf("seed %d, second %d, stall %.2f s: the exporter's limit is %.3f s, the rules' %.3f s", seed, second, job.stall, got, want)
			}
		}
		if compared < 19*60 {
			t.Errorf("compared at %d seconds", compared)
		}
	}
}
