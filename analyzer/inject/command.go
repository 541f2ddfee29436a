// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/internal/calm"
)

// shutdownTimeout is how long requests in progress may take to end.
const shutdownTimeout = 5 * time.Second

// Command adds the subcommand inject. The function runs it until a signal ends it, and returns an exit status.
func Command(k *kingpin.Application) (*kingpin.CmdClause, func(context.Context, *slog.Logger) int) {
	cmd := k.Command("inject", "Answer Kubernetes' admission reviews: pods that ask for GPUs load the shim. The API server wants TLS: --web.config.file.")
	flags := kingpinflag.AddFlags(cmd, ":9852")
	o := Options{}
	cmd.Flag("trace.dir", "Folder of trace files on the nodes; pods have it at the same place.").Default("/dev/shm/culprit").StringVar(&o.TraceDir)
	cmd.Flag("shim.dir", "Folder of the shim on the nodes; pods have it at the same place.").Default("/var/lib/culprit/shim").StringVar(&o.ShimDir)
	cmd.Flag("shim.image", "Image of culprit-exporter. Where namespaces refuse host paths, an init container copies the shim from it into a volume of the pod ("+PodPath+").").StringVar(&o.Image)
	return cmd, func(ctx context.Context, log *slog.Logger) int {
		err := o.check()
		if *flags.WebConfigFile == "" {
			err = errors.Join(err, errors.New("the API server only calls webhooks over TLS: set --web.config.file to a file with tls_server_config"))
		}
		if err == nil {
			err = serve(ctx, flags, o, log)
		}
		if err != nil {
			log.Error("Exiting", "err", err)
			return 1
		}
		return 0
	}
}

// check refuses folders that no pod could mount: the API server would refuse the pods.
func (o *Options) check() error {
	for _, f := range []struct{ flag, dir string }{{"--trace.dir", o.TraceDir}, {"--shim.dir", o.ShimDir}} {
		if !path.IsAbs(f.dir) {
			return fmt.Errorf("%s=%s must be an absolute path, since pods mount it", f.flag, f.dir)
		}
	}
	return nil
}

const (
	// maxConnections and maxClientConnections bound the connections of all and of one client; an API server has one or a few.
	maxConnections, maxClientConnections = 128, 64
	// maxSilence is how long a connection may take until it sends a request.
	maxSilence = 10 * time.Second
	// maxHeader bounds a request's header in bytes.
	maxHeader = 64 << 10
)

// connections bounds connections, and counts those that it closes.
func connections(reg *prometheus.Registry) *access.Connections {
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "culprit_inject_connections_closed_total",
		Help: "Connections that were closed because they sent no request for too long (silent), or there were too many in all or of their client (crowded).",
	}, []string{"reason"})
	reg.MustRegister(closed)
	for _, reason := range access.ClosedReasons() {
		closed.WithLabelValues(reason)
	}
	c := access.NewConnections(maxConnections, maxClientConnections, maxSilence, func(reason string) { closed.WithLabelValues(reason).Inc() })
	c.ByAnswer = true
	return c
}

func serve(ctx context.Context, flags *web.FlagConfig, o Options, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	reg := prometheus.NewRegistry()
	reg.MustRegister(versioncollector.NewCollector("culprit_analyzer"), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	handler := NewHandler(o, log, reg)
	mux.Handle("POST "+Path, handler)
	if o.Image != "" {
		mux.Handle("POST "+PodPath, handler)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "healthy") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader}
	connections(reg).Guard(server)
	calm.ForServer(server, log)
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe(server, flags, log) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
