// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package app puts the analyzer together, so that a program and a test run the same thing.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/api"
	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/diagnose"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/fetch"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/stacks"
	"github.com/culprit-project/culprit/analyzer/webhook"
)

// App is the analyzer without its listener and its process.
type App struct {
	logger    *slog.Logger
	source    *prometheus.CounterVec
	unheard   prometheus.Counter
	sighted   sightings
	incidents *incident.Manager
	sender    *notify.Sender
	store     *incident.Store
	kept      *kept.Store
	storage   string // Folder of all that is kept; empty: in memory.
	held      *lock  // Of the folder; nil: none.
	actions   *action.Runner
	audit     *action.Log
	pages     *api.API
	handler   http.Handler
	refill    chan refill
	budget    *fetch.Budget       // Of what all sources answer, reloads included,
	allowance *evidence.Allowance // and of what analyses keep of it.

	probes  probes
	current atomic.Pointer[settings]
	ready   atomic.Bool
	apply   sync.Mutex
}

// Bounds of answers, bytes unpacked: all that are being read at a time, Alertmanager's list of alerts, one process's stacks.
const (
	maxAnswers = 512 << 20
	maxListing = 64 << 20
	maxStack   = 8 << 20
)

// settings is what a reload replaces.
type settings struct {
	config     *config.Config
	prometheus evidence.Querier // Nil: none.
	diagnoser  *diagnose.Diagnoser
	format     *notify.Format
	actions    actions
	jobs       *jobs.Source
}

// New makes an analyzer. storage is the folder to keep incidents in, empty for none.
func New(cfg *config.Config, storage string, logger *slog.Logger, reg *prometheus.Registry) (*App, error) {
	a := &App{logger: logger, storage: storage, refill: make(chan refill, maxRefills), budget: fetch.NewBudget(maxAnswers), allowance: evidence.NewAllowance(evidence.ServiceObjects)}
	a.source = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_analyzer_source_requests_total",
		Help: "Requests to the sources of evidence, by outcome.",
	}, []string{"source", "outcome"})
	for _, source := range []string{"prometheus", "exporter", "alertmanager"} {
		a.observer(source)
	}
	a.unheard = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "culprit_analyzer_triggers_unheard_total",
		Help: "Triggers taken from Prometheus because no notification of them came.",
	})
	reg.MustRegister(a.source, a.unheard)
	a.sender = notify.NewSender(logger.With("component", "notify"), a.source, reg)
	if storage != "" {
		if err := os.MkdirAll(storage, 0o750); err != nil {
			return nil, fmt.Errorf("making the storage folder: %w", err)
		}
	}
	var err error
	if a.held, err = hold(storage); err != nil {
		return nil, err
	}
	if a.audit, err = openActionLog(storage); err != nil {
		return nil, err
	}
	a.actions = action.NewRunner(a.audit, logger.With("component", "actions"), reg, clock.System)
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
	if a.kept, err = newKept(cfg, storage, logger); err != nil {
		return nil, err
	}
	manager, err := incident.NewManager(a.options(cfg), a.analyze, a.publish, a.store, logger.With("component", "incident"), prometheus.WrapRegistererWith(cfg.Labels.Match, reg), clock.System)
	if err != nil {
		return nil, err
	}
	a.incidents = manager
	a.handler = a.routes(reg)
	return a, nil
}

// jobLabels gives the labels that belong to a job's identity beside its id.
func (a *App) jobLabels() []string { return a.current.Load().config.Labels.Further() }

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
		if !slices.Equal(old.config.Labels.Further(), cfg.Labels.Further()) {
			return errors.New("labels.job has changed: restart the analyzer, whose series have these labels")
		}
		next.diagnoser.Gatherer.Directory.Inherit(old.diagnoser.Gatherer.Directory)
	}
	a.current.Store(next)
	a.sender.Apply(clients, time.Duration(cfg.Notify.Resend), time.Duration(cfg.Alertmanager.PeerTimeout))
	a.actions.Apply(next.actions.rules, next.actions.limits, next.format.IncidentURL)
	if a.incidents != nil {
		a.kept.Apply(keptBounds(cfg))
		a.incidents.Apply(a.options(cfg))
		for _, inc := range a.incidents.List() {
			a.publish(inc)
		}
	}
	return nil
}

// querier asks Prometheus; nil where none is configured.
func (a *App) querier(cfg *config.Prometheus, opts ...promconfig.HTTPClientOption) (evidence.Querier, error) {
	if cfg.URL == "" {
		return nil, nil
	}
	client := func(section, url string, httpConfig promconfig.HTTPClientConfig) (promapi.Client, error) {
		asking, err := fetch.Client(httpConfig, section, cfg.MaxBytes, a.budget, opts...)
		if err != nil {
			return nil, err
		}
		c, err := promapi.NewClient(promapi.Config{Address: url, Client: asking})
		if err != nil {
			return nil, fmt.Errorf("%s.url: %w", section, err)
		}
		return c, nil
	}
	prometheus, err := client("prometheus", cfg.URL, cfg.HTTPConfig)
	if err != nil {
		return nil, err
	}
	scrapers := []promapi.Client{prometheus}
	if len(cfg.Scrapers) > 0 {
		scrapers = make([]promapi.Client, len(cfg.Scrapers))
	}
	for i, s := range cfg.Scrapers {
		if scrapers[i], err = client(fmt.Sprintf("prometheus.scrapers[%d]", i), s.URL, s.HTTPConfig); err != nil {
			return nil, err
		}
	}
	return scrapes{whole{v1.NewAPI(prometheus)}, scrapers}, nil
}

func (a *App) build(cfg *config.Config) (*settings, []*notify.Client, error) {
	agent := promconfig.WithUserAgent("culprit-analyzer/" + version.Version)
	querier, err := a.querier(&cfg.Prometheus, agent)
	if err != nil {
		return nil, nil, err
	}
	exporters, err := fetch.Client(cfg.Exporters.HTTPConfig, "exporters", cfg.Exporters.MaxBytes, a.budget, agent)
	if err != nil {
		return nil, nil, err
	}
	alertmanager, err := fetch.Client(cfg.Alertmanager.HTTPConfig, "alertmanager", maxListing, a.budget, agent)
	if err != nil {
		return nil, nil, err
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
		config:     cfg,
		prometheus: querier,
		diagnoser: &diagnose.Diagnoser{
			Config: cfg.Analysis,
			Look:   cfg.Exporters.Look,
			Logger: a.logger.With("component", "diagnose"),
			Clock:  clock.System,
			Gatherer: &evidence.Gatherer{
				Directory: evidence.NewDirectory(querier, cfg.Prometheus, a.observer("prometheus"), clock.System),
				Exporters: cfg.Exporters,
				Nodes: &evidence.Nodes{
					HTTP: exporters, Timeout: time.Duration(cfg.Exporters.Timeout),
					HistoryTimeout: time.Duration(cfg.Exporters.HistoryTimeout), Retries: cfg.Exporters.Retries,
					Observe: a.observer("exporter"),
				},
				Allowance: a.allowance,
			},
		},
		format: &notify.Format{
			Hang:    notify.Style{Name: cfg.Notify.AlertName, Severity: cfg.Notify.Severity.Hang},
			Slow:    notify.Style{Name: cfg.Notify.Slow, Severity: cfg.Notify.Severity.Slow},
			Unknown: notify.Style{Name: cfg.Notify.Unknown, Severity: cfg.Notify.Severity.Unknown},
			Warning: notify.Style{Name: cfg.Notify.Warning, Severity: cfg.Notify.Severity.Warning},
			Labels:  labelled(cfg), MaxAlerts: cfg.Notify.MaxAlerts, ExternalURL: cfg.ExternalURL, ExternalCommand: cfg.ExternalCommand, Runbook: runbook,
		},
	}
	out.jobs = jobs.NewSource(querier, cfg.Prometheus, out.diagnoser.Gatherer.Directory, jobs.Exporters{Nodes: out.diagnoser.Gatherer.Nodes, BaseURL: cfg.Exporters.BaseURL})
	if out.diagnoser.Stacks, err = a.stackSource(cfg.Stacks, agent); err != nil {
		return nil, nil, err
	}
	if out.actions, err = a.buildActions(&cfg.Actions, agent); err != nil {
		return nil, nil, err
	}
	return out, clients, nil
}

// labelled gives the labels of all alerts.
func labelled(cfg *config.Config) map[string]string {
	out := maps.Clone(cfg.Labels.Match)
	if out == nil {
		return cfg.Notify.Labels
	}
	for name, value := range cfg.Notify.Labels {
		if _, matched := out[name]; !matched {
			out[name] = value
		}
	}
	return out
}

// stackSource gives where stacks come from, nil when nowhere.
func (a *App) stackSource(cfg config.Stacks, agent promconfig.HTTPClientOption) (diagnose.Stacks, error) {
	if cfg.URL == "" {
		return nil, nil
	}
	client, err := fetch.Client(cfg.HTTPConfig, "stacks", maxStack, a.budget, agent)
	if err != nil {
		return nil, err
	}
	address, err := template.New("stacks.url").Option("missingkey=error").Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("stacks.url: %w", err)
	}
	return &stacks.Source{URL: address, HTTP: client, Timeout: time.Duration(cfg.Timeout)}, nil
}

// options gives the incident manager's bounds, and who the jobs are that Prometheus knows.
func (a *App) options(cfg *config.Config) incident.Options {
	out := Bounds(cfg)
	out.Keep, out.Forget = a.kept.Keep, a.kept.Forget
	if cfg.Prometheus.URL != "" {
		out.Known = func(job identity.Job) bool { return a.current.Load().diagnoser.Gatherer.Directory.Knows(job) }
	}
	return out
}

// Bounds gives the incident manager's bounds by the configuration.
func Bounds(cfg *config.Config) incident.Options {
	i := &cfg.Incidents
	return incident.Options{
		MaxOpen: i.MaxOpen, History: i.History, Workers: cfg.Analysis.Workers, Grace: time.Duration(i.Grace),
		RetryMin: time.Duration(i.RetryMin), RetryMax: time.Duration(i.RetryMax), Recheck: time.Duration(i.Recheck), LookBack: time.Duration(i.LookBack),
		PassiveTTL: time.Duration(i.PassiveTTL), Silent: time.Duration(i.Silent), JobLabels: cfg.Labels.Further(),
	}
}

func (a *App) analyze(ctx context.Context, req incident.Request) (incident.Outcome, error) {
	d := a.current.Load().diagnoser
	out, err := d.Diagnose(ctx, req)
	if err == nil {
		// Whom Prometheus remembers will do; the analysis has just asked.
		processes, _ := d.Gatherer.Directory.Processes(ctx, req.Job)
		out.Labels, out.Workload = a.copied(&req, processes), workload(processes)
	}
	return out, err
}

func (a *App) publish(inc incident.Incident) {
	a.sender.Set(inc.ID, a.current.Load().format.Alerts(&inc))
	a.actions.Consider(inc)
}

// receive is the webhook's sink.
func (a *App) receive(_ context.Context, m *webhook.Message) error {
	found, ignored := a.triggers(a.probes.take(m.Alerts))
	if ignored > 0 {
		a.logger.Warn("ignoring triggers without a job or a kind", "alerts", ignored, "group", m.GroupKey)
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

// EndStreams ends the requests that last for as long as a page is open.
func (a *App) EndStreams() { a.pages.End() }

// Run works until the context ends.
func (a *App) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if a.store != nil {
		wg.Go(func() { a.store.Run(ctx) })
	}
	wg.Go(func() { a.kept.Run(ctx) })
	wg.Go(func() { a.sender.Run(ctx) })
	wg.Go(func() { a.actions.Run(ctx) })
	wg.Go(func() { a.incidents.Run(ctx) })
	wg.Go(func() { a.watch(ctx) })
	wg.Go(func() { a.refresh(ctx) })
	a.ready.Store(true)
	wg.Wait()
	a.ready.Store(false)
	if err := a.audit.Close(); err != nil {
		a.logger.Error("audit log not closed", "err", err)
	}
	if a.store != nil {
		a.store.Flush() // What the last analyses left.
	}
	a.held.release()
}

// refresh keeps the membership of running jobs known, for when Prometheus is down.
func (a *App) refresh(ctx context.Context) {
	for {
		s := a.current.Load()
		if s.config.Prometheus.URL != "" {
			if err := s.diagnoser.Gatherer.Directory.Refresh(ctx); err != nil && ctx.Err() == nil {
				// Where Prometheus does not answer, the first of the queries says it for all.
				if e, ok := errors.AsType[*url.Error](err); ok {
					err = e
				}
				a.logger.Warn("membership of jobs not refreshed", "again_in", s.config.Prometheus.RefreshInterval, "err", err)
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
	a.pages = api.New(a.incidents, api.Options{Links: a.links, Warning: a.warning, Evidence: a.kept, Actions: a.audit.Entries, Jobs: a.jobs, JobLinks: a.jobLinks, JobLabels: a.jobLabels, Whose: a.whose, RankURL: a.rankURL, SilenceURL: a.silenceURL, Notified: a.notified}, a.logger.With("component", "api"))
	a.pages.Register(mux)
	mux.Handle("GET /api/v1/probes/{id}", &a.probes)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthy\n")) })
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !a.ready.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		if a.store != nil {
			if err := a.store.Failed(); err != nil { // It still pages: what fails is shown and changes nothing else.
				fmt.Fprintf(w, "ready, but incidents are not stored: %v\n", err)
				return
			}
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", metricsHandler(reg, a.logger))
	return a.guarded(newPlaces(reg).limit(mux))
}

// guarded refuses what a page of another site has a browser send: it is told by its origin and, where the browser is too old to
// tell, by its type, which a form cannot choose.
func (a *App) guarded(next http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
				return
			}
			if rebound(r, a.current.Load().config.ExternalURL) {
				http.Error(w, "a page under this name may change nothing: start the analyzer with --web.external-url", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	}))
}

// rebound reports whether a request may be that of a page whose site has let its own name lead to the analyzer's address: the browser
// takes both for one site. Nobody else's are addresses, names without a dot and that of the external URL. Where the client has proved who
// it is, it did so for this site.
func rebound(r *http.Request, external string) bool {
	if name, _ := access.Client(r.Context()); name != "" || r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return false
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	if net.ParseIP(host) != nil || !strings.Contains(strings.TrimSuffix(host, "."), ".") {
		return false
	}
	ours, err := url.Parse(external)
	return err != nil || !strings.EqualFold(ours.Hostname(), host)
}
