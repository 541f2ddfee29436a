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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/kafka"
	"github.com/culprit-project/culprit/exporter/kubelet"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/nvml"
	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/ras"
	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// shutdownTimeout is how long requests in progress may take when the exporter is told to end.
	shutdownTimeout = 5 * time.Second
	// RAS asks all processes of the job: at most so long, and not more often.
	rasTimeout     = 30 * time.Second
	minRASInterval = 10 * time.Second
	// gcPercent is by how much the heap may grow between two collections.
	gcPercent = 40
)

// serve runs the exporter until ctx ends.
func serve(ctx context.Context, log *slog.Logger, s *settings) error {
	runtime.GOMAXPROCS(s.cpus)
	if err := relaxTimers(); err != nil {
		log.Debug("Timers stay as they are, which costs some CPU time", "err", err)
	}
	if os.Getenv("GOGC") == "" {
		// Most of the heap is history without pointers: collecting it often costs little, and memory is the job's.
		debug.SetGCPercent(gcPercent)
	}
	log.Info("Starting culprit-exporter", "version", version.Info(), "build_context", version.BuildContext())
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		versioncollector.NewCollector("culprit_exporter"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	var sink *kafka.Sink
	if len(s.kafka.Brokers) > 0 {
		var err error
		s.kafka.Node = s.node.HostName
		if sink, err = kafka.New(s.kafka, log); err != nil {
			return err
		}
		registry.MustRegister(sink)
		s.history.Stream = func(p *nodeapi.Process, line *nodeapi.TraceLine) { sink.Send(p, line) }
	}
	kernel, err := proc.Open(s.node.ProcFS)
	if err != nil {
		return fmt.Errorf("opening procfs at %s: %w", s.node.ProcFS, err)
	}
	s.history.Logger, s.history.BootID = log, kernel.BootID()
	store, err := history.New(s.history)
	if err != nil {
		return err
	}
	s.node.Logger, s.node.History = log, store
	var background []func(context.Context)
	if s.kubelet != "" {
		pods := kubelet.New(s.kubelet, log)
		s.node.Pods, background = pods, append(background, pods.Run)
	}
	sampler, err := node.New(s.node)
	if err != nil {
		return err
	}
	set, evidence := collector.NewSet(log), collector.NewEvidence(log)
	nccl := collector.NewNCCL(sampler, s.nccl)
	if *s.collector["nccl"] {
		set.Add("nccl", nccl)
	}
	registry.MustRegister(collector.NewSelf(sampler, nccl.DroppedSeries))
	background = append(background, addDevices(log, s, sampler, set, evidence)...)

	mux := http.NewServeMux()
	mux.Handle("GET "+s.telemetry, collector.Handler(log, registry, set))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	nodeAPI := api.New(log, version.Version, sampler, store, evidence)
	nodeAPI.Register(mux)
	if s.control {
		nodeAPI.RegisterControl(mux)
	} else {
		nodeAPI.RegisterNoControl(mux)
	}
	if err := addLandingPage(mux, s); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	evidence.Run(ctx)
	for _, run := range background {
		go run(ctx) // Not waited for: it may hang in a driver.
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
	err = errors.Join(err, store.Close())
	if sink != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, sink.Close(closing))
	}
	return err
}

// addDevices adds the collectors of the node's own evidence that are switched on, and gives what they want to have run
// in the background.
func addDevices(log *slog.Logger, s *settings, sampler *node.Sampler, set *collector.Set, evidence *collector.Evidence) []func(context.Context) {
	sysfs := sysfile.Root(s.sysfs)
	gpus := collector.NewNVML(nvml.Open, log, sampler)
	for _, c := range []struct {
		name string
		c    interface {
			collector.Collector
			collector.FactSource
		}
	}{
		{"host", collector.NewHost(sysfile.Root(s.node.ProcFS), sysfs, sampler)},
		{"rdma", collector.NewRDMA(sysfs)},
		{"pci", collector.NewPCI(sysfs, sampler)},
		{"nvml", gpus},
	} {
		if *s.collector[c.name] {
			set.Add(c.name, c.c)
			evidence.Add(c.name, c.c)
		}
	}
	var background []func(context.Context)
	if *s.collector["nvml"] {
		background = append(background, gpus.Run)
	}
	if *s.collector["ras"] {
		c := collector.NewRAS(func(ctx context.Context) (*ras.Report, error) {
			ctx, cancel := context.WithTimeout(ctx, rasTimeout)
			defer cancel()
			return ras.Query(ctx, s.ras.address)
		}, max(s.ras.interval, minRASInterval), sampler, log)
		set.Add("ras", c)
		evidence.Add("ras", c)
		background = append(background, c.Run)
	}
	return background
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
