// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/analyzer/config"
)

// reloader puts the configuration file in force again.
type reloader struct {
	load    func() (*config.Config, error)
	app     *App
	logger  *slog.Logger
	success prometheus.Gauge
	at      prometheus.Gauge
}

func newReloader(load func() (*config.Config, error), app *App, logger *slog.Logger, reg prometheus.Registerer) *reloader {
	r := &reloader{
		load: load, app: app, logger: logger,
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "culprit_analyzer_config_last_reload_successful",
			Help: "1 when the configuration was valid the last time it was read.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "culprit_analyzer_config_last_reload_success_timestamp_seconds",
			Help: "When a valid configuration was last read.",
		}),
	}
	reg.MustRegister(r.success, r.at)
	r.success.Set(1)
	r.at.SetToCurrentTime()
	return r
}

func (r *reloader) reload() error {
	cfg, err := r.load()
	if err == nil {
		err = r.app.Apply(cfg)
	}
	if err != nil {
		r.success.Set(0)
		r.logger.Error("configuration not reloaded; the former one stays", "err", err)
		return err
	}
	r.success.Set(1)
	r.at.SetToCurrentTime()
	r.logger.Info("configuration reloaded")
	return nil
}

// ServeHTTP implements http.Handler.
func (r *reloader) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if err := r.reload(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
