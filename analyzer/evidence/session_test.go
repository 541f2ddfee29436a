// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// prom answers queries by substrings that they contain.
type prom struct {
	mu      sync.Mutex
	err     error
	answers map[string]model.Value
	asked   []string
	twice   model.Vector // Hosts that several exporters claim.
}

func (p *prom) Query(_ context.Context, query string, _ time.Time, _ ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, query)
	if p.err != nil && !errors.Is(p.err, ErrIncomplete) {
		return nil, nil, nil, p.err
	}
	if a, ok := p.answers[query]; ok {
		return a, nil, nil, p.err
	}
	if strings.Contains(query, "culprit_exporter_build_info") && strings.Contains(query, "and on (short)") {
		return p.twice, nil, nil, p.err
	}
	return model.Vector{}, nil, nil, p.err
}

func series(labels ...string) *model.Sample {
	m := model.Metric{}
	for i := 0; i < len(labels); i += 2 {
		m[model.LabelName(labels[i])] = model.LabelValue(labels[i+1])
	}
	return &model.Sample{Metric: m, Value: 1}
}

func rankSeries(rank int, host, instance, pid string) *model.Sample {
	return series("job_id", "job", "rank", strconv.Itoa(rank), "host", host, "instance", instance, "pid", pid, "world_size", "3", "gpu", "0")
}

const (
	liveQuery = `culprit_nccl_process_info{job_id="job",job="culprit-exporter"}`
	goneQuery = `last_over_time(culprit_nccl_process_info{job_id="job",job="culprit-exporter"}[10m]) unless culprit_nccl_process_info{job_id="job",job="culprit-exporter"}`
)

func directory(p *prom) *Directory {
	return NewDirectory(p, config.Default().Prometheus, func(error) {}, clock.System)
}

func TestProcesses(t *testing.T) {
	moved := rankSeries(1, "new", "new:9850", "8")
	p := &prom{answers: map[string]model.Value{
		liveQuery: model.Vector{
			rankSeries(0, "a", "a:9850", "1"), moved, series("job_id", "job", "rank", "-1", "instance", "x:1"), series("job_id", "job", "rank", "many"),
		},
		goneQuery: model.Vector{
			rankSeries(1, "old", "a-old:9850", "2"), // Before a restart.
			rankSeries(2, "dead", "dead:9850", "3"), // Its host does not answer scrapes.
		},
	}}
	d := directory(p)
	got, err := d.Processes(t.Context(), identity.Job{ID: "job"})
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, x := range got {
		have = append(have, fmt.Sprintf("%d %s %v %d", x.Rank, x.Host, x.Live, x.WorldSize))
	}
	if want := []string{"0 a true 3", "1 new true 3", "2 dead false 3"}; !slices.Equal(have, want) {
		t.Errorf("processes are %v, want %v", have, want)
	}

	p.err = errors.New("connection refused")
	again, err := d.Processes(t.Context(), identity.Job{ID: "job"})
	if err == nil || len(again) != 3 {
		t.Errorf("with Prometheus down: %d processes, %v", len(again), err)
	}
	heir := directory(p)
	heir.Inherit(d)
	if inherited, _ := heir.Processes(t.Context(), identity.Job{ID: "job"}); len(inherited) != 3 {
		t.Errorf("after a reload: %d processes", len(inherited))
	}
	if none, err := d.Processes(t.Context(), identity.Job{ID: "other"}); err == nil || len(none) != 0 {
		t.Errorf("of an unknown job: %v, %v", none, err)
	}
}

// Half of a job is better than none of it, and worse than all of it as it was a while ago. It is not remembered.
func TestProcessesOfAnIncompleteAnswer(t *testing.T) {
	job := identity.Job{ID: "job"}
	half, all := model.Vector{rankSeries(0, "a", "a:1", "1")}, model.Vector{rankSeries(0, "a", "a:1", "1"), rankSeries(1, "b", "b:1", "1")}
	p := &prom{answers: map[string]model.Value{liveQuery: half}, err: ErrIncomplete}
	d := directory(p)
	if got, err := d.Processes(t.Context(), job); !errors.Is(err, ErrIncomplete) || len(got) != 1 {
		t.Errorf("of a job that nobody knows: %v, %v", got, err)
	}
	if d.Knows(job) {
		t.Error("half of the job is remembered")
	}
	p.answers[liveQuery], p.err = all, nil
	if got, err := d.Processes(t.Context(), job); err != nil || len(got) != 2 {
		t.Fatalf("of a whole answer: %v, %v", got, err)
	}
	p.answers[liveQuery], p.err = half, ErrIncomplete
	if got, err := d.Processes(t.Context(), job); !errors.Is(err, ErrIncomplete) || len(got) != 2 {
		t.Errorf("of a job that is known: %v, %v", got, err)
	}
}

func TestRefreshReadsAhead(t *testing.T) {
	p := &prom{answers: map[string]model.Value{
		`culprit_nccl_process_info{job_id!="",job="culprit-exporter"}`: model.Vector{rankSeries(0, "a", "a:1", "1"), rankSeries(1, "b", "b:1", "1")},
	}}
	d := directory(p)
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.err = errors.New("down")
	if got, err := d.Processes(t.Context(), identity.Job{ID: "job"}); err == nil || len(got) != 2 {
		t.Errorf("processes are %v, %v", got, err)
	}
	if err := d.Refresh(t.Context()); err == nil {
		t.Error("no error from a Prometheus that is down")
	}
}

// Processes that were looked up in advance are updated with what has come and gone since.
func TestProcessesChanged(t *testing.T) {
	p := &prom{answers: map[string]model.Value{
		`culprit_nccl_process_info{job_id!="",job="culprit-exporter"}`: model.Vector{rankSeries(0, "a", "a:1", "1"), rankSeries(1, "b", "b:1", "1"), rankSeries(2, "c", "c:1", "1")},
		liveQuery + " unless " + liveQuery + " offset 1s":              model.Vector{rankSeries(1, "d", "d:1", "7")},
		liveQuery + " offset 1s unless " + liveQuery:                   model.Vector{rankSeries(1, "b", "b:1", "1"), rankSeries(2, "c", "c:1", "1")},
		"count(" + liveQuery + ")":                                     model.Vector{&model.Sample{Value: 2}},
	}}
	d := directory(p)
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := d.Processes(t.Context(), identity.Job{ID: "job"})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, x := range got {
			have = append(have, fmt.Sprintf("%d %s %v", x.Rank, x.Host, x.Live))
		}
		if want := []string{"0 a true", "1 d true", "2 c false"}; !slices.Equal(have, want) {
			t.Errorf("processes are %v, want %v", have, want)
		}
	}
	if slices.Contains(p.asked, liveQuery) {
		t.Error("all processes are read again")
	}
	p.answers["count("+liveQuery+" and "+liveQuery+" offset 1s) == count("+liveQuery+")"] = model.Vector{&model.Sample{Value: 3}}
	p.asked = nil
	if got, err := d.Processes(t.Context(), identity.Job{ID: "job"}); err != nil || len(got) != 3 || !got[2].Live || len(p.asked) != 1 {
		t.Errorf("nothing has changed: %v, %v, asked %q", got, err, p.asked)
	}
	p.err = errors.New("down")
	if got, err := d.Processes(t.Context(), identity.Job{ID: "job"}); err == nil || len(got) != 3 {
		t.Errorf("with Prometheus down: %v, %v", got, err)
	}
}

// TestProcessesThatCame: all processes that were looked up in advance are still there, and one has come. The quick count must
// notice: it gives nothing unless as many are there now as were then.
func TestProcessesThatCame(t *testing.T) {
	still := "count(" + liveQuery + " and " + liveQuery + " offset 1s)"
	p := &prom{answers: map[string]model.Value{
		`culprit_nccl_process_info{job_id!="",job="culprit-exporter"}`: model.Vector{rankSeries(0, "a", "a:1", "1"), rankSeries(1, "b", "b:1", "1")},
		still:                                  model.Vector{&model.Sample{Value: 2}},
		still + " == count(" + liveQuery + ")": model.Vector{}, // Two of three.
		liveQuery + " unless " + liveQuery + " offset 1s": model.Vector{rankSeries(2, "c", "c:1", "1")},
		"count(" + liveQuery + ")":                        model.Vector{&model.Sample{Value: 3}},
	}}
	d := directory(p)
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Processes(t.Context(), identity.Job{ID: "job"}); err != nil || len(got) != 3 || !got[2].Live {
		t.Errorf("processes are %v, %v", got, err)
	}
}

// TestClaimOfOneMoment: a process that drives several GPUs claimed rank 1 for its first one during one scrape. The claim is not
// remembered.
func TestClaimOfOneMoment(t *testing.T) {
	p := &prom{answers: map[string]model.Value{
		`culprit_nccl_process_info{job_id!="",job="culprit-exporter"}`: model.Vector{rankSeries(1, "a", "a:1", "1"), rankSeries(1, "b", "b:1", "7")},
		liveQuery: model.Vector{rankSeries(1, "a", "a:1", "1"), rankSeries(5, "b", "b:1", "7")},
		liveQuery + " unless " + liveQuery + " offset 1s": model.Vector{rankSeries(5, "b", "b:1", "7")},
		"count(" + liveQuery + ")":                        model.Vector{&model.Sample{Value: 2}},
	}}
	d := directory(p)
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := d.Processes(t.Context(), identity.Job{ID: "job"})
	if err != nil || len(got) != 2 || got[0].Instance != "a:1" || got[1].Rank != 5 {
		t.Errorf("processes are %v, %v", got, err)
	}
}

func TestQueriesQuote(t *testing.T) {
	p := &prom{}
	d := directory(p)
	if _, err := d.Processes(t.Context(), identity.Job{ID: `a"} or {x="`}); err != nil {
		t.Fatal(err)
	}
	if want := `culprit_nccl_process_info{job_id="a\"} or {x=\"",job="culprit-exporter"}`; !slices.Contains(p.asked, want) {
		t.Errorf("asked %q, want %q", p.asked, want)
	}
	p.asked = nil
	if _, err := d.Members(t.Context(), identity.Job{ID: "job"}, []string{"a.b", "c"}); err != nil {
		t.Fatal(err)
	}
	if want := `last_over_time(culprit_nccl_comm_info{job_id="job",comm=~"a\\.b|c",job="culprit-exporter"}[10m])`; !slices.Contains(p.asked, want) {
		t.Errorf("asked %q, want %q", p.asked, want)
	}
}

func TestWrongKindOfAnswer(t *testing.T) {
	p := &prom{answers: map[string]model.Value{liveQuery: &model.Scalar{}}}
	var mu sync.Mutex
	var seen []error
	d := NewDirectory(p, config.Default().Prometheus, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, err)
	}, clock.System)
	if _, err := d.Processes(t.Context(), identity.Job{ID: "job"}); err == nil || !strings.Contains(err.Error(), "Scalar") {
		t.Errorf("error is %v", err)
	}
	if len(seen) != 2 {
		t.Errorf("observed %v", seen)
	}
}

func TestNoPrometheusConfigured(t *testing.T) {
	d := NewDirectory(nil, config.Default().Prometheus, func(error) {}, clock.System)
	if _, err := d.Processes(t.Context(), identity.Job{ID: "job"}); !errors.Is(err, errNoPrometheus) {
		t.Errorf("error is %v", err)
	}
}

// rack is a set of exporters with a gatherer.
type rack struct {
	*Gatherer
	prom    *prom
	servers map[string]*httptest.Server
	live    model.Vector
}

func newRack(t *testing.T) *rack {
	t.Helper()
	cfg := config.Default()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	p := &prom{answers: map[string]model.Value{}}
	return &rack{
		prom: p, servers: map[string]*httptest.Server{},
		Gatherer: &Gatherer{
			Directory: directory(p), Exporters: cfg.Exporters,
			Nodes: &Nodes{HTTP: http.DefaultClient, Timeout: 10 * time.Second, Retries: 1, Observe: func(error) {}},
		},
	}
}

// add starts an exporter on a host, for one rank.
func (r *rack) add(t *testing.T, rank int, host string, h http.HandlerFunc) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	r.servers[host] = s
	r.live = append(r.live, rankSeries(rank, host, strings.TrimPrefix(s.URL, "http://"), "1"))
	r.prom.answers[liveQuery] = r.live
}

func serve(state *nodeapi.State) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(state) }
}

func stateOf(host string, processes ...nodeapi.Process) *nodeapi.State {
	return &nodeapi.State{Version: nodeapi.Version, Node: host, NowNS: nowNS, Processes: processes}
}

func rankProcess(rank int, host string) nodeapi.Process {
	p := nodeapi.Process{File: fmt.Sprintf("%s-%d", host, rank), JobID: "job", Rank: int32(rank), Host: host, Kernel: &nodeapi.Kernel{State: nodeapi.ProcessSleep}}
	p.Comms = []trace.Comm{{Generation: 1, ID: 0xa, NRanks: 3, Rank: int32(2 - rank), Name: "dp", OpsCalled: 4}}
	return p
}

func TestSession(t *testing.T) {
	r := newRack(t)
	other, unranked := rankProcess(0, "a"), rankProcess(0, "a")
	other.JobID, other.Rank = "other", 1
	unranked.Rank, unranked.File = -1, "odd.trace"
	a := stateOf("a-node", rankProcess(0, "a"), other, unranked)
	a.Facts = []nodeapi.Fact{{Component: "gpu", Kind: "xid", Rank: -1}}
	a.Unread = []nodeapi.Unread{{File: "bad.trace", Error: "bad magic"}}
	r.add(t, 0, "a", serve(a))
	r.add(t, 1, "b", serve(stateOf("b"))) // It does not show rank 1 any more.
	r.add(t, 2, "c", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })

	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t.Context(), s.AllNodes())
	ev := s.Evidence()
	if len(ev.Ranks) != 1 || ev.Ranks[0].ID != 0 || ev.WorldSize != 3 {
		t.Errorf("ranks are %+v of %d", ev.Ranks, ev.WorldSize)
	}
	if len(ev.Comms) != 1 || ev.Comms[0].ID != "a/3" || ev.Comms[0].Size != 3 || !slices.Equal(ev.Comms[0].Members, []int{-1, -1, 0}) {
		t.Errorf("communicators are %+v", ev.Comms)
	}
	if len(ev.Facts) != 1 || ev.Facts[0].Host != "a" {
		t.Errorf("facts are %+v", ev.Facts)
	}
	var missing []string
	for _, m := range ev.Missing {
		missing = append(missing, fmt.Sprint(m.What, " ", m.Ranks))
	}
	slices.Sort(missing)
	if want := []string{"exporter [2]", "file []", "rank [1]", "rank []"}; !slices.Equal(missing, want) {
		t.Errorf("missing is %v, want %v: %+v", missing, want, ev.Missing)
	}
	if c := s.Counts(); c.Nodes != 3 || c.Asked != 3 || c.Answered != 2 || c.Bytes == 0 {
		t.Errorf("counts are %+v", c)
	}
	if p, ok := s.Process(2); !ok || p.Host != "c" {
		t.Errorf("process is %+v", p)
	}
	if nodes := s.NodesOf([]int{0, 2, 2, 99}); len(nodes) != 2 || len(s.Unasked(nodes)) != 0 {
		t.Errorf("nodes are %+v", nodes)
	}
}

// After a restart on the same host both processes have files.
func TestNewestProcessSpeaks(t *testing.T) {
	for _, tc := range []struct {
		name               string
		oldState, newState nodeapi.ProcessState
		oldMade, newMade   uint64
		want               int64
	}{
		{"living", nodeapi.ProcessGone, nodeapi.ProcessSleep, 2, 1, 2},
		{"newer", nodeapi.ProcessSleep, nodeapi.ProcessSleep, 1, 2, 2},
		{"newer, both gone", nodeapi.ProcessGone, nodeapi.ProcessGone, 2, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRack(t)
			before, after := rankProcess(0, "a"), rankProcess(0, "a")
			before.Kernel.State, after.Kernel.State = tc.oldState, tc.newState
			before.Identity.CreatedRealNS, after.Identity.CreatedRealNS = tc.oldMade, tc.newMade
			before.Comms[0].OpsCalled, after.Comms[0].OpsCalled = 1, 2
			r.add(t, 0, "a", serve(stateOf("a", before, after)))
			s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask(t.Context(), s.AllNodes())
			if ev := s.Evidence(); len(ev.Ranks) != 1 || ev.Ranks[0].Memberships[0].Called != tc.want {
				t.Errorf("ranks are %+v", ev.Ranks)
			}
		})
	}
}

func TestWithoutPrometheus(t *testing.T) {
	r := newRack(t)
	r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"))))
	r.prom.err = errors.New("connection refused")
	if _, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error is %v", err)
	}
	instance := strings.TrimPrefix(r.servers["a"].URL, "http://")
	hints := []Hint{{Rank: -1, Instance: instance}, {Rank: -1}}
	if _, err := r.Open(t.Context(), identity.Job{ID: "job"}, hints); err == nil {
		t.Error("an instance that nobody knows is asked")
	}
	r.Exporters.Instances = []string{instance}
	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, hints)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t.Context(), s.AllNodes())
	ev := s.Evidence()
	if len(ev.Ranks) != 1 || len(ev.Missing) != 1 || ev.Missing[0].What != "prometheus" {
		t.Errorf("evidence is %+v", ev)
	}
}

// An exporter that answered once keeps its answer when it falls silent.
func TestAskAgain(t *testing.T) {
	r := newRack(t)
	var silent atomic.Bool
	r.add(t, 0, "a", func(w http.ResponseWriter, req *http.Request) {
		if silent.Load() {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		serve(stateOf("a", rankProcess(0, "a")))(w, req)
	})
	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t.Context(), s.AllNodes())
	silent.Store(true)
	s.Ask(t.Context(), s.AllNodes())
	if ev := s.Evidence(); len(ev.Ranks) != 1 || len(ev.Missing) != 1 || len(ev.Missing[0].Ranks) != 0 {
		t.Errorf("evidence is %+v", ev)
	}
}

func TestNodeTrouble(t *testing.T) {
	for _, tc := range []struct {
		name     string
		handler  http.HandlerFunc
		want     string
		attempts int
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", http.StatusInternalServerError) }, "answered 500: oh", 2},
		{"404", func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }, "answered 404", 1},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "reading its answer", 2},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":1,"processes":[`)) }, "reading its answer", 2},
		{"newer version", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":2}`)) }, "version 2", 1},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var mu sync.Mutex
			attempts := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				attempts++
				mu.Unlock()
				tc.handler(w, r)
			}))
			defer srv.Close()
			var failures int
			timeout := 10 * time.Second
			if tc.name == "slow" {
				timeout = 50 * time.Millisecond
			}
			n := &Nodes{HTTP: srv.Client(), Timeout: timeout, Retries: 1, Observe: func(err error) {
				if err != nil {
					failures++
				}
			}}
			_, _, err := n.State(t.Context(), srv.URL, "job", nil, nil, func(int64) bool { return true })
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			mu.Lock()
			defer mu.Unlock()
			if attempts != tc.attempts || failures != tc.attempts {
				t.Errorf("%d attempts, %d failures counted, want %d", attempts, failures, tc.attempts)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	send := trace.Completion{
		CommID: 0xa, NRanks: 3, Number: 3, Func: trace.Send, Flags: trace.OpP2P, Peer: 1, EnqueuedNS: 10, LeftNS: 20,
	}
	lines := func(w http.ResponseWriter, _ *http.Request) {
		p, old := rankProcess(0, "a"), rankProcess(0, "old")
		for _, l := range []nodeapi.TraceLine{
			{Header: &nodeapi.TraceHeader{Version: nodeapi.Version}},
			{Process: &p},
			{Completion: &nodeapi.ProcessCompletion{File: p.File, Completion: send}},
			{Process: &old},
			{Completion: &nodeapi.ProcessCompletion{File: old.File, Completion: send}},
			{Completion: &nodeapi.ProcessCompletion{File: "unheard of", Completion: send}},
			{Trailer: &nodeapi.TraceTrailer{Records: 3}},
		} {
			_ = json.NewEncoder(w).Encode(l)
		}
	}
	cutOff := func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(nodeapi.TraceLine{Header: &nodeapi.TraceHeader{Version: nodeapi.Version}})
	}
	byState := func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }
	for name, history := range map[string]http.HandlerFunc{"trace": lines, "state": byState, "cut off": cutOff} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t)
			p := rankProcess(0, "a")
			p.Completions = []trace.Completion{send}
			r.add(t, 0, "a", func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == nodeapi.TracePath {
					history(w, req)
					return
				}
				serve(stateOf("a", p))(w, req)
			})
			r.add(t, 1, "b", serve(stateOf("b", rankProcess(1, "b"))))
			s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask(t.Context(), s.AllNodes())
			s.AskHistory(t.Context(), s.AllNodes(), time.Minute)
			timeline := s.Evidence().Timeline
			if len(timeline) != 1 || timeline[0].Rank != 0 || timeline[0].Peer != 1 || timeline[0].Comm != rca.CommID("a/3") || timeline[0].End != 20 {
				t.Errorf("timeline is %+v", timeline)
			}
		})
	}
}

// An exporter whose history breaks off is left out beside one that gave all of it, and the evidence says so. Lines of the first
// attempt do not count twice.
func TestHistoryBreaksOff(t *testing.T) {
	done := func(end uint64) trace.Completion {
		return trace.Completion{CommID: 0xa, NRanks: 3, EnqueuedNS: end - 5, LeftNS: end}
	}
	r := newRack(t)
	attempts := 0
	for rank, host := range []string{"a", "b"} {
		p := rankProcess(rank, host)
		p.Completions = []trace.Completion{done(90)}
		r.add(t, rank, host, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != nodeapi.TracePath {
				serve(stateOf(host, p))(w, req)
				return
			}
			enc := json.NewEncoder(w)
			_ = enc.Encode(nodeapi.TraceLine{Header: &nodeapi.TraceHeader{Version: nodeapi.Version}})
			_ = enc.Encode(nodeapi.TraceLine{Process: &p})
			_ = enc.Encode(nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: p.File, Completion: done(80)}})
			_ = enc.Encode(nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: p.File, Completion: done(90)}})
			if host == "a" {
				if attempts++; attempts > 1 {
					_ = enc.Encode(nodeapi.TraceLine{Trailer: &nodeapi.TraceTrailer{Records: 2}})
				}
			}
		})
	}
	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t.Context(), s.AllNodes())
	s.AskHistory(t.Context(), s.AllNodes(), time.Minute)
	ev := s.Evidence()
	if len(ev.Timeline) != 2 || ev.Timeline[0].Rank != 0 || ev.Timeline[1].Rank != 0 || attempts != 2 {
		t.Errorf("after %d attempts the timeline is %+v", attempts, ev.Timeline)
	}
	if len(ev.Missing) != 1 || ev.Missing[0].What != "history" || ev.Missing[0].Name != "b" || len(ev.Missing[0].Ranks) != 0 {
		t.Errorf("missing: %+v", ev.Missing)
	}
}

// However busy the job is, about the same number of operations is fetched.
func TestSpan(t *testing.T) {
	none := &prom{}
	s := &Session{job: identity.Job{ID: "job"}, g: &Gatherer{Directory: directory(none)}}
	if got := s.Span(t.Context(), s.AllNodes(), time.Minute); got != time.Minute {
		t.Errorf("span without a state is %s", got)
	}
	p := rankProcess(0, "a")
	for n := range 10 { // 10 operations within a second on each of two communicators.
		for comm := range uint32(2) {
			p.Completions = append(p.Completions, trace.Completion{CommIndex: comm, LeftNS: nowNS - second + uint64(n)})
		}
	}
	state := stateOf("a", p)
	s.nodes = []*Node{{state: state}}
	if got := s.Span(t.Context(), s.AllNodes(), time.Minute); got != time.Minute {
		t.Errorf("span of a quiet job is %s", got)
	}
	for range 999 {
		state.Processes = append(state.Processes, p)
	}
	if got := s.Span(t.Context(), s.AllNodes(), time.Minute); got < 19980*time.Millisecond || got > 20020*time.Millisecond {
		t.Errorf("span of 20,000 operations a second is %s", got)
	}
	state.Processes = state.Processes[:1]
	if got := s.Span(t.Context(), s.AllNodes(), time.Hour); got < 249*time.Second || got > 251*time.Second {
		t.Errorf("span of one rank's 20 operations a second is %s", got)
	}
	if got := s.Span(t.Context(), s.AllNodes(), 3*time.Second); got < 3*time.Second {
		t.Errorf("the span grew to %s", got)
	}
	// Prometheus's rate is better than the newest few operations, which come in bursts.
	none.answers = map[string]model.Value{
		`avg(sum by (rank) (rate(culprit_nccl_function_ops_total{job_id="job",job="culprit-exporter"}[1m])))`: model.Vector{&model.Sample{Value: 10}},
	}
	if got := s.Span(t.Context(), s.AllNodes(), time.Hour); got != 500*time.Second {
		t.Errorf("span of one rank's 10 operations a second is %s", got)
	}
}

func TestSample(t *testing.T) {
	s := &Session{}
	for i := range 100 {
		s.nodes = append(s.nodes, &Node{Base: strconv.Itoa(i)})
	}
	got := s.Sample(3, s.nodes[:1])
	if len(got) != 3 || got[0].Base != "1" || got[2].Base != "67" {
		t.Errorf("the sample is %+v", got)
	}
	if got := s.Sample(1000, s.nodes[:1]); len(got) != 99 {
		t.Errorf("%d of 99 nodes", len(got))
	}
	if got := s.Sample(-3, nil); len(got) != 0 {
		t.Errorf("%d nodes, want none", len(got))
	}
}

// TestScoutSlow: in a large job the ranks whose use of time has changed come first, one of each kind before the second of any
// (H6).
func TestScoutSlow(t *testing.T) {
	rates := func(by, metric, offset string) string {
		return "sum by (rank, " + by + ") (rate(" + metric + `{job_id="job",job="culprit-exporter"}[1m]` + offset + "))"
	}
	growth := func(by, metric string) string {
		now := rates(by, metric, "")
		return "(" + now + " - (" + rates(by, metric, " offset 2m30s") + " or " + now + " * 0))"
	}
	sample := func(v float64, labels ...string) *model.Sample {
		s := series(labels...)
		s.Value = model.SampleValue(v)
		return s
	}
	waits, kernels := growth("reason", "culprit_nccl_wait_seconds_total"), growth("function", "culprit_nccl_kernel_seconds_total")
	p := &prom{answers: map[string]model.Value{
		"bottomk(4, sum by (rank) " + kernels + ")": model.Vector{sample(0.2, "rank", "5"), sample(-0.1, "rank", "6")},
		"topk by (reason) (4, " + waits + ")": model.Vector{
			sample(1, "rank", "2", "reason", "network"), sample(9, "rank", "7", "reason", "network"), sample(4, "rank", "2", "reason", "consume"),
			sample(-0.9, "rank", "3", "reason", "peer"), sample(2, "rank", "x", "reason", "peer"),
		},
		"topk by (function) (4, " + kernels + ")": model.Vector{sample(0.1, "rank", "1", "function", "AllReduce")},
	}}
	s := &Session{job: identity.Job{ID: "job"}, g: &Gatherer{Directory: directory(p)}, byRank: map[int]*Node{}}
	for r := range 8 {
		n := &Node{Base: strconv.Itoa(r), Ranks: []int{r}}
		s.nodes, s.byRank[r] = append(s.nodes, n), n
	}
	var got []int
	for _, n := range s.ScoutSlow(t.Context(), 30*time.Second) {
		got = append(got, n.Ranks...)
	}
	if want := []int{6, 2, 7, 1, 5}; !slices.Equal(got, want) {
		t.Errorf("asks the nodes of ranks %v, want %v; queries %q", got, want, p.asked)
	}
}
