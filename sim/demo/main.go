// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command culprit-demo runs a small training cluster of real processes, injects a fault and shows how the verdict
// arrives. It exits 0 when the verdict named what was injected, 1 when it did not, 2 when the demo could not run.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/internal/cli"
	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	exitNamed = iota
	exitMissed
	exitBroken
)

type options struct {
	root     string
	program  string
	evidence string
	fault    string
	rank     int
	ranks    int
	hosts    int
	layout   string
	warmup   int
	interval time.Duration
	timeout  time.Duration
	stay     bool
	release  string
	library  string
	nccl     nccl.Library // When the job runs on a real one.
}

func main() { os.Exit(run()) }

func run() int {
	var o options
	app := cli.New("culprit-demo", "Run a small cluster of real training processes with Prometheus, Alertmanager and "+
		"Culprit, inject a fault, and print what was found.")
	app.Flag("fault", "Fault to inject; --list shows them.").Default("link-stall").StringVar(&o.fault)
	app.Flag("rank", "Rank at which it is injected.").Default("5").IntVar(&o.rank)
	app.Flag("ranks", "Ranks of the job, one process each.").Default("8").IntVar(&o.ranks)
	app.Flag("hosts", "Simulated hosts, one exporter each.").Default("4").IntVar(&o.hosts)
	app.Flag("layout", "Parallelism of the job.").Default("dp2,pp2,tp2").StringVar(&o.layout)
	app.Flag("warmup", "Healthy steps before the fault; 0: 100, or 1000 where the fault shows only against a baseline.").Default("0").IntVar(&o.warmup)
	app.Flag("interval", "Scrape and evaluation interval of Prometheus.").Default("1s").DurationVar(&o.interval)
	app.Flag("timeout", "How long to wait for a verdict after the fault.").Default("60s").DurationVar(&o.timeout)
	app.Flag("stay", "Keep everything running after the verdict, until Ctrl-C, to look around.").BoolVar(&o.stay)
	app.Flag("program", "Program of the ranks instead of ringjob, with a rank's flags and events.").StringVar(&o.program)
	app.Flag("evidence", "Directory to keep the evidence of every incident in, for culprit-analyzer analyze.").StringVar(&o.evidence)
	app.Flag("nccl", "Release of NCCL to run the job on, such as 2.30.7, instead of ringjob; it is downloaded once.").Envar("NCCL").StringVar(&o.release)
	app.Flag("nccl-lib", "A libnccl.so.2 to run the job on instead.").Envar("NCCL_LIB").StringVar(&o.library)
	app.Flag("root", "Repository root.").Default(".").StringVar(&o.root)
	list := app.Flag("list", "List the faults and exit.").Bool()
	if _, err := app.Parse(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "culprit-demo: %v, try --help\n", err)
		return exitBroken
	}
	if *list {
		for _, f := range stack.Faults {
			fmt.Printf("%-16s %s\n", f.Name, f.About)
		}
		return exitNamed
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	named, err := demo(ctx, o)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Println("\ninterrupted, everything is stopped")
		return exitBroken
	case err != nil:
		fmt.Fprintf(os.Stderr, "culprit-demo: %v\n", err)
		return exitBroken
	case !named:
		return exitMissed
	}
	return exitNamed
}

// demo says whether the verdict was right for the injected fault.
func demo(ctx context.Context, o options) (bool, error) {
	fault, err := o.complete()
	if err != nil {
		return false, err
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return false, fmt.Errorf("finding the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "culprit-demo-")
	if err != nil {
		return false, fmt.Errorf("making a scratch directory: %w", err)
	}
	defer os.RemoveAll(dir)

	t := newTimeline(os.Stdout)
	if err := o.getLibrary(ctx, t, root); err != nil {
		return false, err
	}
	t.say("starting %d exporters, Prometheus, Alertmanager and the analyzer", o.hosts)
	gpus := 0
	if o.nccl.Path != "" {
		gpus = o.ranks / o.hosts
	}
	cluster, err := stack.Start(ctx, stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"),
		Dir: dir, Hosts: o.hosts, GPUs: gpus, Interval: o.interval, Log: slog.Default(),
	})
	if err != nil {
		return false, err
	}
	defer func() {
		t.say("stopping everything")
		cluster.Close()
	}()
	w := watch{timeline: t, cluster: cluster, fault: fault, options: o, binDir: filepath.Join(root, "bin")}
	if err := w.startJob(ctx); err != nil {
		return false, err
	}
	named, err := w.untilSettled(ctx)
	if o.evidence != "" {
		if err := w.keepEvidence(ctx); err != nil {
			t.say("the evidence was not kept: %v", err)
		}
	}
	if err != nil {
		return false, err
	}
	t.addresses(cluster)
	if o.stay {
		t.say("staying up; Ctrl-C ends it")
		<-ctx.Done()
	}
	return named, nil
}

// getLibrary gets the real library that is asked for.
func (o *options) getLibrary(ctx context.Context, t *timeline, root string) (err error) {
	store := nccl.Store{Dir: filepath.Join(root, ".cache", "nccl"), LayoutTool: filepath.Join(root, "bin", "nccl-layout"), Log: t.say}
	switch {
	case o.library != "":
		o.nccl, err = store.Given(ctx, o.library)
	case o.release != "" && o.release != nccl.None:
		var releases []nccl.Release
		if releases, err = nccl.Select(o.release); err == nil {
			o.nccl, err = store.Get(ctx, releases[0])
		}
	}
	return err
}

// complete checks the options, fills in what the fault decides, and gives the fault.
func (o *options) complete() (stack.Fault, error) {
	fault, ok := stack.FindFault(o.fault)
	if !ok {
		return fault, fmt.Errorf("no fault %q, --list shows them", o.fault)
	}
	if o.ranks%o.hosts != 0 {
		return fault, fmt.Errorf("%d ranks do not divide over %d hosts", o.ranks, o.hosts)
	}
	if o.rank < 0 || o.rank >= o.ranks {
		return fault, fmt.Errorf("rank %d is not one of %d", o.rank, o.ranks)
	}
	real := o.library != "" || o.release != "" && o.release != nccl.None
	if fault.RealOnly && !real {
		return fault, fmt.Errorf("fault %s needs a real library: --nccl=2.30.7", fault.Name)
	}
	if o.warmup == 0 {
		o.warmup = 100
		if fault.Slow {
			o.warmup = 1000
		}
		if real {
			o.warmup /= 4 // Kernels on a processor take their time.
		}
	}
	return fault, nil
}
