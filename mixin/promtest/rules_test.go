// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

func TestRulesNameOnlyDocumentedSeries(t *testing.T) {
	names := catalogue(t)
	for _, rule := range rules(t) {
		t.Run(rule.Record+rule.Alert, func(t *testing.T) {
			expr, err := Parse(rule.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, what := range Undocumented(expr, names) {
				t.Errorf("%s is not in docs/metrics.md and no rule records it", what)
			}
		})
	}
}

func TestRecordsAreNamedByLevelMetricAndOperations(t *testing.T) {
	form := regexp.MustCompile(`^job_id:[a-z][a-z0-9_]*[a-z0-9]:[a-z][a-z0-9_]*$`)
	for _, rule := range rules(t) {
		if rule.Record != "" && !form.MatchString(rule.Record) {
			t.Errorf("record %s is not of the form level:metric:operations", rule.Record)
		}
	}
}

// TestRulesCompareNoClocks: ages are reckoned on the host that they are of. Against Prometheus's clock, a host whose clock is ahead would
// mute rules for as long as that.
func TestRulesCompareNoClocks(t *testing.T) {
	for _, rule := range rules(t) {
		expr, err := Parse(rule.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if call, ok := node.(*parser.Call); ok && (call.Func.Name == "time" || call.Func.Name == "timestamp") {
				t.Errorf("%s%s asks for %s()", rule.Record, rule.Alert, call.Func.Name)
			}
			return nil
		})
	}
}

func TestRecordsAreUsed(t *testing.T) {
	used := map[string]bool{}
	note := func(text string) {
		expr, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				used[selector.Name] = true
			}
			return nil
		})
	}
	for _, rule := range rules(t) {
		note(rule.Expr)
	}
	for _, b := range boards(t) {
		for _, panel := range b.allPanels() {
			for _, target := range panel.Targets {
				note(target.Expr)
			}
		}
	}
	for _, rule := range rules(t) {
		if rule.Record != "" && !used[rule.Record] {
			t.Errorf("record %s is used by no rule and no dashboard", rule.Record)
		}
	}
}

// TestGroupsFitMimir: Mimir's ruler refuses a group of more rules than max-rules-per-rule-group, by default.
func TestGroupsFitMimir(t *testing.T) {
	const most = 20
	for _, path := range files(t, "rules/*.yaml") {
		var file struct {
			Groups []struct {
				Name  string      `yaml:"name"`
				Rules []yaml.Node `yaml:"rules"`
			} `yaml:"groups"`
		}
		if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, g := range file.Groups {
			if len(g.Rules) > most {
				t.Errorf("%s: group %s has %d rules", path, g.Name, len(g.Rules))
			}
		}
	}
}

func TestAlertsAreComplete(t *testing.T) {
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			if !strings.HasPrefix(rule.Alert, "Culprit") {
				t.Error("the name does not begin with Culprit")
			}
			for _, name := range []string{"summary", "description", "runbook_url"} {
				if rule.Annotations[name] == "" {
					t.Errorf("annotation %s is missing", name)
				}
			}
			if strings.Contains(rule.Annotations["summary"], "{{") {
				t.Error("the summary is not a fixed sentence")
			}
			if !strings.HasSuffix(rule.Annotations["runbook_url"], "/docs/runbooks/"+rule.Alert+".md") {
				t.Errorf("runbook_url is %q", rule.Annotations["runbook_url"])
			}
			severity := map[string]map[string]bool{
				"trigger": {"none": true},    // Inhibition by severity, as many sites have it, must not hold triggers back.
				"ticket":  {"warning": true}, // Whoever is on call is not woken up.
				"health":  {"critical": true, "warning": true, "info": true},
			}[rule.Labels["culprit"]]
			if severity == nil {
				t.Errorf("label culprit is %q", rule.Labels["culprit"])
			} else if !severity[rule.Labels["severity"]] {
				t.Errorf("label severity is %q", rule.Labels["severity"])
			}
			if kind := rule.Labels["kind"]; kinds[kind] != (rule.Labels["culprit"] == "trigger") {
				t.Errorf("label kind is %q", kind)
			}
		})
	}
}

// unitTests is what of promtool's test files matters here.
type unitTests struct {
	RuleFiles      []string `yaml:"rule_files"`
	GroupEvalOrder []string `yaml:"group_eval_order"`
	Tests          []struct {
		Name          string `yaml:"name"`
		AlertRuleTest []struct {
			Alertname string `yaml:"alertname"`
			ExpAlerts []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

func TestEveryAlertIsTestedBothWays(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, path := range files(t, "rules/tests/*.yaml") {
		var file unitTests
		if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, test := range file.Tests {
			if test.Name == "" {
				t.Errorf("%s: a test without a name", path)
			}
			for _, check := range test.AlertRuleTest {
				if len(check.ExpAlerts) > 0 {
					fires[check.Alertname] = true
				} else {
					silent[check.Alertname] = true
				}
			}
		}
	}
	for _, rule := range alerts(t) {
		if !fires[rule.Alert] {
			t.Errorf("no test sees %s fire", rule.Alert)
		}
		if !silent[rule.Alert] {
			t.Errorf("no test sees %s stay silent", rule.Alert)
		}
		delete(fires, rule.Alert)
		delete(silent, rule.Alert)
	}
	// promtool finds every alert silent that does not exist.
	for name := range silent {
		t.Errorf("a test waits for silence of %s, which no rule makes", name)
	}
}

// Any target that is scraped can expose a series of any name. So every rule and every panel says whose it reads: those of our exporters, or
// what the rules record, which has no target's labels.
func TestOnlyOurSeriesAreRead(t *testing.T) {
	looked := 0
	check := func(where, text string) {
		expr, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			want, ours := "", strings.HasPrefix(selector.Name, "culprit_nccl_") || strings.HasPrefix(selector.Name, "culprit_host_thread_")
			switch {
			case ours:
				want = "culprit-exporter"
			case !strings.HasPrefix(selector.Name, "job_id:"):
				return nil
			}
			looked++
			if !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool {
				return m.Name == "job" && m.Type == labels.MatchEqual && m.Value == want
			}) {
				t.Errorf("%s: %s reads anybody's series, want job=%q", where, selector, want)
			}
			return nil
		})
	}
	for _, rule := range rules(t) {
		check(rule.Record+rule.Alert, rule.Expr)
	}
	for _, b := range boards(t) {
		for _, p := range b.allPanels() {
			for _, target := range p.Targets {
				check(b.file+", "+p.Title, target.Expr)
			}
		}
	}
	if looked < 200 {
		t.Errorf("only %d selectors were looked at", looked)
	}
}
