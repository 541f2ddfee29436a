// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/sim/replay"
)

// runFlags say what is simulated.
type runFlags struct {
	workload string
	settings map[string]string
	faults   []string
	seed     uint64
}

func (f *runFlags) register(cmd *kingpin.CmdClause) {
	f.settings = map[string]string{}
	cmd.Flag("workload", "Name of the workload; `culprit-sim list` has them.").Short('w').Default("gpt-64").StringVar(&f.workload)
	cmd.Flag("set", "Changes the workload: name=value (repeatable).").StringMapVar(&f.settings)
	cmd.Flag("fault", "A fault: kind:rank=N:at=TIME:severity=X… (repeatable); `culprit-sim list` has them.").Short('f').StringsVar(&f.faults)
	cmd.Flag("seed", "Seed: the same gives the same bytes.").Default("1").Uint64Var(&f.seed)
}

func (f *runFlags) build() (catalog.Workload, []cluster.Fault, error) {
	w, err := catalog.FindWorkload(f.workload)
	if err != nil {
		return w, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.settings)) {
		if err := w.Set(name, f.settings[name]); err != nil {
			return w, nil, err
		}
	}
	var faults []cluster.Fault
	for _, text := range f.faults {
		fault, err := catalog.ParseFault(text)
		if err != nil {
			return w, nil, err
		}
		faults = append(faults, fault)
	}
	return w, faults, nil
}

func recordCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	cmd := app.Command("record", "Simulate a job and write what its nodes' exporters would answer, with the sealed answer beside it.")
	var f runFlags
	f.register(cmd)
	until := cmd.Flag("until", "Moment of the recording, after the job's start.").Default("60s").Duration()
	span := cmd.Flag("history", "How far the recorded traces go back; 0: to the job's start.").Default("1m").Duration()
	out := cmd.Flag("out", "Directory to write into.").Short('o').Required().String()
	commands[cmd.FullCommand()] = func(ctx context.Context) error {
		w, _, err := f.build()
		if err != nil {
			return err
		}
		start := time.Now()
		sealed, err := replay.Record(ctx, slog.Default(), replay.Config{Workload: w, Faults: f.faults, Seed: f.seed, Until: *until, Span: *span}, *out)
		if err != nil {
			return err
		}
		fmt.Printf("%d ranks, %v of job time in %.1f s\n  culprit-analyzer analyze %s/%s\n  the answer: %s/%s\n",
			sealed.Ranks, *until, time.Since(start).Seconds(), *out, replay.NodesDir, *out, replay.SealedFile)
		return nil
	}
}

func serveCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	cmd := app.Command("serve", "Simulate a job while time passes and serve all its nodes' exporters, for a real Prometheus and a real analyzer.")
	var f runFlags
	f.register(cmd)
	listen := cmd.Flag("web.listen-address", "Where to listen. Nodes are at /NODE/metrics and /NODE/api/v1/…, /sd has them for http_sd_configs.").Default("127.0.0.1:9860").String()
	speed := cmd.Flag("speed", "Simulated seconds a second.").Default("1").Float64()
	skip := cmd.Flag("skip", "Simulated time that passes before anything is served.").Default("0s").Duration()
	until := cmd.Flag("until", "Simulated time at which the job stands still for good.").Default("24h").Duration()
	tick := cmd.Flag("tick", "How often the simulation goes on.").Default("200ms").Duration()
	commands[cmd.FullCommand()] = func(ctx context.Context) error {
		w, faults, err := f.build()
		if err != nil {
			return err
		}
		if *speed <= 0 || *tick <= 0 {
			return fmt.Errorf("speed %g and tick %v must be positive", *speed, *tick)
		}
		c, err := live.New(slog.Default(), cluster.Config{
			Seed: f.seed, Hardware: w.Hardware, Job: w.Job, Faults: faults, Until: *until, Epoch: time.Now().Add(-*skip).Unix(),
		})
		if err != nil {
			return err
		}
		if err := c.Advance(ctx, *skip); err != nil {
			return err
		}
		return serve(ctx, c, *listen, *speed, *tick)
	}
}

// serve lets time pass and answers until ctx ends.
func serve(ctx context.Context, c *live.Cluster, address string, speed float64, tick time.Duration) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	srv := &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	fmt.Fprintf(os.Stderr, "%d simulated nodes at http://%s, for Prometheus:\n%s", len(c.Nodes()), l.Addr(), scrapeConfig(l.Addr().String()))
	runErr := c.Run(ctx, speed, tick)
	if runErr == nil {
		select {
		case <-ctx.Done():
		case err := <-failed:
			return fmt.Errorf("serving: %w", err)
		}
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(runErr, srv.Shutdown(closing))
}

func scrapeConfig(address string) string {
	return strings.ReplaceAll(`  - job_name: culprit-exporter
    http_sd_configs: [{url: 'http://ADDRESS/sd'}]
`, "ADDRESS", address)
}
