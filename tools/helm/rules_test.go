// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-jsonnet"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const mixin = "../../mixin/"

// newVM renders what mixin/ has.
func newVM() *jsonnet.VM {
	vm := jsonnet.MakeVM()
	vm.Importer(&jsonnet.FileImporter{JPaths: []string{mixin}})
	return vm
}

// mixinFiles are the files of rules, those for rarer scrapes among them, which git does not keep.
var mixinFiles = sync.OnceValues(func() (map[string]string, error) {
	vm := newVM()
	vm.StringOutput = true
	return vm.EvaluateFileMulti(mixin + "lib/rules.jsonnet")
})

// withAllRules gives the chart what a release has.
func withAllRules(t *testing.T, c *chart.Chart) map[string]string {
	t.Helper()
	files, err := mixinFiles()
	if err != nil {
		t.Fatal(err)
	}
	c.Files = slices.DeleteFunc(c.Files, func(f *chart.File) bool { return strings.HasPrefix(f.Name, "files/rules/") })
	for name, text := range files {
		c.Files = append(c.Files, &chart.File{Name: "files/rules/" + name, Data: []byte(text)})
	}
	return files
}

// groups gives the groups of rules that the chart renders, by their names.
func groups(t *testing.T, c *chart.Chart, given map[string]any) map[string]monitoring.RuleGroup {
	t.Helper()
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "culprit", Namespace: "culprit", IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]monitoring.RuleGroup{}
	for object := range strings.SplitSeq(rendered["culprit/templates/rules.yaml"], "\n---\n") {
		var rule monitoring.PrometheusRule
		if err := yaml.UnmarshalStrict([]byte(object), &rule); err != nil {
			t.Fatalf("%v:\n%s", err, object)
		}
		for _, g := range rule.Spec.Groups {
			out[g.Name] = g
		}
	}
	return out
}

// TestRulesFollowTheScrapeInterval has the rules for the interval in the chart.
func TestRulesFollowTheScrapeInterval(t *testing.T) {
	for interval, folder := range map[string]string{"500ms": "", "5s": "", "10s": "scrape-15s/", "15s": "scrape-15s/", "30s": "scrape-30s/", "1m": "scrape-60s/"} {
		c := load(t)
		var want monitoring.PrometheusRuleSpec
		for name, text := range withAllRules(t, c) {
			if dir, _ := path.Split(name); dir == folder {
				var file monitoring.PrometheusRuleSpec
				if err := yaml.UnmarshalStrict([]byte(text), &file); err != nil {
					t.Fatal(err)
				}
				want.Groups = append(want.Groups, file.Groups...)
			}
		}
		wantGroups(t, groups(t, c, parsed(t, site+"scrapeInterval: "+interval)), want)
	}
}

// TestRulesFollowJobLabels has what the mixin renders for further labels of jobs.
func TestRulesFollowJobLabels(t *testing.T) {
	text, err := newVM().EvaluateAnonymousSnippet("labels.jsonnet", `
		((import 'mixin.libsonnet') + {_config+:: {jobLabels: ['region', 'cluster', 'job_id', 'owner']}}).prometheusAlerts`)
	if err != nil {
		t.Fatal(err)
	}
	var want monitoring.PrometheusRuleSpec
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	wantGroups(t, groups(t, load(t), parsed(t, site+"rules: {jobLabels: [region, cluster]}")), want)
}

const site = "site: prometheus-operator\nprometheusURL: http://p\nalertmanagerURLs: [http://a]\n"

func wantGroups(t *testing.T, got map[string]monitoring.RuleGroup, want monitoring.PrometheusRuleSpec) {
	t.Helper()
	if len(want.Groups) == 0 || len(want.Groups) != len(got) {
		t.Fatalf("%d groups, want %d", len(got), len(want.Groups))
	}
	for _, g := range want.Groups {
		if a, b := canonical(t, got[g.Name]), canonical(t, g); a != b {
			t.Errorf("group %s:\n%s\nwant\n%s", g.Name, a, b)
		}
	}
}

// canonical gives a group as text; expressions of several lines end with a newline in a file.
func canonical(t *testing.T, g monitoring.RuleGroup) string {
	t.Helper()
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `\n"`, `"`)
}

// TestRulesOfAnotherInterval: a chart of a clone that has not rendered them refuses an interval whose rules it lacks.
func TestRulesOfAnotherInterval(t *testing.T) {
	c := load(t)
	c.Files = slices.DeleteFunc(c.Files, func(f *chart.File) bool { return strings.HasPrefix(f.Name, "files/rules/scrape-") })
	given := parsed(t, "site: none\nscrapeInterval: 15s\nprometheusURL: http://p\nalertmanagerURLs: [http://a]\n")
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "culprit", Namespace: "culprit"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Render(c, all); err == nil || !strings.Contains(err.Error(), "mixin/generate.sh") {
		t.Errorf("%v, want what renders them", err)
	}
}

// TestThanosRuler gives each group the strategy, and the analyzer the labels of jobs.
func TestThanosRuler(t *testing.T) {
	c := load(t)
	given := parsed(t, site+"rules: {partialResponseStrategy: warn, jobLabels: [cluster]}\n")
	for name, g := range groups(t, c, given) {
		if g.PartialResponseStrategy != "warn" {
			t.Errorf("group %s has the strategy %q", name, g.PartialResponseStrategy)
		}
	}
	analyzer := rendered(t, given)["culprit/templates/analyzer.yaml"]
	for _, want := range []string{"labels:\n      job:\n      - cluster\n      - job_id\n      - owner\n"} {
		if !strings.Contains(analyzer, want) {
			t.Errorf("the analyzer's configuration lacks %q:\n%s", want, analyzer)
		}
	}
}
