// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/kafka"
	"github.com/culprit-project/culprit/exporter/kubelet"
	"github.com/culprit-project/culprit/exporter/look"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/nvml"
	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/pyspy"
	"github.com/culprit-project/culprit/exporter/ras"
	"github.com/culprit-project/culprit/exporter/stall"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/exporter/uprobe"
	"github.com/culprit-project/culprit/internal/calm"
	"github.com/culprit-project/culprit/internal/httpfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// shutdownTimeout is how long requests in progress may take when the exporter is told to end.
	shutdownTimeout = 5 * time.Second
	// RAS asks all processes of the job: at most so long, and not more often.
	rasTimeout     = 30 * time.Second
	minRASInterval = 10 * time.Second
	// triggerTimeout is how long an Alertmanager may take for a trigger.
	triggerTimeout = 3 * time.Second
	// gcPercent is by how much the heap may grow between two collections.
	gcPercent = 40
)

// serve runs the exporter until ctx ends.
func serve(ctx context.Context, log *slog.Logger, s *settings) error {
	tuneRuntime(log, s.cpus)
	log.Info("Starting culprit-exporter", "version", version.Info(), "build_context", version.BuildContext())
	if err := access.Check(*s.web.WebConfigFile); err != nil {
		return err
	}
	e, err := newExporter(log, s)
	if err != nil {
		return err
	}
	mux, err := e.routes()
	if err != nil {
		return err
	}
	handler, err := access.Restrict(mux, *s.web.WebConfigFile, s.actors)
	if err != nil {
		return errors.Join(err, e.close(ctx))
	}
	err = e.run(ctx, handler)
	return errors.Join(err, e.close(ctx))
}

// tuneRuntime keeps the process small: CPU time and memory are the job's.
func tuneRuntime(log *slog.Logger, cpus int) {
	runtime.GOMAXPROCS(cpus)
	if err := relaxTimers(); err != nil {
		log.Debug("Timers stay as they are, which costs some CPU time", "err", err)
	}
	if os.Getenv("GOGC") == "" {
		// Most of the heap is history without pointers: collecting it often costs little.
		debug.SetGCPercent(gcPercent)
	}
}

// exporter is its parts, as the settings ask for them.
type exporter struct {
	log        *slog.Logger
	settings   *settings
	registry   *prometheus.Registry
	sink       *kafka.Sink // Nil: nothing is streamed.
	store      *history.Store
	sampler    *node.Sampler
	set        *collector.Set
	evidence   *collector.Evidence
	background []func(context.Context)
	guard      func(*http.Server) // Bounds its connections.
}

func newExporter(log *slog.Logger, s *settings) (*exporter, error) {
	e := &exporter{
		log: log, settings: s, registry: prometheus.NewRegistry(),
		set: collector.NewSet(log), evidence: collector.NewEvidence(log),
	}
	e.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if err := e.openHistory(); err != nil {
		return nil, err
	}
	if s.kubelet != "" {
		s.node.Pods = kubelet.New(s.kubelet, log)
	}
	for _, dir := range s.node.Dirs {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("--trace.dir=%s is not a directory: name the one that jobs write trace files to", dir)
		}
	}
	prepareMissing(log, s.node.Dirs)
	var err error
	if e.sampler, err = node.New(s.node); err != nil {
		return nil, err
	}
	// Beside the version, build_info tells which host the exporter says it runs on: two that say the same are noticed.
	prometheus.WrapRegistererWith(prometheus.Labels{"host": e.sampler.HostName()}, e.registry).MustRegister(versioncollector.NewCollector("culprit_exporter"))
	if s.cover {
		e.background = append(e.background, e.sampler.Cover)
	}
	nccl := collector.NewNCCL(e.sampler, s.nccl)
	if *s.collector["nccl"] {
		e.set.Add("nccl", nccl)
	}
	e.registry.MustRegister(collector.NewSelf(e.sampler, nccl.DroppedSeries))
	e.addDevices()
	if *s.collector["ras"] {
		e.addRAS()
	}
	if *s.collector["uprobe"] {
		e.addProbes()
	}
	if len(s.trigger.URLs) > 0 {
		return e, e.addTrigger()
	}
	return e, nil
}

// prepare makes the trace directories for all users.
func prepare(log *slog.Logger, dirs []string) error {
	for _, dir := range dirs {
		if err := node.Prepare(dir); err != nil {
			return err
		}
		log.Info("Prepared trace directory", "dir", dir)
	}
	return nil
}

// prepareMissing makes trace directories that are not there, where root runs the exporter: if the first job makes one, only that
// job's user can use it. What is there stays as it is.
func prepareMissing(log *slog.Logger, dirs []string) {
	if os.Geteuid() != 0 {
		return
	}
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := prepare(log, []string{dir}); err != nil {
			log.Warn("Preparing trace directory", "dir", dir, "err", err)
		}
	}
}

// openHistory opens what the sampler writes to: the history, and beside it the stream where there are brokers.
func (e *exporter) openHistory() error {
	s := e.settings
	if len(s.kafka.Brokers) > 0 {
		s.kafka.Node = s.node.HostName
		sink, err := kafka.New(s.kafka, e.log)
		if err != nil {
			return err
		}
		e.sink = sink
		e.registry.MustRegister(sink)
		s.history.Stream = func(p *nodeapi.Process, line *nodeapi.TraceLine) { sink.Send(p, line) }
	}
	kernel, err := proc.Open(s.node.ProcFS)
	if err != nil {
		return fmt.Errorf("opening procfs at %s: %w", s.node.ProcFS, err)
	}
	s.history.Logger, s.history.BootID = e.log, kernel.BootID()
	if e.store, err = history.New(s.history); err != nil {
		return err
	}
	s.node.Logger, s.node.History = e.log, e.store
	return nil
}

// addDevices adds the collectors of the node's own evidence that are switched on.
func (e *exporter) addDevices() {
	s := e.settings
	sysfs := sysfile.Root(s.sysfs)
	gpus := collector.NewNVML(nvml.Open, e.log, sysfile.Root(s.node.ProcFS), e.sampler)
	for _, c := range []struct {
		name string
		c    interface {
			collector.Collector
			collector.FactSource
		}
	}{
		{"host", collector.NewHost(sysfile.Root(s.node.ProcFS), sysfs, e.sampler)},
		{"rdma", collector.NewRDMA(sysfs)},
		{"pci", collector.NewPCI(sysfs, e.sampler)},
		{"nvml", gpus},
	} {
		if *s.collector[c.name] {
			e.set.Add(c.name, c.c)
			e.evidence.Add(c.name, c.c)
		}
	}
	if *s.collector["nvml"] {
		e.background = append(e.background, gpus.Run)
	}
}

func (e *exporter) addRAS() {
	s := e.settings
	c := collector.NewRAS(func(ctx context.Context) (*ras.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, rasTimeout)
		defer cancel()
		return ras.Query(ctx, s.ras.address)
	}, max(s.ras.interval, minRASInterval), e.sampler, e.log)
	e.set.Add("ras", c)
	e.evidence.Add("ras", c)
	e.background = append(e.background, c.Run)
}

// addTrigger posts the stall trigger from here.
func (e *exporter) addTrigger() error {
	s := e.settings
	var err error
	if s.trigger.Client, err = httpfile.NewClient("--trigger.http.config.file", s.triggerAs, "culprit-exporter", triggerTimeout); err != nil {
		return err
	}
	s.trigger.Log = e.log
	w, err := stall.New(e.sampler, s.trigger)
	if err != nil {
		return err
	}
	e.registry.MustRegister(w)
	e.background = append(e.background, w.Run)
	return nil
}

// addProbes follows processes without the shim, where the kernel lets it.
func (e *exporter) addProbes() {
	s := e.settings
	f, err := uprobe.New(uprobe.Options{
		ProcFS: s.node.ProcFS, HostName: e.sampler.HostName(), Logger: e.log, To: e.sampler, Clock: e.sampler.Now,
	})
	if err != nil {
		e.log.Warn("Processes without the shim are not followed: probes cannot be used here", "err", err)
		return
	}
	e.background = append(e.background, f.Run)
}

// routes gives everything that is served.
func (e *exporter) routes() (*http.ServeMux, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	nodeAPI := api.New(e.log, version.Version, e.sampler, e.store, e.evidence)
	nodeAPI.Register(mux)
	e.registry.MustRegister(nodeAPI.Refused(), nodeAPI.Closed())
	e.guard = nodeAPI.Guard
	mux.Handle("GET "+e.settings.telemetry, nodeAPI.Scrape(collector.Handler(e.log, e.registry, e.set)))
	if e.settings.control {
		nodeAPI.RegisterControl(mux)
	} else {
		nodeAPI.RegisterNoControl(mux)
	}
	if err := e.addLook(nodeAPI, mux); err != nil {
		return nil, err
	}
	return mux, addLandingPage(mux, e.settings)
}

// addLook adds what takes close looks at processes, with Python stacks where py-spy is found.
func (e *exporter) addLook(nodeAPI *api.API, mux *http.ServeMux) error {
	s := e.settings
	if s.look == lookOff {
		nodeAPI.RegisterNoLook(mux)
		return nil
	}
	looker := &look.Looker{ProcFS: s.node.ProcFS, SysFS: sysfile.Root(s.sysfs)}
	spy, err := pyspy.Find(s.pySpy)
	switch {
	case err == nil:
		looker.Python = spy
	case s.pySpy != "":
		return fmt.Errorf("--look.py-spy=%s: %w", s.pySpy, err)
	}
	nodeAPI.RegisterLook(mux, looker, s.look == lookOn)
	return nil
}

// run samples and answers until ctx ends. When it returns, nobody writes to the history any more.
func (e *exporter) run(ctx context.Context, handler http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	e.evidence.Run(ctx)
	for _, run := range e.background {
		go run(ctx) // Not waited for: it may hang in a driver.
	}
	var sampling sync.WaitGroup
	sampling.Go(func() { e.sampler.Run(ctx) })
	e.log.Info("Collectors are on", "collectors", strings.Join(e.set.Names(), ","))
	err := listen(ctx, e.log, e.settings.web, handler, e.guard)
	cancel()
	sampling.Wait()
	return err
}

// close writes out what is left.
func (e *exporter) close(ctx context.Context) error {
	err := e.store.Close()
	if e.sink != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, e.sink.Close(closing))
	}
	return err
}

func addLandingPage(mux *http.ServeMux, s *settings) error {
	landing, err := web.NewLandingPage(web.LandingConfig{
		Name: "culprit-exporter", Description: "Collective communication of the training jobs on this node", Version: version.Info(),
		Profiling: "false",
		Links: []web.LandingLinks{
			{Address: s.telemetry, Text: "Metrics"},
			{Address: nodeapi.StatePath, Text: "State", Description: "of every traced process, as JSON"},
			{Address: nodeapi.TracePath + "?last=10s", Text: "History", Description: "of the last ten seconds, as JSON lines"},
		},
	})
	if err != nil {
		return fmt.Errorf("making the landing page: %w", err)
	}
	mux.Handle("GET /{$}", landing)
	return nil
}

// maxHeader bounds a request's header in bytes, and with it how many ranks and communicators a query can name: each process is
// compared with all of them while the sampler waits.
const maxHeader = 64 << 10

// listen serves HTTP until ctx ends, then lets requests in progress finish.
func listen(ctx context.Context, log *slog.Logger, flags *web.FlagConfig, handler http.Handler, guard func(*http.Server)) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: api.MaxAnswer, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader,
	}
	guard(server)
	calm.ForServer(server, log)
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
