// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Culprit-exporter watches the collective communication of the training processes on a node through the trace files
// that the NCCL shim writes. It exports metrics and serves state and recent history to culprit-analyzer.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	webflag "github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/nvml"
	"github.com/culprit-project/culprit/exporter/ras"
	"github.com/culprit-project/culprit/exporter/sysfile"
)

// shutdownTimeout is how long requests in progress may take when the exporter is told to end.
const shutdownTimeout = 5 * time.Second

// RAS asks all processes of the job: at most so long, and not more often.
const (
	rasTimeout     = 30 * time.Second
	minRASInterval = 10 * time.Second
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags, err := parseFlags(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "culprit-exporter: %s, try --help\n", err)
		return 2
	}
	log := promslog.New(flags.log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, log, flags); err != nil {
		log.Error("Ending", "err", err)
		return 1
	}
	return 0
}

type settings struct {
	web  *web.FlagConfig
	log  *promslog.Config
	node node.Options
	nccl collector.NCCLOptions
	past history.Options
	cpus int
	on   map[string]*bool
	path string
	sys  string
	ras  struct {
		address  string
		interval time.Duration
	}
}

func parseFlags(args []string) (*settings, error) {
	app := kingpin.New("culprit-exporter", "Prometheus exporter for the collective communication of training jobs.")
	app.Version(version.Print("culprit_exporter"))
	app.HelpFlag.Short('h')
	s := &settings{web: webflag.AddFlags(app, ":9850"), log: &promslog.Config{}, on: map[string]*bool{}}
	promslogflag.AddFlags(app, s.log)

	app.Flag("web.telemetry-path", "Path under which metrics are served.").Default("/metrics").StringVar(&s.path)
	app.Flag("trace.dir", "Directory of trace files. Repeatable.").Default("/dev/shm/culprit").StringsVar(&s.node.Dirs)
	app.Flag("trace.keep-dead", "How long a dead process's last state is kept.").Default("10m").DurationVar(&s.node.KeepDead)
	app.Flag("sample-interval", "Time between two looks at the trace files.").Default("100ms").DurationVar(&s.node.Interval)
	app.Flag("host-name", "Name of this host in metrics; default: what each process claims, else the system's.").StringVar(&s.node.HostName)
	app.Flag("path.procfs", "Where procfs is mounted.").Default("/proc").StringVar(&s.node.ProcFS)
	app.Flag("path.sysfs", "Where sysfs is mounted.").Default("/sys").StringVar(&s.sys)

	app.Flag("runtime.gomaxprocs", "CPUs that the exporter may use at a time. It shares its node with a training job.").
		Envar("GOMAXPROCS").Default("1").IntVar(&s.cpus)

	size := app.Flag("history.size", "Memory for the recent history that GET /api/v1/trace serves.").Default("24MB").Bytes()
	app.Flag("history.keep", "Age at which history is dropped although there is room.").Default("1h").DurationVar(&s.past.Keep)

	s.on["nccl"] = app.Flag("collector.nccl", "Collect nccl_* from the trace files.").Default("true").Bool()
	detail := app.Flag("collector.nccl.detail", "When to export per-flow series: auto (while a communicator is stuck), full or off.").
		Default(string(collector.DetailAuto)).Enum(string(collector.DetailAuto), string(collector.DetailFull), string(collector.DetailOff))
	app.Flag("collector.nccl.detail-after", "With auto: how long a communicator must be stuck.").Default("3s").DurationVar(&s.nccl.DetailAfter)
	app.Flag("collector.nccl.max-series", "Hard cap of nccl_* series; what exceeds it is dropped and counted.").Default("20000").IntVar(&s.nccl.MaxSeries)

	for name, help := range map[string]string{
		"host": "Collect host_* from procfs and sysfs.",
		"rdma": "Collect rdma_* of InfiniBand and RoCE ports.",
		"nvml": "Collect nvml_* of NVIDIA GPUs, where there are any.",
		"pci":  "Collect pci_* of the PCI Express links of GPUs and network cards.",
	} {
		s.on[name] = app.Flag("collector."+name, help).Default("true").Bool()
	}

	s.on["ras"] = app.Flag("collector.ras", "Collect nccl_ras_* from NCCL's RAS service. Asking has crashed jobs with NCCL 2.26 and 2.27.").
		Default("false").Bool()
	app.Flag("collector.ras.address", "Where RAS listens (NCCL_RAS_ADDR).").Default(ras.DefaultAddress).StringVar(&s.ras.address)
	app.Flag("collector.ras.interval", "How often RAS is asked, whatever the scrape interval.").Default("1m").DurationVar(&s.ras.interval)

	if _, err := app.Parse(args); err != nil {
		return nil, err
	}
	s.past.MaxBytes = int(*size)
	s.nccl.Detail = collector.Detail(*detail)
	if s.node.Interval < time.Millisecond {
		return nil, errors.New("--sample-interval must be at least 1ms")
	}
	return s, nil
}

// serve runs the exporter until ctx ends.
func serve(ctx context.Context, log *slog.Logger, s *settings) error {
	runtime.GOMAXPROCS(s.cpus)
	log.Info("Starting culprit-exporter", "version", version.Info(), "build_context", version.BuildContext())
	store := history.New(s.past)
	s.node.Logger, s.node.History = log, store
	sampler, err := node.New(s.node)
	if err != nil {
		return err
	}
	set := collector.NewSet(log)
	nccl := collector.NewNCCL(sampler, s.nccl)
	if *s.on["nccl"] {
		set.Add("nccl", nccl)
	}
	evidence := collector.NewEvidence(log)
	addDevices(s, sampler, set, evidence)
	gpus := collector.NewNVML(nvml.Open, log, sampler)
	if *s.on["nvml"] {
		set.Add("nvml", gpus)
		evidence.Add("nvml", gpus)
	}
	rasCollector := collector.NewRAS(func(ctx context.Context) (*ras.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, rasTimeout)
		defer cancel()
		return ras.Query(ctx, s.ras.address)
	}, max(s.ras.interval, minRASInterval), log)
	if *s.on["ras"] {
		set.Add("ras", rasCollector)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		versioncollector.NewCollector("culprit_exporter"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector.NewSelf(sampler, nccl.DroppedSeries),
	)

	mux := http.NewServeMux()
	mux.Handle("GET "+s.path, collector.Handler(log, registry, set))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	api.New(log, version.Version, sampler, store, evidence).Register(mux)
	landing, err := web.NewLandingPage(web.LandingConfig{
		Name: "culprit-exporter", Description: "Collective communication of the training jobs on this node", Version: version.Info(),
		Profiling: "false",
		Links: []web.LandingLinks{
			{Address: s.path, Text: "Metrics"},
			{Address: "/api/v1/state", Text: "State", Description: "of every traced process, as JSON"},
		},
	})
	if err != nil {
		return fmt.Errorf("making the landing page: %w", err)
	}
	mux.Handle("GET /{$}", landing)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	evidence.Run(ctx)
	if *s.on["nvml"] {
		go gpus.Run(ctx) // Not waited for: it may hang in the driver.
	}
	if *s.on["ras"] {
		go rasCollector.Run(ctx)
	}
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		sampler.Run(ctx)
	}()
	log.Info("Collectors are on", "collectors", strings.Join(set.Names(), ","))
	err = listen(ctx, log, s.web, mux)
	cancel()
	<-sampled
	return err
}

// addDevices adds the collectors of the node's own evidence that are switched on.
func addDevices(s *settings, sampler *node.Sampler, set *collector.Set, evidence *collector.Evidence) {
	sys := sysfile.Root(s.sys)
	for _, c := range []struct {
		name string
		c    interface {
			collector.Collector
			collector.FactSource
		}
	}{
		{"host", collector.NewHost(sysfile.Root(s.node.ProcFS), sys, sampler)},
		{"rdma", collector.NewRDMA(sys)},
		{"pci", collector.NewPCI(sys, sampler)},
	} {
		if *s.on[c.name] {
			set.Add(c.name, c.c)
			evidence.Add(c.name, c.c)
		}
	}
}

// listen serves HTTP until ctx ends, then lets requests in progress finish.
func listen(ctx context.Context, log *slog.Logger, flags *web.FlagConfig, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe(server, flags, log) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}
	log.Info("Shutting down")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}
