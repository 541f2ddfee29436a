// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/incident"
)

// change makes an incident another one and tells those that watch.
func (f *fixed) change(id string) {
	f.Changes()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].ID == id {
			f.list[i].UpdatedAt = f.list[i].UpdatedAt.Add(time.Second)
		}
	}
	close(f.changed)
	f.changed = nil
}

// A page is told of changes of its own incident, and the streams end when the service does.
func TestEvents(t *testing.T) {
	f := &fixed{list: []incident.Incident{{ID: "aaaaaaaaaaaa"}, {ID: "bbbbbbbbbbbb"}}}
	a := New(f, Options{}, promslog.NewNopLogger())
	mux := http.NewServeMux()
	a.Register(mux)
	srv := httptest.NewServer(mux)
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL + "/api/v1/events?incident=aaaaaaaaaaaa")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("type %q", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // It listens from the first line on.
	f.change("bbbbbbbbbbbb")
	f.change("aaaaaaaaaaaa")
	events := 0
	for events == 0 && lines.Scan() {
		if lines.Text() == "event: change" {
			events++
		}
	}
	if events != 1 {
		t.Errorf("no event: %v", lines.Err())
	}
	a.End()
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event:") {
			t.Errorf("another incident's change was told: %s", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end: %v", err)
	}
}

func TestEventsOfNobody(t *testing.T) {
	if w := get(serve(&fixed{}), "/api/v1/events?incident=aaaaaaaaaaaa"); w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}

func TestScript(t *testing.T) {
	w := get(serve(&fixed{}), "/live.js")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") || !strings.Contains(w.Body.String(), "EventSource") {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}
