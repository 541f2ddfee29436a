// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/ras"
)

// RAS exports what NCCL's own RAS service says of the job that runs on this node. It asks at its own slow pace, whatever
// the scrape interval, and only on the node of a job's rank 0: each question has RAS ask every process of the job.
type RAS struct {
	query func(ctx context.Context) (*ras.Report, error)
	every time.Duration
	ranks Ranks
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	report *ras.Report
	before *ras.Report // The one before report.
	at     time.Time
	err    error
	silent bool // The failure has been logged.
}

// NewRAS makes the ras collector. It has no data until Run has asked.
func NewRAS(query func(ctx context.Context) (*ras.Report, error), every time.Duration, ranks Ranks, log *slog.Logger) *RAS {
	return &RAS{query: query, every: every, ranks: ranks, log: log, now: time.Now}
}

func rasDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("culprit_nccl_ras_"+name, help, labels, nil)
}

var (
	rasUpDesc = rasDesc("up",
		"1 when NCCL's RAS service answered the last time; absent where no rank 0 runs.")
	rasAgeDesc = rasDesc("report_timestamp_seconds",
		"When RAS last gave a report.")
	rasCollectionDesc = rasDesc("collection_seconds",
		"How long RAS took to ask all processes.")
	rasMissingDesc = rasDesc("missing_ranks",
		"Ranks of the communicator that did not answer RAS.", "comm")
	rasDeadDesc = rasDesc("dead_ranks",
		"Ranks of the communicator that RAS considers dead.", "comm")
	rasErrorsDesc = rasDesc("async_error_ranks",
		"Ranks of the communicator with an asynchronous error.", "comm")
	rasLagDesc = rasDesc("launch_lag",
		"By how many launches the communicator's last rank is behind its first. Send and receive are not counted.", "comm")
)

// Run asks until ctx ends.
func (c *RAS) Run(ctx context.Context) {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		if c.asks() {
			report, err := c.query(ctx)
			if ctx.Err() != nil {
				return
			}
			c.note(report, err)
		} else {
			c.note(nil, nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// asks tells whether this node is the one that asks for a job: the one of its rank 0.
func (c *RAS) asks() bool {
	return slices.ContainsFunc(c.ranks.Ranks(), func(r node.RankRef) bool { return r.Rank == 0 })
}

// note takes in an answer; without report and error nobody was asked.
func (c *RAS) note(report *ras.Report, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !c.silent {
		c.log.Warn("NCCL's RAS service was not heard", "err", err)
	}
	c.silent = err != nil
	c.before, c.report, c.err = c.report, report, err
	if report != nil {
		c.at = c.now()
	}
}

// Collect implements Collector.
func (c *RAS) Collect(_ context.Context, emit func(prometheus.Metric)) error {
	c.mu.Lock()
	report, at, err := c.report, c.at, c.err
	c.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		emit(prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	if report == nil {
		if err != nil {
			gauge(rasUpDesc, 0)
		}
		return nil // Where nobody was to be asked, there is nothing to say.
	}
	gauge(rasUpDesc, 1)
	gauge(rasAgeDesc, float64(at.UnixNano())/1e9)
	gauge(rasCollectionDesc, report.RAS.CollectionSeconds)
	seen := map[string]bool{}
	for i := range report.Communicators {
		comm := &report.Communicators[i]
		id := strings.ToValidUTF8(strings.TrimPrefix(comm.Hash, "0x"), "?")
		if seen[id] {
			continue
		}
		seen[id] = true
		dead, errs := 0, 0
		for _, m := range comm.Missing {
			if m.Status.Dead {
				dead++
			}
		}
		for j := range comm.Ranks {
			if comm.Ranks[j].Status.AsyncError != 0 {
				errs++
			}
		}
		gauge(rasMissingDesc, float64(len(comm.Missing)), id)
		gauge(rasDeadDesc, float64(dead), id)
		gauge(rasErrorsDesc, float64(errs), id)
		gauge(rasLagDesc, float64(comm.Lag()), id)
	}
	return nil
}
