// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/pace"
	"github.com/culprit-project/culprit/sim/stack"
)

var (
	minutes = flag.Float64("minutes", 5, "how long to go on")
	seed    = flag.Uint64("seed", 0, "of what is drawn; 0: the time")
	clock   = flag.Bool("clock", false, "let the machine's clock jump by up to a minute, too")
	keep    = flag.String("dir", "", "keep configuration, logs and traces in this directory")
)

const (
	hosts, ranks = 4, 8
	layout       = "dp2,pp2,tp2"
	patience     = 10 * time.Second
	// healthySteps is the least that a job trains before its fault.
	healthySteps = 60
	// diskSize is that of each service's data, and of a host's trace files: Prometheus writes 100 MiB an hour here.
	diskSize = "size=512m"
)

// faults that are drawn: what makes a job stand still, and what only looks so.
var faults = []string{"link-stall", "op-not-entered", "gpu-freeze", "other-op", "stop", "kill", "kernel-stall", "checkpoint", "none"}

// round is one job.
type round struct {
	fault stack.Fault
	rank  int
	job   string
	// paged is how long after the fault somebody was paged for its rank; 0 not, or nobody must be.
	paged time.Duration
	calm  bool // Only once nothing was disturbed any more.
	// untraced: the disk of a host was full when the job began, so that some ranks are not seen. Somebody is paged all the same, and whom
	// it names may be nobody.
	untraced bool
}

// TestChaos: whatever is killed, stopped, delayed or out of space beside a job, each fault is paged, once, for the rank that has it, and
// nothing else is.
func TestChaos(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("wants to be root: it mounts small file systems, to fill them")
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	s := start(t)
	d := &disturber{t: t, s: s, rng: rand.New(rand.NewPCG(*seed, 1)), done: map[string]int{}}
	// Whoever interrupts it gets the machine's clock and file systems back.
	ctx, cancel := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	var loops sync.WaitGroup
	for kind, every := range map[string]time.Duration{"exporter": 12 * time.Second, "prometheus": 40 * time.Second, "alertmanager": 30 * time.Second, "analyzer": 15 * time.Second} {
		loops.Go(func() { d.disturb(ctx, kind, every) })
	}
	if *clock {
		loops.Go(func() { d.jump(ctx, time.Minute) })
	}
	sizes := &sizes{s: s}
	loops.Go(func() { sizes.watch(ctx) })
	beside := launch(t, s, stack.JobConfig{ID: "beside", FaultAtStep: -1})
	rng := rand.New(rand.NewPCG(*seed, 2))
	var rounds []round
	healthy, evidence := round{fault: stack.Fault{Name: "none"}, rank: -1, job: "beside"}, evidence{}
	// The deadline is of the monotonic clock: jumps of the other do not move it.
	for end := time.Now().Add(time.Duration(*minutes * float64(time.Minute))); time.Now().Before(end) && ctx.Err() == nil; {
		r := play(t, d, rng, len(rounds))
		rounds = append(rounds, r)
		t.Logf("%3d %-16s rank %d: %s", len(rounds), r.fault.Name, r.rank, r.outcome())
		evidence.save(t, s, append(rounds, healthy))
	}
	resume := d.quiet()
	cancel()
	resume()
	loops.Wait()
	if err := beside.WaitStep(within(t, time.Minute), beside.Step()+healthySteps); err != nil {
		t.Errorf("the healthy job beside: %v", err)
	}
	rounds = append(rounds, healthy)
	evidence.save(t, s, rounds)
	count(t, s, rounds, d)
	sizes.flat(t)
	for _, what := range slices.Sorted(maps.Keys(d.done)) {
		t.Logf("%4d times %s", d.done[what], what)
	}
}

// start brings up pairs of everything that can be a pair, each with a small disk of its own.
func start(t *testing.T) *stack.Stack {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	disks := []string{"prometheus-data", "alertmanager-data", "alertmanager-1-data", "analyzer-data", "analyzer-1-data"}
	for i := range hosts {
		disks = append(disks, filepath.Join("trace", fmt.Sprintf("host%d", i)))
	}
	for _, name := range disks {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", path, "tmpfs", 0, diskSize); err != nil {
			t.Fatalf("mounting %s: %v", path, err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
	}
	s, err := stack.Start(within(t, time.Minute), stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: dir,
		Hosts: hosts, GPUs: ranks / hosts, Interval: time.Second, Patience: patience, Pairs: true, PeerTimeout: 2 * time.Second, AnalyzerStorage: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func launch(t *testing.T, s *stack.Stack, cfg stack.JobConfig) *stack.Job {
	t.Helper()
	cfg.Ranks, cfg.Layout = ranks, layout
	job, err := s.StartJob(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// within gives so long on a quiet machine, and longer on a slow one.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pace.Stretch(d))
	t.Cleanup(cancel)
	return ctx
}

// play runs one job with a fault that is drawn, and waits for its page.
func play(t *testing.T, d *disturber, rng *rand.Rand, n int) round {
	t.Helper()
	fault, ok := stack.FindFault(faults[rng.IntN(len(faults))])
	if !ok {
		t.Fatal("no such fault")
	}
	r := round{fault: fault, rank: rng.IntN(ranks), job: fmt.Sprintf("chaos-%d-%s", n, fault.Kind())}
	steps := healthySteps + rng.IntN(2*healthySteps)
	job := launch(t, d.s, stack.JobConfig{ID: r.job, Fault: fault.Name, Rank: r.rank, FaultAtStep: -1})
	defer job.Stop()
	if err := job.WaitStep(within(t, 2*time.Minute), steps); err != nil {
		t.Error(err)
		return r
	}
	if fault.InjectedBySignal() {
		if _, err := job.Inject(within(t, 30*time.Second)); err != nil {
			t.Error(err)
			return r
		}
	}
	if !fault.Pages() {
		if err := job.WaitStep(within(t, 2*time.Minute), job.Step()+2*healthySteps); err != nil {
			t.Error(err)
		}
		return r
	}
	began := time.Now()
	if log, err := os.ReadFile(job.Log()); err != nil {
		t.Error(err)
	} else {
		r.untraced = bytes.Contains(log, []byte("this process is not traced"))
	}
	if r.await(t, d, 90*time.Second) {
		r.paged = time.Since(began)
		return r
	}
	defer d.quiet()()
	r.calm = true
	if r.await(t, d, 2*time.Minute) {
		r.paged = time.Since(began)
	}
	return r
}

// await waits for a page that names the rank, or any where ranks are not traced.
func (r *round) await(t *testing.T, d *disturber, long time.Duration) bool {
	t.Helper()
	ctx := within(t, long)
	for ctx.Err() == nil {
		if slices.ContainsFunc(d.s.Pages(r.job), func(p stack.Page) bool { return r.untraced || p.Labels["rank"] == strconv.Itoa(r.rank) }) {
			return true
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return false
}

func (r *round) outcome() string {
	switch {
	case !r.fault.Pages():
		return "nobody to page"
	case r.paged == 0:
		return "LOST"
	case r.untraced:
		return fmt.Sprintf("paged after %.1f s, with ranks that are not traced", r.paged.Seconds())
	case r.calm:
		return fmt.Sprintf("paged after %.1f s, once it was calm", r.paged.Seconds())
	}
	return fmt.Sprintf("paged after %.1f s", r.paged.Seconds())
}

// count holds all that was paged against the faults. Alertmanager notifies again, every group_interval, while its clock is behind its own
// log, and whenever one of two analyzers takes a verdict back: an on-call service takes that for news of trouble that it knows.
func count(t *testing.T, s *stack.Stack, rounds []round, d *disturber) {
	t.Helper()
	var paged []time.Duration
	lost, twice, repeated, innocents, unnamed := 0, 0, 0, 0, 0
	for i := range rounds {
		r := &rounds[i]
		if r.fault.Pages() && r.paged == 0 {
			lost++
			t.Errorf("%s (%s at rank %d): nobody was paged for it", r.job, r.fault.Name, r.rank)
		}
		if r.paged > 0 {
			paged = append(paged, r.paged)
		}
		calls, told := 0, map[string]int{} // Notifications by who they name.
		for _, together := range notifications(s.Pages(r.job)) {
			var who []string
			if p := &together[0]; p.Calls && p.OfVerdict() {
				calls++
			}
			for _, p := range together {
				rank, named := p.Labels["rank"]
				switch {
				case !named:
					unnamed++
				case r.innocent(p):
					innocents++
					t.Errorf("%s (%s at rank %d): rank %s was paged: %s", r.job, r.fault.Name, r.rank, rank, p.Annotations["summary"])
				}
				who = append(who, fmt.Sprint(p.Labels))
			}
			slices.Sort(who)
			told[strings.Join(who, " ")]++
		}
		for _, n := range told {
			repeated += n - 1
		}
		if calls > 1 {
			twice += calls - 1
			t.Errorf("%s: somebody was called %d times", r.job, calls)
			all := s.Notified(r.job)
			first := all[0].At
			for _, p := range all {
				t.Logf("    %7.1f s: %s %s %s rank %s, since %s, from %s", p.At.Sub(first).Seconds(), p.Labels["alertname"], p.Labels["culprit"], p.Status, p.Labels["rank"], p.StartsAt.Format(time.TimeOnly), p.From)
			}
			d.around(first, all[len(all)-1].At)
		}
	}
	slices.Sort(paged)
	t.Logf("%d jobs, %d with a fault: %d lost, %d called for twice, %d innocents, %d pages that name no rank", len(rounds), len(paged)+lost, lost, twice, innocents, unnamed)
	t.Logf("%d notifications told again what one before had, of trouble that had not ended", repeated)
	if len(paged) > 0 {
		t.Logf("from fault to page: half within %.1f s, nine of ten within %.1f s, the last %.1f s", paged[len(paged)/2].Seconds(), paged[len(paged)*9/10].Seconds(), paged[len(paged)-1].Seconds())
	}
}

// notifications divides pages by what arrived together.
func notifications(pages []stack.Page) [][]stack.Page {
	var out [][]stack.Page
	for i, p := range pages {
		if i == 0 || p.Notification != pages[i-1].Notification {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// innocent says that a page names a rank that has no fault.
func (r *round) innocent(p stack.Page) bool {
	rank, named := p.Labels["rank"]
	return named && (!r.fault.Pages() || rank != strconv.Itoa(r.rank))
}

// evidence holds the incidents whose evidence was saved: those of which a page named an innocent or called somebody again. It is saved soon.
// What was paged an hour ago, the analyzers may have forgotten.
type evidence map[string]bool

func (e evidence) save(t *testing.T, s *stack.Stack, rounds []round) {
	t.Helper()
	for i := range rounds {
		r, called := &rounds[i], false
		for _, p := range s.Pages(r.job) {
			id, again := p.Labels["incident"], called && p.Calls && p.OfVerdict()
			called = called || p.Calls && p.OfVerdict()
			if *keep == "" || !r.innocent(p) && !again || e[id] {
				continue
			}
			e[id] = true
			for n, url := range s.AnalyzerURLs() {
				if err := save(url+"/api/v1/incidents/"+id+"/evidence.tar.gz", filepath.Join(*keep, fmt.Sprintf("%s-%s-%d.tar.gz", r.job, id, n))); err != nil {
					t.Logf("evidence of %s: %v", r.job, err)
				}
			}
		}
	}
}

// save keeps what an analyzer's verdict rests on, for `culprit-analyzer analyze`.
func save(url, name string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}
