// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixed is a set of incidents that never changes.
type fixed struct {
	list       []incident.Incident
	overloaded bool

	mu      sync.Mutex
	changed chan struct{}
}

func (f *fixed) Receive([]incident.Trigger) error {
	if f.overloaded {
		return incident.ErrOverloaded
	}
	return nil
}
func (f *fixed) NextPassive() int { return 1 }
func (f *fixed) OpenFor(job identity.Job) (incident.Incident, bool) {
	for _, i := range f.list {
		if i.Job() == job && i.State == incident.Open {
			return i, true
		}
	}
	return incident.Incident{}, false
}

func (f *fixed) Get(id string) (incident.Incident, bool) {
	for _, i := range f.list {
		if i.ID == id {
			return i, true
		}
	}
	return incident.Incident{}, false
}
func (f *fixed) List() []incident.Incident { return f.list }

func (f *fixed) Judge(id string, said incident.Feedback) error {
	for i := range f.list {
		if f.list[i].ID == id {
			if f.list[i].Verdict == nil {
				return incident.ErrNoVerdict
			}
			f.list[i].Feedback = append(f.list[i].Feedback, said)
			return nil
		}
	}
	return incident.ErrNoIncident
}

func (f *fixed) Changes() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

func (f *fixed) Wait(ctx context.Context, id string, _ int) (incident.Incident, error) {
	i, ok := f.Get(id)
	if !ok {
		return i, errors.New("no such incident")
	}
	<-ctx.Done()
	return i, ctx.Err()
}

func serve(f *fixed) http.Handler {
	mux := http.NewServeMux()
	New(f, Options{}, promslog.NewNopLogger()).Register(mux)
	return mux
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// full is an incident with every field filled in.
func full() incident.Incident {
	at := func(seconds int) *time.Time {
		v := time.Date(2026, 11, 21, 2, 30, seconds, 0, time.UTC)
		return &v
	}
	v := &rca.Verdict{
		Version: 1, JobID: "train-7", Class: rca.Fault, Code: "H3", Cause: rca.CauseNetworkSend, Confidence: 0.91, Page: true, Summary: "Rank 5 <does not> send.",
		Action: "Check the NIC.", Comm: "dp", Op: "AllReduce #100", Evidence: []string{"8 ranks stand still"}, Contradictions: []string{"its link is up"},
		Missing: []string{"exporter node-9"}, Ask: []int{9}, Hypotheses: []rca.Hypothesis{{Ranks: []int{5}, Class: rca.Fault, Cause: rca.CauseNetworkSend, Weight: 0.93, Explains: 3071, Chosen: true, Reason: "Does not deliver"}}, RuledOut: []rca.Candidate{{Rank: 3, Reason: "it waits itself"}}, Slowdown: 1.5, RanksVisited: 8,
		Culprits: []rca.Culprit{{Rank: 5, Host: "node-2", GPU: "1", NIC: "mlx5_0", PID: 17, Pod: "trainer-2", Channel: 1, Group: "rail 2", Why: "not delivered"}},
		Chain:    []rca.Link{{From: 7, To: 5, Reason: "has not sent", Comm: "dp", Op: "AllReduce #100", Sure: true}},
		Waits: []rca.WaitGroup{
			{Ranks: []int{5}, Count: 1, Root: true, On: -1, Reason: "not delivered", Op: "AllReduce #100", Comm: "dp", Comms: 1},
			{Ranks: []int{4, 6, 7}, Count: 3071, On: 0, Reason: "has not sent", Op: "AllReduce", Comms: 2, Sure: true},
		},
		Stalled: 3072, WorldSize: 10240,
	}
	return incident.Incident{
		Version: 1, ID: "abcdefghijkl", JobID: "train-7", State: incident.Resolved, OpenedAt: *at(0), UpdatedAt: *at(40), ResolvedAt: at(40),
		Triggers: []incident.Trigger{{
			Key: "d64a25234bf34d73", Name: "CulpritJobStalled", JobID: "train-7", Rank: 3, Comm: "beef", Instance: "node-1:9850", Severity: "warning",
			Summary: "It stands still.", Labels: map[string]string{"alertname": "CulpritJobStalled"}, Passive: true, StartedAt: *at(0), ReceivedAt: *at(1),
			LastHeardAt: *at(2), EndedAt: at(30),
		}},
		Verdict: v, VerdictAt: at(3), Latest: &rca.Verdict{Version: 1, Class: rca.Healthy, Cause: rca.CauseUnknown, Summary: "Nothing is wrong.", Culprits: []rca.Culprit{}},
		Analyses: []incident.Analysis{
			{At: *at(2), Seconds: 0.25, Error: "nobody is known", Nodes: 4},
			{At: *at(3), Seconds: 0.3, Class: rca.Fault, Cause: rca.CauseNetworkSend, Confidence: 0.91, Page: true, Nodes: 4, Asked: 4, Answered: 3, Bytes: 12345},
		},
		Count: 2,
		Ranks: []incident.RankView{
			{Rank: 4, Host: "node-2", GPU: "0", State: "stuck", Text: "AllReduce 100 on beef/8"},
			{Rank: 5, Host: "node-2", GPU: "1", State: "culprit"},
			{Rank: 6, State: "unseen"},
		},
		Stacks: []incident.StackGroup{{Ranks: []int{4, 6, 7}, Frames: []string{"main (train.py:1)", "all_reduce (dist.py:2)"}}},
	}
}

func TestIncidentGolden(t *testing.T) {
	w := get(serve(&fixed{list: []incident.Incident{full()}}), "/api/v1/incidents/abcdefghijkl")
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "incident.golden.json", append(got, '\n'))
}

func TestPagesGolden(t *testing.T) {
	h := serve(&fixed{list: []incident.Incident{full()}})
	for path, name := range map[string]string{"/": "index.golden.html", "/incidents/abcdefghijkl": "incident.golden.html"} {
		w := get(h, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: status %d, headers %v", path, w.Code, w.Header())
		}
		_, body, _ := strings.Cut(w.Body.String(), "</style>")
		golden(t, name, []byte(body))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs (go test -update writes it):\n%s", file, got)
	}
}

// A page shows what there is, and what an attacker names a job stays text.
func TestPagesOfLittle(t *testing.T) {
	bare := incident.Incident{ID: "aaaaaaaaaaaa", JobID: `<script>alert(1)</script>`, State: incident.Open, OpenedAt: time.Now()}
	h := serve(&fixed{list: []incident.Incident{bare}})
	for _, path := range []string{"/", "/incidents/aaaaaaaaaaaa"} {
		body := get(h, path).Body.String()
		if strings.Contains(body, "<script>") || !strings.Contains(body, "&lt;script&gt;") {
			t.Errorf("%s: %s", path, body)
		}
		if strings.Contains(body, "http-equiv") || !strings.Contains(body, `data-events="`) {
			t.Errorf("%s of an open incident does not follow what happens by events", path)
		}
	}
	if body := get(serve(&fixed{}), "/").Body.String(); !strings.Contains(body, "None.") {
		t.Errorf("empty list is %s", body)
	}
	if w := get(h, "/nowhere"); w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}

func TestAnalyzeTrouble(t *testing.T) {
	open := incident.Incident{ID: "aaaaaaaaaaaa", JobID: "j", State: incident.Open}
	for _, tc := range []struct {
		name, path, body string
		f                *fixed
		code             int
	}{
		{"overloaded", "/api/v1/analyze", `{"job_id":"j"}`, &fixed{overloaded: true}, http.StatusServiceUnavailable},
		{"not analysed in time", "/api/v1/analyze?wait=1ms", `{"job_id":"j"}`, &fixed{list: []incident.Incident{open}}, http.StatusAccepted},
		{"too large", "/api/v1/analyze", `{"job_id":"` + strings.Repeat("x", maxBody) + `"}`, &fixed{}, http.StatusBadRequest},
	} {
		w := httptest.NewRecorder()
		serve(tc.f).ServeHTTP(w, httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body)))
		if w.Code != tc.code || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: status %d %s", tc.name, w.Code, w.Body)
		}
		if tc.code == http.StatusAccepted && w.Header().Get("Location") != "/api/v1/incidents/aaaaaaaaaaaa" {
			t.Errorf("%s: location %q", tc.name, w.Header().Get("Location"))
		}
	}
}
