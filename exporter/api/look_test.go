// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/exporter/look"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// looker says which process it was asked for.
type looker struct{}

func (looker) Look(_ context.Context, t look.Target) (nodeapi.LookedAt, error) {
	return nodeapi.LookedAt{PID: t.PID, Missing: []string{"nothing"}}, nil
}

// TestLook: whoever has proved who it is gets a look at the processes that the exporter follows, and at no others.
func TestLook(t *testing.T) {
	n := newNode(t)
	n.rank("llm", 0, 0)
	n.rank("llm", 1, 0)
	n.rank("other", 2, 0)
	for i := range nodeapi.MaxLooked { // Processes of another user that took the name.
		n.claim(fmt.Sprintf("%d.trace", i), "twice", 3, 1000+i, 5000+i)
	}
	n.claim("last.trace", "twice", 3, 999, 5999)
	n.sampler.Sample()
	web := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(web, []byte("basic_auth_users: {analyzer: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(register func(*api.API, *http.ServeMux), file string) http.Handler {
		mux := http.NewServeMux()
		register(api.New(promslog.NewNopLogger(), "1", n.sampler, nil), mux)
		h, err := access.Restrict(mux, file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	off := serve(func(a *api.API, mux *http.ServeMux) { a.RegisterNoLook(mux) }, "")
	auto := serve(func(a *api.API, mux *http.ServeMux) { a.RegisterLook(mux, looker{}, false) }, web)
	open := serve(func(a *api.API, mux *http.ServeMux) { a.RegisterLook(mux, looker{}, true) }, "")
	many := strings.Repeat("&rank=1", nodeapi.MaxLooked+1)
	for name, tc := range map[string]struct {
		h           http.Handler
		query, user string
		code        int
		pids        []int
	}{
		"off":                              {off, "job_id=llm&rank=1", "", http.StatusForbidden, nil},
		"nobody":                           {auto, "job_id=llm&rank=1", "", http.StatusForbidden, nil},
		"an unknown user":                  {auto, "job_id=llm&rank=1", "eve", http.StatusForbidden, nil},
		"a user":                           {auto, "job_id=llm&rank=1", "analyzer", http.StatusOK, []int{4001}},
		"two ranks":                        {open, "job_id=llm&rank=0&rank=1&rank=2", "", http.StatusOK, []int{4000, 4001}},
		"no such rank":                     {open, "job_id=llm&rank=7", "", http.StatusNotFound, nil},
		"one of those that claim the rank": {open, "job_id=twice&rank=3&pid=5999", "", http.StatusOK, []int{5999}},
		"another process than the rank's":  {open, "job_id=llm&rank=1&pid=1", "", http.StatusNotFound, nil},
		"a process without a number":       {open, "job_id=llm&rank=1&pid=x", "", http.StatusBadRequest, nil},
		"any process":                      {open, "pid=1", "", http.StatusBadRequest, nil},
		"all ranks":                        {open, "job_id=llm", "", http.StatusBadRequest, nil},
		"too many":                         {open, "job_id=llm" + many, "", http.StatusBadRequest, nil},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, nodeapi.LookPath+"?"+tc.query, nil)
		if tc.user != "" {
			r.SetBasicAuth(tc.user, "x")
		}
		w := httptest.NewRecorder()
		tc.h.ServeHTTP(w, r)
		var got nodeapi.Look
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
		}
		ok := w.Code == tc.code && len(got.Processes) == len(tc.pids)
		for i := range min(len(tc.pids), len(got.Processes)) {
			ok = ok && got.Processes[i].PID == tc.pids[i]
		}
		if !ok {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	n.procs.Remove(4001)
	n.now = n.now.Add(time.Minute)
	n.sampler.Sample()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, nodeapi.LookPath+"?job_id=llm&rank=1", nil)
	w := httptest.NewRecorder()
	if open.ServeHTTP(w, r); w.Code != http.StatusNotFound {
		t.Errorf("an ended process: %d %s", w.Code, w.Body)
	}
}
