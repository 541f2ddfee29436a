// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Command outside puts Culprit beside what a person would use instead, on the same files: recorded jobs, texts of bug reports, traces that
// others have published, and faults of NVRx' injector. The truth of each case lies beside it. docs/outside.md says how to add a case or a tool.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		slog.Error("outside", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s := settings{}
	flag.StringVar(&s.analyzer, "analyzer", "bin/culprit-analyzer", "Culprit's analyzer")
	flag.StringVar(&s.recorded, "recorded", "analyzer/offline/testdata", "recordings and texts with their answers.json")
	flag.StringVar(&s.nvrx, "nvrx", "", "checkout of github.com/NVIDIA/nvidia-resiliency-ext; none: what needs it does not run")
	pythons := flag.String("python", "", "Pythons with PyTorch, the newest last; none: what needs it does not run")
	flag.StringVar(&s.newest, "fr-trace", "", "Python whose fr_trace runs, of PyTorch 2.10 or newer; none: the last of --python")
	flag.StringVar(&s.pySpy, "py-spy", ".cache/py-spy/bin/py-spy", "py-spy, for the stacks of injected faults")
	flag.StringVar(&s.work, "work", "build/outside", "where injected faults are recorded and archives are unpacked")
	flag.StringVar(&s.out, "out", "results/outside.md", "the report")
	flag.Parse()
	s.pythons = strings.Fields(*pythons)
	if n := len(s.pythons); n > 0 && s.newest == "" {
		s.newest = s.pythons[n-1]
	}
	paths := []*string{&s.analyzer, &s.recorded, &s.nvrx, &s.newest, &s.pySpy, &s.work}
	for i := range s.pythons {
		paths = append(paths, &s.pythons[i])
	}
	for _, path := range paths {
		if *path != "" {
			abs, err := filepath.Abs(*path)
			if err != nil {
				return fmt.Errorf("finding %s: %w", *path, err)
			}
			*path = abs
		}
	}
	cases, notes, err := s.cases(ctx)
	if err != nil {
		return err
	}
	r := report{cases: cases, notes: notes, got: map[string][]string{}}
	for i := range tools {
		t := &tools[i]
		if why := t.lacks(&s); why != "" {
			r.notes = append(r.notes, t.name+" did not run: "+why)
			continue
		}
		for _, c := range cases {
			a, err := t.run(ctx, &s, c)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", t.name, c.name, err)
			}
			r.got[t.name] = append(r.got[t.name], c.truth.judge(a))
		}
	}
	r.summary(os.Stdout)
	if err := os.MkdirAll(filepath.Dir(s.out), 0o755); err != nil {
		return fmt.Errorf("making room for the report: %w", err)
	}
	f, err := os.Create(s.out)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	r.write(f)
	return f.Close()
}

// settings say where everything is.
type settings struct {
	analyzer, recorded, nvrx, newest, pySpy, work, out string
	pythons                                            []string
}

// report is what came of it: for each tool that ran its judgements, in the order of the cases.
type report struct {
	cases []benchCase
	notes []string
	got   map[string][]string
}

// summary counts the judgements for each kind of evidence and each tool.
func (r *report) summary(w io.Writer) {
	for _, source := range r.sources() {
		fmt.Fprintf(w, "\n%s\n\n", source)
		tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
		fmt.Fprintf(tw, "| tool\t| %s\t|\n", strings.Join(judgements, "\t| "))
		fmt.Fprintf(tw, "|---%s\t|\n", strings.Repeat("\t|---", len(judgements)))
		for i := range tools {
			got := r.got[tools[i].name]
			if got == nil {
				continue
			}
			counts := map[string]int{}
			for k, c := range r.cases {
				if c.source == source {
					counts[got[k]]++
				}
			}
			fmt.Fprintf(tw, "| %s", tools[i].name)
			for _, j := range judgements {
				fmt.Fprintf(tw, "\t| %d", counts[j])
			}
			fmt.Fprintln(tw, "\t|")
		}
		_ = tw.Flush()
	}
	for _, n := range r.notes {
		fmt.Fprintf(w, "\n%s.\n", n)
	}
}

func (r *report) sources() []string {
	var out []string
	for _, c := range r.cases {
		if !slices.Contains(out, c.source) {
			out = append(out, c.source)
		}
	}
	return out
}

// write adds every single judgement.
func (r *report) write(w io.Writer) {
	fmt.Fprint(w, "# Culprit beside other tools, on the same files\n\nHow it is judged: docs/outside.md.\n")
	r.summary(w)
	fmt.Fprint(w, "\n## Case by case\n\n| case | truth |")
	for i := range tools {
		if r.got[tools[i].name] != nil {
			fmt.Fprintf(w, " %s |", tools[i].name)
		}
	}
	fmt.Fprint(w, "\n|---|---|", strings.Repeat("---|", len(r.got)), "\n")
	for k, c := range r.cases {
		fmt.Fprintf(w, "| %s | %v %s |", c.name, c.truth.Ranks, strings.ReplaceAll(c.truth.Cause, "|", ", "))
		for i := range tools {
			if got := r.got[tools[i].name]; got != nil {
				fmt.Fprintf(w, " %s |", got[k])
			}
		}
		fmt.Fprintln(w)
	}
}
