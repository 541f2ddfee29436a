// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/deploy/alertmanager"
)

// link is an exporter of a rank. From the moment of the fault on, the rank waits for the network.
type link struct {
	clock.Clock
	rank  int
	fault time.Time // Zero: none.
	begin time.Time
}

var (
	buildDesc = prometheus.NewDesc("culprit_exporter_build_info", "Version.", nil, nil)
	waitDesc  = prometheus.NewDesc("culprit_nccl_wait_seconds_total", "Waiting.", []string{"job_id", "rank", "reason"}, nil)
	opsDesc   = prometheus.NewDesc("culprit_nccl_function_ops_total", "Operations.", []string{"job_id", "rank", "function"}, nil)
)

func (l *link) Name() string { return "node" + strconv.Itoa(l.rank) }

func (l *link) Collect(emit func(prometheus.Metric)) error {
	rank, now := strconv.Itoa(l.rank), l.Now()
	waited := 0.05 * now.Sub(l.begin).Seconds()
	if !l.fault.IsZero() && now.After(l.fault) {
		waited += 0.5 * now.Sub(l.fault).Seconds()
	}
	emit(prometheus.MustNewConstMetric(buildDesc, prometheus.GaugeValue, 1))
	emit(prometheus.MustNewConstMetric(waitDesc, prometheus.CounterValue, waited, "job", rank, "network"))
	emit(prometheus.MustNewConstMetric(opsDesc, prometheus.CounterValue, 10*now.Sub(l.begin).Seconds(), "job", rank, "AllReduce"))
	return nil
}

// at is a clock that stands.
type at struct {
	clock.Clock
	now time.Time
}

func (a *at) Now() time.Time { return a.now }

// The analyzer's own queries find rates, and whose have grown, whatever the scrape interval: the windows follow it.
func TestQueriesFollowTheScrapeInterval(t *testing.T) {
	for _, scrape := range []int{1, 5, 15, 30, 60} {
		t.Run(fmt.Sprintf("%ds", scrape), func(t *testing.T) {
			begin := time.Unix(10_000, 0)
			now := &at{Clock: clock.System, now: begin}
			fault := begin.Add(30 * time.Minute)
			var targets []Target
			for rank := range 4 {
				l := &link{Clock: now, rank: rank, begin: begin}
				if rank == 2 {
					l.fault = fault
				}
				targets = append(targets, l)
			}
			m, err := New(Options{Scrape: time.Duration(scrape) * time.Second, Rules: []byte("groups: []"), Alertmanager: alertmanager.Config}, targets, begin)
			if err != nil {
				t.Fatal(err)
			}
			told := fault.Add(time.Duration(4*scrape+30) * time.Second) // When the rules tell of it at the latest.
			for !m.Next().After(told) {
				now.now = m.Next()
				if err := m.Handle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			now.now = told
			d := evidence.NewDirectory(m.Queries(now.Now, func(string) bool { return false }), config.Default().Prometheus, func(error) {}, now)
			if got, want := d.RateWindow(t.Context()), max(time.Minute, time.Duration(4*scrape)*time.Second); got != want {
				t.Errorf("the window is %s, want %s", got, want)
			}
			job := identity.Job{ID: "job"}
			if pace, err := d.Pace(t.Context(), job); err != nil || pace < 9.5 || pace > 10.5 {
				t.Errorf("pace is %g, %v, want 10", pace, err)
			}
			grown, err := d.Grown(t.Context(), job, told.Sub(fault)+2*d.RateWindow(t.Context()))
			if err != nil || !slices.Equal(grown, []int{2}) && (len(grown) == 0 || grown[0] != 2) {
				t.Errorf("rates of ranks %v have grown, %v, want that of rank 2 first", grown, err)
			}
		})
	}
}
