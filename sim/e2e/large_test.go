// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/catalog"
	sim "github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/sim/stack"
)

// A job that has become slow has a past: Prometheus has scraped it every slowScrape, and the fault began slowFor before the end.
const (
	slowFor    = 30 * time.Second
	slowEnd    = 4*time.Minute + slowFor
	slowScrape = 15 * time.Second
)

// past is a simulated job that stands still at its end, and what Prometheus has of it until then.
type past struct {
	id       string
	workload string // Of the catalog; empty: gpt-512.
	fault    string
	c        *live.Cluster
	url      string
	pages    []page
}

type page struct {
	at   time.Duration
	node int
	text []byte
}

// simulate runs the job to its end, as far as Prometheus and the nodes' histories remember it.
func (p *past) simulate(t *testing.T) {
	t.Helper()
	w, err := catalog.FindWorkload(cmp.Or(p.workload, "gpt-512"))
	if err != nil {
		t.Fatal(err)
	}
	w.Job.ID = p.id
	f, err := catalog.ParseFault(p.fault)
	if err != nil {
		t.Fatal(err)
	}
	f.At = slowEnd - slowFor
	p.c, err = live.New(slog.New(slog.DiscardHandler), sim.Config{
		Seed: 7, Hardware: w.Hardware, Job: w.Job, Until: time.Hour, Epoch: time.Now().Add(-slowEnd).Unix(), Faults: []sim.Fault{f},
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := time.Minute; at <= slowEnd; at += slowScrape {
		if err := p.c.Advance(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		for i, n := range p.c.Nodes() {
			var text bytes.Buffer
			if err := n.WriteMetrics(&text); err != nil {
				t.Fatal(err)
			}
			p.pages = append(p.pages, page{at, i, text.Bytes()})
		}
	}
	srv := httptest.NewServer(p.c.Handler())
	t.Cleanup(srv.Close)
	p.url = srv.URL
}

// write appends what was scraped in OpenMetrics format, as if the job's end were now.
func (p *past) write(t *testing.T, w *bufio.Writer) {
	t.Helper()
	address := strings.TrimPrefix(p.url, "http://")
	nodes := p.c.Nodes()
	for _, page := range p.pages {
		at := time.Now().Add(page.at - slowEnd).Unix()
		name := nodes[page.node].Name()
		for line := range bytes.Lines(page.text) {
			series, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte("} "))
			if !ok || line[0] == '#' {
				continue
			}
			fmt.Fprintf(w, "%s,instance=\"%s/%s\",node=%q,job=\"culprit-exporter\"} %s %d\n", series, address, name, name, value, at)
		}
	}
}

// hostOf gives the name of a rank's host.
func (p *past) hostOf(rank int) string {
	for _, n := range p.c.Nodes() {
		if slices.Contains(n.Ranks(), rank) {
			return n.Name()
		}
	}
	return ""
}

// TestLargeJobsThatGotSlow: jobs on 64 hosts each, too many to fetch everybody's finished work. Prometheus tells whose time is
// spent otherwise than before, and an operator who asks is told the rank, its host and the cause.
func TestLargeJobsThatGotSlow(t *testing.T) {
	if !*long {
		t.Skip("in the long list: TestInhibitionOfKubePrometheusStack has a smaller job that got slow, and make scorecard has many")
	}
	cfg := stack.Config{Dir: t.TempDir(), Interval: 5 * time.Second}
	cfg.Analyzer = patient(t, cfg.Dir)
	jobs := []*past{{id: "throttled", fault: "gpu_throttle:rank=77"}, {id: "lame-nic", fault: "nic_bandwidth:rank=309:severity=0.8"}}
	for _, j := range jobs {
		j.simulate(t)
		cfg.Discovery = append(cfg.Discovery, j.url+"/sd")
	}
	remember(t, cfg, jobs)
	s := startStack(t, cfg)
	for _, j := range jobs {
		analyze(t, s, j.id)
		incident, err := s.WaitIncident(waiting(t), j.id, func(v *rca.Verdict) bool { return len(v.Culprits) > 0 })
		if err != nil {
			t.Fatalf("%v\n%s", err, describe(t, s, j.id))
		}
		truth := j.c.Answer().Truths[0]
		v := incident.Verdict
		if len(v.Culprits) != 1 {
			t.Errorf("%s: injected %+v; %+v", j.id, truth, v)
			continue
		}
		t.Log(v.Summary)
		culprit := &v.Culprits[0]
		if !slices.Contains(truth.Ranks, culprit.Rank) || culprit.Host != j.hostOf(truth.Ranks[0]) ||
			!slices.Contains(truth.Classes, string(v.Class)) || !slices.Contains(truth.Causes, string(v.Cause)) || !v.Page {
			t.Errorf("%s: %s %s %+v, page %v; injected %+v", j.id, v.Class, v.Cause, culprit, v.Page, truth)
		}
	}
}

// patient writes an analyzer's configuration for jobs of which one program answers for all exporters, one at a time, and gives its file.
func patient(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "analyzer-patient.yml")
	if err := os.WriteFile(file, []byte("exporters: {timeout: 20s, history_timeout: 40s}\nanalysis: {deadline: 60s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// remember gives Prometheus the jobs' past before it starts.
func remember(t *testing.T, cfg stack.Config, jobs []*past) {
	t.Helper()
	file := filepath.Join(cfg.Dir, "past.txt")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for _, j := range jobs {
		j.write(t, w)
	}
	fmt.Fprintln(w, "# EOF")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(root, "bin", "tools", "promtool"), "tsdb", "create-blocks-from", "openmetrics", file, filepath.Join(cfg.Dir, "prometheus-data")).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
}
