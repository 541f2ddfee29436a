// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
)

var (
	filesDesc = prometheus.NewDesc("culprit_exporter_trace_files",
		"Trace files known, by the state of the process or of the file.", []string{"state"}, nil)
	disputedDesc = prometheus.NewDesc("culprit_exporter_disputed_claims",
		"Processes that claim to be a rank of a job that is another user's, or a rank that is another process.", nil, nil)
	readErrorsDesc = prometheus.NewDesc("culprit_exporter_trace_read_errors_total",
		"Trace files that could not be read.", []string{"reason"}, nil)
	coverageDesc = prometheus.NewDesc("culprit_exporter_nccl_processes",
		"Processes that have NCCL or its plugin mapped, by whether they are watched.", []string{"state"}, nil)
	missingDirsDesc = prometheus.NewDesc("culprit_exporter_trace_dirs_missing",
		"Trace directories that do not exist.", nil, nil)
	seriesDroppedDesc = prometheus.NewDesc("culprit_exporter_series_dropped_total",
		"Series left out by the hard cap.", nil, nil)
)

// Self exports the exporter's own state.
type Self struct {
	sampler *node.Sampler
	dropped func() uint64
	rounds  prometheus.Histogram
}

// NewSelf makes the collector of the exporter's own metrics. It must be made before the sampler runs.
func NewSelf(sampler *node.Sampler, droppedSeries func() uint64) *Self {
	s := &Self{
		sampler: sampler, dropped: droppedSeries,
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "culprit_exporter_sample_duration_seconds",
			Help:    "Duration of one round of the sampler.",
			Buckets: prometheus.ExponentialBuckets(1e-4, 4, 7),
		}),
	}
	sampler.ObserveRounds(func(d time.Duration) { s.rounds.Observe(d.Seconds()) })
	return s
}

// Describe implements prometheus.Collector.
func (s *Self) Describe(ch chan<- *prometheus.Desc) {
	ch <- filesDesc
	ch <- disputedDesc
	ch <- readErrorsDesc
	ch <- coverageDesc
	ch <- missingDirsDesc
	ch <- seriesDroppedDesc
	s.rounds.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Self) Collect(ch chan<- prometheus.Metric) {
	live, dead, unreadable := s.sampler.Files()
	ch <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(live), "live")
	ch <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(dead), "dead")
	ch <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(unreadable), "unreadable")
	ch <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(s.sampler.LeftOut()), "left_out")
	ch <- prometheus.MustNewConstMetric(disputedDesc, prometheus.GaugeValue, float64(s.sampler.DisputedClaims()))
	c := s.sampler.Coverage()
	ch <- prometheus.MustNewConstMetric(coverageDesc, prometheus.GaugeValue, float64(c.Watched), "watched")
	ch <- prometheus.MustNewConstMetric(coverageDesc, prometheus.GaugeValue, float64(c.Unseen), "unseen")
	ch <- prometheus.MustNewConstMetric(coverageDesc, prometheus.GaugeValue, float64(c.Unwatched), "without_plugin")
	ch <- prometheus.MustNewConstMetric(missingDirsDesc, prometheus.GaugeValue, float64(s.sampler.MissingDirs()))
	for reason, n := range s.sampler.ReadErrors() {
		ch <- prometheus.MustNewConstMetric(readErrorsDesc, prometheus.CounterValue, float64(n), string(reason))
	}
	ch <- prometheus.MustNewConstMetric(seriesDroppedDesc, prometheus.CounterValue, float64(s.dropped()))
	s.rounds.Collect(ch)
}
