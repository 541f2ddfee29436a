// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// decoded gives the object of a kind that a text has.
func decoded[T any](t *testing.T, text, kind string) T {
	t.Helper()
	var out T
	for _, object := range strings.Split(text, "\n---\n") {
		var h head
		if err := yaml.Unmarshal([]byte(object), &h); err != nil {
			t.Fatalf("%v:\n%s", err, object)
		}
		if h.Kind == kind {
			if err := yaml.UnmarshalStrict([]byte(object), &out); err != nil {
				t.Fatalf("%v:\n%s", err, object)
			}
			return out
		}
	}
	t.Fatalf("no %s in:\n%s", kind, text)
	return out
}

const injection = "culprit/templates/injection.yaml"

// TestInjectionLeavesOut has no namespace asked about whose level of PodSecurity would refuse what the webhook adds.
func TestInjectionLeavesOut(t *testing.T) {
	for _, c := range []struct {
		volumes string
		want    []string // Path, and how the level is compared.
	}{
		{"host", []string{"/inject NotIn"}},
		{"pod", []string{"/inject/pod"}},
		{"mixed", []string{"/inject NotIn", "/inject/pod In"}},
	} {
		text := rendered(t, parsed(t, "injection: {enabled: true, volumes: "+c.volumes+"}"))[injection]
		var got []string
		for _, w := range decoded[admission.MutatingWebhookConfiguration](t, text, "MutatingWebhookConfiguration").Webhooks {
			one := *w.ClientConfig.Service.Path
			for _, e := range w.NamespaceSelector.MatchExpressions {
				if e.Key == api.EnforceLevelLabel && slices.Equal(e.Values, []string{"baseline", "restricted"}) {
					one += " " + string(e.Operator)
				}
			}
			if w.NamespaceSelector.MatchLabels["culprit-inject"] != "enabled" {
				t.Errorf("%s: %s selects by %+v", c.volumes, one, w.NamespaceSelector)
			}
			got = append(got, one)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.volumes, got, c.want)
		}
		if strings.Contains(text, "--shim.image=ghcr.io/culprit-project/culprit-exporter:0.1.0") != (c.volumes != "host") {
			t.Errorf("%s: the webhook has the wrong image:\n%s", c.volumes, text)
		}
	}
}

// TestPodSecurity has PodSecurity's own code judge what analyzer/inject makes of pods.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for level, file := range map[api.Level]string{api.LevelRestricted: "restricted", api.LevelBaseline: "baseline"} {
		text, err := os.ReadFile("../../analyzer/inject/testdata/" + file + ".golden.json")
		if err != nil {
			t.Fatal(err)
		}
		var pod core.Pod
		if err := json.Unmarshal(text, &pod); err != nil {
			t.Fatal(err)
		}
		judge := func() policy.AggregateCheckResult {
			return policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
		}
		if r := judge(); !r.Allowed {
			t.Errorf("%s: %s", file, r.ForbiddenDetail())
		}
		pod.Spec.Volumes[0].VolumeSource = core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/dev/shm/culprit"}}
		if judge().Allowed {
			t.Errorf("%s: a host path is allowed, so that nothing was judged", file)
		}
	}
}

// TestCertificates has one value make the certificate that the API server asks for.
func TestCertificates(t *testing.T) {
	given := parsed(t, "injection: {enabled: true}")
	text := rendered(t, given)[injection]
	secret := decoded[core.Secret](t, text, "Secret")
	config := decoded[admission.MutatingWebhookConfiguration](t, text, "MutatingWebhookConfiguration")
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle) {
		t.Fatal("no certificate of a signer")
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "culprit-inject.culprit.svc", Roots: pool}); err != nil {
		t.Error(err)
	}
	// An upgrade keeps it: running webhooks have it, and the API server trusts its signer.
	kept, err := yaml.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	files, err := try(t, given, append(slices.Clone(stack), string(kept)))
	if err != nil {
		t.Fatal(err)
	}
	again := decoded[core.Secret](t, files[injection], "Secret")
	if string(again.Data["tls.key"]) != string(secret.Data["tls.key"]) ||
		string(decoded[admission.MutatingWebhookConfiguration](t, files[injection], "MutatingWebhookConfiguration").Webhooks[0].ClientConfig.CABundle) != string(secret.Data["ca.crt"]) {
		t.Error("a second rendering makes another certificate")
	}

	text = rendered(t, parsed(t, "injection: {enabled: true, certificate: {source: cert-manager}}"))[injection]
	for _, words := range []string{
		"kind: Issuer\n", "dnsNames: [culprit-inject.culprit.svc]\n", "secretName: culprit-inject-tls\n", "cert-manager.io/inject-ca-from: culprit/culprit-inject\n",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("no %q in %s", words, text)
		}
	}
}
