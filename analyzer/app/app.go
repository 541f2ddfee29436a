// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package app puts the analyzer together, so that a program and a test run the same thing.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"text/template"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"github.com/culprit-project/culprit/analyzer/api"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/diagnose"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/stacks"
	"github.com/culprit-project/culprit/analyzer/webhook"
)

// App is the analyzer without its listener and its process.
type App struct {
	logger    *slog.Logger
	source    *prometheus.CounterVec
	incidents *incident.Manager
	sender    *notify.Sender
	store     *incident.Store
	handler   http.Handler
	refill    chan refill

	current atomic.Pointer[settings]
	ready   atomic.Bool
	apply   sync.Mutex
}

// settings is what a reload replaces.
type settings struct {
	config    *config.Config
	diagnoser *diagnose.Diagnoser
	format    *notify.Format
}

// New makes an analyzer. storage is the folder to keep incidents in, empty for none.
func New(cfg *config.Config, storage string, logger *slog.Logger, reg *prometheus.Registry) (*App, error) {
	a := &App{logger: logger, refill: make(chan refill, maxRefills)}
	a.source = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_analyzer_source_requests_total",
		Help: "Requests to what evidence comes from, by outcome.",
	}, []string{"source", "outcome"})
	for _, source := range []string{"prometheus", "exporter", "alertmanager"} {
		a.observer(source)
	}
	reg.MustRegister(a.source)
	a.sender = notify.NewSender(logger.With("component", "notify"), a.source, reg)
	if err := a.Apply(cfg); err != nil {
		return nil, err
	}
	if storage != "" {
		store, err := incident.NewStore(filepath.Join(storage, "incidents"), logger.With("component", "storage"))
		if err != nil {
			return nil, err
		}
		a.store = store
	}
	manager, err := incident.NewManager(options(cfg), a.analyze, a.publish, a.store, logger.With("component", "incident"), reg)
	if err != nil {
		return nil, err
	}
	a.incidents = manager
	a.handler = a.routes(reg)
	return a, nil
}

// observer gives a function that counts requests to a source.
func (a *App) observer(source string) func(error) {
	ok, failed := a.source.WithLabelValues(source, "ok"), a.source.WithLabelValues(source, "error")
	return func(err error) {
		if err != nil {
			failed.Inc()
		} else {
			ok.Inc()
		}
	}
}

// Apply puts a checked configuration in force. On an error the former one stays.
func (a *App) Apply(cfg *config.Config) error {
	a.apply.Lock()
	defer a.apply.Unlock()
	next, clients, err := a.build(cfg)
	if err != nil {
		return err
	}
	if old := a.current.Load(); old != nil {
		next.diagnoser.Gatherer.Directory.Inherit(old.diagnoser.Gatherer.Directory)
	}
	a.current.Store(next)
	a.sender.Apply(clients, time.Duration(cfg.Notify.Resend))
	if a.incidents != nil {
		a.incidents.Apply(options(cfg))
		for _, inc := range a.incidents.List() {
			a.publish(inc)
		}
	}
	return nil
}

func (a *App) build(cfg *config.Config) (*settings, []*notify.Client, error) {
	agent := promconfig.WithUserAgent("culprit-analyzer/" + version.Version)
	var querier evidence.Querier
	if cfg.Prometheus.URL != "" {
		rt, err := promconfig.NewRoundTripperFromConfig(cfg.Prometheus.HTTPConfig, "prometheus", agent)
		if err != nil {
			return nil, nil, fmt.Errorf("prometheus.http_config: %w", err)
		}
		client, err := promapi.NewClient(promapi.Config{Address: cfg.Prometheus.URL, RoundTripper: rt})
		if err != nil {
			return nil, nil, fmt.Errorf("prometheus.url: %w", err)
		}
		querier = v1.NewAPI(client)
	}
	exporters, err := promconfig.NewClientFromConfig(cfg.Exporters.HTTPConfig, "exporters", agent)
	if err != nil {
		return nil, nil, fmt.Errorf("exporters.http_config: %w", err)
	}
	alertmanager, err := promconfig.NewClientFromConfig(cfg.Alertmanager.HTTPConfig, "alertmanager", agent)
	if err != nil {
		return nil, nil, fmt.Errorf("alertmanager.http_config: %w", err)
	}
	clients := make([]*notify.Client, len(cfg.Alertmanager.URLs))
	for i, u := range cfg.Alertmanager.URLs {
		clients[i] = &notify.Client{URL: u, HTTP: alertmanager, Timeout: time.Duration(cfg.Alertmanager.Timeout)}
	}
	runbook, err := template.New("runbook_url").Parse(cfg.RunbookURL)
	if err != nil {
		return nil, nil, fmt.Errorf("runbook_url: %w", err)
	}
	out := &settings{
		config: cfg,
		diagnoser: &diagnose.Diagnoser{
			Config: cfg.Analysis,
			Logger: a.logger.With("component", "diagnose"),
			Gatherer: &evidence.Gatherer{
				Directory: evidence.NewDirectory(querier, cfg.Prometheus, a.observer("prometheus")),
				Exporters: cfg.Exporters,
				Nodes: &evidence.Nodes{
					HTTP: exporters, Timeout: time.Duration(cfg.Exporters.Timeout),
					HistoryTimeout: time.Duration(cfg.Exporters.HistoryTimeout), Retries: cfg.Exporters.Retries,
					MaxBytes: cfg.Exporters.MaxBytes, Observe: a.observer("exporter"),
				},
			},
		},
		format: &notify.Format{
			AlertName: cfg.Notify.AlertName, Labels: cfg.Notify.Labels, Hang: cfg.Notify.Severity.Hang, Slow: cfg.Notify.Severity.Slow,
			Unknown: cfg.Notify.Severity.Unknown, MaxAlerts: cfg.Notify.MaxAlerts, ExternalURL: cfg.ExternalURL, Runbook: runbook,
		},
	}
	if out.diagnoser.Stacks, err = stackSource(cfg.Stacks, agent); err != nil {
		return nil, nil, err
	}
	return out, clients, nil
}

// stackSource gives where stacks come from, nil when nowhere.
func stackSource(cfg config.Stacks, agent promconfig.HTTPClientOption) (diagnose.Stacks, error) {
	if cfg.URL == "" {
		return nil, nil
	}
	client, err := promconfig.NewClientFromConfig(cfg.HTTPConfig, "stacks", agent)
	if err != nil {
		return nil, fmt.Errorf("stacks.http_config: %w", err)
	}
	address, err := template.New("stacks.url").Option("missingkey=error").Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("stacks.url: %w", err)
	}
	return &stacks.Source{URL: address, HTTP: client, Timeout: time.Duration(cfg.Timeout)}, nil
}

func options(cfg *config.Config) incident.Options {
	i := &cfg.Incidents
	return incident.Options{
		MaxOpen: i.MaxOpen, History: i.History, Workers: cfg.Analysis.Workers, Grace: time.Duration(i.Grace),
		RetryMin: time.Duration(i.RetryMin), RetryMax: time.Duration(i.RetryMax), Recheck: time.Duration(i.Recheck),
		PassiveTTL: time.Duration(i.PassiveTTL), Silent: time.Duration(i.Silent),
	}
}

func (a *App) analyze(ctx context.Context, req incident.Request) (incident.Outcome, error) {
	return a.current.Load().diagnoser.Diagnose(ctx, req)
}

func (a *App) publish(inc incident.Incident) {
	a.sender.Set(inc.ID, a.current.Load().format.Alerts(&inc))
}

// receive is the webhook's sink.
func (a *App) receive(_ context.Context, m *webhook.Message) error {
	found, ignored := triggers(m.Alerts, a.current.Load().config.Labels)
	if ignored > 0 {
		a.logger.Warn("alerts that tell no job are left alone", "alerts", ignored, "group", m.GroupKey)
	}
	if err := a.incidents.Receive(found); err != nil {
		if errors.Is(err, incident.ErrOverloaded) {
			return errors.Join(webhook.ErrOverloaded, err)
		}
		return err
	}
	if m.TruncatedAlerts > 0 {
		a.askForRest(m)
	}
	return nil
}

// Handler gives everything that is served.
func (a *App) Handler() http.Handler { return a.handler }

// Run works until the context ends.
func (a *App) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if a.store != nil {
		wg.Go(func() { a.store.Run(ctx) })
	}
	wg.Go(func() { a.sender.Run(ctx) })
	wg.Go(func() { a.incidents.Run(ctx) })
	wg.Go(func() { a.watch(ctx) })
	wg.Go(func() { a.refresh(ctx) })
	a.ready.Store(true)
	wg.Wait()
	a.ready.Store(false)
	if a.store != nil {
		a.store.Flush() // What the last analyses left.
	}
}

// refresh keeps the membership of running jobs known, for when Prometheus is down.
func (a *App) refresh(ctx context.Context) {
	for {
		s := a.current.Load()
		if s.config.Prometheus.URL != "" {
			if err := s.diagnoser.Gatherer.Directory.Refresh(ctx); err != nil && ctx.Err() == nil {
				a.logger.Warn("membership not refreshed", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(s.config.Prometheus.RefreshInterval)):
		}
	}
}

func (a *App) routes(reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /api/v1/alerts", webhook.NewHandler(a.receive, a.logger.With("component", "webhook"), reg))
	api.New(a.incidents, a.logger.With("component", "api")).Register(mux)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthy\n")) })
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !a.ready.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", metricsHandler(reg, a.logger))
	return mux
}
