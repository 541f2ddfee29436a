// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestEmptyFileServes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", file} {
		c, err := Load(name)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		base, err := c.Exporters.BaseURL(map[string]string{"instance": "node-1:9850"})
		if err != nil || base != "http://node-1:9850" {
			t.Errorf("address is %q, %v", base, err)
		}
		q, err := Query(c.Prometheus.Queries.Ages, `job_id="7"`)
		if want := `culprit_nccl_op_age_seconds{job_id="7",job="culprit-exporter"}`; err != nil || q != want {
			t.Errorf("query is %q, %v, want %q", q, err, want)
		}
	}
}

// The file that shows every setting is what the program reads, and holds the defaults.
func TestExample(t *testing.T) {
	c, err := Load("../../deploy/analyzer.yml")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	if err := want.Check(); err != nil {
		t.Fatal(err)
	}
	thresholds := c.Analysis // Compared below: zero stands for the engine's default.
	want.Analysis.HangAfter, want.Analysis.StorageBytesPerSec, want.Analysis.FirstOps = thresholds.HangAfter, thresholds.StorageBytesPerSec, thresholds.FirstOps
	want.Analysis.FirstStepIdle, want.Analysis.FirstStepLimit = thresholds.FirstStepIdle, thresholds.FirstStepLimit
	want.Analysis.BusyCores, want.Analysis.IrregularFactor, want.Analysis.LateAfter = thresholds.BusyCores, thresholds.IrregularFactor, thresholds.LateAfter
	want.Analysis.Alpha, want.Analysis.Beta, want.Analysis.Theta = thresholds.Alpha, thresholds.Beta, thresholds.Theta
	want.Analysis.PageConfidence = thresholds.PageConfidence
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		switch p.String() {
		case "ExternalURL", "Prometheus.URL", "Alertmanager.URLs", "Exporters.address", "Notify.Labels", "Analysis.hangTriggers":
			return true
		default:
			return false
		}
	}, cmp.Ignore())
	if diff := cmp.Diff(want, c, ignore, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("the example does not show the defaults (-default +example):\n%s", diff)
	}
	if got, want := c.Analysis.Options(), (rca.Options{
		HangAfter: 2 * time.Second, StorageBytesPerSec: 1 << 20, FirstOps: 1, FirstStepIdle: 5 * time.Minute,
		FirstStepLimit: 20 * time.Minute, BusyCores: 0.5, IrregularFactor: 1.1, Alpha: 0.4, Beta: 0.6, Theta: 3,
		LateAfter: time.Second, PageConfidence: 0.5,
	}); got != want {
		t.Errorf("thresholds are %+v, want %+v", got, want)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown field", "promethus: {}", "promethus"},
		{"address template", "exporters: {address: '{{'}", "exporters.address"},
		{"stacks template", "stacks: {url: '{{'}", "stacks.url"},
		{"runbook template", "runbook_url: '{{'", "runbook_url"},
		{"runbook field", "runbook_url: 'http://x/{{ .Couse }}'", "can't evaluate field Couse"},
		{"query template", "prometheus: {queries: {ages: '{{ .What }}'}}", "queries.ages"},
		{"prometheus url", "prometheus: {url: 'ftp://x'}", "prometheus.url"},
		{"external url", "external_url: here", "external_url"},
		{"external command", "external_command: kubectl port-forward", "external_url"},
		{"alertmanager url", "alertmanager: {urls: ['http://a', 'b']}", "alertmanager.urls[1]"},
		{"exporters", "prometheus: {exporter_selector: culprit}", "prometheus.exporter_selector"},
		{"recorded series", "prometheus: {recorded_selector: 'job=\"\"} or x{'}", "prometheus.recorded_selector"},
		{"a host's label", "exporters: {host_label: 'a-b'}", "exporters.host_label"},
		{"matched label", "labels: {match: {a-b: x}}", "labels.match"},
		{"copied label", "notify: {copy_labels: [team, 'a-b']}", "notify.copy_labels[1]"},
		{"label", "labels: {job_id: 'a-b'}", "labels.job_id"},
		{"query", "prometheus: {queries: {triggers: '{{'}}", "queries.triggers"},
		{"duration", "exporters: {timeout: 0s}", "exporters.timeout"},
		{"no duration", "exporters: {timeout: soon}", "soon"},
		{"number", "analysis: {workers: 0}", "analysis.workers"},
		{"name", "notify: {alert_name: ''}", "notify.alert_name"},
		{"backoff", "incidents: {retry_min: 1m}", "retry_max"},
		{"two at once", "exporters: {timeout: 0s}\nanalysis: {workers: 0}", "analysis.workers"},
		{"two kinds of authentication", "prometheus: {http_config: {bearer_token: x, basic_auth: {username: u}}}", "at most one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

// TestErrorsNameTheLine has an error in each way in which files are read.
func TestErrorsNameTheLine(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"analysis:\n  confirm_after: 1s\n\n  workers: many\n", "line 4: cannot read `many` as a whole number"},
		// The section behind has a value of a type of ours.
		{"analysis:\n  confirm_after: 1s\n\n  workers: many\nincidents:\n  grace: 5\n", "analysis: line 4: cannot read `many` as a whole number"},
		{"incidents:\n  grace: 5\nanalysis:\n  workers: [1]\n", "analysis: line 4: cannot read a list as a whole number"},
		{"{incidents: {grace: 5}, analysis: {workers: many}}", "analysis: line 2: cannot read `many` as a whole number"}, // Written anew.
	} {
		file := filepath.Join(t.TempDir(), "analyzer.yml")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file)
		if err == nil || !strings.Contains(err.Error(), "configuration "+file+": "+tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
		for line := range strings.Lines(fmt.Sprint(err)) {
			if !strings.HasPrefix(line, "configuration "+file+": ") {
				t.Errorf("%q: the line %q does not name the file", tc.text, line)
			}
		}
	}
}

func TestBaseURL(t *testing.T) {
	for _, tc := range []struct{ template, want, err string }{
		{"https://{{ .host }}:9850/culprit/", "https://n1:9850/culprit", ""},
		{"http://{{ .instance }}", "http://n1:1", ""},
		{"http://{{ .node }}", "", "node"},
		{"{{ .host }}", "", "no http"},
	} {
		c := Default()
		c.Exporters.Address = tc.template
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		got, err := c.Exporters.BaseURL(map[string]string{"host": "n1", "instance": "n1:1"})
		if got != tc.want || (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s gives %q, %v", tc.template, got, err)
		}
	}
}

// What a process or an exporter chooses does not decide who is asked, where an address is made of what Prometheus knows.
func TestAddressIsPrometheus(t *testing.T) {
	for _, tc := range []struct{ instance, own, want string }{
		{"n1:9850", "evil", "n1"},
		{"n1", "", "n1"},
		{"10.0.0.1:9850", "10.6.6.6", "10.0.0.1"},
		{"[fd00::1]:9850", "", "[fd00::1]"},
		{"proxy:443/node/n1", "", "proxy"},
		{"user@evil:1", "evil", ""},
		{"", "evil", ""},
	} {
		labels := map[string]string{"address": tc.own, "host": "evil", "pid": "7/../x?"}
		if tc.instance != "" {
			labels["instance"] = tc.instance
		}
		out := AddressLabels(labels)
		if out["address"] != tc.want || out["pid"] != "" {
			t.Errorf("%+v gives %q", tc, out)
		}
	}
}

// What others chose stays one value of a link, which leads nowhere else.
func TestLinksStayTheirs(t *testing.T) {
	c, err := Parse([]byte(`links: [{text: Log, url: "https://logs.example.org/{{ .JobID }}/view?host={{ .Host }}#{{ .User }}"}]`))
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"..", ".", "../..", "a/../../b", "//evil.example.org", "a?b=c", "a&b", "a#b", "a%2f..", "javascript:alert(1)", "a\r\nX: y", "\"><script>", "{{ .Host }}", "a b", "\u2025"} {
		text, err := c.Links[0].Fill(LinkFields{JobID: name, Host: name, User: name})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(text)
		if err != nil || strings.ContainsAny(text, "\r\n<>\"' \\") {
			t.Fatalf("%q gives %q, %v", name, text, err)
		}
		// A browser takes dots out of the path before it asks.
		if at := path.Clean(u.EscapedPath()); u.Host != "logs.example.org" || !strings.HasSuffix(at, "/view") || strings.Count(u.EscapedPath(), "/") != 2 || at == "/view" && strings.Trim(name, ".") != "" {
			t.Errorf("%q leads to %q", name, text)
		}
		if q := u.Query(); len(q) != 1 || q.Get("host") != name && strings.Trim(name, ".") != "" {
			t.Errorf("%q is %q in a query", name, q)
		}
		if strings.Contains(u.EscapedPath(), "/../") || strings.Contains(u.EscapedPath(), "/./") {
			t.Errorf("%q leads out of its place: %q", name, text)
		}
	}
}

// Files named in the configuration are found beside it.
func TestPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yml")
	if err := os.WriteFile(file, []byte("exporters: {http_config: {tls_config: {ca_file: ca.pem}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil || c.Exporters.HTTPConfig.TLSConfig.CAFile != filepath.Join(dir, "ca.pem") {
		t.Errorf("CA file is %q, %v", c.Exporters.HTTPConfig.TLSConfig.CAFile, err)
	}
	if _, err := Load(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent file was taken")
	}
	if c.Prometheus.HTTPConfig.FollowRedirects != promconfig.DefaultHTTPClientConfig.FollowRedirects {
		t.Error("defaults of the client are lost")
	}
}

// Whoever mends a file learns of all its errors at once.
func TestLoadReportsEveryError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yml")
	// A duration that is none must not hide what comes after it.
	text := "alertmanager: {timeout: 3x}\npromethus: {}\nexporters: {timeout: 0s}\nnotify: {alert_name: '', severities: 1}\nanalysis: {topology: {nccl: none.xml}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	for _, want := range []string{"alertmanager: unknown unit", "promethus", "exporters.timeout", "severities", "notify.alert_name", "analysis.topology"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

// The files that an analysis needs are read with the configuration, relative to it.
func TestFilesOfTheAnalysis(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("topology.conf", "SwitchName=leaf Nodes=tux[0-3]\n")
	c, err := Load(write("good.yml", "analysis:\n  topology: {slurm: topology.conf}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if o := c.Analysis.Options(); !o.Topology.Known() {
		t.Errorf("options are %+v", o)
	}
	for text, want := range map[string]string{
		"analysis:\n  topology: {nccl: none.xml}\n":      "analysis.topology",
		"analysis:\n  topology: {nccl: topology.conf}\n": "reading NCCL topology",
	} {
		if _, err := Load(write("bad.yml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A host's name does not end the string that it stands in.
func TestHostsStayInTheirString(t *testing.T) {
	hosts := []string{`a"} or vector(1) or x{y=~"`, "b.c", `d\`, "e'} or x{'", "f`", "g\nh"}
	for _, quote := range []string{`"`, "'"} {
		q := FactQuery{Query: "up{host=~" + quote + "{{ .Hosts }}" + quote + "}", Component: "gpu", Kind: "xid", Host: "host"}
		text, err := q.Fill(hosts)
		if err != nil {
			t.Fatal(err)
		}
		inner, found := strings.CutPrefix(text, "up{host=~"+quote)
		inner, closed := strings.CutSuffix(inner, quote+"}")
		for i := 0; i < len(inner); i++ {
			if inner[i] == '\\' {
				i++ // Whatever it is, it is escaped.
			} else if inner[i] == quote[0] {
				t.Errorf("the string ends within %s", text)
				break
			}
		}
		if !found || !closed || strings.Contains(inner, "\n") || !strings.Contains(inner, `b\\.c`) {
			t.Errorf("the query is %s", text)
		}
	}
}

// Which targets exporter_selector means.
func TestExporterTargets(t *testing.T) {
	for _, tc := range []struct {
		selector string
		labels   map[string]string
		want     bool
	}{
		{`job="culprit-exporter"`, map[string]string{"job": "culprit-exporter", "instance": "a"}, true},
		{`job="culprit-exporter"`, map[string]string{"job": "node"}, false},
		{`job="culprit-exporter"`, nil, false},
		{`job=~".*-exporter", env!="test"`, map[string]string{"job": "my-exporter"}, true},
		{`job=~".*-exporter", env!="test"`, map[string]string{"job": "my-exporter", "env": "test"}, false},
		{`job=~"a|b"`, map[string]string{"job": "ab"}, false},
		{`job!~"a|b"`, map[string]string{"job": "b"}, false},
		{``, map[string]string{"job": "node"}, true},
	} {
		p := Default().Prometheus
		p.ExporterSelector = tc.selector
		if got := p.Exporter()(tc.labels); got != tc.want {
			t.Errorf("%s has %v: %t", tc.selector, tc.labels, got)
		}
	}
}
