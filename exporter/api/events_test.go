// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/api"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func (n *testNode) events(method, query, body string) (int, nodeapi.Events) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.server.URL+nodeapi.EventsPath+query, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	resp, err := n.server.Client().Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer nodeapi.Events
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			n.t.Fatal(err)
		}
	}
	return resp.StatusCode, answer
}

// controlFiles gives what lies in the trace directory's control files.
func (n *testNode) controlFiles() map[string]string {
	n.t.Helper()
	names, err := filepath.Glob(filepath.Join(n.dir, "*.ctl"))
	if err != nil {
		n.t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			n.t.Fatal(err)
		}
		files[filepath.Base(name)] = string(content)
	}
	return files
}

func TestEvents(t *testing.T) {
	n := newNode(t)
	for rank := range int32(2) {
		n.rank("a", rank, 0)
	}
	n.rank("b", 0, 0)
	n.sampler.Sample()
	for _, tt := range []struct {
		name, method, query, body string
		code                      int
		asked                     int
		files                     map[string]string
	}{
		{"no job named", http.MethodPut, "", "-proxystep", http.StatusBadRequest, 0, map[string]string{}},
		{"no such event", http.MethodPut, "?job_id=a", "-steps", http.StatusBadRequest, 0, map[string]string{}},
		{"nothing", http.MethodPut, "?job_id=a", "", http.StatusBadRequest, 0, map[string]string{}},
		{"too much", http.MethodPut, "?job_id=a", strings.Repeat("all,", 1000), http.StatusBadRequest, 0, map[string]string{}},
		{"no such rank", http.MethodPut, "?job_id=a&rank=7", "none", http.StatusNotFound, 0, map[string]string{}},
		{"one rank", http.MethodPut, "?job_id=a&rank=1", "-proxystep\n", http.StatusOK, 1, map[string]string{"a-1.trace.ctl": "-proxystep\n"}},
		{
			"a job", http.MethodPut, "?job_id=a", "-proxystep,-kernelch", http.StatusOK, 2,
			map[string]string{"a-0.trace.ctl": "-proxystep,-kernelch\n", "a-1.trace.ctl": "-proxystep,-kernelch\n"},
		},
		{"as before", http.MethodDelete, "?job_id=a", "", http.StatusOK, 2, map[string]string{}},
		{"again", http.MethodDelete, "?job_id=a&job_id=b", "", http.StatusOK, 3, map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, answer := n.events(tt.method, tt.query, tt.body)
			if code != tt.code || len(answer.Processes) != tt.asked {
				t.Errorf("%d, %d processes asked, want %d, %d", code, len(answer.Processes), tt.code, tt.asked)
			}
			for _, p := range answer.Processes {
				if p.Error != "" || p.JobID == "" || p.File == "" {
					t.Errorf("%+v", p)
				}
			}
			if diff := cmp.Diff(tt.files, n.controlFiles()); diff != "" {
				t.Errorf("control files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestControlFilesGoWithTheirProcess has a process end that was told to report less.
func TestControlFilesGoWithTheirProcess(t *testing.T) {
	n := newNode(t)
	n.rank("a", 0, 0)
	n.sampler.Sample()
	if code, _ := n.events(http.MethodPut, "?job_id=a", "none"); code != http.StatusOK || len(n.controlFiles()) != 1 {
		t.Fatalf("%d, %v", code, n.controlFiles())
	}
	n.procs.Remove(4000)
	n.now = n.now.Add(2 * time.Second)
	n.sampler.Sample()
	if files := n.controlFiles(); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}

func TestEventsThatCannotBeAsked(t *testing.T) {
	n := newNode(t)
	w := n.rank("a", 0, 0)
	n.sampler.Sample()
	if err := os.MkdirAll(filepath.Join(w.Path()+".ctl", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, answer := n.events(http.MethodPut, "?job_id=a", "none"); code != http.StatusConflict || answer.Processes[0].Error == "" {
		t.Errorf("%d, %+v", code, answer)
	}
}

// A page whose site lets its name lead to the exporter is of the same site for the browser.
func TestEventsOfAPage(t *testing.T) {
	n := newNode(t)
	n.rank("a", 0, 0)
	n.sampler.Sample()
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, n.server.URL+nodeapi.EventsPath+"?job_id=a", strings.NewReader("none"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example.org:9850"
		r.Header.Set("Origin", "http://evil.example.org:9850")
		resp, err := n.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || len(n.controlFiles()) != 0 {
			t.Errorf("%s: status %d, control files %v", method, resp.StatusCode, n.controlFiles())
		}
	}
}

func TestControlIsNotEnabled(t *testing.T) {
	mux := http.NewServeMux()
	api.New(promslog.NewNopLogger(), "1", nil, nil).RegisterNoControl(mux)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, nodeapi.EventsPath+"?job_id=a", strings.NewReader("none")))
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--web.enable-control") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}
