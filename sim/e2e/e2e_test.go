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
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

const (
	hosts  = 4
	ranks  = 8
	layout = "dp2,pp2,tp2"
	// healthySteps is how long a job trains before its fault.
	healthySteps = 30
	// patience is how long a rank may stay away before it pages: less than a site's 30 s, so that the tests are short, and
	// more than the pauses of TestBenignPagesNobody.
	patience = 15 * time.Second
	// interval of scrapes, and how long one may take: with a second, a machine whose processors others want sees nothing.
	interval = 2 * time.Second
	// giveUp is how long anything may take before a test gives up on it, on a machine that others keep busy.
	giveUp = 15 * time.Minute
)

// Groups of the shared cluster's hosts. Most jobs run on the first; a test that breaks something on its hosts has some of its own.
const (
	gpuHosts     = 1 + iota // Their GPUs do as they are told.
	silentHosts             // One of their exporters ends.
	corruptHosts            // Not all of their trace files can be read.
)

// moreHosts are the sizes of these groups.
var moreHosts = []int{hosts, fewHosts, fewHosts}

// fewHosts are enough where it does not matter how many there are.
const fewHosts = 2

// lazy makes the progress threads of ringjob look seldom at what moves by itself: what comes over the network wakes them. Eight ranks
// that stand still and look a thousand times a second take a third of a processor.
const lazy = "--poll-us=20000"

var (
	keep = flag.String("e2e.dir", "", "keep configuration, logs, traces and the evidence of failures in this directory")
	long = flag.Bool("e2e.long", false, "run the long list, too: every fault at every level of evidence, every version of the profiler interface, large jobs")
)

// cluster is shared by most tests: a long-lived monitoring stack sees many jobs side by side.
var cluster *stack.Stack

// sideBySide is how many tests run at a time, whatever the number of processors: most of them wait for a page, and what takes processor
// time is limited by training. A hundred ranks that stand still and look whether they may go on take half a processor.
const sideBySide = 8

// training holds one element for each job that takes processor time: jobs that stand still, and whoever waits for a page, take none.
var training = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(sideBySide)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	cluster, err = stack.Start(ctx, stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"),
		Dir: dir, Hosts: hosts, MoreHosts: moreHosts, GPUs: ranks / hosts, Interval: interval, Patience: patience, Log: slog.Default(),
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

// job is a training job on a stack.
type job struct {
	*stack.Job
	on   *stack.Stack
	rest func() // Gives the processors to others: the job stands still.
}

// startJob launches a job on the shared cluster that is stopped at the end of the test.
func startJob(t *testing.T, cfg stack.JobConfig) *job {
	t.Helper()
	return startJobOn(t, cluster, cfg)
}

// startJobOn launches a job that trains when others leave it the processors, and is stopped at the end of the test.
func startJobOn(t *testing.T, s *stack.Stack, cfg stack.JobConfig) *job {
	t.Helper()
	select {
	case training <- struct{}{}:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	rest := sync.OnceFunc(func() { <-training })
	t.Cleanup(rest)
	return launch(t, s, cfg, rest)
}

// launch does so at once.
func launch(t *testing.T, s *stack.Stack, cfg stack.JobConfig, rest func()) *job {
	t.Helper()
	if cfg.Ranks == 0 {
		cfg.Ranks, cfg.Layout = ranks, layout
	}
	cfg.Args = append([]string{lazy}, cfg.Args...)
	j, err := s.StartJob(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Stop)
	return &job{Job: j, on: s, rest: rest}
}

// waiting gives the context of a wait.
func waiting(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	t.Cleanup(cancel)
	return ctx
}

func (j *job) train(t *testing.T, steps int) {
	t.Helper()
	if err := j.WaitStep(waiting(t), steps); err != nil {
		t.Fatal(err)
	}
}

// inject starts the fault when the rules know how the job usually goes on, and gives the moment at which it began.
func (j *job) inject(t *testing.T) time.Time {
	t.Helper()
	usual := fmt.Sprintf("job_id:culprit_nccl_launch_pause_seconds:usual{job_id=%q}", j.Config.ID)
	if err := j.on.WaitSeries(waiting(t), usual, 1); err != nil {
		t.Fatalf("%v\n%s", err, j.describe(t))
	}
	at, err := j.Inject(waiting(t))
	if err != nil {
		t.Fatal(err)
	}
	fault, known := stack.FindFault(strings.SplitN(j.Config.Fault, ":", 2)[0])
	if known && fault.Pages() && !fault.Slow && !strings.Contains(j.Config.Fault, ":for=") {
		j.rest()
	}
	return at
}

// page waits until somebody is paged for a rank of the job. On a machine without a free processor an earlier page may say that exporters
// have not answered.
func (j *job) page(t *testing.T) stack.Page {
	t.Helper()
	page, err := j.on.WaitPageThat(waiting(t), j.Config.ID, func(p *stack.Page) bool { return p.Labels["rank"] != "" })
	if err != nil {
		t.Fatalf("%v\n%s", err, j.describe(t))
	}
	t.Logf("%s: paged: %s", j.Config.ID, page.Annotations["summary"])
	return page
}

// incident waits for a verdict.
func (j *job) incident(t *testing.T, ok func(*rca.Verdict) bool) stack.Incident {
	t.Helper()
	incident, err := j.on.WaitIncident(waiting(t), j.Config.ID, ok)
	if err != nil {
		t.Fatalf("%v\n%s", err, j.describe(t))
	}
	return incident
}

// pagesNobody fails if somebody has been paged for the job.
func (j *job) pagesNobody(t *testing.T) {
	t.Helper()
	if pages := j.on.Pages(j.Config.ID); len(pages) > 0 {
		t.Errorf("paged: %+v\n%s", pages, j.describe(t))
	}
}

func (j *job) describe(t *testing.T) string {
	t.Helper()
	return describe(t, j.on, j.Config.ID)
}

// TestFaultNamesItsRank injects every fault that makes the job stand still and waits for the page. Where Prometheus's own alerts can tell
// the rank without any analyzer, they do, and name no other.
func TestFaultNamesItsRank(t *testing.T) {
	t.Parallel()
	for i, fault := range stack.Faults {
		if !fault.Pages() || fault.Slow || fault.RealOnly {
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			rank := (3 + 2*i) % ranks
			j := startJob(t, stack.JobConfig{ID: "fault-" + fault.Name, Fault: fault.Name, Rank: rank, FaultAtStep: -1})
			j.train(t, healthySteps)
			j.pagesNobody(t)
			at := j.inject(t)
			page := j.page(t)
			t.Logf("paged after %.1f s", page.At.Sub(at).Seconds())
			checkPage(t, page, fault, j, rank)
			incident := j.incident(t, func(v *rca.Verdict) bool { return fault.Named(v, rank) })
			for _, c := range incident.Verdict.Culprits {
				if c.Rank != rank {
					t.Errorf("verdict names an innocent: %+v", incident.Verdict)
				}
			}
			triggersName(t, j, rank)
			for _, p := range cluster.Pages(j.Config.ID) {
				if r := p.Labels["rank"]; r != "" && r != fmt.Sprint(rank) {
					t.Errorf("paged for an innocent, %v: %s", p.Labels, p.Annotations["summary"])
				}
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
func checkPage(t *testing.T, page stack.Page, fault stack.Fault, j *job, rank int) {
	t.Helper()
	want := map[string]string{
		"alertname": alertname(fault),
		"rank":      fmt.Sprint(rank),
		"host":      j.on.HostName(j.HostOfRank(rank)),
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
	j := startJob(t, stack.JobConfig{ID: "first-operation", Fault: "link-stall:comm=any", Rank: rank, FaultAtStep: 0})
	if _, err := j.WaitFault(waiting(t)); err != nil {
		t.Fatal(err)
	}
	j.rest()
	page := j.page(t)
	if page.Labels["rank"] != fmt.Sprint(rank) || page.Labels["cause"] != string(rca.CauseNetworkSend) {
		t.Errorf("page names rank %q with cause %q, want rank %d and %s", page.Labels["rank"], page.Labels["cause"], rank, rca.CauseNetworkSend)
	}
}

// TestPauseWarns: a rank that stays outside for a while, as in an evaluation, is named in a warning at once and pages nobody, however
// often it does so. The patience is such that no pause is too long, whenever the warning comes.
func TestPauseWarns(t *testing.T) {
	t.Parallel()
	const rank = 3
	config := filepath.Join(t.TempDir(), "analyzer.yml")
	if err := os.WriteFile(config, []byte("analysis: {patience: {at_least: 1h, at_most: 1h}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stack.Config{Hosts: fewHosts, Analyzer: config})
	j := startJobOn(t, s, few(0, "pause", "op-not-entered=sleep", rank))
	j.train(t, healthySteps)
	for range 3 {
		j.inject(t)
		incident := j.incident(t, func(v *rca.Verdict) bool { return v.PageIn > 0 })
		if v := incident.Verdict; v.Page || len(v.Culprits) != 1 || v.Culprits[0].Rank != rank {
			t.Errorf("verdict %+v, want a warning about rank %d", v, rank)
		}
		if err := j.EndFault(); err != nil {
			t.Fatal(err)
		}
		j.train(t, j.Step()+healthySteps)
		j.incident(t, func(v *rca.Verdict) bool { return v.PageIn == 0 })
	}
	j.pagesNobody(t)
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
			j := startJob(t, stack.JobConfig{ID: "benign-" + name, Fault: fault.Name, Rank: 2, FaultAtStep: -1})
			resumed := healthySteps
			switch name {
			case "checkpoint":
				j.train(t, healthySteps)
				j.inject(t)
				resumed = j.Step() + healthySteps
			case "none":
				resumed = 4 * healthySteps
			}
			// Beyond the pause and back in training: whatever was to be said has been said.
			j.train(t, resumed)
			j.pagesNobody(t)
			if name == "checkpoint" {
				j.incident(t, func(v *rca.Verdict) bool { return v.Class == rca.Benign && v.Cause == rca.CauseCheckpoint })
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
