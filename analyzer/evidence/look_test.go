// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestLook: each rank gets what its exporter saw of it in this job, or the reason why that saw nothing.
func TestLook(t *testing.T) {
	asked := map[string][]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if "/"+path != nodeapi.LookPath || r.URL.Query().Get("job_id") != "llm" {
			http.NotFound(w, r)
			return
		}
		if node == "a" {
			asked[node] = r.URL.Query()["rank"]
		}
		switch node {
		case "a":
			_ = json.NewEncoder(w).Encode(nodeapi.Look{Version: nodeapi.Version, Processes: []nodeapi.LookedAt{{JobID: "llm", Rank: 0, PID: 7}, {JobID: "other", Rank: 1, PID: 8}, {JobID: "llm", Rank: 5, PID: 9}}})
		case "b":
			http.Error(w, "the exporter takes no close looks: see --look", http.StatusForbidden)
		case "c":
			_, _ = w.Write([]byte(`{"version":1,"processes":[` + strings.Repeat("null,", maxLookCommas+1) + `null]}`))
		default:
			_, _ = w.Write([]byte(`{"version":2}`))
		}
	}))
	defer srv.Close()
	s := &Session{
		g:   &Gatherer{Nodes: &Nodes{HTTP: srv.Client(), Observe: func(err error) { t.Errorf("counted: %v", err) }}},
		job: identity.Job{ID: "llm"}, byRank: map[int]*Node{}, tenancy: tenancy{disputed: map[int]string{5: "two claim it"}},
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		n := &Node{Base: srv.URL + "/" + name}
		s.byRank[i] = n
		if i == 0 {
			s.byRank[4], s.byRank[5] = n, n
		}
	}
	got := s.Look(t.Context(), []int{0, 1, 2, 3, 4, 5, 9})
	if len(got) != 5 || got[0].PID != 7 || strings.Join(asked["a"], ",") != "0,4" {
		t.Errorf("asked %v, got %+v", asked, got)
	}
	for rank, want := range map[int]string{1: "it answered 403: the exporter takes no close looks", 2: "too large for a close look", 3: "node API version 2", 4: "it does not see the process"} {
		if at := got[rank]; at == nil || at.PID != 0 || len(at.Missing) != 1 || !strings.Contains(at.Missing[0], want) {
			t.Errorf("rank %d: %+v, want %q", rank, at, want)
		}
	}
}

func FuzzLook(f *testing.F) {
	f.Add(`{"version":1,"processes":[{"rank":1,"threads":[{"state":"D","file":{"path":"/a"}}],"python":[{}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if look, err := decodeLook(strings.NewReader(text)); err == nil && look.Version != nodeapi.Version {
			t.Errorf("version %d", look.Version)
		}
	})
}
