// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// start makes a live job of 16 ranks on four hosts.
func start(t *testing.T, faults ...string) (*live.Cluster, *httptest.Server) {
	t.Helper()
	w, err := catalog.FindWorkload("gpt-16")
	if err != nil {
		t.Fatal(err)
	}
	cfg := cluster.Config{Seed: 4, Until: 10 * time.Minute, Hardware: w.Hardware, Job: w.Job}
	for _, text := range faults {
		f, err := catalog.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	c, err := live.New(slog.New(slog.DiscardHandler), cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(c.Handler())
	t.Cleanup(srv.Close)
	return c, srv
}

func advance(t *testing.T, c *live.Cluster, to time.Duration) {
	t.Helper()
	if err := c.Advance(t.Context(), to); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v %s", url, resp.Status, err, body)
	}
	return body
}

// series reads metrics by name and labels.
func series(t *testing.T, text []byte) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		out[name+"}"] = v
	}
	return out
}

// The live nodes' series are those of the exporter: each is documented, and all that the trigger rules read are there.
func TestMetricsAreTheExporters(t *testing.T) {
	c, srv := start(t, "nic_down:rank=5:at=60s")
	advance(t, c, 75*time.Second)
	got := map[string]bool{}
	for _, n := range c.Nodes() {
		for name := range series(t, get(t, srv.URL+"/"+n.Name()+"/metrics")) {
			base, _, _ := strings.Cut(name, "{")
			got[base] = true
		}
	}
	docs, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range got {
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
		if strings.HasPrefix(name, "culprit_nccl_") && !strings.Contains(string(docs), "`"+plain+"`") {
			t.Errorf("%s is served and not documented", name)
		}
	}
	rules, err := os.ReadFile("../../rules/culprit-triggers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`\bculprit_nccl_[a-z_]+`).FindAllString(regexp.MustCompile(`job_id:[a-z0-9_:]+`).ReplaceAllString(string(rules), ""), -1)
	slices.Sort(read)
	if read = slices.Compact(read); len(read) < 6 {
		t.Fatalf("the trigger rules read only %v", read)
	}
	for _, name := range read {
		// Simulated processes have neither the preload hooks, which alone tell of calls, nor the verbs interposer, and none of these is stopped.
		if !got[name] && !strings.HasPrefix(name, "culprit_nccl_call_") && !strings.HasPrefix(name, "culprit_nccl_qp_") && name != "culprit_nccl_process_stopped" {
			t.Errorf("the trigger rules read %s, which is not served", name)
		}
	}
	for _, name := range []string{"culprit_nccl_flow_info", "culprit_nccl_comm_info", "culprit_nccl_send_steps_total", "culprit_nccl_wait_seconds_total", "culprit_exporter_build_info"} {
		if !got[name] {
			t.Errorf("%s is not served", name)
		}
	}
}

// Counters rise, and stand still with the job.
func TestCountersFollowTheJob(t *testing.T) {
	c, srv := start(t, "nic_down:rank=5:at=60s")
	url := srv.URL + "/" + c.Nodes()[1].Name() + "/metrics"
	var last map[string]float64
	risen := 0
	for at := 10 * time.Second; at <= 58*time.Second; at += 1700 * time.Millisecond {
		advance(t, c, at)
		now := series(t, get(t, url))
		for name, v := range now {
			if strings.Contains(name, "_total{") && v < last[name] {
				t.Errorf("at %v %s fell from %g to %g", at, name, last[name], v)
			}
			if strings.HasPrefix(name, "culprit_nccl_function_ops_total") && v > last[name] {
				risen++
			}
		}
		last = now
	}
	if risen < 50 {
		t.Errorf("operations were counted %d times only", risen)
	}
	iterations := `culprit_nccl_iteration_seconds_count{job_id="gpt-16",owner="0",rank="5"}`
	if n := last[iterations]; n < 5 {
		t.Errorf("%g iterations found; the job made %d", n, c.Iterations(5))
	}
	stall := `culprit_nccl_stall_seconds{job_id="gpt-16",owner="0",rank="5"}`
	if s := last[stall]; s > 3 {
		t.Errorf("a healthy job stalls for %g s", s)
	}
	advance(t, c, 90*time.Second)
	if s := series(t, get(t, url))[stall]; s < 20 {
		t.Errorf("a job whose network is down for 30 s stalls for %g s", s)
	}
}

func TestNodeAPI(t *testing.T) {
	c, srv := start(t, "process_stopped:rank=6:at=40s")
	advance(t, c, 60*time.Second)
	base := srv.URL + "/" + c.Nodes()[1].Name()
	var whole, part nodeapi.State
	if err := json.Unmarshal(get(t, base+nodeapi.StatePath), &whole); err != nil {
		t.Fatal(err)
	}
	if len(whole.Processes) != 4 || whole.Processes[2].Kernel.State != nodeapi.ProcessStopped {
		t.Errorf("%d processes, the third %+v", len(whole.Processes), whole.Processes[2].Kernel)
	}
	comm := whole.Processes[1].Comms[1].ID
	if err := json.Unmarshal(get(t, base+nodeapi.StatePath+"?rank=5&rank=6&comm="+comm.String()), &part); err != nil {
		t.Fatal(err)
	}
	for i := range part.Processes {
		p := &part.Processes[i]
		if p.Rank != 5 && p.Rank != 6 || len(p.Comms) != 1 || p.Comms[0].ID != comm {
			t.Errorf("rank %d with %d communicators", p.Rank, len(p.Comms))
		}
		for _, o := range p.Ops {
			if o.CommIndex != p.Comms[0].Index {
				t.Errorf("an operation of communicator %d", o.CommIndex)
			}
		}
	}
	if len(part.Processes) == 0 {
		t.Error("no process matches")
	}

	count := map[int32]int{}
	rank := map[string]int32{}
	trailers := 0
	lines := bufio.NewScanner(strings.NewReader(string(get(t, base+nodeapi.TracePath+"?rank=4&last=40s&limit=30"))))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var l nodeapi.TraceLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Process != nil:
			rank[l.Process.File] = l.Process.Rank
		case l.Completion != nil:
			count[rank[l.Completion.File]]++
		case l.Trailer != nil:
			trailers++
			if !l.Trailer.Truncated || l.Trailer.Records != 30 {
				t.Errorf("trailer %+v", l.Trailer)
			}
		}
	}
	if len(count) != 1 || count[4] != 30 || trailers != 1 {
		t.Errorf("records by rank %v, %d trailers", count, trailers)
	}
	for _, bad := range []string{"/api/v1/state?rank=x", "/api/v1/state?comm=xyz", "/api/v1/trace?last=soon", "/api/v1/trace?limit=0"} {
		resp, err := http.Get(base + bad)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, resp.Status)
		}
	}
}

func TestServiceDiscovery(t *testing.T) {
	c, srv := start(t)
	advance(t, c, 10*time.Second)
	var targets []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal(get(t, srv.URL+"/sd"), &targets); err != nil {
		t.Fatal(err)
	}
	if len(targets) != 4 {
		t.Fatalf("%d targets", len(targets))
	}
	for _, tg := range targets {
		get(t, "http://"+tg.Targets[0]+tg.Labels["__metrics_path__"])
		// The analyzer's default for finding an exporter is its instance label.
		get(t, "http://"+tg.Labels["instance"]+nodeapi.StatePath)
	}
}

// A lost host is silent; the others answer.
func TestLostHostDoesNotAnswer(t *testing.T) {
	c, srv := start(t, "host_lost:rank=9:at=20s")
	advance(t, c, 30*time.Second)
	if resp, err := http.Get(srv.URL + "/" + c.Nodes()[2].Name() + "/metrics"); err == nil {
		resp.Body.Close()
		t.Errorf("a lost host answers %s", resp.Status)
	}
	get(t, srv.URL+"/"+c.Nodes()[1].Name()+"/metrics")
}
