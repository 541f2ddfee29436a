// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package collector turns what the node knows into metrics: one file a collector. Collectors run apart from each
// other: one that fails, panics or hangs costs its own metrics only.
package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector gathers one kind of metric.
type Collector interface {
	// Collect hands metrics to emit until it is done or ctx ends. Metrics emitted before an error are exported.
	Collect(ctx context.Context, emit func(prometheus.Metric)) error
}

// ErrNoData says that a collector's subject does not exist on this node. That is no failure.
var ErrNoData = errors.New("nothing to collect on this node")

var (
	successDesc = prometheus.NewDesc("culprit_exporter_collector_success",
		"Whether the collector's last collection worked.", []string{"collector"}, nil)
	durationDesc = prometheus.NewDesc("culprit_exporter_collector_duration_seconds",
		"How long the collector's last collection took.", []string{"collector"}, nil)
)

// Set is the collectors that are switched on.
type Set struct {
	log     *slog.Logger
	members []*member
}

type member struct {
	name    string
	c       Collector
	running chan struct{}             // Full while a collection runs, beyond its scrape if need be.
	began   atomic.Pointer[time.Time] // When the last collection did.
	without atomic.Bool               // It has been said that there is nothing to collect.
}

// patience is how old a collection may be for another scrape to wait for its end. Collections take milliseconds: one that is older
// hangs. Without patience, whoever scrapes all the time would take the metrics from Prometheus.
const patience = time.Second

// enter waits for the member's turn; false: an earlier collection does not end.
func (m *member) enter(ctx context.Context) bool {
	select {
	case m.running <- struct{}{}:
		return true
	default:
	}
	wait := patience
	if began := m.began.Load(); began != nil {
		wait -= time.Since(*began)
	}
	timer := time.NewTimer(max(0, wait))
	defer timer.Stop()
	select {
	case m.running <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// NewSet makes an empty Set.
func NewSet(log *slog.Logger) *Set { return &Set{log: log} }

// Add puts a collector into the set. It must not be called while the set is in use.
func (s *Set) Add(name string, c Collector) {
	s.members = append(s.members, &member{name: name, c: c, running: make(chan struct{}, 1)})
}

// Names lists the collectors in the order they were added.
func (s *Set) Names() []string {
	names := make([]string, len(s.members))
	for i, m := range s.members {
		names[i] = m.name
	}
	return names
}

// WithContext gives a prometheus.Collector for one scrape that must end with ctx.
func (s *Set) WithContext(ctx context.Context) prometheus.Collector { return scrape{s, ctx} }

type scrape struct {
	set *Set
	ctx context.Context // prometheus.Collector has no other way to pass one.
}

// Describe implements prometheus.Collector. The metrics depend on the jobs that run: the collector is unchecked.
func (s scrape) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s scrape) Collect(ch chan<- prometheus.Metric) {
	var wg sync.WaitGroup
	for _, m := range s.set.members {
		wg.Go(func() { s.set.collect(s.ctx, m, ch) })
	}
	wg.Wait()
}

// collect runs one collector and waits for it or for ctx. What a collector emits after its time is up is dropped.
func (s *Set) collect(ctx context.Context, m *member, ch chan<- prometheus.Metric) {
	start := time.Now()
	metrics, err := m.run(ctx)
	for _, metric := range metrics {
		ch <- metric
	}
	success := 1.0
	switch {
	case errors.Is(err, ErrNoData):
		if !m.without.Swap(true) {
			s.log.Info("Collector has no data", "collector", m.name, "reason", err)
		}
	case err != nil:
		success = 0
		s.log.Error("Collector failed", "collector", m.name, "err", err)
	}
	ch <- prometheus.MustNewConstMetric(successDesc, prometheus.GaugeValue, success, m.name)
	ch <- prometheus.MustNewConstMetric(durationDesc, prometheus.GaugeValue, time.Since(start).Seconds(), m.name)
}

func (m *member) run(ctx context.Context) ([]prometheus.Metric, error) {
	if !m.enter(ctx) {
		return nil, errors.New("an earlier collection has not ended")
	}
	now := time.Now()
	m.began.Store(&now)
	type result struct {
		metrics []prometheus.Metric
		err     error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			<-m.running // Before anybody can begin the next.
			done <- r
		}()
		r.err = m.c.Collect(ctx, func(metric prometheus.Metric) { r.metrics = append(r.metrics, metric) })
	}()
	select {
	case r := <-done:
		return r.metrics, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("collecting: %w", context.Cause(ctx))
	}
}
