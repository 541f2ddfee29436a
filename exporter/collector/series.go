// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// series describes a metric of which a scrape has hundreds. Making one costs a third of what prometheus.MustNewConstMetric
// does: names are checked and sorted once, and the registry checks each metric anyway.
type series struct {
	desc  *prometheus.Desc
	names []*string // Sorted.
	from  []int     // Which value belongs to each name.
}

func newSeries(name, help string, labels ...string) *series {
	s := &series{desc: prometheus.NewDesc(name, help, labels, nil)}
	sorted := slices.Sorted(slices.Values(labels))
	for i := range sorted {
		s.names = append(s.names, &sorted[i])
		s.from = append(s.from, slices.Index(labels, sorted[i]))
	}
	return s
}

func (s *series) gauge(v float64, labels ...string) prometheus.Metric {
	return &ready{desc: s.desc, labels: s.label(labels), gauge: &dto.Gauge{Value: &v}}
}

func (s *series) counter(v float64, labels ...string) prometheus.Metric {
	return &ready{desc: s.desc, labels: s.label(labels), counter: &dto.Counter{Value: &v}}
}

func (s *series) histogram(h *dto.Histogram, labels ...string) prometheus.Metric {
	return &ready{desc: s.desc, labels: s.label(labels), histogram: h}
}

// label pairs the names with values, which are in the order of newSeries's labels. Label values must be valid UTF-8, or the
// whole scrape fails.
func (s *series) label(values []string) []*dto.LabelPair {
	pairs, list := make([]*dto.LabelPair, len(s.names)), make([]dto.LabelPair, len(s.names))
	own := make([]string, len(s.names))
	for i, name := range s.names {
		own[i] = strings.ToValidUTF8(values[s.from[i]], "?")
		list[i].Name, list[i].Value = name, &own[i]
		pairs[i] = &list[i]
	}
	return pairs
}

// ready is a metric with everything in it.
type ready struct {
	desc      *prometheus.Desc
	labels    []*dto.LabelPair
	gauge     *dto.Gauge
	counter   *dto.Counter
	histogram *dto.Histogram
}

// Desc implements prometheus.Metric.
func (r *ready) Desc() *prometheus.Desc { return r.desc }

// Write implements prometheus.Metric.
func (r *ready) Write(m *dto.Metric) error {
	m.Label, m.Gauge, m.Counter, m.Histogram = r.labels, r.gauge, r.counter, r.histogram
	return nil
}
