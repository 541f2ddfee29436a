// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"text/template"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
)

// Check reports every field that cannot be, and compiles the templates.
func (c *Config) Check() error {
	var p problems
	c.checkTemplates(&p)
	c.checkPrometheus(&p)
	c.checkAddresses(&p)
	c.checkLimits(&p)
	c.Actions.check(&p)
	return errors.Join(p...)
}

// matchersPattern is what may stand between the braces of a selector.
var matchersPattern = regexp.MustCompile(`^[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*"([^"\\]|\\.)*"(\s*,\s*[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*"([^"\\]|\\.)*")*$`)

// problems are what is wrong with a configuration.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (c *Config) checkTemplates(p *problems) {
	address, err := template.New("exporters.address").Option("missingkey=error").Parse(c.Exporters.Address)
	if err != nil {
		p.add("exporters.address: %w", err)
	}
	c.Exporters.address = address
	if _, err := template.New("stacks.url").Parse(c.Stacks.URL); err != nil {
		p.add("stacks.url: %w", err)
	}
	runbook, err := template.New("runbook_url").Parse(c.RunbookURL)
	if err == nil {
		err = runbook.Execute(io.Discard, struct{ Class, Cause string }{})
	}
	if err != nil {
		p.add("runbook_url, a template over .Class and .Cause: %w", err)
	}
}

func (c *Config) checkPrometheus(p *problems) {
	for name, q := range c.Prometheus.Queries.all() {
		if err := parses(*q); err != nil {
			p.add("prometheus.queries.%s: %w", name, err)
		}
	}
	for name, selector := range map[string]string{"exporter_selector": c.Prometheus.ExporterSelector, "recorded_selector": c.Prometheus.RecordedSelector} {
		if selector != "" && !matchersPattern.MatchString(selector) {
			p.add("prometheus.%s: %q are no label matchers, such as job=\"culprit-exporter\"", name, selector)
		}
	}
	if l := c.Exporters.HostLabel; l != "" && !model.LegacyValidation.IsValidLabelName(l) {
		p.add("exporters.host_label: %q is no label name", l)
	}
	for i := range c.Prometheus.NodeEvidence {
		if err := c.Prometheus.NodeEvidence[i].check(); err != nil {
			p.add("prometheus.node_evidence[%d]: %w", i, err)
		}
	}
	for l := range c.Labels.Match {
		if !model.LegacyValidation.IsValidLabelName(l) {
			p.add("labels.match: %q is no label name", l)
		}
	}
	for i, l := range c.Labels.Job {
		if !model.LegacyValidation.IsValidLabelName(l) {
			p.add("labels.job[%d]: %q is no label name", i, l)
		}
		if slices.Contains([]string{"incident", "class", "cause", "rank", "host", "gpu", "paged"}, l) || slices.Contains(c.Labels.Job[:i], l) {
			p.add("labels.job[%d]: %q must not be part of a job's identity, or is listed twice", i, l)
		}
	}
	if !slices.Contains(c.Labels.Job, identity.IDLabel) {
		p.add("labels.job: %s is missing", identity.IDLabel)
	}
	for i, l := range c.Notify.CopyLabels {
		if !model.LegacyValidation.IsValidLabelName(l) {
			p.add("notify.copy_labels[%d]: %q is no label name", i, l)
		}
	}
	for name, l := range map[string]string{"job_id": c.Labels.JobID, "rank": c.Labels.Rank, "comm": c.Labels.Comm, "instance": c.Labels.Instance} {
		if !model.LegacyValidation.IsValidLabelName(l) {
			p.add("labels.%s: %q is no label name", name, l)
		}
	}
}

func (c *Config) checkAddresses(p *problems) {
	urls := map[string]string{"prometheus.url": c.Prometheus.URL, "external_url": c.ExternalURL, "grafana_url": c.GrafanaURL, "alertmanager.external_url": c.Alertmanager.ExternalURL}
	for i, u := range c.Alertmanager.URLs {
		urls[fmt.Sprintf("alertmanager.urls[%d]", i)] = u
	}
	for i, s := range c.Prometheus.Scrapers {
		urls[fmt.Sprintf("prometheus.scrapers[%d].url", i)] = s.URL
		if s.URL == "" {
			p.add("prometheus.scrapers[%d]: url must not be empty", i)
		}
	}
	if c.ExternalCommand != "" && c.ExternalURL == "" {
		p.add("external_command: set external_url, which the command makes answer, too")
	}
	for i := range c.Links {
		l := &c.Links[i]
		var err error
		if l.address, err = template.New("links").Parse(l.URL); err != nil {
			p.add("links[%d].url: %w", i, err)
			continue
		}
		filled, err := l.Fill(LinkFields{})
		if err == nil {
			err = checkURL(filled)
		}
		if err != nil {
			p.add("links[%d].url: %w", i, err)
		}
		if l.Text == "" || l.URL == "" {
			p.add("links[%d]: text and url must not be empty", i)
		}
	}
	for name, u := range urls {
		if err := checkURL(u); err != nil {
			p.add("%s: %w", name, err)
		}
	}
}

func (c *Config) checkLimits(p *problems) {
	for name, d := range map[string]model.Duration{
		"prometheus.timeout": c.Prometheus.Timeout, "prometheus.lookback": c.Prometheus.Lookback,
		"prometheus.refresh_interval": c.Prometheus.RefreshInterval,
		"alertmanager.timeout":        c.Alertmanager.Timeout, "alertmanager.poll_interval": c.Alertmanager.PollInterval,
		"exporters.timeout": c.Exporters.Timeout, "exporters.history_timeout": c.Exporters.HistoryTimeout, "analysis.deadline": c.Analysis.Deadline, "analysis.history": c.Analysis.History,
		"incidents.retry_min": c.Incidents.RetryMin, "incidents.retry_max": c.Incidents.RetryMax,
		"incidents.recheck": c.Incidents.Recheck, "incidents.look_back": c.Incidents.LookBack, "incidents.passive_ttl": c.Incidents.PassiveTTL,
		"incidents.silent": c.Incidents.Silent, "evidence.retention": c.Evidence.Retention, "notify.resend_interval": c.Notify.Resend, "stacks.timeout": c.Stacks.Timeout,
	} {
		if d <= 0 {
			p.add("%s: must be above 0", name)
		}
	}
	for name, n := range map[string]int{
		"exporters.concurrency": c.Exporters.Concurrency, "analysis.workers": c.Analysis.Workers,
		"incidents.max_open": c.Incidents.MaxOpen, "notify.max_alerts": c.Notify.MaxAlerts,
	} {
		if n < 1 {
			p.add("%s: must be at least 1", name)
		}
	}
	for name, n := range map[string]int64{"prometheus.max_bytes": c.Prometheus.MaxBytes, "exporters.max_bytes": c.Exporters.MaxBytes} {
		if n < 1 {
			p.add("%s: must be at least 1", name)
		}
	}
	for name, n := range map[string]int64{"evidence.max_bytes": c.Evidence.Total, "evidence.max_bytes_per_incident": c.Evidence.PerIncident} {
		if n < 0 {
			p.add("%s: must not be below 0", name)
		}
	}
	if c.Exporters.Retries < 0 {
		p.add("exporters.retries: must not be below 0")
	}
	for name, n := range map[string]int{"incidents.history": c.Incidents.History, "analysis.all_nodes_up_to": c.Analysis.AllNodesUpTo} {
		if n < 0 {
			p.add("%s: must not be below 0", name)
		}
	}
	for name, d := range map[string]model.Duration{
		"analysis.confirm_after": c.Analysis.ConfirmAfter, "analysis.hang_after": c.Analysis.HangAfter,
		"incidents.grace": c.Incidents.Grace, "incidents.lost_triggers": c.Incidents.LostTriggers,
	} {
		if d < 0 {
			p.add("%s: must not be below 0", name)
		}
	}
	for name, alert := range map[string]string{"alert_name": c.Notify.AlertName, "slow_name": c.Notify.Slow, "unknown_name": c.Notify.Unknown, "warning_name": c.Notify.Warning} {
		if alert == "" {
			p.add("notify.%s: must not be empty", name)
		}
	}
	if patience := c.Analysis.Patience; patience.AtLeast < 0 || patience.Factor < 0 || patience.AtMost < patience.AtLeast {
		p.add("analysis.patience: wants 0 <= at_least <= at_most and a factor of at least 0")
	}
	if c.Incidents.RetryMax < c.Incidents.RetryMin {
		p.add("incidents.retry_max: is below retry_min")
	}
}

func checkURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%q is no http or https URL", s)
	}
	return nil
}
