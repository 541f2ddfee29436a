// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v2"

	"github.com/culprit-project/culprit/rules"
)

// buildInfo is a series that each exporter has, whatever its scrape job is called.
const buildInfo = "culprit_exporter_build_info"

// maxBody bounds what is read of an answer.
const maxBody = 8 << 20

// get asks for a page. The error says what came back.
func get(ctx context.Context, o *Options, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := o.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %s: name credentials with --http.config.file", url, resp.Status)
	default:
		return nil, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxBody))
}

func notAsked(check, option string) []Finding {
	return []Finding{{check, NotAsked, "It was not asked: its address is not given.", "add " + option}}
}

func exporter(ctx context.Context, o *Options) []Finding {
	if o.ExporterURL == "" {
		return notAsked("exporter", "--exporter.url=http://HOST:9850")
	}
	if _, err := get(ctx, o, o.ExporterURL+"/-/healthy"); err != nil {
		return []Finding{{
			"exporter", Failed, fmt.Sprintf("The exporter cannot be reached: %v.", err),
			"systemctl status culprit-exporter, or kubectl -n culprit get pods -o wide, or --exporter.url",
		}}
	}
	return []Finding{ok("exporter", "The exporter answers at %s.", o.ExporterURL)}
}

func analyzer(ctx context.Context, o *Options) []Finding {
	if o.AnalyzerURL == "" {
		return notAsked("analyzer", "--analyzer.url=http://HOST:9851")
	}
	if _, err := get(ctx, o, o.AnalyzerURL+"/-/ready"); err != nil {
		return []Finding{{
			"analyzer", Failed, fmt.Sprintf("The analyzer cannot be reached or is not ready: %v.", err),
			"on its host: systemctl status culprit-analyzer, or kubectl -n culprit logs -l app.kubernetes.io/name=culprit-analyzer",
		}}
	}
	return []Finding{ok("analyzer", "The analyzer is ready at %s.", o.AnalyzerURL)}
}

func prometheus(ctx context.Context, o *Options) []Finding {
	if o.PrometheusURL == "" {
		return notAsked("Prometheus", "--prometheus.url=http://HOST:9090")
	}
	p, err := client(o, o.PrometheusURL)
	if err != nil {
		return []Finding{{"Prometheus", Failed, fmt.Sprintf("The address of Prometheus cannot be used: %v.", err), "--prometheus.url=http://HOST:9090"}}
	}
	evaluator, err := client(o, cmp.Or(o.RulesURL, o.PrometheusURL))
	if err != nil {
		return []Finding{{"rules", Failed, fmt.Sprintf("The address of what evaluates rules cannot be used: %v.", err), "--rules.url=http://HOST:8880"}}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	targets, err := p.Targets(ctx)
	if err != nil {
		return []Finding{{"Prometheus", Failed, fmt.Sprintf("Prometheus cannot be asked: %v.", err), "--prometheus.url, where GET /api/v1/targets answers"}}
	}
	findings := []Finding{ok("Prometheus", "Prometheus answers at %s.", o.PrometheusURL)}
	findings = append(findings, scrapes(ctx, o, p, targets.Active)...)
	findings = append(findings, loaded(ctx, o, evaluator)...)
	return append(findings, notified(ctx, evaluator))
}

func client(o *Options, url string) (v1.API, error) {
	c, err := api.NewClient(api.Config{Address: url, Client: o.Client})
	return v1.NewAPI(c), err
}

// scrapes looks at the targets of the exporters and the analyzer.
func scrapes(ctx context.Context, o *Options, p v1.API, targets []v1.ActiveTarget) []Finding {
	var findings []Finding
	found, down := 0, 0
	var slowest time.Duration
	var last string
	for _, t := range targets {
		if string(t.Labels[model.JobLabel]) != o.ExporterJob {
			continue
		}
		found++
		if t.Health == v1.HealthBad {
			down++
			last = t.ScrapeURL + ": " + t.LastError
		}
		// Servers other than Prometheus do not tell the interval.
		if d, err := model.ParseDuration(t.DiscoveredLabels["__scrape_interval__"]); err == nil {
			slowest = max(slowest, time.Duration(d))
		}
	}
	switch {
	case found == 0:
		return append(findings, noJob(ctx, o, p))
	case down > 0:
		findings = append(findings, Finding{
			"scrape", Failed, fmt.Sprintf("%d of %d exporters cannot be scraped, such as %s.", down, found, last),
			"start them, or let Prometheus through the firewall or NetworkPolicy",
		})
	default:
		findings = append(findings, ok("scrape", "Prometheus scrapes %d exporters as job %s.", found, o.ExporterJob))
	}
	switch {
	case slowest > o.ScrapeInterval:
		findings = append(findings, Finding{
			"interval", Failed, fmt.Sprintf("Exporters are scraped every %s; the windows of the rules need %s or less.", slowest, o.ScrapeInterval),
			fmt.Sprintf("scrape_interval: %s in the scrape job %s", o.ScrapeInterval, o.ExporterJob),
		})
	case slowest > 0:
		findings = append(findings, ok("interval", "Exporters are scraped every %s.", slowest))
	default:
		findings = append(findings, Finding{"interval", NotAsked, "This server does not tell its scrape interval.", fmt.Sprintf("check that it is %s or less", o.ScrapeInterval)})
	}
	if !slices.ContainsFunc(targets, func(t v1.ActiveTarget) bool { return string(t.Labels[model.JobLabel]) == o.AnalyzerJob }) {
		findings = append(findings, Finding{
			"scrape", Warning, "Prometheus does not scrape the analyzer, so nobody learns when it fails.",
			"add the scrape job " + o.AnalyzerJob + " of deploy/prometheus/prometheus.yml",
		})
	}
	return findings
}

// noJob tells a wrong name from no scraping at all.
func noJob(ctx context.Context, o *Options, p v1.API) Finding {
	value, _, _, err := p.Query(ctx, "count by (job) ("+buildInfo+")", time.Now())
	if vector, is := value.(model.Vector); err == nil && is && len(vector) > 0 {
		return Finding{
			"scrape", Failed, fmt.Sprintf("Exporters are scraped as job %s; the rules and the analyzer look for %s.", vector[0].Metric[model.JobLabel], o.ExporterJob),
			"name the scrape job " + o.ExporterJob + "; with a PodMonitor or ServiceMonitor set jobLabel",
		}
	}
	return Finding{
		"scrape", Failed, "Prometheus scrapes no target of job " + o.ExporterJob + ".",
		"add the scrape job of deploy/prometheus/prometheus.yml, or the chart's PodMonitor with the labels that your Prometheus selects",
	}
}

// ruleFile is what is read of the shipped rules.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert string `yaml:"alert"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// exampleTrigger is the alert whose labels stand for those of all triggers.
const exampleTrigger = "CulpritJobStalled"

// loaded compares the alerts of the shipped rules with those of the server.
func loaded(ctx context.Context, o *Options, p v1.API) []Finding {
	have, err := p.Rules(ctx, nil)
	if err != nil {
		return []Finding{{"rules", NotAsked, fmt.Sprintf("The server does not tell its rules: %v.", err), "with VictoriaMetrics: --rules.url=http://VMALERT:8880"}}
	}
	names := map[string]bool{}
	var broken []string
	for _, g := range have.Groups {
		for _, r := range g.Rules {
			if alert, is := r.(v1.AlertingRule); is {
				names[alert.Name] = true
				if alert.Name == exampleTrigger {
					o.labels = map[string]string{}
					for name, value := range alert.Labels {
						o.labels[string(name)] = string(value)
					}
				}
				if alert.Health == v1.RuleHealthBad && strings.HasPrefix(alert.Name, "Culprit") {
					broken = append(broken, alert.Name+": "+alert.LastError)
				}
			}
		}
	}
	want, missing := 0, []string{}
	for _, text := range [][]byte{rules.Triggers, rules.Health} {
		var f ruleFile
		if err := yaml.Unmarshal(text, &f); err != nil {
			return []Finding{{"rules", Failed, fmt.Sprintf("The rules of this build cannot be read: %v.", err), ""}}
		}
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				want++
				if !names[r.Alert] {
					missing = append(missing, r.Alert)
				}
			}
		}
	}
	switch {
	case len(missing) == want:
		return []Finding{{"rules", Failed, "None of Culprit's rules are loaded, so nothing triggers an analysis.", fmt.Sprintf("rule_files: [rules/culprit-*.yaml], or the chart's PrometheusRule; those of rules/scrape-15s, scrape-30s or scrape-60s where exporters are scraped less often than every %s", o.ScrapeInterval)}}
	case len(missing) > 0:
		return []Finding{{"rules", Failed, fmt.Sprintf("%d of %d alerts are not loaded, such as %s: the rules are of another version or left out in part.", len(missing), want, missing[0]), "load rules/ of this version"}}
	case len(broken) > 0:
		return []Finding{{"rules", Failed, fmt.Sprintf("%d alerts cannot be evaluated, such as %s.", len(broken), broken[0]), "read the error on the server's page of rules"}}
	}
	return []Finding{ok("rules", "All %d alerts of this version are loaded.", want)}
}

func notified(ctx context.Context, p v1.API) Finding {
	managers, err := p.AlertManagers(ctx)
	if err != nil {
		return Finding{"alerting", NotAsked, fmt.Sprintf("The server does not tell where it sends alerts: %v.", err), ""}
	}
	if len(managers.Active) == 0 {
		return Finding{"alerting", Failed, "Prometheus sends alerts to no Alertmanager.", "alerting: alertmanagers in prometheus.yml"}
	}
	return ok("alerting", "Prometheus sends alerts to %d Alertmanagers.", len(managers.Active))
}

// alertmanager follows a trigger and a verdict through the routes.
func alertmanager(ctx context.Context, o *Options) []Finding {
	if o.AlertmanagerURL == "" {
		return notAsked("Alertmanager", "--alertmanager.url=http://HOST:9093")
	}
	text, err := get(ctx, o, o.AlertmanagerURL+"/api/v2/status")
	if err != nil {
		return []Finding{{"Alertmanager", Failed, fmt.Sprintf("Alertmanager cannot be reached: %v.", err), "--alertmanager.url=http://HOST:9093"}}
	}
	var status struct {
		Config struct {
			Original string `json:"original"`
		} `json:"config"`
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return []Finding{{"Alertmanager", Failed, fmt.Sprintf("%s is no Alertmanager: %v.", o.AlertmanagerURL, err), "--alertmanager.url=http://HOST:9093"}}
	}
	c, err := parseConfig(status.Config.Original)
	if err != nil {
		return []Finding{{"route", NotAsked, fmt.Sprintf("Alertmanager's configuration cannot be read: %v.", err), ""}}
	}
	trigger := map[string]string{"alertname": exampleTrigger, "culprit": "trigger", "severity": "none", "kind": "hang"}
	verdict := map[string]string{"alertname": "CulpritFound", "culprit": "verdict", "severity": "critical"}
	for name, value := range o.labels {
		trigger[name] = value
		if _, own := verdict[name]; !own {
			verdict[name] = value
		}
	}
	findings := []Finding{
		ok("Alertmanager", "Alertmanager answers at %s.", o.AlertmanagerURL),
		c.follow("triggers", trigger, true, "add the route and the receiver culprit-analyzer of deploy/alertmanager/alertmanager.yml"),
		c.follow("verdicts", verdict, false, "add the route for culprit=\"verdict\" of deploy/alertmanager/alertmanager.yml, to a receiver that pages"),
	}
	for _, name := range c.Route.receivers(trigger) {
		if len(c.kinds(name)) > 0 && slices.Contains(c.Route.receivers(verdict), name) {
			findings = append(findings, Finding{
				"route", Failed, fmt.Sprintf("Triggers and verdicts both go to the receiver %s: either people get triggers, or nobody gets verdicts.", name),
				"route culprit=\"trigger\" to the analyzer alone, as deploy/alertmanager/alertmanager.yml does",
			})
		}
	}
	return findings
}

// follow tells where alerts go. Addresses are hidden in the configuration, so that a webhook is the analyzer's is not certain.
func (c *config) follow(what string, labels map[string]string, webhook bool, do string) Finding {
	var silent []string
	for _, name := range c.Route.receivers(labels) {
		kinds := c.kinds(name)
		if slices.Contains(kinds, "webhook_configs") || !webhook && len(kinds) > 0 {
			return ok("route", "Alertmanager sends %s to the receiver %s (%s).", what, name, strings.Join(kinds, ", "))
		}
		silent = append(silent, name)
	}
	lacks := "notifies nobody"
	if webhook {
		lacks = "has no webhook"
	}
	return Finding{"route", Failed, fmt.Sprintf("Alertmanager sends %s to the receiver %s, which %s.", what, cmp.Or(strings.Join(silent, ", "), "of no name"), lacks), do}
}
