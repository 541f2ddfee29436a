// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/promslog"

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

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Names of jobs stay names: in files, in the log, in queries, on pages and in addresses.
func TestHostileNames(t *testing.T) {
	root := t.TempDir()
	storage := filepath.Join(root, "a", "storage")
	c, am, log := newCluster(t, 1), newAlertmanager(t), &lines{}
	c.hang(1, nodeapi.ProcessGone)
	a := startLogging(t, quick(c, am), storage, promslog.New(&promslog.Config{Writer: log}))
	names := []string{
		"../../../../tmp/x", "/etc/passwd", "..", "x/../../y", `..\..\x`, "a\x00b", "forged\nlevel=error msg=forged\r\n", "\x1b[2J\u009b2J", "\u202egnp.exe",
		`{{ template "x" }}{{ .Values }}${jndi:ldap://x}$(reboot)`, `x"} or vector(1) #`, `x",job_id=~".*`, "`|'", "<script>alert(1)</script><img src=x onerror=alert(1)>",
		"http://169.254.169.254/latest", "unix:///run/docker.sock", "@169.254.169.254", "[::1]:9850", "%2e%2e%2f", "Infinity", "-1", strings.Repeat("n", 1<<12),
	}
	for _, name := range names {
		attack := trouble("CulpritJobStalled", "instance", name, "rank", name, "comm", name)
		attack.labels["job_id"] = name
		a.push(0, attack)
	}
	c.change(func() {
		for _, p := range c.processes {
			p.Pod, p.Namespace, p.GPU = names[6], names[9], names[13]
		}
	})
	a.push(0, trouble("CulpritJobStalled"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) > 0 })
	for _, name := range names {
		for _, path := range []string{"/job?id=" + url.QueryEscape(name), "/api/v1/incidents/" + url.PathEscape(name), "/api/v1/incidents/" + url.PathEscape(name) + "/evidence.tar.gz", "/incidents/" + url.PathEscape(name)} {
			var text string
			if code := a.get(path, &text); code >= http.StatusInternalServerError && code != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d: %.200s", path, code, text)
			}
			if strings.Contains(text, "<script>alert(1)") || strings.Contains(text, "<img src=x") || strings.Contains(text, "root:") {
				t.Errorf("%s gives %.200s", path, text)
			}
		}
	}
	a.stop()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, storage) {
			t.Errorf("%s is written", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	for line := range strings.Lines(log.text.String()) {
		if !strings.HasPrefix(line, "time=") || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\x1b\u009b\x00") {
			t.Errorf("the log has a line %q", line)
		}
	}
	for _, query := range c.queries {
		if strings.Contains(query, "} or vector(1)") && !strings.Contains(query, `\"} or vector(1)`) {
			t.Errorf("a name leaves its string: %s", query)
		}
	}
}

// Bodies that cost more than they bring, and such as two readers would understand differently.
func TestHostileBodies(t *testing.T) {
	a := start(t, quick(newCluster(t, 1)), "")
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const alert = `{"status":"firing","labels":{"alertname":"CulpritJobStalled","culprit":"trigger","kind":"hang","job_id":"one","job_id":"two"},"startsAt":"2026-11-28T12:00:00Z"}`
	for _, tc := range []struct {
		name, body, encoding string
		want                 int
	}{
		{"packed", bomb.String(), "gzip", http.StatusBadRequest},
		{"nested", `{"version":"4","alerts":` + strings.Repeat("[", 1<<20), "", http.StatusBadRequest},
		{"nested where nothing is read", `{"version":"4","x":` + strings.Repeat(`{"a":`, 1<<20), "", http.StatusBadRequest},
		{"no number", `{"version":"4","truncatedAlerts":NaN,"alerts":[]}`, "", http.StatusBadRequest},
		{"a number without end", `{"version":"4","truncatedAlerts":1e999,"alerts":[]}`, "", http.StatusBadRequest},
		{"no JSON behind JSON", `{"version":"4","alerts":[]}{"version":"4"`, "", http.StatusBadRequest},
		{"one key twice", `{"version":"4","status":"firing","alerts":[` + alert + `]}`, "", http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+"/api/v1/alerts", strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if tc.encoding != "" {
			r.Header.Set("Content-Encoding", tc.encoding)
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
	if list := a.incidents(); len(list) != 1 || list[0].JobID != "two" {
		t.Errorf("incidents are %+v", list)
	}
}
