// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/internal/ports"
)

// command parses a command line and gives what runs it.
func command(t *testing.T, args ...string) func(context.Context) int {
	t.Helper()
	k := kingpin.New("culprit-analyzer", "").Terminate(nil)
	cmd, run := Command(k)
	selected, err := k.Parse(append([]string{"serve"}, args...))
	if err != nil || selected != cmd.FullCommand() {
		t.Fatal(selected, err)
	}
	return func(ctx context.Context) int { return run(ctx, promslog.NewNopLogger()) }
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConfigCheck(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"defaults", nil, 0},
		{"file", []string{"--config.file=" + file(t, "external_url: http://x")}, 0},
		{"bad file", []string{"--config.file=" + file(t, "a: b")}, 1},
		{"no file", []string{"--config.file=" + filepath.Join(t.TempDir(), "absent")}, 1},
		{"dry run without storage", []string{"--config.file=" + file(t, "actions: {rules: [{name: drain, command: [/bin/true]}]}")}, 0},
		{"actions without storage", []string{"--config.file=" + file(t, "actions: {rules: [{name: drain, command: [/bin/true], dry_run: false}]}")}, 1},
		{"actions with storage", []string{"--storage.path=" + t.TempDir(), "--config.file=" + file(t, "actions: {rules: [{name: drain, command: [/bin/true], dry_run: false}]}")}, 0},
		{"bad flag", []string{"--prometheus.url=ftp://x"}, 1},
		{"flags", []string{"--prometheus.url=http://p:9090", "--alertmanager.url=http://a", "--alertmanager.url=http://b", "--web.external-url=http://c"}, 0},
	} {
		if got := command(t, append(tc.args, "--config.check")...)(t.Context()); got != tc.want {
			t.Errorf("%s: status %d, want %d", tc.name, got, tc.want)
		}
	}
}

// An analyzer that can tell nobody does not start.
func TestServeWithoutAlertmanager(t *testing.T) {
	if status := command(t, "--prometheus.url=http://localhost:9090")(t.Context()); status != 1 {
		t.Errorf("status %d", status)
	}
}

// The program as it is started: it serves, reloads, and ends in good order.
func TestServe(t *testing.T) {
	c, am := newCluster(t, 1), newAlertmanager(t)
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	address := free[0]
	config := file(t, "notify: {alert_name: Found}")
	run := command(t, "--web.listen-address="+address, "--prometheus.url="+c.prometheus.URL, "--alertmanager.url="+am.server.URL,
		"--config.file="+config, "--web.enable-lifecycle", "--storage.path="+t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int, 1)
	go func() { done <- run(ctx) }()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		a := &analyzer{t: t}
		var text string
		return a.read(resp, &text), text
	}
	eventually(t, "to be ready", func() bool { code, _ := get("/-/ready"); return code == http.StatusOK })
	if _, text := get("/metrics"); !strings.Contains(text, "culprit_analyzer_build_info") || !strings.Contains(text, "process_open_fds") {
		t.Errorf("metrics are %s", text)
	}
	reload := func() int {
		resp, err := http.Post("http://"+address+"/-/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if code := reload(); code != http.StatusOK {
		t.Errorf("reload: status %d", code)
	}
	if err := os.WriteFile(config, []byte("a: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := reload(); code != http.StatusInternalServerError {
		t.Errorf("reload of a wrong file: status %d", code)
	}
	if _, text := get("/metrics"); !strings.Contains(text, "culprit_analyzer_config_last_reload_successful 0") {
		t.Error("the failed reload is not to be seen")
	}
	// Headers that are too large, or that a proxy before the analyzer may read differently.
	for header, want := range map[string]string{
		"X: " + strings.Repeat("x", 96<<10):                         "431",
		"Content-Length: 5\r\nContent-Length: 6":                    "400",
		"Transfer-Encoding: xchunked":                               "501",
		"Content-Length: -1":                                        "400",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity": "501",
		"X: a\x00b": "400",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /api/v1/alerts HTTP/1.1\r\nHost: culprit\r\nContent-Type: application/json\r\n%s\r\n\r\n", header)
		status, err := bufio.NewReader(conn).ReadString('\n')
		if conn.Close(); err != nil || !strings.HasPrefix(status, "HTTP/1.1 "+want) {
			t.Errorf("header %.40q: %q, %v, want %s", header, status, err, want)
		}
	}
	// A stranger's connections, of which no request comes, give way.
	for range maxClientConnections + 20 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	eventually(t, "connections to be closed", func() bool {
		_, text := get("/metrics")
		_, n, found := strings.Cut(text, `culprit_analyzer_connections_closed_total{reason="crowded"} `)
		return found && !strings.HasPrefix(n, "0")
	})
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("status %d", code)
	}
}

func TestReloadIsOffByDefault(t *testing.T) {
	off, reloaded := false, false
	w := httptest.NewRecorder()
	(&server{enabled: &off}).lifecycle(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reloaded = true })).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/-/reload", nil))
	if w.Code != http.StatusForbidden || reloaded {
		t.Errorf("status %d, reloaded: %v", w.Code, reloaded)
	}
}

func TestServeAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if code := command(t, "--web.listen-address="+l.Addr().String())(t.Context()); code != 1 {
		t.Errorf("status %d", code)
	}
}

// Every metric of ours is documented.
func TestMetricsAreDocumented(t *testing.T) {
	c := newCluster(t, 1)
	a := start(t, quick(c), "")
	newReloader(nil, a.app, promslog.NewNopLogger(), a.reg)
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := a.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "culprit_") && !strings.Contains(string(doc), "`"+f.GetName()+"`") {
			t.Errorf("docs/metrics.md does not list %s", f.GetName())
		}
	}
}
