// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	monitoringalpha "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
)

// TestExtras has every value arrive that charts of other exporters have, too.
func TestExtras(t *testing.T) {
	const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
	of := func(values string) string {
		return "{injection: {enabled: true}, exporter: {" + values + "}, analyzer: {" + values + "}}"
	}
	for _, c := range []struct {
		values string
		has    []string // In the text of all objects.
		times  int      // How often each is there at least; 0: once.
	}{
		{"global: {imageRegistry: r.example.org, imagePullSecrets: [a, {name: b}]}", []string{"image: r.example.org/culprit-exporter:", "image: r.example.org/culprit-analyzer:", `- {"name":"a"}`, `- {"name":"b"}`}, 1},
		{"image: {pullSecrets: [c], digests: {analyzer: '" + digest + "'}}", []string{`- {"name":"c"}`, "/culprit-analyzer@" + digest}, 1},
		{"nameOverride: watch", []string{"name: culprit-watch-exporter\n"}, 1},
		{"fullnameOverride: watch", []string{"name: watch-exporter\n", "name: watch-analyzer\n"}, 1},
		{"namespaceOverride: gpu", []string{"namespace: gpu\n", "kubectl --namespace gpu port-forward"}, 1},
		{"commonLabels: {team: infra}", []string{"team: infra\n"}, 8},
		{of("podAnnotations: {a: b}, podLabels: {c: d}"), []string{"a: b\n", "c: d\n"}, 2},
		{of("serviceAccount: {name: mine, annotations: {e: f}}"), []string{"serviceAccountName: mine\n", "e: f\n"}, 2},
		{of("serviceAccount: {create: false}"), []string{"serviceAccountName: default\n"}, 2},
		{of("podSecurityContext: {runAsGroup: 7}, securityContext: {runAsGroup: 8}"), []string{"runAsGroup: 7\n", "runAsGroup: 8\n"}, 2},
		{of("extraEnv: [{name: G, value: h}], extraVolumes: [{name: i, emptyDir: {}}], extraVolumeMounts: [{name: i, mountPath: /i}]"), []string{"- name: G\n", "name: i\n", "mountPath: /i\n"}, 2},
		{of("webConfigSecret: web"), []string{"--web.config.file=/etc/culprit-web/web.yml\n", "secretName: web\n", "tcpSocket:\n"}, 2},
		{of("livenessProbe: {periodSeconds: 21}, readinessProbe: {periodSeconds: 22}"), []string{"periodSeconds: 21\n", "periodSeconds: 22\n"}, 2},
		{of("monitor: {spec: {sampleLimit: 9}, endpoint: {scheme: https, tlsConfig: {insecureSkipVerify: true}, relabelings: [{action: drop}], metricRelabelings: [{action: keep}]}}"), []string{"sampleLimit: 9\n", "scheme: https\n", "- action: drop\n", "- action: keep\n"}, 2},
		{"{analyzer: {priorityClassName: p, topologySpreadConstraints: [{topologyKey: k}], serviceAccount: {automountToken: true}}}", []string{"priorityClassName: p\n", "topologyKey: k\n", "automountServiceAccountToken: true\n"}, 1},
		{"{injection: {enabled: true, nodeSelector: {l: m}, tolerations: [{key: gpu}], priorityClassName: p}}", []string{"l: m\n", "key: gpu\n", "priorityClassName: p\n", "kind: PodDisruptionBudget\n"}, 1},
		{"exporter: {visibleDevices: management.nvidia.com/gpu=all}", []string{"name: NVIDIA_VISIBLE_DEVICES\n              value: management.nvidia.com/gpu=all\n"}, 1},
		{"doctor: {hook: 'post-install,post-upgrade', extraArgs: [--probe], rulesURL: http://vmalert}", []string{"helm.sh/hook: post-install,post-upgrade\n", `- "--probe"`, "--rules.url=http://vmalert\n", "--no-node\n"}, 1},
		{"analyzer: {config: {prometheus: {http_config: {authorization: {credentials_file: /t}}}}, extraVolumes: [{name: i, emptyDir: {}}], extraVolumeMounts: [{name: i, mountPath: /i}]}", []string{"--http.config.file=/etc/culprit-doctor/http.yml\n", "credentials_file: /t\n", "mountPath: /i\n"}, 1},
		{"extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: 'of-{{ .Release.Name }}'}}]", []string{"name: of-culprit\n"}, 1},
		{"{analyzer: {scheme: https}, alertmanagerConfig: {enabled: true, httpConfig: {tlsConfig: {serverName: s}}}}", []string{"url: https://culprit-analyzer-0.", "serverName: s\n", "--web.external-url=https://localhost:9851\n"}, 1},
	} {
		objects := render(t, parsed(t, c.values))
		all := strings.Join(objects, "---\n")
		for _, words := range c.has {
			if n := strings.Count(all, words); n < c.times {
				t.Errorf("%s: %q is there %d times, want %d", c.values, words, n, c.times)
			}
		}
		for _, object := range objects {
			var h head
			if err := yaml.Unmarshal([]byte(object), &h); err != nil {
				t.Fatalf("%s: %v\n%s", c.values, err, object)
			}
			check(t, h.APIVersion+" "+h.Kind, object)
		}
	}
}

// TestOpenShift has pods name no user but in the exporter, whose SecurityContextConstraints allow it, and no host path but there.
func TestOpenShift(t *testing.T) {
	objects := strings.Join(render(t, values(t, "openshift")), "---\n")
	for name, spec := range map[string]core.PodSpec{
		"analyzer": decoded[apps.StatefulSet](t, objects, "StatefulSet").Spec.Template.Spec,
		"webhook":  decoded[apps.Deployment](t, objects, "Deployment").Spec.Template.Spec,
	} {
		if s := spec.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
			t.Errorf("%s: %+v", name, s)
		}
		for _, v := range spec.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s: restricted-v2 refuses the host path %s", name, v.HostPath.Path)
			}
		}
	}
	var allowed struct {
		Users               []string          `json:"users"`
		AllowedCapabilities []core.Capability `json:"allowedCapabilities"`
		Volumes             []string          `json:"volumes"`
	}
	for _, object := range strings.Split(objects, "---\n") {
		if strings.Contains(object, "kind: SecurityContextConstraints") {
			if err := yaml.Unmarshal([]byte(object), &allowed); err != nil {
				t.Fatal(err)
			}
		}
	}
	exporter := decoded[apps.DaemonSet](t, objects, "DaemonSet").Spec.Template.Spec
	if account := "system:serviceaccount:culprit:" + exporter.ServiceAccountName; !slices.Equal(allowed.Users, []string{account}) {
		t.Errorf("the constraints are for %q, not for %s", allowed.Users, account)
	}
	for _, c := range slices.Concat(exporter.InitContainers, exporter.Containers) {
		for _, capability := range c.SecurityContext.Capabilities.Add {
			if !slices.Contains(allowed.AllowedCapabilities, capability) {
				t.Errorf("%s adds %s, which is not allowed", c.Name, capability)
			}
		}
	}
}

// TestAlertmanagerConfig has the routes that deploy/alertmanager has.
func TestAlertmanagerConfig(t *testing.T) {
	var file struct {
		Route struct {
			Routes []struct {
				Receiver string   `json:"receiver"`
				Matchers []string `json:"matchers"`
				GroupBy  []string `json:"group_by"`
			} `json:"routes"`
		} `json:"route"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "../../deploy/alertmanager/alertmanager.yml")), &file); err != nil {
		t.Fatal(err)
	}
	text := rendered(t, parsed(t, "alertmanagerConfig: {enabled: true}"))
	config := decoded[monitoringalpha.AlertmanagerConfig](t, text["culprit/templates/alertmanagerconfig.yaml"], "AlertmanagerConfig")
	got := map[string]string{}
	for _, raw := range config.Spec.Route.Routes {
		var r monitoringalpha.Route
		if err := yaml.Unmarshal(raw.Raw, &r); err != nil {
			t.Fatal(err)
		}
		var matchers []string
		for _, m := range r.Matchers {
			matchers = append(matchers, m.Name+string(m.MatchType)+`"`+m.Value+`"`)
		}
		got[strings.Join(matchers, ", ")] = r.Receiver + " " + strings.Join(r.GroupBy, ",")
	}
	want := map[string]string{}
	for _, r := range file.Route.Routes {
		if r.Receiver == "operators" && !slices.Contains(r.Matchers, `culprit="suspect"`) {
			continue // What is left goes to operators by the route above all.
		}
		group := strings.Join(r.GroupBy, ",")
		if group == "alertname" {
			group = "" // As that route has it.
		}
		want[strings.Join(r.Matchers, ", ")] = r.Receiver + " " + group
	}
	if !maps.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
	if len(config.Spec.InhibitRules) != 1 {
		t.Errorf("inhibit rules %+v", config.Spec.InhibitRules)
	}
	// The operator narrows routes to alerts of the namespace; verdicts have its label by the configuration.
	if !strings.Contains(text["culprit/templates/analyzer.yaml"], "notify:\n      labels:\n        namespace: culprit\n") {
		t.Error("verdicts have no label namespace")
	}
	none := rendered(t, parsed(t, "alertmanagerConfig: {enabled: true, matcherStrategy: None}"))
	if strings.Contains(none["culprit/templates/analyzer.yaml"], "notify:") || strings.Contains(none["culprit/templates/rules.yaml"], "namespace: culprit\n          severity") {
		t.Error("with None alerts have the label, too")
	}
}
