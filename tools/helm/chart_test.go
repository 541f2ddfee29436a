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
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
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
	"v1 Service":        func() any { return new(core.Service) },
	"v1 Secret":         func() any { return new(core.Secret) },
	"v1 ServiceAccount": func() any { return new(core.ServiceAccount) },
	"rbac.authorization.k8s.io/v1 RoleBinding":            func() any { return new(rbac.RoleBinding) },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":     func() any { return new(rbac.ClusterRoleBinding) },
	"security.openshift.io/v1 SecurityContextConstraints": func() any { return new(map[string]any) }, // OpenShift's types are in no module of this one.
	"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
	"networking.k8s.io/v1 Ingress":            func() any { return new(networking.Ingress) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"batch/v1 Job":                            func() any { return new(batch.Job) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	// VictoriaMetrics' operator takes what is used here by the same names; its own types cannot be imported alone.
	"operator.victoriametrics.com/v1beta1 VMPodScrape":     func() any { return new(monitoring.PodMonitor) },
	"operator.victoriametrics.com/v1beta1 VMServiceScrape": func() any { return new(monitoring.ServiceMonitor) },
	"operator.victoriametrics.com/v1beta1 VMRule":          func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1alpha1 ScrapeConfig":          func() any { return new(monitoringalpha.ScrapeConfig) },
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

// stack are the objects that kube-prometheus-stack makes, as far as the chart looks at them.
var stack = []string{
	"{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: kps-prometheus, namespace: monitoring}, spec: {podMonitorSelector: {matchLabels: {release: kps}}, routePrefix: /}}",
	"{apiVersion: monitoring.coreos.com/v1, kind: Alertmanager, metadata: {name: kps-alertmanager, namespace: monitoring}, spec: {replicas: 2, routePrefix: /}}",
}

// cluster answers Helm's look-ups from objects.
type cluster struct{ client dynamic.Interface }

func newCluster(t *testing.T, objects []string) cluster {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range []string{"Prometheus", "Alertmanager"} {
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: kind})
		lists[resource] = kind + "List"
	}
	lists[schema.GroupVersionResource{Version: "v1", Resource: "secrets"}] = "SecretList"
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	for _, text := range objects {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if _, err := client.Resource(resource).Namespace(o.GetNamespace()).Create(t.Context(), &o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return cluster{client}
}

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	return c.client.Resource(resource), true, nil
}

// try renders values, by the templates' files, in a cluster with objects; nil: where Helm cannot look into a cluster.
func try(t *testing.T, given map[string]any, objects []string) (map[string]string, error) {
	t.Helper()
	c := load(t)
	capabilities := chartutil.DefaultCapabilities.Copy()
	if objects != nil {
		capabilities.APIVersions = append(capabilities.APIVersions, "monitoring.coreos.com/v1/Prometheus", "monitoring.coreos.com/v1/Alertmanager")
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "culprit", Namespace: "culprit", IsInstall: true}, capabilities)
	if err != nil {
		t.Fatal(err)
	}
	return engine.RenderWithClientProvider(c, all, newCluster(t, objects))
}

// rendered gives what the templates make of a site's values in a cluster with kube-prometheus-stack, by their files.
func rendered(t *testing.T, given map[string]any) map[string]string {
	t.Helper()
	files, err := try(t, given, stack)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// parsed are values as a file has them.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	given, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return given
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

// sites are those of deploy/charts/culprit/ci.
var sites = []string{"prometheus-operator", "victoria-metrics", "annotations", "none", "openshift"}

// TestSites renders the chart for each kind of site.
func TestSites(t *testing.T) {
	for _, site := range sites {
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
	for _, name := range []string{"kubernetes/culprit-exporter.yaml", "kubernetes/mutating-admission-policy.yaml", "prometheus/scrapeconfig.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", name))
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
		for _, g := range want.Groups {
			for i := range g.Rules {
				if g.Rules[i].Alert != "" { // The routes of an AlertmanagerConfig look for it.
					g.Rules[i].Labels["namespace"] = "culprit"
				}
			}
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
			v := map[string]any{"site": site, "prometheusURL": "http://p", "alertmanagerURLs": []any{"http://a"}, "rules": map[string]any{"enabled": site != "none", "sources": sources}}
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
}

const (
	noPrometheus   = "prometheusURL is not set, and this cluster shows no Prometheus object"
	noAlertmanager = "alertmanagerURLs is not set, and this cluster shows no Alertmanager object"
)

// TestMistakes has values that cannot work fail with the value that mends them.
func TestMistakes(t *testing.T) {
	second := strings.NewReplacer("kps-", "second-", "namespace: monitoring", "namespace: team").Replace
	for _, c := range []struct {
		values  string
		objects []string
		want    string
	}{
		{"{}", nil, noPrometheus},
		{"{}", []string{}, noPrometheus},
		{"{}", stack[:1], noAlertmanager},
		{"site: victoria-metrics", stack, noPrometheus},
		{"{prometheusURL: 'http://p:9090'}", nil, noAlertmanager},
		{"{}", append(stack[:2:2], second(stack[0])), "prometheusURL is not set, and there are 2: choose by --set prometheusURL, from http://prometheus-operated.monitoring:9090 or http://prometheus-operated.team:9090"},
		{"{}", append(stack[:2:2], second(stack[1])), "alertmanagerURLs is not set, and there are 2"},
		{"analyzer: {ingress: {enabled: true}}", stack, "analyzer.ingress.host is not set"},
		{"{exporter: {hostNetwork: false}, rules: {sources: [dcgm-exporter]}}", stack, "rules.sources"},
		{"{exporter: {port: 9851}, rules: {sources: [dcgm-exporter]}}", stack, "rules.sources"},
	} {
		if _, err := try(t, parsed(t, c.values), c.objects); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.values, err, c.want)
		}
	}
}

// TestFound has the chart find out what it was not told.
func TestFound(t *testing.T) {
	secure := strings.NewReplacer("routePrefix: /", "routePrefix: /am, web: {tlsConfig: {}}", "replicas: 2, ", "").Replace
	for _, c := range []struct {
		values     string
		objects    []string
		has, lacks []string
	}{
		{"{}", stack, []string{
			"--prometheus.url=http://prometheus-operated.monitoring:9090\n", "--alertmanager.url=http://alertmanager-kps-alertmanager-0.alertmanager-operated.monitoring:9093\n",
			"--alertmanager.url=http://alertmanager-kps-alertmanager-1.alertmanager-operated.monitoring:9093\n", "release: kps\n",
			"--web.external-url=http://localhost:9851\n", "--web.external-command=kubectl --namespace culprit port-forward pod/$(POD_NAME) 9851\n",
		}, nil},
		{"{}", []string{stack[0], secure(stack[1])}, []string{"--alertmanager.url=https://alertmanager-kps-alertmanager-0.alertmanager-operated.monitoring:9093/am\n"}, []string{"alertmanager-1."}},
		{
			"{prometheusURL: 'http://p', alertmanagerURLs: ['http://a', 'http://b'], analyzer: {externalURL: 'https://c'}}", nil,
			[]string{"--prometheus.url=http://p\n", "--alertmanager.url=http://a\n", "--alertmanager.url=http://b\n", "--web.external-url=https://c\n", "release: kube-prometheus-stack\n"},
			[]string{"external-command"},
		},
		{"{monitorLabels: {team: a}, analyzer: {ingress: {enabled: true, host: h}}}", stack, []string{"team: a\n", "--web.external-url=http://h\n"}, []string{"release: k", "external-command"}},
		{"{analyzer: {ingress: {enabled: true, host: h, tlsSecretName: s}}}", stack, []string{"--web.external-url=https://h\n"}, nil},
	} {
		files, err := try(t, parsed(t, c.values), c.objects)
		if err != nil {
			t.Errorf("%s: %v", c.values, err)
			continue
		}
		all := files["culprit/templates/analyzer.yaml"] + files["culprit/templates/scrape.yaml"]
		for _, words := range c.has {
			if !strings.Contains(all, words) {
				t.Errorf("%s: no %q in %s", c.values, words, all)
			}
		}
		for _, words := range c.lacks {
			if strings.Contains(all, words) {
				t.Errorf("%s: %q in %s", c.values, words, all)
			}
		}
	}
}

// TestValues has mistakes in values refused.
func TestValues(t *testing.T) {
	c := load(t)
	for _, text := range []string{"site: grafana", "sight: none", "analyzer: {replicas: 3}", "scrapeInterval: 61s", "prometheusURL: prometheus:9090", "exporter: {nodeSelectors: {}}", "rules: {sources: [dcgm]}", "rules: {sources: [dcgm-exporter, dcgm-exporter]}", "alertmanagerURLs: [alertmanager:9093]"} {
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
		{"{}", []string{"--alertmanager.url=http://", "--analyzer.url=http://culprit-analyzer.culprit:9851", "2. Jobs: mount", "4. Alertmanager: send", "NOBODY IS PAGED until"}, nil},
		{"analyzer: {enabled: false}", []string{"--alertmanager.url="}, []string{"--analyzer.url", "4. Alertmanager"}},
		{"injection: {enabled: true}", []string{"2. Jobs: label"}, []string{"2. Jobs: mount"}},
		{"alertmanagerConfig: {enabled: true}", []string{"NOBODY IS PAGED: alertmanagerConfig.pager is empty"}, []string{"4. Alertmanager"}},
		{"alertmanagerConfig: {enabled: true, pager: {webhookConfigs: [{url: 'http://pager'}]}}", nil, []string{"4. ", "NOBODY"}},
	} {
		notes := rendered(t, parsed(t, c.values))["culprit/templates/NOTES.txt"]
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
