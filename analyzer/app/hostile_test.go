// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Whoever can post a trigger must not choose what the analyzer asks: neither an address of its own, nor a path on a known one.
func TestOnlyScrapedExportersAreAsked(t *testing.T) {
	var asked atomic.Int64
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer attacker.Close()
	address := strings.TrimPrefix(attacker.URL, "http://")
	c, am := newCluster(t, 1), newAlertmanager(t)
	cfg := quick(c, am)
	cfg.Exporters.HTTPConfig.BasicAuth = &promconfig.BasicAuth{Username: "culprit", Password: "secret"}
	a := start(t, cfg, "")
	attempts := 0
	for _, instance := range []string{address, "x@" + address, address + "/latest/meta-data", strings.TrimPrefix(c.nodes[0].server.URL, "http://") + "@" + address} {
		attack := trouble("CulpritJobStalled", "instance", instance)
		attack.labels["job_id"] = "unknown to Prometheus"
		if code := a.push(0, attack); code != http.StatusOK {
			t.Fatalf("status %d", code)
		}
		attempts++
		eventually(t, "the analysis", func() bool {
			list := a.incidents()
			return len(list) == 1 && len(list[0].Triggers) == attempts && list[0].Count > attempts
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the attacker was asked %d times", n)
	}
	if text := a.incidents()[0].Analyses[0].Error; !strings.Contains(text, "does not scrape") {
		t.Errorf("the analysis says %q", text)
	}
}

// An exporter that answers with another address sends nobody there.
func TestRedirectingExporter(t *testing.T) {
	var asked atomic.Int64
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer attacker.Close()
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(3, nodeapi.ProcessStopped)
	c.change(func() {
		c.nodes[0].broken = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, attacker.URL, http.StatusFound) }
	})
	a := start(t, quick(c, am), "")
	a.push(0, trouble("CulpritJobStalled"))
	eventually(t, "an analysis", func() bool { list := a.incidents(); return len(list) == 1 && list[0].Count > 0 })
	if n := asked.Load(); n != 0 {
		t.Errorf("the attacker was asked %d times", n)
	}
}

// What a page of another site can have a browser send is refused.
func TestPostsOfOtherSites(t *testing.T) {
	a := start(t, quick(newCluster(t, 1)), "")
	for _, tc := range []struct {
		name, path, kind string
		header           map[string]string
		want             int
	}{
		{"a program", "/api/v1/analyze", "application/json; charset=utf-8", nil, http.StatusAccepted},
		{"the own page", "/api/v1/analyze", "application/json", map[string]string{"Sec-Fetch-Site": "same-origin"}, http.StatusAccepted},
		{"a form", "/api/v1/analyze", "text/plain", nil, http.StatusUnsupportedMediaType},
		{"no type", "/api/v1/alerts", "", nil, http.StatusUnsupportedMediaType},
		{"another site", "/api/v1/analyze", "application/json", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		{"a site whose name leads here", "/api/v1/alerts", "application/json", map[string]string{"Host": "evil.example.org:9851", "Origin": "http://evil.example.org:9851"}, http.StatusForbidden},
		{"a page under the external URL", "/api/v1/analyze", "application/json", map[string]string{"Host": "culprit.example.org", "Origin": "http://culprit.example.org"}, http.StatusAccepted},
		{"a page under a name of this network", "/api/v1/analyze", "application/json", map[string]string{"Host": "culprit:9851", "Origin": "http://culprit:9851"}, http.StatusAccepted},
		{"a program that asks by another name", "/api/v1/analyze", "application/json", map[string]string{"Host": "culprit.monitoring.svc"}, http.StatusAccepted},
		{"another site, in an old browser", "/api/v1/alerts", "application/json", map[string]string{"Origin": "http://evil.example.org"}, http.StatusForbidden},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+tc.path, strings.NewReader(`{"job_id":"j"}`))
		if err != nil {
			t.Fatal(err)
		}
		if tc.kind != "" {
			r.Header.Set("Content-Type", tc.kind)
		}
		for k, v := range tc.header {
			r.Header.Set(k, v)
		}
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s: status %d, want %d", tc.name, resp.StatusCode, tc.want)
		}
	}
}

// One client sends notifications that never end. Another's are taken, and so is each kind of request of its own.
func TestSlowSendersKeepNobodyOut(t *testing.T) {
	a := start(t, quick(newCluster(t, 1)), "")
	ask := func(method, path, from string, body io.Reader) int {
		r := httptest.NewRequestWithContext(t.Context(), method, path, body)
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		a.app.Handler().ServeHTTP(w, r)
		return w.Code
	}
	done := make(chan int)
	var senders []*io.PipeWriter
	for range 8 {
		body, sender := io.Pipe()
		senders = append(senders, sender)
		go func() { done <- ask(http.MethodPost, "/api/v1/alerts", "10.0.0.1:1", body) }()
		if _, err := sender.Write([]byte("{")); err != nil { // It is being read.
			t.Fatal(err)
		}
	}
	const empty = `{"version":"4"}`
	for _, tc := range []struct {
		name, method, path, from string
		want                     int
	}{
		{"a ninth at a time", http.MethodPost, "/api/v1/alerts", "10.0.0.1:2", http.StatusServiceUnavailable},
		{"another client's", http.MethodPost, "/api/v1/alerts", "10.0.0.2:1", http.StatusOK},
		{"metrics", http.MethodGet, "/metrics", "10.0.0.1:3", http.StatusOK},
		{"a page", http.MethodGet, "/", "10.0.0.1:3", http.StatusOK},
	} {
		if got := ask(tc.method, tc.path, tc.from, strings.NewReader(empty)); got != tc.want {
			t.Errorf("%s: status %d, want %d", tc.name, got, tc.want)
		}
	}
	for _, s := range senders {
		s.CloseWithError(io.ErrUnexpectedEOF)
		<-done
	}
}

func TestKindsOfRequests(t *testing.T) {
	kinds := newPlaces(prometheus.NewRegistry())
	for _, tc := range []struct{ method, path, want string }{
		{http.MethodPost, "/api/v1/alerts", "alerts"},
		{http.MethodPost, "/api/v1/analyze", "analyze"},
		{http.MethodPost, "/api/v1/incidents/aaaaaaaaaaaa/feedback", "analyze"},
		{http.MethodGet, "/api/v1/incidents/aaaaaaaaaaaa", "pages"},
		{http.MethodGet, "/api/v1/incidents/aaaaaaaaaaaa/evidence.tar.gz", "evidence"},
		{http.MethodGet, "/api/v1/incidents/aaaaaaaaaaaa/timeline.json", "timeline"},
		{http.MethodGet, "/api/v1/events", "events"},
		{http.MethodGet, "/job", "pages"},
	} {
		got := kindOf(httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil))
		if got != tc.want || kinds[got] == nil {
			t.Errorf("%s %s is of kind %q, want %q", tc.method, tc.path, got, tc.want)
		}
	}
}
