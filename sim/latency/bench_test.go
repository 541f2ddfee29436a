// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/diagnose"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/sim/stack"
)

var (
	workload = flag.String("latency.workload", "gpt-10240", "simulated job")
	fault    = flag.String("latency.fault", "op_not_entered:rank=4321", "what it hangs of")
)

const (
	healthy = 25 * time.Second // Of the job's time, before the fault.
	hung    = 20 * time.Second // After it, until the job is looked at. It stands still from then on.
	scrapes = 5 * time.Second
	steady  = 20 * time.Second // Over which the load is measured that is there anyway.
)

// frozen is the job as it stands, and whom it waits for.
type frozen struct {
	id    string
	c     *live.Cluster
	ranks []int // That may be named.
	url   string
}

// freeze simulates the job, stops its time and serves its nodes. What they export does not change any more, so that it is
// rendered once: the scrapes shall cost Prometheus what they cost, and the simulator nothing.
func freeze(b *testing.B) *frozen {
	b.Helper()
	w, err := catalog.FindWorkload(*workload)
	if err != nil {
		b.Fatal(err)
	}
	f, err := catalog.ParseFault(*fault)
	if err != nil {
		b.Fatal(err)
	}
	f.At = healthy
	w.Job.ID = "latency"
	c, err := live.New(slog.New(slog.DiscardHandler), cluster.Config{
		Seed: 1, Hardware: w.Hardware, Job: w.Job, Until: time.Hour, Epoch: time.Now().Add(-healthy - hung).Unix(), Faults: []cluster.Fault{f},
	})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := c.Advance(b.Context(), healthy+hung); err != nil {
		b.Fatal(err)
	}
	b.Logf("%s simulated in %.0f s", *workload, time.Since(start).Seconds())
	pages := map[string][]byte{}
	for _, n := range c.Nodes() {
		var page bytes.Buffer
		if err := n.WriteMetrics(&page); err != nil {
			b.Fatal(err)
		}
		pages["/"+n.Name()+"/metrics"] = page.Bytes()
	}
	nodes := c.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := pages[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = w.Write(page)
			return
		}
		nodes.ServeHTTP(w, r)
	}))
	b.Cleanup(srv.Close)
	return &frozen{id: w.Job.ID, c: c, ranks: c.Answer().Truths[0].Ranks, url: srv.URL}
}

func (f *frozen) world() int {
	n := 0
	for _, node := range f.c.Nodes() {
		n += len(node.Ranks())
	}
	return n
}

// start brings up Prometheus and the analyzer and waits until every rank has been scraped.
func (f *frozen) start(b *testing.B) watched {
	b.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	s, err := stack.Start(ctx, stack.Config{
		Root: root, BinDir: filepath.Join(root, "bin"), ToolsDir: filepath.Join(root, "bin", "tools"), Dir: b.TempDir(),
		Interval: scrapes, Discovery: []string{f.url + "/sd"},
	})
	if err != nil {
		b.Fatalf("%v (make build tools first)", err)
	}
	b.Cleanup(s.Close)
	if err := s.WaitSeries(ctx, fmt.Sprintf(`count(culprit_nccl_process_info{job_id=%q}) == %d`, f.id, f.world()), 1); err != nil {
		b.Fatal(err)
	}
	return watched{s}
}

// watched is the stack whose processes are looked at.
type watched struct{ *stack.Stack }

// diagnoser is the analyzer's, without what it remembers.
func diagnoser(b *testing.B, s watched) *diagnose.Diagnoser {
	b.Helper()
	cfg := config.Default()
	if err := cfg.Check(); err != nil {
		b.Fatal(err)
	}
	client, err := promapi.NewClient(promapi.Config{Address: s.PrometheusURL()})
	if err != nil {
		b.Fatal(err)
	}
	return &diagnose.Diagnoser{
		Config: cfg.Analysis, Logger: promslog.NewNopLogger(), Clock: clock.System,
		Gatherer: &evidence.Gatherer{
			Directory: evidence.NewDirectory(v1.NewAPI(client), cfg.Prometheus, func(error) {}, clock.System),
			Exporters: cfg.Exporters,
			Nodes:     &evidence.Nodes{HTTP: http.DefaultClient, Timeout: time.Duration(cfg.Exporters.Timeout), Observe: func(error) {}},
		},
	}
}

// BenchmarkVerdict gives the time from trigger to verdict, the second look after 300 ms included: of a job that the analyzer has
// never heard of (new), of one whose members it read ahead (known), and through the API of the program itself (program).
func BenchmarkVerdict(b *testing.B) {
	f := freeze(b)
	s := f.start(b)
	s.logLoad(b)
	request := func() incident.Request {
		return incident.Request{Job: identity.Job{ID: f.id}, Triggers: []incident.Trigger{{Key: "a", Name: "CulpritJobStalled", JobID: f.id, Rank: -1}}}
	}
	check := func(b *testing.B, named []int, class string) {
		if len(named) == 0 || !slices.Contains(f.ranks, named[0]) {
			b.Fatalf("%s names %v, injected at %v", class, named, f.ranks)
		}
	}
	one := func(b *testing.B, d *diagnose.Diagnoser) incident.Outcome {
		out, err := d.Diagnose(b.Context(), request())
		if err != nil {
			b.Fatal(err)
		}
		var named []int
		for _, c := range out.Verdict.Culprits {
			named = append(named, c.Rank)
		}
		check(b, named, string(out.Verdict.Class))
		return out
	}
	b.Run("new", func(b *testing.B) {
		var all times
		var out incident.Outcome
		for b.Loop() {
			d := diagnoser(b, s)
			all.measure(func() { out = one(b, d) })
		}
		all.report(b)
		b.ReportMetric(float64(out.Asked), "nodes-asked")
	})
	b.Run("known", func(b *testing.B) {
		var all times
		d := diagnoser(b, s)
		if err := d.Gatherer.Directory.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			all.measure(func() { one(b, d) })
		}
		all.report(b)
	})
	b.Run("program", func(b *testing.B) {
		var all times
		for b.Loop() {
			all.measure(func() {
				in, err := s.Analyze(b.Context(), f.id)
				if err != nil {
					b.Fatal(err)
				}
				if in.Verdict == nil {
					b.Fatal("no verdict")
				}
				var named []int
				for _, c := range in.Verdict.Culprits {
					named = append(named, c.Rank)
				}
				check(b, named, string(in.Verdict.Class))
			})
		}
		all.report(b)
		for name, pid := range s.PIDs() {
			b.ReportMetric(resident(b, pid), name+"-MiB")
		}
	})
}

// logLoad says what Prometheus does all the time: scrapes and rules.
func (s watched) logLoad(b *testing.B) {
	b.Helper()
	pid := s.PIDs()["prometheus"]
	before, start := cpu(b, pid), time.Now()
	select {
	case <-time.After(steady):
	case <-b.Context().Done():
	}
	b.Logf("Prometheus uses %.2f cores by itself", (cpu(b, pid)-before).Seconds()/time.Since(start).Seconds())
	resp, err := http.Get(s.PrometheusURL() + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "prometheus_rule_group_last_duration_seconds{") {
			b.Log(lines.Text())
		}
	}
}

// cpu is the processor time that a process has used.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, tick = 11, 10 * time.Millisecond // USER_HZ is 100 wherever Linux runs.
	ticks := int64(0)
	for _, f := range fields[user : user+2] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// times are how long each run took.
type times []time.Duration

func (t *times) measure(f func()) {
	start := time.Now()
	f()
	*t = append(*t, time.Since(start))
}

func (t times) report(b *testing.B) {
	slices.Sort(t)
	b.ReportMetric(t[len(t)/2].Seconds(), "s/p50")
	b.ReportMetric(t[len(t)-1].Seconds(), "s/max")
	b.ReportMetric(0, "ns/op")
}

// resident is the most memory that a process has had, in MiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	b.Fatal("no VmHWM")
	return 0
}
