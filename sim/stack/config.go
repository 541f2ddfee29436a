// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/prometheus/common/model"
)

const alertmanagerFile = "alertmanager.yml"

var prometheusConfig = template.Must(template.New("prometheus.yml").Parse(`global:
  scrape_interval: {{ .Interval }}
  evaluation_interval: {{ .Interval }}
{{- with .External }}
  external_labels:
{{- range $name, $value := . }}
    {{ $name }}: '{{ $value }}'
{{- end }}
{{- end }}
{{- with .Rules }}
rule_files: ['{{ . }}']
{{- end }}
{{- with .RemoteWrite }}
remote_write:
  # The default waits for 5 s until a batch is full.
  - {url: '{{ . }}', queue_config: {batch_send_deadline: 1s}}
{{- end }}
alerting:
  alertmanagers:
    - static_configs: [{targets: [{{ range $i, $a := .Alertmanagers }}{{ if $i }}, {{ end }}'{{ $a }}'{{ end }}]}]
scrape_configs:
  - job_name: culprit-exporter
    honor_timestamps: false
    static_configs:
{{- range .Exporters }}
      - targets: ['{{ .Addr }}']
        labels: {node: '{{ .Name }}'}
{{- end }}
{{- with .Discovery }}
    http_sd_configs:
{{- range . }}
      - {url: '{{ . }}', refresh_interval: 5s}
{{- end }}
{{- end }}
{{- range .Scrapes }}
  - {{ . }}
{{- end }}
{{- with .Analyzers }}
  - job_name: culprit-analyzer
    honor_timestamps: false
    static_configs: [{targets: [{{ range $i, $a := . }}{{ if $i }}, {{ end }}'{{ $a }}'{{ end }}]}]
{{- end }}
`))

// prometheusParams are what the Prometheus servers of a stack differ in.
type prometheusParams struct {
	External        map[string]string // Labels.
	Rules           string            // Glob; empty: none.
	RemoteWrite     string            // URL; empty: none.
	Exporters       []host
	WithoutAnalyzer bool // It does not scrape the analyzer.
}

// writePrometheus writes a Prometheus's configuration.
func (s *Stack) writePrometheus(name string, params prometheusParams) (file string, err error) {
	type exporter struct{ Name, Addr string }
	var exporters []exporter
	for _, h := range params.Exporters {
		exporters = append(exporters, exporter{h.name, h.addr})
	}
	values := map[string]any{
		"Interval":      s.cfg.Interval,
		"External":      params.External,
		"Rules":         params.Rules,
		"RemoteWrite":   params.RemoteWrite,
		"Alertmanagers": addrsOf(s.alertmanagers),
		"Exporters":     exporters,
		"Discovery":     s.cfg.Discovery,
		"Scrapes":       s.cfg.Scrapes,
	}
	if !params.WithoutAnalyzer {
		values["Analyzers"] = addrsOf(s.analyzers)
	}
	var b strings.Builder
	if err := prometheusConfig.Execute(&b, values); err != nil {
		return "", fmt.Errorf("rendering the configuration of Prometheus: %w", err)
	}
	file = filepath.Join(s.cfg.Dir, name+".yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return "", fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}
	return file, nil
}

func addrsOf(instances []instance) []string {
	var out []string
	for _, i := range instances {
		out = append(out, i.addr)
	}
	return out
}

// rules are the rule files, as a glob.
func (s *Stack) rules() string {
	return cmp.Or(s.cfg.Rules, filepath.Join(s.cfg.Root, "rules", "*.yaml"))
}

// writeConfig writes, from the shipped example or the one that is set, with only the addresses changed, Alertmanager's configuration, and the
// analyzer's where it needs one.
func (s *Stack) writeConfig() error {
	example := cmp.Or(s.cfg.Alertmanager, filepath.Join(s.cfg.Root, "deploy", "alertmanager", "alertmanager.yml"))
	text, err := os.ReadFile(example)
	if err != nil {
		return fmt.Errorf("reading the configuration of Alertmanager: %w", err)
	}
	config := string(text)
	for _, address := range [][2]string{
		{"http://localhost:9851", "http://" + s.analyzers[0].addr},
		{"http://pager.example.org", "http://" + s.pager.addr},
	} {
		if !strings.Contains(config, address[0]) {
			return fmt.Errorf("%s does not name %s", example, address[0])
		}
		config = strings.ReplaceAll(config, address[0], address[1])
	}
	if s.cfg.Pairs {
		const hook = "      - url: http://%s/api/v1/alerts\n        send_resolved: true\n        # A group may hold every trigger of a job; none may be cut.\n        max_alerts: 0\n"
		first := fmt.Sprintf(hook, s.analyzers[0].addr)
		if !strings.Contains(config, first) {
			return fmt.Errorf("%s has no receiver that can be doubled", example)
		}
		config = strings.ReplaceAll(config, first, first+fmt.Sprintf(hook, s.analyzers[1].addr))
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, alertmanagerFile), []byte(config), 0o644); err != nil {
		return fmt.Errorf("writing the configuration of Alertmanager: %w", err)
	}
	var analyzer strings.Builder
	if s.cfg.Patience != 0 {
		fmt.Fprintf(&analyzer, "analysis: {patience: {at_least: %s}}\n", model.Duration(s.cfg.Patience))
	}
	if s.cfg.PeerTimeout != 0 {
		fmt.Fprintf(&analyzer, "alertmanager: {peer_timeout: %s}\n", model.Duration(s.cfg.PeerTimeout))
	}
	if s.cfg.Storage == Mimir {
		fmt.Fprintf(&analyzer, "prometheus: {http_config: {http_headers: {%s: {values: [%s]}}}}\n", tenantHeader, tenant)
	}
	if analyzer.Len() == 0 {
		return nil
	}
	s.analyzerFile = filepath.Join(s.cfg.Dir, "analyzer.yml")
	if err := os.WriteFile(s.analyzerFile, []byte(analyzer.String()), 0o644); err != nil {
		return fmt.Errorf("writing the configuration of the analyzer: %w", err)
	}
	return nil
}
