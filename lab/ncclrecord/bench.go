// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// variant is a way to run the loop.
type variant struct {
	name string
	env  []string
}

// bencher runs ncclrun with plugins and without.
type bencher struct {
	library, layout, bin, build string
	rounds                      int
}

func bench(ctx context.Context, args []string, to io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	library := flags.String("library", ".cache/nccl/2.30.7/libnccl.so.2", "the NCCL library")
	layout := flags.String("layout", "", "its layout; default: beside it")
	rounds := flags.Int("rounds", 5, "runs of each variant, alternating")
	others := flags.String("others", "", "further plugins to measure, separated by commas: NAME=PATH")
	loops := flags.Bool("loops", true, "measure the loops too, not only the callbacks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bencher{library: *library, layout: *layout, rounds: *rounds}
	if b.layout == "" {
		b.layout = filepath.Join(filepath.Dir(*library), "layout")
	}
	var err error
	if b.bin, err = filepath.Abs("bin"); err != nil {
		return err
	}
	if b.build, err = filepath.Abs("build/ncclrecord"); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(to, "Library %s, load before the runs: %s\n", filepath.Base(filepath.Dir(*library)), strings.Join(strings.Fields(string(load))[:3], " "))
	plugins := []string{"none=", "Culprit=" + filepath.Join(b.bin, "libnccl-profiler-culprit.so")}
	if *others != "" {
		for plugin := range strings.SplitSeq(*others, ",") {
			if name, path, _ := strings.Cut(plugin, "="); name == "" || path == "" {
				return fmt.Errorf("--others: %q is not NAME=PATH", plugin)
			}
			plugins = append(plugins, plugin)
		}
	}
	if err := b.callbacks(ctx, to, plugins); err != nil {
		return err
	}
	if *loops {
		return b.loops(ctx, to)
	}
	return nil
}

// run does one AllReduce a step between two ranks and returns the seconds of rank 0's steps but the first tenth.
func (b *bencher) run(ctx context.Context, size string, steps int, env []string) ([]float64, error) {
	dir, err := os.MkdirTemp("", "ncclbench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "ncclrun"), "launch", "--ranks", "2", "--hosts", "2", "--dir", dir, "--",
		"--nccl", b.library, "--nccl-layout", b.layout, "--layout", "dp2", "--check", "off", "--compute-ms", "0", "--microbatches", "1",
		"--norm-every", "0", "--barrier-every", "0", "--broadcast-every", "0", "--bytes", size, "--steps", strconv.Itoa(steps),
		"--algo", "Ring", "--proto", "Simple")
	cmd.Env = append(append(os.Environ(), "CULPRIT_DIR="+filepath.Join(dir, "trace"), "NCCL_PROFILER_PLUGIN=none"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var seconds []float64
	in := bufio.NewScanner(bytes.NewReader(out))
	for in.Scan() {
		var e struct {
			Event   string  `json:"event"`
			Seconds float64 `json:"seconds"`
		}
		if json.Unmarshal(in.Bytes(), &e) == nil && e.Event == "step" {
			seconds = append(seconds, e.Seconds)
		}
	}
	if len(seconds) < steps/2 {
		return nil, fmt.Errorf("%d of %d steps seen", len(seconds), steps)
	}
	return seconds[len(seconds)/10:], nil
}

// figure is a line of the timing plugin.
type figure struct {
	Event, Call string
	Count       int
	P50         int `json:"p50_ns"`
	P99         int `json:"p99_ns"`
	CPU         int `json:"cpu_ns"`
	Thread      *int
}

// callbacks prints what each callback takes inside NCCL's threads.
func (b *bencher) callbacks(ctx context.Context, to io.Writer, plugins []string) error {
	kinds := []string{}
	cells := map[string][]string{}
	var header, share []string
	clock := map[string]int{}
	for _, plugin := range plugins {
		name, path, _ := strings.Cut(plugin, "=")
		header = append(header, name)
		figures, err := b.timed(ctx, path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		proxy, cpu := 0.0, 0
		for _, f := range figures {
			if f.Thread != nil {
				cpu = f.CPU
				continue
			}
			kind := f.Event + " " + f.Call
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			if path == "" {
				clock[kind] = f.P50
			}
			for len(cells[kind]) < len(header)-1 {
				cells[kind] = append(cells[kind], "–")
			}
			cells[kind] = append(cells[kind], fmt.Sprintf("%d / %d", f.P50, f.P99))
			if strings.HasPrefix(f.Event, "Proxy") || f.Event == "KernelCh" {
				proxy += float64(max(f.P50-clock[kind], 0) * f.Count)
			}
		}
		text := "–"
		if cpu > 0 && path != "" {
			text = fmt.Sprintf("%.1f%%", 100*proxy/float64(cpu))
		}
		share = append(share, text)
	}
	slices.Sort(kinds)
	fmt.Fprintf(to, "\n| callback, ns (median / 99th percentile) | %s |\n|---|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, k := range kinds {
		for len(cells[k]) < len(header) {
			cells[k] = append(cells[k], "–")
		}
		fmt.Fprintf(to, "| %s | %s |\n", k, strings.Join(cells[k], " | "))
	}
	fmt.Fprintf(to, "| share of the progress thread's CPU time (medians less the clock) | %s |\n", strings.Join(share, " | "))
	return nil
}

func (b *bencher) timed(ctx context.Context, plugin string) ([]figure, error) {
	dir, err := os.MkdirTemp("", "ncclbench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "timing.")
	env := []string{"NCCL_PROFILER_PLUGIN=libnccl-timing.so", "LD_LIBRARY_PATH=" + b.build, "TIMING_PLUGIN=" + plugin, "TIMING_OUT=" + out}
	// NVIDIA's plugins are off by default, and the example has pools of fixed sizes. A collective in its pool has room
	// for every step, so that thousands of them do not fit into memory.
	env = append(env, "NCCL_PROFILE_EVENT_MASK=94", "NCCL_INSPECTOR_ENABLE=1", "NCCL_INSPECTOR_DUMP_DIR="+dir, "NCCL_PROFILE_DUMP_FILE="+filepath.Join(dir, "dump"))
	for _, pool := range []string{"GROUP_API", "COLL_API", "KERNEL_LAUNCH", "GROUP", "PROXY_CTRL"} {
		env = append(env, "NCCL_PROFILE_"+pool+"_POOL_SIZE=4096")
	}
	env = append(env, "NCCL_PROFILE_COLL_POOL_SIZE=64")
	if _, err := b.run(ctx, "4M", 200, env); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(out + "0")
	if err != nil {
		return nil, err
	}
	var found []figure
	for line := range strings.Lines(string(text)) {
		var f figure
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, nil
}

// loops prints what an AllReduce takes without the plugin, without steps and with them.
func (b *bencher) loops(ctx context.Context, to io.Writer) error {
	plugin := []string{"NCCL_PROFILER_PLUGIN=libnccl-profiler-culprit.so", "LD_LIBRARY_PATH=" + b.bin}
	variants := []variant{
		{"off", nil},
		{"without steps", append(slices.Clone(plugin), "CULPRIT_EVENTS=-proxystep")},
		{"with steps", plugin},
	}
	fmt.Fprint(to, "\n| AllReduce | off, ms | without steps | with steps |\n|---|---|---|---|\n")
	for _, loop := range []struct {
		size  string
		steps int
	}{{"8K", 400}, {"1M", 150}, {"64M", 12}} {
		medians := make([][]float64, len(variants))
		for range b.rounds {
			for i, v := range variants {
				seconds, err := b.run(ctx, loop.size, loop.steps, v.env)
				if err != nil {
					return fmt.Errorf("%s %s: %w", loop.size, v.name, err)
				}
				medians[i] = append(medians[i], median(seconds))
			}
		}
		fmt.Fprintf(to, "| %s | %.3f |", loop.size, 1000*median(medians[0]))
		for i := range variants[1:] {
			mean, half := ratio(medians[i+1], medians[0])
			fmt.Fprintf(to, " %+.1f%% ± %.1f |", mean, half)
		}
		fmt.Fprintln(to)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(to, "\nLoad after the runs: %s\n", strings.Join(strings.Fields(string(load))[:3], " "))
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// ratio is the mean by which paired runs differ, in percent, and half the width of its 95% interval (Student's t).
func ratio(with, without []float64) (mean, half float64) {
	n := float64(len(with))
	var sum, squares float64
	for i := range with {
		d := 100 * (with[i]/without[i] - 1)
		sum += d
		squares += d * d
	}
	mean = sum / n
	if n < 2 {
		return mean, math.Inf(1)
	}
	t := []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26}[min(len(with)-2, 8)]
	return mean, t * math.Sqrt(max(squares/n-mean*mean, 0)/(n-1))
}
