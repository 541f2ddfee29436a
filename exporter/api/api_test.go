// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

const nowNS = 1_000_000_000_000

type testNode struct {
	t       *testing.T
	dir     string
	procs   *proctest.FS
	sampler *node.Sampler
	server  *httptest.Server
	now     time.Time
}

func newNode(t *testing.T) *testNode {
	t.Helper()
	n := &testNode{t: t, dir: t.TempDir(), procs: proctest.New(t), now: time.Unix(1_800_000_000, 0)}
	store, err := history.New(history.Options{MaxBytes: 1 << 20, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n.sampler, err = node.New(node.Options{
		Dirs: []string{n.dir}, ProcFS: n.procs.Root, HostName: "node-7", Logger: promslog.NewNopLogger(), History: store,
		Clock: func() uint64 { return nowNS }, Now: func() time.Time { return n.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	a := api.New(promslog.NewNopLogger(), "1.2.3", n.sampler, store)
	a.Register(mux)
	a.RegisterControl(mux)
	n.server = httptest.NewServer(mux)
	t.Cleanup(n.server.Close)
	return n
}

func (n *testNode) rank(job string, rank int32, stuck time.Duration) *tracetest.Writer {
	n.t.Helper()
	w := n.claim(fmt.Sprintf("%s-%d.trace", job, rank), job, rank, 0, 4000+int(rank))
	tracetest.Fill(w, tracetest.Shape{Comms: 2, Channels: 2, Ops: 10, Rank: rank, NowNS: nowNS, StuckNS: uint64(stuck)})
	return w
}

// claim makes a process of a user that claims to be a rank.
func (n *testNode) claim(file, job string, rank int32, uid, pid int) *tracetest.Writer {
	n.t.Helper()
	id := trace.Identity{
		PID: uint32(pid), PIDNamespace: proctest.InitNamespace, StartTicks: 50, Rank: rank, WorldSize: 8, GPUIndex: rank,
		BootID: proctest.BootID, Hostname: "pod", JobID: job,
	}
	w, err := tracetest.Create(filepath.Join(n.dir, file), id, tracetest.Size{})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { w.Close() })
	n.procs.Put(proctest.Process{PID: pid, StartTicks: 50, UID: uid})
	return w
}

func (n *testNode) get(query string) (int, []byte) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.server.URL+query, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	resp, err := n.server.Client().Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, b
}

func (n *testNode) state(query string) nodeapi.State {
	n.t.Helper()
	code, b := n.get(nodeapi.StatePath + query)
	var s nodeapi.State
	if err := json.Unmarshal(b, &s); err != nil || code != http.StatusOK {
		n.t.Fatalf("%d %v: %s", code, err, b)
	}
	return s
}

func TestState(t *testing.T) {
	n := newNode(t)
	w := n.rank("a", 0, 5*time.Second)
	n.rank("a", 1, 0)
	n.rank("b", 3, 0)
	for i := range uint64(20) {
		w.Complete(trace.Completion{CommID: tracetest.CommID(0), CommGeneration: 1, Number: i})
		w.Complete(trace.Completion{CommID: tracetest.CommID(1), CommIndex: 1, CommGeneration: 1, Number: i})
	}
	if err := os.WriteFile(filepath.Join(n.dir, "x.trace"), make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := n.state("")
	if s.Version != nodeapi.Version || s.Exporter != "1.2.3" || s.Node != "node-7" || s.NowNS != nowNS || s.AtUnixNS == 0 {
		t.Errorf("head %+v", s)
	}
	if len(s.Unread) != 1 || s.Unread[0].File != "x.trace" || s.Unread[0].Error == "" {
		t.Errorf("unread %+v", s.Unread)
	}
	if len(s.Processes) != 3 {
		t.Fatalf("%d processes", len(s.Processes))
	}
	p := s.Processes[0]
	if p.File != "a-0.trace" || p.JobID != "a" || p.Rank != 0 || p.Host != "node-7" || p.GPU != "0" || p.Identity.Hostname != "pod" {
		t.Errorf("process %+v", p)
	}
	if p.Kernel == nil || p.Kernel.State != nodeapi.ProcessRunning || !p.Kernel.Verified || p.Kernel.HostPID != 4000 {
		t.Errorf("kernel %+v", p.Kernel)
	}
	if len(p.Comms) != 2 || len(p.Ops) != 1 || len(p.Flows) != 4 {
		t.Errorf("%d communicators, %d operations, %d flows; want 2, 1 and the 4 that are active", len(p.Comms), len(p.Ops), len(p.Flows))
	}
	if len(p.Completions) != 16 || p.Completions[0].Number != 12 || p.Completions[15].Number != 19 {
		t.Errorf("completions %+v, want the newest 8 of both communicators", p.Completions)
	}
}

func TestStateFilters(t *testing.T) {
	n := newNode(t)
	n.rank("a", 0, 5*time.Second)
	n.rank("a", 1, 0)
	n.rank("b", 3, 0)
	for _, tt := range []struct {
		query                   string
		processes, comms, flows int
	}{
		{"", 3, 6, 4},
		{"?flows=all", 3, 6, 24},
		{"?flows=none", 3, 6, 0},
		{"?job_id=a", 2, 4, 4},
		{"?job_id=a&job_id=b", 3, 6, 4},
		{"?job_id=none", 0, 0, 0},
		{"?rank=1&rank=3", 2, 4, 0},
		{"?job_id=a&rank=3", 0, 0, 0},
		{"?comm=" + tracetest.CommID(1).String(), 3, 3, 0},
		{"?comm=0x" + tracetest.CommID(0).String() + "&rank=0", 1, 1, 4},
		{"?comm=1", 0, 0, 0},
	} {
		t.Run(tt.query, func(t *testing.T) {
			comms, flows := 0, 0
			s := n.state(tt.query)
			for _, p := range s.Processes {
				comms, flows = comms+len(p.Comms), flows+len(p.Flows)
			}
			if len(s.Processes) != tt.processes || comms != tt.comms || flows != tt.flows {
				t.Errorf("%d processes, %d communicators, %d flows; want %+v", len(s.Processes), comms, flows, tt)
			}
		})
	}
	for _, query := range []string{"?rank=x", "?rank=99999999999", "?comm=xyz", "?flows=some"} {
		if code, b := n.get(nodeapi.StatePath + query); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, code, b)
		}
	}
}

func TestStateOfTheDead(t *testing.T) {
	n := newNode(t)
	n.rank("a", 0, 5*time.Second)
	w := n.rank("a", 1, 0)
	n.state("")
	n.procs.Remove(4000)
	n.procs.Remove(4001)
	w.SetStatus(trace.Status{ClosedNS: 1})
	n.now = n.now.Add(time.Second)
	n.state("")
	n.now = n.now.Add(30 * time.Second)
	s := n.state("")
	if len(s.Processes) != 2 {
		t.Fatalf("%d processes", len(s.Processes))
	}
	killed, ended := s.Processes[0], s.Processes[1]
	if killed.Kernel.State != nodeapi.ProcessGone || killed.Kernel.GoneForSeconds != 30 || killed.Kernel.SeenAliveSecondsAgo != 31 || len(killed.Ops) != 1 || len(killed.Flows) != 4 {
		t.Errorf("killed process: %+v, %d operations, %d flows", killed.Kernel, len(killed.Ops), len(killed.Flows))
	}
	if ended.Kernel.State != nodeapi.ProcessExited {
		t.Errorf("ended process: %+v", ended.Kernel)
	}
	n.now = n.now.Add(10 * time.Minute)
	if s := n.state(""); len(s.Processes) != 0 {
		t.Errorf("%d processes after their time", len(s.Processes))
	}
	n.now = n.now.Add(time.Minute)
	if s := n.state(""); len(s.Processes) != 0 {
		t.Errorf("%d processes came back", len(s.Processes))
	}
}

func TestStateIsCompressed(t *testing.T) {
	n := newNode(t)
	n.rank("a", 0, 5*time.Second)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.server.URL+nodeapi.StatePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "br, gzip;q=0.5")
	resp, err := n.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("encoding %q", got)
	}
	zr, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var s nodeapi.State
	if err := json.NewDecoder(zr).Decode(&s); err != nil || len(s.Processes) != 1 {
		t.Errorf("%d processes, %v", len(s.Processes), err)
	}
}

// lines asks for history and gives how many lines there are of each kind, the last being the trailer.
func (n *testNode) lines(query string) (kinds map[string]int, trailer nodeapi.TraceTrailer) {
	n.t.Helper()
	code, b := n.get(nodeapi.TracePath + query)
	if code != http.StatusOK {
		n.t.Fatalf("%s: %d %s", query, code, b)
	}
	kinds = map[string]int{}
	dec := json.NewDecoder(bytes.NewReader(b))
	for dec.More() {
		var raw map[string]json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			n.t.Fatal(err)
		}
		for kind, value := range raw {
			kinds[kind]++
			if kind == "trailer" {
				if err := json.Unmarshal(value, &trailer); err != nil {
					n.t.Fatal(err)
				}
			}
		}
	}
	return kinds, trailer
}

func TestTrace(t *testing.T) {
	n := newNode(t)
	w := n.rank("a", 0, 5*time.Second)
	n.rank("b", 1, 0)
	for i := range uint64(10) {
		w.Complete(trace.Completion{CommID: tracetest.CommID(0), CommGeneration: 1, LeftNS: nowNS - i*1e9})
		w.Transferred(trace.Transfer{EndedNS: nowNS - i*1e9})
	}
	w.Live(trace.LifecycleEvent{AtNS: nowNS - 1e9, Kind: trace.LifeProcessStart, CommIndex: -1})
	n.sampler.Sample()
	n.sampler.Sample() // The stuck operation is logged at second sight.
	for _, tt := range []struct {
		query string
		want  map[string]int
	}{
		{"", map[string]int{"header": 1, "process": 1, "completion": 10, "lifecycle": 1, "sample": 1, "trailer": 1}},
		{"?last=3500ms", map[string]int{"header": 1, "process": 1, "completion": 4, "lifecycle": 1, "sample": 1, "trailer": 1}},
		{"?samples=0&lifecycle=false", map[string]int{"header": 1, "process": 1, "completion": 10, "trailer": 1}},
		{"?completions=0", map[string]int{"header": 1, "process": 1, "lifecycle": 1, "sample": 1, "trailer": 1}},
		{"?job_id=b", map[string]int{"header": 1, "trailer": 1}},
		{"?rank=0&limit=3", map[string]int{"header": 1, "process": 1, "completion": 3, "trailer": 1}},
		{"?from=998000000000&to=999000000000", map[string]int{"header": 1, "process": 1, "completion": 2, "lifecycle": 1, "trailer": 1}},
		{
			"?transfers=1&completions=0&lifecycle=0&samples=0&last=5500ms",
			map[string]int{"header": 1, "process": 1, "transfer": 6, "trailer": 1},
		},
	} {
		t.Run(tt.query, func(t *testing.T) {
			kinds, trailer := n.lines(tt.query)
			if diff := cmp.Diff(tt.want, kinds); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			records := kinds["completion"] + kinds["lifecycle"] + kinds["sample"] + kinds["transfer"]
			if int(trailer.Records) != records || trailer.Truncated != (tt.query == "?rank=0&limit=3") {
				t.Errorf("trailer %+v of %d records", trailer, records)
			}
		})
	}
	for _, query := range []string{
		"?last=soon", "?last=-1s", "?from=x", "?to=-1", "?limit=0", "?limit=9999999999", "?samples=maybe", "?transfers=x", "?rank=x",
	} {
		if code, b := n.get(nodeapi.TracePath + query); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, code, b)
		}
	}
}

// Those who read metrics slowly are bounded, as those who read the state are: each holds a whole scrape in memory.
func TestScrapesHavePlaces(t *testing.T) {
	n := newNode(t)
	a := api.New(promslog.NewNopLogger(), "1.2.3", n.sampler, nil)
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan int)
	h := a.Scrape(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { held <- struct{}{}; <-free }))
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return w.Code
	}
	for range 4 {
		go func() { done <- ask() }()
		<-held
	}
	if code := ask(); code != http.StatusServiceUnavailable {
		t.Errorf("a client's fifth scrape at a time: status %d", code)
	}
	if got := testutil.ToFloat64(a.Refused().(*prometheus.CounterVec).WithLabelValues("metrics")); got != 1 {
		t.Errorf("%v refusals counted, want 1", got)
	}
	close(free)
	for range 4 {
		<-done
	}
}
