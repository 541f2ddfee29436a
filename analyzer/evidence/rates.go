// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// Windows of rates: four scrapes, as in the shipped rules, and not less than the shortest.
const (
	shortestRate   = time.Minute
	scrapesPerRate = 4
	longestRate    = 20 * time.Minute
)

// countedOver is the period over which scrapes are counted.
const countedOver = 3 * time.Minute

// RateWindow gives the window for rates: long enough for the scrape interval of the exporters, taken from the configuration or
// else from Prometheus.
func (d *Directory) RateWindow(ctx context.Context) time.Duration {
	scrape := time.Duration(d.cfg.ScrapeInterval)
	if scrape == 0 {
		scrape = d.scraped(ctx)
	}
	return min(max(shortestRate, scrapesPerRate*scrape), longestRate)
}

// scraped gives the interval at which most exporters are scraped; 0 unknown. The result is kept for as long as membership is.
func (d *Directory) scraped(ctx context.Context) time.Duration {
	d.mu.Lock()
	interval, at := d.interval, d.intervalAt
	d.mu.Unlock()
	if !at.IsZero() && d.clock.Now().Sub(at) < time.Duration(d.cfg.RefreshInterval) {
		return interval
	}
	exporters, err := config.Query(d.cfg.Queries.Exporters, `instance!=""`)
	if err != nil {
		return interval
	}
	v, err := d.vector(ctx, fmt.Sprintf("quantile(0.5, count_over_time(%s[%ds]))", exporters, int(countedOver.Seconds())))
	if err != nil {
		return interval // The last known value is a better guess than the default.
	}
	interval = 0
	if len(v) > 0 && v[0].Value >= 1 {
		interval = time.Duration(float64(countedOver) / float64(v[0].Value)).Round(time.Second)
	}
	d.mu.Lock()
	d.interval, d.intervalAt = interval, d.clock.Now()
	d.mu.Unlock()
	return interval
}

// everyJob matches the series of all jobs.
const everyJob = identity.IDLabel + `!=""`
