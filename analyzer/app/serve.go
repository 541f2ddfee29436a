// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/internal/calm"
)

// DefaultAddress is where the analyzer listens.
const DefaultAddress = ":9851"

// shutdownTimeout is how long requests in progress may take to end.
const shutdownTimeout = 5 * time.Second

// Command adds the subcommand serve. The function runs it, with the process's signals, and returns an exit status.
func Command(k *kingpin.Application) (*kingpin.CmdClause, func(context.Context, *slog.Logger) int) {
	cmd := k.Command("serve", "Receive triggers from Alertmanager, find the culprit, tell Alertmanager.")
	s := &server{
		web:     kingpinflag.AddFlags(cmd, DefaultAddress),
		file:    cmd.Flag("config.file", "Configuration file. All of it is optional.").Default("").String(),
		enabled: cmd.Flag("web.enable-lifecycle", "Let POST /-/reload read the configuration again. Whoever reaches the analyzer may then; SIGHUP always does.").Default("false").Bool(),
		actors: cmd.Flag("web.act-user", "User of --web.config.file, or common name of a client's certificate, that is allowed to send triggers, request analyses, judge verdicts and reload; "+
			"all other users are read-only. Repeatable. Default: every authenticated user.").Strings(),
		check:      cmd.Flag("config.check", "Check the configuration and exit.").Default("false").Bool(),
		prometheus: cmd.Flag("prometheus.url", "Prometheus, or any server with its query API. Overrides the configuration file.").Default("").String(),
		alerts:     cmd.Flag("alertmanager.url", "Alertmanager to post verdicts to. Repeat for each peer of a cluster. Overrides the configuration file.").Strings(),
		external:   cmd.Flag("web.external-url", "Address under which people reach the analyzer, for links in pages. Overrides the configuration file.").Default("").String(),
		command:    cmd.Flag("web.external-command", "Command that people run before --web.external-url answers, such as kubectl port-forward. Alerts show it. Overrides the configuration file.").Default("").String(),
		storage:    cmd.Flag("storage.path", "Folder to keep incidents in over a restart. Empty: they are kept in memory.").Default("").String(),
	}
	return cmd, s.run
}

type server struct {
	web                                          *web.FlagConfig
	file, prometheus, external, command, storage *string
	alerts, actors                               *[]string
	check, enabled                               *bool
}

// lifecycle lets requests through that change how the analyzer runs, where that is allowed.
func (s *server) lifecycle(next http.Handler) http.Handler {
	if *s.enabled {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "switched off; start with --web.enable-lifecycle, or send SIGHUP", http.StatusForbidden)
	})
}

// load reads the configuration file and lets flags override it.
func (s *server) load() (*config.Config, error) {
	cfg, err := config.Load(*s.file)
	if err != nil {
		return nil, err
	}
	if *s.prometheus != "" {
		cfg.Prometheus.URL = *s.prometheus
	}
	if len(*s.alerts) > 0 {
		cfg.Alertmanager.URLs = *s.alerts
	}
	if *s.external != "" {
		cfg.ExternalURL = *s.external
	}
	if *s.command != "" {
		cfg.ExternalCommand = *s.command
	}
	return cfg, errors.Join(cfg.Check(), needStorage(&cfg.Actions, *s.storage))
}

func (s *server) run(ctx context.Context, logger *slog.Logger) int {
	cfg, err := s.load()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			logger.Error("configuration not accepted", "err", strings.TrimSpace(line))
		}
		return 1
	}
	if *s.check {
		logger.Info("configuration accepted", "file", *s.file)
		return 0
	}
	if len(cfg.Alertmanager.URLs) == 0 {
		logger.Error("no Alertmanager is configured, so verdicts would page nobody: set --alertmanager.url")
		return 1
	}
	if err := s.serve(ctx, cfg, logger); err != nil {
		logger.Error("Exiting", "err", err)
		return 1
	}
	return 0
}

func (s *server) serve(ctx context.Context, cfg *config.Config, logger *slog.Logger) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	logger.Info("starting culprit-analyzer", "version", version.Info(), "build", version.BuildContext())
	warn(cfg, logger)
	if err := access.Check(*s.web.WebConfigFile); err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(versioncollector.NewCollector("culprit_analyzer"), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a, err := New(cfg, *s.storage, logger, reg)
	if err != nil {
		return err
	}
	reloader := newReloader(s.load, a, logger, reg)

	mux := http.NewServeMux()
	mux.Handle("/", a.Handler())
	mux.Handle("POST /-/reload", http.NewCrossOriginProtection().Handler(s.lifecycle(reloader)))
	handler, err := access.Restrict(mux, *s.web.WebConfigFile, *s.actors)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: maxAnswer, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader,
	}
	newConnections(reg).Guard(srv)
	calm.ForServer(srv, logger)

	srv.RegisterOnShutdown(a.EndStreams)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); a.Run(ctx) }()
	failed := make(chan error, 1)
	go func() {
		if err := web.ListenAndServe(srv, s.web, logger); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving: %w", err)
		}
	}()
	err = nil
	for wait := true; wait; {
		select {
		case <-ctx.Done():
			wait = false
		case err = <-failed:
			wait = false
		case <-hangup:
			_ = reloader.reload() // Logged there.
		}
	}
	logger.Info("stopping")
	shutdown, stopNow := context.WithTimeout(context.Background(), shutdownTimeout)
	defer stopNow()
	if e := srv.Shutdown(shutdown); e != nil {
		logger.Warn("requests cut off", "err", e)
	}
	cancel()
	<-done
	return err
}

// warn names what the analyzer cannot do as it is configured.
func warn(cfg *config.Config, logger *slog.Logger) {
	if cfg.Prometheus.URL == "" {
		logger.Warn("no Prometheus is configured, so only exporters that a trigger names can be queried: set --prometheus.url")
	}
	if cfg.ExternalURL == "" {
		logger.Warn("no external URL is configured: pages carry no link; set --web.external-url")
	}
}
