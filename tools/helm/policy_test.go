// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi/openapitest"
	"sigs.k8s.io/yaml"
)

// converters know Kubernetes' published OpenAPI schemas, which client-go carries for tests.
func converters(t *testing.T) patch.TypeConverterManager {
	t.Helper()
	m := patch.NewTypeConverterManager(nil, openapitest.NewEmbeddedFileClient())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go m.Run(ctx)
	// The schemas are read in the background.
	for deadline := time.Now().Add(time.Minute); m.GetTypeConverter(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no schema of pods")
		}
	}
	return m
}

// TestSchemas has every object of Kubernetes' own kinds fit the published schema.
func TestSchemas(t *testing.T) {
	m := converters(t)
	for _, site := range sites {
		checked := 0
		for _, object := range render(t, values(t, site)) {
			var o unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(object), &o.Object); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(o.GetAPIVersion(), "monitoring.coreos.com") || strings.Contains(o.GetAPIVersion(), "victoriametrics") || strings.Contains(o.GetAPIVersion(), "openshift") {
				continue
			}
			converter := m.GetTypeConverter(o.GroupVersionKind())
			if converter == nil {
				if kind := o.GetKind(); !slices.Contains([]string{"Ingress", "NetworkPolicy", "PodDisruptionBudget", "MutatingWebhookConfiguration", "ClusterRoleBinding", "RoleBinding"}, kind) {
					t.Errorf("%s: no schema of %s", site, o.GroupVersionKind())
				}
				continue // client-go does not carry the schemas of these groups.
			}
			if _, err := converter.ObjectToTyped(&o); err != nil {
				t.Errorf("%s: %s %s: %v", site, o.GetKind(), o.GetName(), err)
			}
			checked++
		}
		if checked == 0 {
			t.Errorf("%s: nothing was checked", site)
		}
	}
}

// evaluator is the shipped policy, as the API server compiles it.
type evaluator struct {
	compiler *plugincel.CompositedCompiler
	matcher  matchconditions.Matcher
	patchers []patch.Patcher
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compile(t *testing.T) *evaluator {
	t.Helper()
	first, _, _ := strings.Cut(readFile(t, "../../deploy/kubernetes/mutating-admission-policy.yaml"), "\n---\n")
	var p admissionv1.MutatingAdmissionPolicy // Of the same fields as v1beta1.
	if err := yaml.Unmarshal([]byte(first), &p); err != nil {
		t.Fatal(err)
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var conditions []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	fail := admissionv1.Fail // A mistake in a condition shall show here.
	out := &evaluator{compiler: compiler, matcher: matchconditions.NewMatcher(
		compiler.CompileCondition(conditions, options, environment.StoredExpressions), &fail, "policy", "mutate", p.Name)}
	options.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		compiled := compiler.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, options, environment.StoredExpressions)
		if err := compiled.CompilationErrors(); len(err) > 0 {
			t.Fatal(err)
		}
		out.patchers = append(out.patchers, patch.NewApplyConfigurationPatcher(compiled))
	}
	return out
}

// admit gives the pod as it becomes.
func (p *evaluator) admit(t *testing.T, m patch.TypeConverterManager, pod *core.Pod) *core.Pod {
	t.Helper()
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pod.SetGroupVersionKind(gvk)
	ctx := p.compiler.CreateContext(t.Context())
	attributes := &admission.VersionedAttributes{
		Attributes:      admission.NewAttributesRecord(pod, nil, gvk, pod.Namespace, pod.Name, gvr, "", admission.Create, &metav1.CreateOptions{}, false, nil),
		VersionedKind:   gvk,
		VersionedObject: admission.NewLazyObject(pod),
	}
	match := p.matcher.Match(ctx, attributes, nil, nil)
	if match.Error != nil {
		t.Fatal(match.Error)
	}
	if !match.Matches {
		return pod
	}
	var object runtime.Object = pod
	for _, patcher := range p.patchers {
		var err error
		if object, err = patcher.Patch(ctx, patch.Request{
			MatchedResource: gvr, VersionedAttributes: attributes, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme),
			Namespace: &core.Namespace{}, TypeConverter: m.GetTypeConverter(gvk),
		}, celconfig.RuntimeCELCostBudget); err != nil {
			t.Fatal(err)
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	var out core.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestMutatingAdmissionPolicy has the API server's own code evaluate the policy.
func TestMutatingAdmissionPolicy(t *testing.T) {
	m, p := converters(t), compile(t)
	gpu := core.ResourceRequirements{Limits: core.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}
	trainer := func(env ...core.EnvVar) *core.Pod {
		return &core.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"},
			Spec: core.PodSpec{
				Containers: []core.Container{{Name: "logs"}, {Name: "trainer", Resources: gpu, Env: env}},
				Volumes:    []core.Volume{{Name: "data"}},
			},
		}
	}
	got := p.admit(t, m, trainer(core.EnvVar{Name: "A", Value: "b"}))
	if len(got.Spec.Volumes) != 3 || len(got.Spec.Containers[0].Env) != 0 || len(got.Spec.Containers[1].VolumeMounts) != 2 || len(got.Spec.Containers[1].Env) != 2 {
		t.Errorf("the pod becomes %+v", got.Spec)
	}
	if again := p.admit(t, m, got); len(again.Spec.Volumes) != 3 || len(again.Spec.Containers[1].Env) != 2 {
		t.Errorf("a second time it becomes %+v", again.Spec)
	}
	mounts := func(volume string, before bool) *core.Pod {
		pod := trainer()
		c := core.Container{Name: "first", VolumeMounts: []core.VolumeMount{{Name: volume, MountPath: "/x"}}}
		if before {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		return pod
	}
	for name, pod := range map[string]*core.Pod{
		"shim's folder":  mounts("culprit-shim", false),
		"traces of all":  mounts("culprit-traces", true),
		"another plugin": trainer(core.EnvVar{Name: "NCCL_PROFILER_PLUGIN", Value: "inspector"}),
		"no GPU":         {ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "web"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "web"}}}},
	} {
		want := len(pod.Spec.Volumes)
		if got := p.admit(t, m, pod); len(got.Spec.Volumes) != want {
			t.Errorf("%s: it becomes %+v", name, got.Spec)
		}
	}
}
