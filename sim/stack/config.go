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

const (
	prometheusFile   = "prometheus.yml"
	alertmanagerFile = "alertmanager.yml"
)

var prometheusConfig = template.Must(template.New(prometheusFile).Parse(`global:
  scrape_interval: {{ .Interval }}
  evaluation_interval: {{ .Interval }}
rule_files: ['{{ .Rules }}']
alerting:
  alertmanagers:
    - static_configs: [{targets: ['{{ .Alertmanager }}']}]
scrape_configs:
  - job_name: culprit-exporter
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
  - job_name: culprit-analyzer
    static_configs: [{targets: ['{{ .Analyzer }}']}]
`))

// rules are the rule files, as a glob.
func (s *Stack) rules() string {
	return cmp.Or(s.cfg.Rules, filepath.Join(s.cfg.Root, "rules", "*.yaml"))
}

// writeConfig writes Prometheus's configuration and, from the shipped example or the one that is set, with only the addresses
// changed, Alertmanager's.
func (s *Stack) writeConfig() error {
	type exporter struct{ Name, Addr string }
	var exporters []exporter
	for _, h := range s.hosts {
		exporters = append(exporters, exporter{h.name, h.addr})
	}
	var b strings.Builder
	err := prometheusConfig.Execute(&b, map[string]any{
		"Interval":     s.cfg.Interval,
		"Rules":        s.rules(),
		"Alertmanager": s.alertmanagerAddr,
		"Analyzer":     s.analyzerAddr,
		"Exporters":    exporters,
		"Discovery":    s.cfg.Discovery,
	})
	if err != nil {
		return fmt.Errorf("rendering the configuration of Prometheus: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, prometheusFile), []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}

	example := cmp.Or(s.cfg.Alertmanager, filepath.Join(s.cfg.Root, "deploy", "alertmanager", "alertmanager.yml"))
	text, err := os.ReadFile(example)
	if err != nil {
		return fmt.Errorf("reading the configuration of Alertmanager: %w", err)
	}
	config := string(text)
	for _, address := range [][2]string{
		{"http://localhost:9851", "http://" + s.analyzerAddr},
		{"http://pager.example.org", "http://" + s.pager.addr},
	} {
		if !strings.Contains(config, address[0]) {
			return fmt.Errorf("%s does not name %s", example, address[0])
		}
		config = strings.ReplaceAll(config, address[0], address[1])
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, alertmanagerFile), []byte(config), 0o644); err != nil {
		return fmt.Errorf("writing the configuration of Alertmanager: %w", err)
	}
	if s.cfg.Patience == 0 {
		return nil
	}
	s.analyzerFile = filepath.Join(s.cfg.Dir, "analyzer.yml")
	if err := os.WriteFile(s.analyzerFile, fmt.Appendf(nil, "analysis: {patience: {at_least: %s}}\n", model.Duration(s.cfg.Patience)), 0o644); err != nil {
		return fmt.Errorf("writing the configuration of the analyzer: %w", err)
	}
	return nil
}
