// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/internal/ports"
)

const root = "../.."

// address gives a free one.
func address(t *testing.T) string {
	t.Helper()
	addrs, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

// run starts one of the programs of bin/tools and waits until it is ready.
func run(t *testing.T, name, addr string, args ...string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(root, "bin", "tools", name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(args, "--web.listen-address="+addr)...)
	cmd.Dir = t.TempDir()
	log, err := os.Create(filepath.Join(cmd.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; go run ./tools/ci run tools builds it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", name, text)
		}
	})
	eventually(t, func() error {
		resp, err := http.Get("http://" + addr + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s is not ready: %s", name, resp.Status)
			}
		}
		return err
	})
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// prom starts a Prometheus with a configuration and gives its URL.
func prom(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := address(t)
	run(t, "prometheus", addr, "--config.file="+file, "--storage.tsdb.path=data")
	return "http://" + addr
}

func manager(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "alertmanager.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := address(t)
	run(t, "alertmanager", addr, "--config.file="+file, "--storage.path=data", "--cluster.listen-address=")
	return "http://" + addr
}

// node plays an exporter or analyzer of which only being there counts.
func node(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%s 1\n", buildInfo) }))
	t.Cleanup(s.Close)
	return s.URL
}

func options() *Options {
	return &Options{Client: &http.Client{Timeout: timeout}, ExporterJob: "culprit-exporter", AnalyzerJob: "culprit-analyzer", ScrapeInterval: 5 * time.Second}
}

// TestReachable has exporter and analyzer that are there, and that are not.
func TestReachable(t *testing.T) {
	o := options()
	o.ExporterURL, o.AnalyzerURL = node(t), node(t)
	want(t, exporter(t.Context(), o), OK, "answers")
	want(t, analyzer(t.Context(), o), OK, "ready")
	o.ExporterURL, o.AnalyzerURL = "http://"+address(t), "http://"+address(t)
	want(t, exporter(t.Context(), o), Failed, "cannot be reached", "systemctl")
	want(t, analyzer(t.Context(), o), Failed, "cannot be reached", "systemctl")
	o.ExporterURL, o.AnalyzerURL = "", ""
	want(t, exporter(t.Context(), o), NotAsked, "--exporter.url")
	want(t, analyzer(t.Context(), o), NotAsked, "--analyzer.url")
}

// TestPrometheus asks a real Prometheus that is set up wrongly in one way after another.
func TestPrometheus(t *testing.T) {
	target := strings.TrimPrefix(node(t), "http://")
	rules, err := filepath.Abs(filepath.Join(root, "rules"))
	if err != nil {
		t.Fatal(err)
	}
	const scrape = "scrape_configs:\n- {job_name: %s, scrape_interval: %s, scrape_timeout: 1s, static_configs: [{targets: ['%s']}]}\n"
	all := "rule_files: ['" + rules + "/culprit-*.yaml']\n"
	alerting := "alerting: {alertmanagers: [{static_configs: [{targets: ['" + address(t) + "']}]}]}\n"
	for _, c := range []struct {
		name, config string
		state        State
		want         []string
	}{
		{"no scrape job", all, Failed, []string{"no target of job culprit-exporter"}},
		{"another name", all + fmt.Sprintf(scrape, "gpu-nodes", "1s", target), Failed, []string{"as job gpu-nodes", "jobLabel"}},
		{"too slow", all + fmt.Sprintf(scrape, "culprit-exporter", "30s", target), Failed, []string{"every 30s", "scrape_interval: 5s"}},
		{"down", all + fmt.Sprintf(scrape, "culprit-exporter", "1s", address(t)), Failed, []string{"1 of 1 exporters cannot be scraped"}},
		{"no rules", fmt.Sprintf(scrape, "culprit-exporter", "1s", target), Failed, []string{"None of Culprit's rules"}},
		{"some rules", "rule_files: ['" + rules + "/culprit-health.yaml']\n", Failed, []string{"are not loaded"}},
		{"no Alertmanager", all, Failed, []string{"no Alertmanager"}},
		{"no analyzer", all + fmt.Sprintf(scrape, "culprit-exporter", "1s", target), Warning, []string{"does not scrape the analyzer"}},
		{"all is well: scrape", all + fmt.Sprintf(scrape, "culprit-exporter", "1s", target), OK, []string{"scrapes 1 exporters"}},
		{"all is well: rules", all, OK, []string{"alerts of this version are loaded"}},
		{"all is well: alerting", alerting, OK, []string{"to 1 Alertmanagers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.PrometheusURL = prom(t, c.config)
			// Targets are scraped, and Alertmanagers found, some time after the start.
			eventually(t, func() error {
				findings := prometheus(t.Context(), o)
				for _, f := range findings {
					text := f.Check + ": " + f.Fact + " " + f.Do
					if f.State == c.state && !slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(text, w) }) {
						return nil
					}
				}
				return fmt.Errorf("nothing is %v and says %q in %+v", c.state, c.want, findings)
			})
		})
	}
	o := options()
	o.PrometheusURL = prom(t, alerting)
	o.RulesURL = "http://" + address(t)
	want(t, prometheus(t.Context(), o), NotAsked, "does not tell its rules", "--rules.url")
	o.PrometheusURL = "http://" + address(t)
	want(t, prometheus(t.Context(), o), Failed, "cannot be asked")
}

// TestAlertmanager asks a real Alertmanager with the shipped routes, and with some that lead nowhere.
func TestAlertmanager(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join(root, "deploy", "alertmanager", "alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.AlertmanagerURL = manager(t, string(shipped))
	findings := alertmanager(t.Context(), o)
	want(t, findings, OK, "triggers to the receiver culprit-analyzer (webhook_configs)")
	want(t, findings, OK, "verdicts to the receiver pager")

	o.AlertmanagerURL = manager(t, "route: {receiver: all}\nreceivers: [{name: all}]\n")
	findings = alertmanager(t.Context(), o)
	want(t, findings, Failed, "triggers to the receiver all, which has no webhook", "deploy/alertmanager")
	want(t, findings, Failed, "verdicts to the receiver all, which notifies nobody")

	o.AlertmanagerURL = manager(t, "route: {receiver: slack}\nreceivers: [{name: slack, webhook_configs: [{url: 'http://localhost:1'}]}]\n")
	want(t, alertmanager(t.Context(), o), Failed, "both go to the receiver slack", "to the analyzer alone")

	// The operator of Prometheus narrows routes to a namespace, which the loaded rules then have.
	o.AlertmanagerURL = manager(t, `route: {receiver: none, routes: [{receiver: all, matchers: [namespace="culprit"], routes: [{receiver: analyzer, matchers: [culprit="trigger"]}]}]}
receivers: [{name: none}, {name: all, webhook_configs: [{url: 'http://localhost:1'}]}, {name: analyzer, webhook_configs: [{url: 'http://localhost:1'}]}]
`)
	want(t, alertmanager(t.Context(), o), Failed, "triggers to the receiver none")
	o.labels = map[string]string{"namespace": "culprit", "culprit": "trigger"}
	want(t, alertmanager(t.Context(), o), OK, "triggers to the receiver analyzer")
	want(t, alertmanager(t.Context(), o), OK, "verdicts to the receiver all")
	o.labels = nil

	o.AlertmanagerURL = "http://" + address(t)
	want(t, alertmanager(context.Background(), o), Failed, "cannot be reached")
}

// TestProbe sends a synthetic trigger through a real Alertmanager to a real analyzer, by the shipped routes and by some that lead elsewhere.
func TestProbe(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join(root, "deploy", "alertmanager", "alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Probe, o.probePatience = true, probePatience
	want(t, probe(t.Context(), o), Failed, "--alertmanager.url and --analyzer.url")
	at := address(t)
	o.AnalyzerURL = "http://" + at
	o.AlertmanagerURL = manager(t, strings.ReplaceAll(string(shipped), "http://localhost:9851", o.AnalyzerURL))
	run(t, "../culprit-analyzer", at, "serve", "--alertmanager.url="+o.AlertmanagerURL)
	want(t, probe(t.Context(), o), OK, "came from Alertmanager to the analyzer")

	o.AlertmanagerURL = manager(t, strings.ReplaceAll(string(shipped), "http://localhost:9851", node(t)))
	o.probePatience = 3 * time.Second // It never comes.
	want(t, probe(t.Context(), o), Failed, "did not reach the analyzer", o.AnalyzerURL+"/api/v1/alerts")

	o.AlertmanagerURL = "http://" + address(t)
	want(t, probe(t.Context(), o), Failed, "does not take a synthetic trigger")
	o.Probe = false
	want(t, probe(t.Context(), o), NotAsked, "--probe")
}

// TestReceivers has the forms in which routes are written.
func TestReceivers(t *testing.T) {
	for _, c := range []struct {
		routes string
		want   []string
	}{
		{`[]`, []string{"top"}},
		{`[{receiver: a, matchers: ['culprit="trigger"']}]`, []string{"a"}},
		{`[{receiver: a, matchers: [culprit = trigger]}]`, []string{"a"}},
		{`[{receiver: a, match: {culprit: trigger}}]`, []string{"a"}},
		{`[{receiver: a, match_re: {culprit: "trig.*|x"}}]`, []string{"a"}},
		{`[{receiver: a, matchers: ['culprit!="trigger"']}, {receiver: b, matchers: ['{culprit=~"trigger|verdict", severity="critical"}']}]`, []string{"b"}},
		{`[{receiver: a, continue: true}, {receiver: b}]`, []string{"a", "b"}},
		{`[{matchers: ['culprit="trigger"'], routes: [{receiver: a, matchers: ['severity="info"']}]}]`, []string{"top"}},
	} {
		config, err := parseConfig("route: {receiver: top, routes: " + c.routes + "}\n")
		if err != nil {
			t.Errorf("%s: %v", c.routes, err)
			continue
		}
		if got := config.Route.receivers(map[string]string{"culprit": "trigger", "severity": "critical"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.routes, got, c.want)
		}
	}
}

// TestCredentials: what asks for a token gets the one of the file, and without it the answer says how to name one.
func TestCredentials(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "http.yml")
	if err := errors.Join(
		os.WriteFile(file, []byte("authorization: {credentials_file: token}\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "token"), []byte("secret\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]State{file: OK, "": Failed} {
		client, err := NewClient(name)
		if err != nil {
			t.Fatal(err)
		}
		f := analyzer(t.Context(), &Options{AnalyzerURL: s.URL, Client: client})[0]
		if f.State != want || want == Failed && !strings.Contains(f.Fact, "--http.config.file") {
			t.Errorf("%q: %+v", name, f)
		}
	}
	if _, err := NewClient(filepath.Join(dir, "absent.yml")); err == nil || !strings.Contains(err.Error(), "absent.yml") {
		t.Error(err)
	}
}
