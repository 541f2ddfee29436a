// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// defaultTimeout bounds a scrape whose client does not say how long it waits.
	defaultTimeout = 10 * time.Second
	// timeoutMargin is kept back from the client's timeout for encoding and the network.
	timeoutMargin = 500 * time.Millisecond
)

var errScrapeTimeout = errors.New("the scrape's time is up")

// Handler serves the metrics of the set and of the always-on registry. A scrape ends before Prometheus gives it up, by
// the timeout that it announces in its request.
func Handler(log *slog.Logger, always *prometheus.Registry, set *Set) http.Handler {
	opts := promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), timeout(r.Header), errScrapeTimeout)
		defer cancel()
		registry := prometheus.NewRegistry()
		registry.MustRegister(set.WithContext(ctx))
		promhttp.HandlerFor(prometheus.Gatherers{always, registry}, opts).ServeHTTP(w, r)
	})
}

func timeout(h http.Header) time.Duration {
	s, err := strconv.ParseFloat(h.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || s <= 0 || s > time.Hour.Seconds() {
		return defaultTimeout
	}
	d := time.Duration(s * float64(time.Second))
	if d > 2*timeoutMargin {
		return d - timeoutMargin
	}
	return d / 2
}
