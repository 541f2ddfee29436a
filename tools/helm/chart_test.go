// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package helm tests the chart in deploy/charts with Helm's own engine, and what it renders with the types of those who define them.
package helm

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	monitoringalpha "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	admission "k8s.io/api/admissionregistration/v1"
	admissionbeta "k8s.io/api/admissionregistration/v1beta1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/charts/culprit"

var update = flag.Bool("update", false, "Write the golden files.")

// types are what objects are decoded into, by their kind; a field that the type has not got is an error.
var types = map[string]func() any{
	"apps/v1 DaemonSet":   func() any { return new(apps.DaemonSet) },
	"apps/v1 StatefulSet": func() any { return new(apps.StatefulSet) },
	"apps/v1 Deployment":  func() any { return new(apps.Deployment) },
	"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration":        func() any { return new(admission.MutatingWebhookConfiguration) },
	"admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy":        func() any { return new(admissionbeta.MutatingAdmissionPolicy) },
	"admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicyBinding": func() any { return new(admissionbeta.MutatingAdmissionPolicyBinding) },
	"v1 Service":                              func() any { return new(core.Service) },
	"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
	"networking.k8s.io/v1 Ingress":            func() any { return new(networking.Ingress) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	// VictoriaMetrics' operator takes what is used here by the same names; its own types cannot be imported alone.
	"operator.victoriametrics.com/v1beta1 VMPodScrape":     func() any { return new(monitoring.PodMonitor) },
	"operator.victoriametrics.com/v1beta1 VMServiceScrape": func() any { return new(monitoring.ServiceMonitor) },
	"operator.victoriametrics.com/v1beta1 VMRule":          func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1alpha1 AlertmanagerConfig":    func() any { return new(monitoringalpha.AlertmanagerConfig) },
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func values(t *testing.T, name string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValuesFile(filepath.Join(folder, "ci", name+"-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rendered gives what the templates make of a site's values, by their files.
func rendered(t *testing.T, given map[string]any) map[string]string {
	t.Helper()
	c := load(t)
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "culprit", Namespace: "culprit", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// render gives the objects of a site, one text each, in the order of the templates.
func render(t *testing.T, given map[string]any) []string {
	t.Helper()
	files := rendered(t, given)
	var names []string
	for name := range files {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var objects []string
	for _, name := range names {
		for _, object := range regexp.MustCompile(`(?m)^---$`).Split(files[name], -1) {
			if object = strings.TrimSpace(object); object != "" {
				objects = append(objects, object+"\n")
			}
		}
	}
	return objects
}

// head is what is read of every object.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// TestSites renders the chart for each kind of site.
func TestSites(t *testing.T) {
	for _, site := range []string{"prometheus-operator", "victoria-metrics", "annotations", "none"} {
		t.Run(site, func(t *testing.T) {
			var golden strings.Builder
			seen := map[string]bool{}
			for _, object := range render(t, values(t, site)) {
				var h head
				if err := yaml.Unmarshal([]byte(object), &h); err != nil {
					t.Fatalf("%v:\n%s", err, object)
				}
				kind := h.APIVersion + " " + h.Kind
				if seen[h.Kind+h.Metadata.Name] {
					t.Errorf("two objects are %s %s", kind, h.Metadata.Name)
				}
				seen[h.Kind+h.Metadata.Name] = true
				check(t, kind, object)
				golden.WriteString("---\n" + withoutFiles(h, object))
			}
			file := filepath.Join(folder, "testdata", site+".golden.yaml")
			if *update {
				if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if golden.String() != string(want) {
				t.Errorf("what is rendered differs from %s; look at `go test -C tools/helm -update` and git diff", file)
			}
		})
	}
}

// check decodes an object into its type, which must have all its fields.
func check(t *testing.T, kind, object string) {
	t.Helper()
	made := types[kind]
	if made == nil {
		t.Errorf("%s has no type to check it by", kind)
		return
	}
	if err := yaml.UnmarshalStrict([]byte(object), made()); err != nil {
		t.Errorf("%s: %v\n%s", kind, err, object)
	}
}

// TestManifests checks the objects that need no chart. Kyverno's kinds have no types here.
func TestManifests(t *testing.T) {
	for _, name := range []string{"culprit-exporter.yaml", "mutating-admission-policy.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range regexp.MustCompile(`(?m)^---$`).Split(string(text), -1) {
			var h head
			if err := yaml.Unmarshal([]byte(object), &h); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			check(t, h.APIVersion+" "+h.Kind, object)
		}
	}
}

// withoutFiles leaves out rules and dashboards, which are committed elsewhere.
func withoutFiles(h head, object string) string {
	if strings.HasSuffix(h.Kind, "Rule") || strings.Contains(h.Metadata.Name, "-dashboard-") || strings.Contains(h.Metadata.Name, "-rules-") {
		i := strings.Index(object, "\nspec:")
		if i < 0 {
			i = strings.Index(object, "\ndata:")
		}
		return object[:i+1] + "# …\n"
	}
	return object
}

// TestRulesArrive has the rules unchanged behind Helm's templates, whose braces are those of Prometheus' templates, too.
func TestRulesArrive(t *testing.T) {
	for _, object := range render(t, values(t, "prometheus-operator")) {
		var rule monitoring.PrometheusRule
		if err := yaml.Unmarshal([]byte(object), &rule); err != nil || rule.Kind != "PrometheusRule" {
			continue
		}
		file := rule.Name + ".yaml"
		if source, ok := map[string]string{"culprit-dcgm-exporter": "dcgm-exporter", "culprit-node-exporter": "node_exporter"}[rule.Name]; ok {
			file = filepath.Join("sources", source+".yaml")
		}
		shipped, err := os.ReadFile(filepath.Join("../../rules", file))
		if err != nil {
			t.Fatal(err)
		}
		var want monitoring.PrometheusRuleSpec
		if err := yaml.UnmarshalStrict(shipped, &want); err != nil {
			t.Fatal(err)
		}
		got, err := yaml.Marshal(rule.Spec)
		if err != nil {
			t.Fatal(err)
		}
		expected, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(expected) || len(want.Groups) == 0 {
			t.Errorf("%s has %d groups, and differs from the file", rule.Name, len(rule.Spec.Groups))
		}
	}
}

// TestSources: each kind of site gets the rules of the exporters that are named, and no others, and the exporter leaves them what they have.
func TestSources(t *testing.T) {
	const dcgm, node = "dcgm-exporter", "node_exporter"
	rules := map[string]string{"prometheus-operator": "PrometheusRule culprit-%s", "victoria-metrics": "VMRule culprit-%s", "annotations": "ConfigMap culprit-rules-%s", "none": ""}
	for site, named := range rules {
		for _, sources := range [][]any{nil, {dcgm}, {node}, {node, dcgm}} {
			v := map[string]any{"site": site, "rules": map[string]any{"enabled": site != "none", "sources": sources}}
			kinds := map[string]bool{}
			daemons := ""
			for _, object := range render(t, v) {
				var h head
				if err := yaml.Unmarshal([]byte(object), &h); err != nil {
					t.Fatal(err)
				}
				kinds[h.Kind+" "+h.Metadata.Name] = true
				if h.Kind == "DaemonSet" {
					daemons = object
				}
			}
			for source, x := range map[string]struct{ name, flag string }{dcgm: {"dcgm-exporter", "--no-collector.nvml"}, node: {"node-exporter", "--no-collector.host"}} {
				want := slices.Contains(sources, any(source))
				if strings.Contains(daemons, x.flag) != want {
					t.Errorf("%s with %v: %s is given: %v", site, sources, x.flag, !want)
				}
				if named != "" && kinds[fmt.Sprintf(named, x.name)] != want {
					t.Errorf("%s with %v: rules of %s: %v; there are %v", site, sources, source, !want, kinds)
				}
			}
		}
	}
	for _, text := range []string{"exporter: {hostNetwork: false}", "exporter: {port: 9851}"} {
		v, err := chartutil.ReadValues([]byte(text + "\nrules: {sources: [dcgm-exporter]}"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := chartutil.ToRenderValues(load(t), v, chartutil.ReleaseOptions{Name: "culprit", Namespace: "culprit"}, chartutil.DefaultCapabilities)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Render(load(t), all); err == nil || !strings.Contains(err.Error(), "rules.sources") {
			t.Errorf("%s: the rules cannot find the node, and nobody says so: %v", text, err)
		}
	}
}

// TestValues has mistakes in values refused.
func TestValues(t *testing.T) {
	c := load(t)
	for _, text := range []string{"site: grafana", "sight: none", "analyzer: {replicas: 3}", "scrapeInterval: 30s", "prometheusURL: prometheus:9090", "exporter: {nodeSelectors: {}}", "rules: {sources: [dcgm]}", "rules: {sources: [dcgm-exporter, dcgm-exporter]}", "alertmanagerURLs: null"} {
		v, err := chartutil.ReadValues([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "culprit", Namespace: "culprit"}, nil); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestNotes has the doctor's command and what is left to do fit the values.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		values     string
		has, lacks []string
	}{
		{"{}", []string{"--alertmanager.url=http://", "--analyzer.url=http://culprit-analyzer.culprit:9851", "2. Jobs: mount", "4. Alertmanager: send"}, nil},
		{"analyzer: {enabled: false}", []string{"--alertmanager.url="}, []string{"--analyzer.url", "4. Alertmanager"}},
		{"injection: {enabled: true}", []string{"2. Jobs: label"}, []string{"2. Jobs: mount"}},
		{"alertmanagerConfig: {enabled: true}", []string{"4. Pages: alertmanagerConfig.pager names no receiver"}, []string{"4. Alertmanager"}},
		{"alertmanagerConfig: {enabled: true, pager: {webhookConfigs: [{url: 'http://pager'}]}}", nil, []string{"4. "}},
	} {
		given, err := chartutil.ReadValues([]byte(c.values))
		if err != nil {
			t.Fatal(err)
		}
		notes := rendered(t, given)["culprit/templates/NOTES.txt"]
		for _, words := range c.has {
			if !strings.Contains(notes, words) {
				t.Errorf("%s: no %q in %s", c.values, words, notes)
			}
		}
		for _, words := range c.lacks {
			if strings.Contains(notes, words) {
				t.Errorf("%s: %q in %s", c.values, words, notes)
			}
		}
	}
}

func TestLint(t *testing.T) {
	for _, m := range lint.All(folder, nil, "culprit", true).Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}
