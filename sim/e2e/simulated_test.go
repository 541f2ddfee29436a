// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/catalog"
	sim "github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/sim/stack"
)

// simulated is a live simulated job, named by its workload.
type simulated struct {
	workload string
	fault    string        // Empty: none.
	at       time.Duration // Of the fault.
	c        *live.Cluster
	url      string
}

const (
	// simulatedSkip is job time that has passed before anybody looks: first steps are over.
	simulatedSkip = 60 * time.Second
	// simulatedHang is when a job comes to stand still: the rules have seen it healthy by then; simulatedSlow when one gets slow: they
	// know what is usual in it.
	simulatedHang = simulatedSkip + 20*time.Second
	simulatedSlow = simulatedSkip + 60*time.Second
)

// serve starts serving the job and lets its time pass until the end of the test.
func (s *simulated) serve(t *testing.T) {
	t.Helper()
	w, err := catalog.FindWorkload(s.workload)
	if err != nil {
		t.Fatal(err)
	}
	w.Job.ID = "sim-" + s.workload
	cfg := sim.Config{
		Seed: 7, Hardware: w.Hardware, Job: w.Job, Until: time.Hour, Epoch: time.Now().Add(-simulatedSkip).Unix(),
	}
	if s.fault != "" {
		f, err := catalog.ParseFault(s.fault)
		if err != nil {
			t.Fatal(err)
		}
		f.At = s.at
		cfg.Faults = []sim.Fault{f}
	}
	if s.c, err = live.New(slog.Default(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.c.Advance(t.Context(), simulatedSkip); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.c.Handler())
	t.Cleanup(srv.Close)
	s.url = srv.URL
	goOn(t, s.c)
}

// goOn lets a simulated job's time pass until the end of the test.
func goOn(t *testing.T, c *live.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx, 1, 200*time.Millisecond); err != nil {
			t.Errorf("simulating: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// TestSimulatedClustersNameTheirCulprits: hundreds of simulated ranks on dozens of hosts under a real Prometheus with
// the shipped rules, Alertmanager and analyzer. What is injected is paged for, and nobody for the healthy job.
func TestSimulatedClustersNameTheirCulprits(t *testing.T) {
	t.Parallel()
	jobs := []*simulated{
		{workload: "gpt-64", fault: "nic_down:rank=13", at: simulatedHang},
		{workload: "mixtral-32", fault: "process_stopped:rank=22", at: simulatedHang},
		{workload: "gpt-16"},
	}
	if *long {
		jobs = append(jobs,
			&simulated{workload: "gpt-256", fault: "op_not_entered:rank=77", at: simulatedHang},
			&simulated{workload: "gpt-512", fault: "gpu_throttle:rank=309", at: simulatedSlow})
	}
	cfg := stack.Config{Dir: t.TempDir(), Interval: 5 * time.Second}
	cfg.Analyzer = patient(t, cfg.Dir)
	for _, j := range jobs {
		j.serve(t)
		cfg.Discovery = append(cfg.Discovery, j.url+"/sd")
	}
	s := startStack(t, cfg)
	for _, j := range jobs {
		if j.fault == "" {
			continue
		}
		id := "sim-" + j.workload
		page, err := s.WaitPageThat(waiting(t), id, func(p *stack.Page) bool { return p.Labels["rank"] != "" })
		if err != nil {
			t.Errorf("%v\n%s", err, describe(t, s, id))
			continue
		}
		t.Logf("%s: paged %.1f s after the fault: %s", j.workload, (j.c.Now() - j.at).Seconds(), page.Annotations["summary"])
		truth := j.c.Answer().Truths[0]
		if !slices.ContainsFunc(truth.Ranks, func(r int) bool { return page.Labels["rank"] == fmt.Sprint(r) }) ||
			!slices.Contains(truth.Classes, page.Labels["class"]) {
			t.Errorf("%s: paged %v; injected %+v", j.workload, page.Labels, truth)
		}
		if _, err := s.WaitIncident(waiting(t), id, func(v *rca.Verdict) bool { return v.Page }); err != nil {
			t.Error(err)
		}
	}
	if pages := s.Pages("sim-gpt-16"); len(pages) > 0 {
		t.Errorf("paged for a healthy job: %+v\n%s", pages, describe(t, s, "sim-gpt-16"))
	}
}
