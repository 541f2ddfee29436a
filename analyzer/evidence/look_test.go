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
			asked["rank"], asked["pid"] = r.URL.Query()["rank"], r.URL.Query()["pid"]
		}
		switch node {
		case "a":
			_ = json.NewEncoder(w).Encode(nodeapi.Look{Version: nodeapi.Version, Processes: []nodeapi.LookedAt{{JobID: "llm", Rank: 0, PID: 6}, {JobID: "llm", Rank: 0, PID: 7}, {JobID: "other", Rank: 1, PID: 8}, {JobID: "llm", Rank: 5, PID: 9}}})
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
		job: identity.Job{ID: "llm"}, byRank: map[int]*Node{}, tenancy: tenancy{known: true, owner: "1002", disputed: map[int]string{5: "two claim it"}},
		processes: map[int]Process{},
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		n := &Node{Base: srv.URL + "/" + name}
		s.byRank[i] = n
		if i == 0 {
			s.byRank[4], s.byRank[5] = n, n
			of := func(rank int32, uid string, pid int) nodeapi.Process {
				return nodeapi.Process{JobID: "llm", Rank: rank, UID: uid, Kernel: &nodeapi.Kernel{State: nodeapi.ProcessDisk, HostPID: pid}}
			}
			gone := of(0, "1002", 5)
			gone.Kernel.State = nodeapi.ProcessGone
			n.state = &nodeapi.State{Processes: []nodeapi.Process{gone, of(0, "1001", 6), of(0, "1002", 7)}} // Another user took the name.
		}
		s.processes[i], s.processes[4], s.processes[5] = Process{PID: 8}, Process{PID: 14}, Process{PID: 9}
	}
	got := s.Look(t.Context(), []int{0, 1, 2, 3, 4, 5, 9})
	if len(got) != 5 || got[0].PID != 7 || strings.Join(asked["rank"], ",") != "0,4" || strings.Join(asked["pid"], ",") != "7,14" {
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
