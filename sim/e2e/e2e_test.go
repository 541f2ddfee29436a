// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/pace"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	hosts  = 4
	ranks  = 8
	layout = "dp2,pp2,tp2"
	// healthySteps is how long a job trains before its fault.
	healthySteps = 60
	// deadline from the fault to the page, with 1 s scrapes.
	deadline = 15 * time.Second
	// patience is how long a rank may stay away before it pages: less than a site's 30 s, so that the tests are short, and
	// more than the pause of TestPauseWarns.
	patience = 10 * time.Second
	// injectTimeout is for a fault that waits for the next operation.
	injectTimeout = 10 * time.Second
)

var keep = flag.String("e2e.dir", "", "keep configuration, logs, traces and the evidence of failures in this directory")

// cluster is shared by all tests: a long-lived monitoring stack sees many jobs.
var cluster *stack.Stack

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir := *keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "culprit-e2e-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
	}
	root, err := repositoryRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("this machine is %.1f times slower than the one of the limits\n", pace.Factor())
	ctx, cancel := context.WithTimeout(context.Background(), pace.Stretch(2*time.Minute))
	defer cancel()
	cluster, err = stack.Start(ctx, stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"),
		Dir: dir, Hosts: hosts, GPUs: ranks / hosts, Interval: time.Second, Patience: patience, Log: slog.Default(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the cluster (make build tools first):", err)
		return 1
	}
	defer cluster.Close()
	return m.Run()
}

func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
	return "", err
}

// startJob launches a job that is stopped at the end of the test.
func startJob(t *testing.T, cfg stack.JobConfig) *stack.Job {
	t.Helper()
	cfg.Ranks, cfg.Layout = ranks, layout
	job, err := cluster.StartJob(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.Stop)
	return job
}

// within gives so long on a quiet machine, and longer on a slow one.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pace.Stretch(d))
	t.Cleanup(cancel)
	return ctx
}

func train(t *testing.T, job *stack.Job, steps int) {
	t.Helper()
	if err := job.WaitStep(within(t, time.Minute), steps); err != nil {
		t.Fatal(err)
	}
}

// TestFaultNamesItsRank injects every fault that makes the job stand still and waits for the page.
func TestFaultNamesItsRank(t *testing.T) {
	t.Parallel()
	for i, fault := range stack.Faults {
		if !fault.Pages() || fault.Slow || fault.RealOnly {
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			rank := (3 + 2*i) % ranks
			job := startJob(t, stack.JobConfig{ID: "fault-" + fault.Name, Fault: fault.Name, Rank: rank, FaultAtStep: -1})
			train(t, job, healthySteps)
			if pages := cluster.Pages(job.Config.ID); len(pages) > 0 {
				t.Fatalf("paged before the fault: %v", pages)
			}
			at, err := job.Inject(within(t, injectTimeout))
			if err != nil {
				t.Fatal(err)
			}
			limit := deadline
			if slices.Contains(fault.Causes, rca.CauseNotCalled) {
				limit += patience
			}
			page, err := cluster.WaitPage(within(t, limit), job.Config.ID)
			if err != nil {
				t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
			}
			took := page.At.Sub(at)
			t.Logf("paged after %.1f s: %s", took.Seconds(), page.Annotations["summary"])
			checkPage(t, page, fault, rank)
			if limit := pace.Stretch(limit); took > limit {
				t.Errorf("paged after %s, want under %s", took, limit)
			}
			incident, err := cluster.WaitIncident(within(t, 5*time.Second), job.Config.ID, func(*rca.Verdict) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			if !fault.Named(incident.Verdict, rank) {
				t.Errorf("verdict %+v, want rank %d, class in %v, cause in %v", incident.Verdict, rank, fault.Classes, fault.Causes)
			}
		})
	}
}

func alertname(fault stack.Fault) string {
	if fault.Slow {
		return "CulpritSlow"
	}
	return "CulpritFound"
}

// checkPage holds the page against the injected fault: the labels alone must name rank, host and GPU.
func checkPage(t *testing.T, page stack.Page, fault stack.Fault, rank int) {
	t.Helper()
	want := map[string]string{
		"alertname": alertname(fault),
		"rank":      fmt.Sprint(rank),
		"host":      cluster.HostName(cluster.HostOfRank(rank, ranks)),
		"gpu":       fmt.Sprint(rank % (ranks / hosts)),
	}
	for name, value := range want {
		if page.Labels[name] != value {
			t.Errorf("page's label %s is %q, want %q", name, page.Labels[name], value)
		}
	}
	if class := rca.Class(page.Labels["class"]); !fault.Named(&rca.Verdict{
		Class: class, Cause: rca.Cause(page.Labels["cause"]), Culprits: []rca.Culprit{{Rank: rank}},
	}, rank) {
		t.Errorf("page says class %q, cause %q; want one of %v, %v", class, page.Labels["cause"], fault.Classes, fault.Causes)
	}
	for _, name := range []string{"summary", "description", "runbook_url"} {
		if page.Annotations[name] == "" {
			t.Errorf("page has no annotation %s", name)
		}
	}
}

// TestFirstOperation: a link that fails before any operation has completed is paged, although first steps are slow.
func TestFirstOperation(t *testing.T) {
	t.Parallel()
	const rank = 3
	job := startJob(t, stack.JobConfig{ID: "first-operation", Fault: "link-stall:comm=any", Rank: rank, FaultAtStep: 0})
	if _, err := job.WaitFault(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	page, err := cluster.WaitPage(within(t, deadline+10*time.Second), job.Config.ID)
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
	}
	if page.Labels["rank"] != fmt.Sprint(rank) || page.Labels["cause"] != string(rca.CauseNetworkSend) {
		t.Errorf("page names rank %q with cause %q, want rank %d and %s", page.Labels["rank"], page.Labels["cause"], rank, rca.CauseNetworkSend)
	}
}

// TestPauseWarns: a rank that stays outside for a while, as in an evaluation, is named in a warning at once and pages nobody, however
// often it does so.
func TestPauseWarns(t *testing.T) {
	t.Parallel()
	const rank = 3
	job := startJob(t, stack.JobConfig{ID: "pause", Fault: "op-not-entered=sleep:for=7", Rank: rank, FaultAtStep: -1})
	train(t, job, healthySteps)
	if _, err := job.Inject(within(t, injectTimeout)); err != nil {
		t.Fatal(err)
	}
	incident, err := cluster.WaitIncident(within(t, deadline), job.Config.ID, func(v *rca.Verdict) bool { return v.PageIn > 0 })
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(t, cluster, job.Config.ID))
	}
	if v := incident.Verdict; v.Page || len(v.Culprits) != 1 || v.Culprits[0].Rank != rank {
		t.Errorf("verdict %+v, want a warning about rank %d", v, rank)
	}
	for range 2 {
		train(t, job, job.Step()+healthySteps)
		if _, err := job.Inject(within(t, injectTimeout)); err != nil {
			t.Fatal(err)
		}
	}
	train(t, job, job.Step()+healthySteps)
	if pages := cluster.Pages(job.Config.ID); len(pages) > 0 {
		t.Errorf("paged: %+v\n%s", pages, describe(t, cluster, job.Config.ID))
	}
}

// TestBenignPagesNobody: a checkpoint, a slow first step and a healthy run.
func TestBenignPagesNobody(t *testing.T) {
	t.Parallel()
	for _, fault := range stack.Faults {
		if fault.Pages() {
			continue
		}
		name, _, _ := strings.Cut(fault.Name, "=")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := startJob(t, stack.JobConfig{ID: "benign-" + name, Fault: fault.Name, Rank: 2, FaultAtStep: -1})
			resumed := healthySteps
			switch name {
			case "checkpoint":
				train(t, job, healthySteps)
				if _, err := job.Inject(within(t, injectTimeout)); err != nil {
					t.Fatal(err)
				}
				resumed = job.Step() + healthySteps
			case "none":
				resumed = 4 * healthySteps
			}
			// Beyond the pause and back in training: whatever was to be said has been said.
			train(t, job, resumed)
			if pages := cluster.Pages(job.Config.ID); len(pages) > 0 {
				t.Errorf("paged: %+v\n%s", pages, describe(t, cluster, job.Config.ID))
			}
			if name == "checkpoint" {
				_, err := cluster.WaitIncident(within(t, 5*time.Second), job.Config.ID, func(v *rca.Verdict) bool {
					return v.Class == rca.Benign && v.Cause == rca.CauseCheckpoint
				})
				if err != nil {
					t.Errorf("%v\n%s", err, describe(t, cluster, job.Config.ID))
				}
			}
		})
	}
}

// describe gives what the stack thinks of a job, for failures.
func describe(t *testing.T, s *stack.Stack, jobID string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var b strings.Builder
	triggers, err := s.Triggers(ctx, jobID)
	fmt.Fprintf(&b, "triggers: %v %v\n", triggers, err)
	incidents, err := s.Incidents(ctx, jobID)
	fmt.Fprintf(&b, "incidents (%v):\n", err)
	for _, i := range incidents {
		fmt.Fprintf(&b, "  %s %s %+v\n", i.ID, i.State, i.Verdict)
		if *keep != "" {
			file, err := s.SaveEvidence(ctx, i.ID, *keep)
			fmt.Fprintf(&b, "  evidence: %s %v\n", file, err)
		}
	}
	for _, end := range s.Ended() {
		fmt.Fprintln(&b, end)
	}
	return b.String()
}
