// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Target is an exporter.
type Target interface {
	Name() string
	// Collect hands over everything that /metrics has; an error is a failed scrape.
	Collect(emit func(prometheus.Metric)) error
}

// exporterJob is the scrape job that the rules and docs know exporters by.
const exporterJob = "culprit-exporter"

// target is a Target with the series that it had at the last scrape.
type target struct {
	Target
	up    *series
	all   map[string]*shown
	last  []*shown // In the order of the last scrape: the next one is nearly the same.
	turn  int64    // Of the scrape, milliseconds.
	names map[*prometheus.Desc]string
}

// shown is a series as its target shows it.
type shown struct {
	name   string
	pairs  []*dto.LabelPair
	series *series
	turn   int64
}

func (s *shown) is(name string, pairs []*dto.LabelPair) bool {
	if s.name != name || len(s.pairs) != len(pairs) {
		return false
	}
	for i, p := range pairs {
		if p.GetValue() != s.pairs[i].GetValue() || p.GetName() != s.pairs[i].GetName() {
			return false
		}
	}
	return true
}

func (m *Monitor) newTarget(t Target) *target {
	l := labels.FromStrings(model.MetricNameLabel, "up", "job", exporterJob, "instance", t.Name())
	return &target{Target: t, up: m.store.get(l), all: map[string]*shown{}, names: map[*prometheus.Desc]string{}}
}

// scrape reads a target at a time, and ends the series that it no longer has.
func (m *Monitor) scrape(t *target, at int64) error {
	t.turn = at
	before := t.last
	next := make([]*shown, 0, len(before))
	var bad error
	err := t.Collect(func(metric prometheus.Metric) {
		name, known := t.names[metric.Desc()]
		if !known {
			name = nameOf(metric.Desc())
			t.names[metric.Desc()] = name
		}
		var pb dto.Metric
		if err := metric.Write(&pb); err != nil {
			bad = fmt.Errorf("scraping %s of %s: %w", name, t.Name(), err)
			return
		}
		m.each(name, &pb, func(name string, pairs []*dto.LabelPair, v float64) {
			s := m.shown(t, before, len(next), name, pairs)
			if s.turn == at {
				bad = fmt.Errorf("scraping %s: %s twice", t.Name(), s.series.labels)
				return
			}
			s.turn = at
			next = append(next, s)
			if err := s.series.append(at, v); err != nil {
				bad = fmt.Errorf("scraping %s of %s: %w", name, t.Name(), err)
			}
		})
	})
	if bad != nil {
		return bad
	}
	for _, s := range before {
		if s.turn != at {
			if err := s.series.stale(at); err != nil {
				return fmt.Errorf("ending %s of %s: %w", s.name, t.Name(), err)
			}
		}
	}
	t.last = next
	up := 1.0
	if err != nil {
		up = 0
	}
	return t.up.append(at, up)
}

// shown finds the series of a sample: most are where they were at the last scrape.
func (m *Monitor) shown(t *target, before []*shown, i int, name string, pairs []*dto.LabelPair) *shown {
	if i < len(before) && before[i].is(name, pairs) {
		return before[i]
	}
	key := strings.Builder{}
	key.WriteString(name)
	for _, p := range pairs {
		key.WriteByte(0xff)
		key.WriteString(p.GetName())
		key.WriteByte(0xff)
		key.WriteString(p.GetValue())
	}
	s := t.all[key.String()]
	if s == nil {
		b := labels.NewScratchBuilder(len(pairs) + 3)
		for _, p := range pairs {
			if p.GetValue() != "" {
				b.Add(p.GetName(), p.GetValue())
			}
		}
		b.Add(model.MetricNameLabel, name)
		b.Add("job", exporterJob)
		b.Add("instance", t.Name())
		b.Sort()
		s = &shown{name: name, pairs: pairs, series: m.store.get(b.Labels())}
		t.all[key.String()] = s
	}
	return s
}

// each hands over the samples of a metric that somebody asks for.
func (m *Monitor) each(name string, pb *dto.Metric, f func(name string, pairs []*dto.LabelPair, v float64)) {
	emit := func(name string, pairs []*dto.LabelPair, v float64) {
		if m.opt.Keep == nil || m.opt.Keep(name) {
			f(name, pairs, v)
		}
	}
	h := pb.GetHistogram()
	switch {
	case pb.GetGauge() != nil:
		emit(name, pb.GetLabel(), pb.GetGauge().GetValue())
	case pb.GetCounter() != nil:
		emit(name, pb.GetLabel(), pb.GetCounter().GetValue())
	case h != nil:
		emit(name+"_sum", pb.GetLabel(), h.GetSampleSum())
		emit(name+"_count", pb.GetLabel(), float64(h.GetSampleCount()))
		if m.opt.Keep != nil && !m.opt.Keep(name+"_bucket") {
			return
		}
		for _, b := range h.GetBucket() {
			f(name+"_bucket", append(pb.GetLabel()[:len(pb.GetLabel()):len(pb.GetLabel())], bound(b.GetUpperBound())), float64(b.GetCumulativeCount()))
		}
		f(name+"_bucket", append(pb.GetLabel()[:len(pb.GetLabel()):len(pb.GetLabel())], bound(math.Inf(1))), float64(h.GetSampleCount()))
	}
}

func bound(le float64) *dto.LabelPair {
	name, v := "le", strconv.FormatFloat(le, 'g', -1, 64)
	return &dto.LabelPair{Name: &name, Value: &v}
}

// nameOf gives a metric's name, which a Desc does not tell but in its text.
func nameOf(d *prometheus.Desc) string {
	_, rest, _ := strings.Cut(d.String(), `fqName: "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
