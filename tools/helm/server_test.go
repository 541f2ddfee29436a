// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build server

package helm

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// server is a real kube-apiserver with a real etcd. There are no controllers, no scheduler and no nodes.
type server struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	config *rest.Config
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// absolute is the path of a file of the repository.
func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func address(t *testing.T) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, _ = net.SplitHostPort(l.Addr().String())
	return host, port
}

// daemon runs a program of bin/ until the test ends; its log is shown when the test fails.
func daemon(t *testing.T, dir string, env []string, program string, args ...string) {
	t.Helper()
	log, err := os.CreateTemp(dir, filepath.Base(program)+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(absolute(t, filepath.Join("bin", program)), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make build test-kubernetes builds it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", program, text[max(0, len(text)-3000):])
		}
	})
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// certificate writes a key and its certificate for 127.0.0.1, signed by itself, and gives the certificate.
func certificate(t *testing.T, dir string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "culprit"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	signed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"tls.crt": signed, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return signed
}

// token is that of a member of system:masters.
const token = "culprit-test"

func startServer(t *testing.T, flags ...string) *server {
	t.Helper()
	dir := t.TempDir()
	certificate(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, clients := address(t)
	_, peers := address(t)
	_, secure := address(t)
	daemon(t, dir, nil, "tools/etcd", "--data-dir="+dir+"/etcd", "--listen-client-urls=http://"+host+":"+clients, "--advertise-client-urls=http://"+host+":"+clients,
		"--listen-peer-urls=http://"+host+":"+peers, "--initial-advertise-peer-urls=http://"+host+":"+peers, "--initial-cluster=default=http://"+host+":"+peers)
	daemon(t, dir, nil, "tools/kube-apiserver", append([]string{
		"--etcd-servers=http://" + host + ":" + clients, "--bind-address=" + host, "--advertise-address=10.0.0.1", "--secure-port=" + secure,
		"--tls-cert-file=" + dir + "/tls.crt", "--tls-private-key-file=" + dir + "/tls.key", "--token-auth-file=" + dir + "/tokens.csv",
		"--authorization-mode=RBAC", "--service-account-issuer=https://culprit.example", "--service-account-signing-key-file=" + dir + "/tls.key",
		"--service-account-key-file=" + dir + "/tls.crt", "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
	}, flags...)...)
	config := &rest.Config{
		Host: "https://" + host + ":" + secure, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: dir + "/tls.crt"},
		WarningHandler: rest.NoWarnings{}, QPS: 100, Burst: 200,
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t, t.Context(), dir, config, client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
	eventually(t, "the API server", func() error {
		return found.RESTClient().Get().AbsPath("/readyz").Do(s.ctx).Error()
	})
	for _, name := range []string{"culprit", "ml"} {
		s.create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + name + `, labels: {culprit-inject: enabled}}}`)
		s.create(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: ` + name + `}}`)
	}
	return s
}

// try creates an object, in which the server must know each field.
func (s *server) try(object string, dry bool) (*unstructured.Unstructured, error) {
	s.t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(object), &o.Object); err != nil {
		s.t.Fatalf("%v:\n%s", err, object)
	}
	mapping, err := s.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		s.mapper.Reset()
		return nil, err
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return s.client.Resource(mapping.Resource).Namespace(o.GetNamespace()).Create(s.ctx, &o, options)
}

func (s *server) create(object string) *unstructured.Unstructured {
	s.t.Helper()
	made, err := s.try(object, false)
	if err != nil {
		s.t.Fatalf("%v:\n%s", err, object[:min(len(object), 400)])
	}
	return made
}

// definitions creates the CRDs of a file or a glob in a release of an operator, which Go's module proxy has, and waits until they are served.
func (s *server) definitions(module string, patterns ...string) {
	s.t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	var downloaded struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &downloaded); jsonErr != nil || downloaded.Dir == "" {
		s.t.Fatalf("%s: %v, %s", module, errors.Join(err, jsonErr), downloaded.Error)
	}
	made := 0
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(downloaded.Dir, pattern))
		if err != nil || len(files) == 0 {
			s.t.Fatalf("%s: %d files are %s, %v", module, len(files), pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, object := range regexp.MustCompile(`(?m)^---$`).Split(string(text), -1) {
				var o unstructured.Unstructured
				if err := yaml.Unmarshal([]byte(object), &o.Object); err != nil || o.GetKind() != "CustomResourceDefinition" {
					continue
				}
				// Objects are kept in one version, so nothing needs to be converted.
				unstructured.RemoveNestedField(o.Object, "spec", "conversion")
				text, err := yaml.Marshal(o.Object)
				if err != nil {
					s.t.Fatal(err)
				}
				s.create(string(text))
				made++
			}
		}
	}
	if made == 0 {
		s.t.Fatalf("%s has no CRDs in %v", module, patterns)
	}
}

// accepted has the server take an object without keeping it, once it serves its kind.
func (s *server) accepted(object string) {
	s.t.Helper()
	eventually(s.t, "creating "+object[:min(len(object), 300)], func() error {
		_, err := s.try(object, true)
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Code != http.StatusNotFound {
			s.t.Fatalf("%v:\n%s", err, object[:min(len(object), 2000)])
		}
		return err
	})
}

// TestServerTakesChart has a real API server take every object of every kind of site, operators' kinds by their own CRDs.
func TestServerTakesChart(t *testing.T) {
	s := startServer(t)
	s.definitions("github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/*.yaml")
	s.definitions("github.com/VictoriaMetrics/operator@v0.50.0", "config/crd/overlay/crd.yaml")
	for _, site := range []string{"prometheus-operator", "victoria-metrics", "annotations", "none"} {
		objects := render(t, values(t, site))
		for _, object := range objects {
			s.accepted(object)
		}
		t.Logf("%s: %d objects", site, len(objects))
	}
	s.accepted(read(t, "deploy/kubernetes/culprit-exporter.yaml"))
}

// TestServerInstalls runs Helm's own command on a real API server as docs/install.md has it.
func TestServerInstalls(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^ +helm install culprit (?:.*\\\n)*.*`).FindAllString(read(t, "docs/install.md"), -1)
	scrapes := []schema.GroupVersionResource{
		{Group: "monitoring.coreos.com", Version: "v1", Resource: "podmonitors"},
		{Group: "operator.victoriametrics.com", Version: "v1beta1", Resource: "vmpodscrapes"},
	}
	if len(commands) != len(scrapes) {
		t.Fatalf("docs/install.md has %q", commands)
	}
	s := startServer(t)
	s.definitions("github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/*.yaml")
	s.definitions("github.com/VictoriaMetrics/operator@v0.50.0", "config/crd/overlay/crd.yaml")
	s.create(`{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}`)
	for _, object := range stack {
		eventually(t, "creating "+object, func() error { _, err := s.try(object, false); return err })
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + s.config.Host + "', certificate-authority: tls.crt}}]\n" +
		"users: [{name: u, user: {token: " + token + "}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	helm := func(command string) error {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir = absolute(t, ".")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+s.dir, "PATH="+absolute(t, "bin/tools")+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	for i, command := range commands {
		eventually(t, command, func() error {
			err := helm(command)
			if err != nil && !strings.Contains(err.Error(), "no matches for kind") { // The CRDs have just been created.
				t.Fatalf("%s: %v", command, err)
			}
			return err
		})
		if _, err := s.client.Resource(scrapes[i]).Namespace("culprit").Get(s.ctx, "culprit-exporter", metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if err := helm("helm uninstall culprit --namespace culprit"); err != nil {
			t.Error(err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(absolute(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// trainer is a pod of the namespace ml with a GPU.
func trainer(labels map[string]string, env ...core.EnvVar) *core.Pod {
	resources := core.ResourceRequirements{}
	_ = yaml.Unmarshal([]byte(`{limits: {nvidia.com/gpu: 8}}`), &resources)
	return &core.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", GenerateName: "llama-", Labels: labels},
		Spec:       core.PodSpec{Containers: []core.Container{{Name: "train", Image: "registry.example.org/train:1", Resources: resources, Env: env}}},
	}
}

// admit has the server make a pod, and gives it as it became.
func (s *server) admit(pod *core.Pod) *core.Pod {
	s.t.Helper()
	text, err := yaml.Marshal(pod)
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := s.try(string(text), false)
	if err != nil {
		s.t.Fatal(err)
	}
	var out core.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, &out); err != nil {
		s.t.Fatal(err)
	}
	return &out
}

func injected(pod *core.Pod) error {
	c := pod.Spec.Containers[0]
	for _, e := range c.Env {
		if e.Name == "NCCL_PROFILER_PLUGIN" && strings.HasSuffix(e.Value, "/libnccl-profiler-culprit.so") && len(pod.Spec.Volumes) >= 2 && len(c.VolumeMounts) >= 2 {
			return nil
		}
	}
	return fmt.Errorf("the pod has %v and %d mounts", c.Env, len(c.VolumeMounts))
}

// TestServerPolicy has a real API server do what the MutatingAdmissionPolicy says: as it is shipped, behind the switches that Kubernetes 1.34
// needs, and as version v1, which needs none.
func TestServerPolicy(t *testing.T) {
	text := read(t, "deploy/kubernetes/mutating-admission-policy.yaml")
	for _, c := range []struct {
		name, text string
		flags      []string
	}{
		{"v1beta1", text, []string{"--runtime-config=admissionregistration.k8s.io/v1beta1=true", "--feature-gates=MutatingAdmissionPolicy=true"}},
		{"v1", strings.ReplaceAll(text, "admissionregistration.k8s.io/v1beta1", "admissionregistration.k8s.io/v1"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, c.flags...)
			for _, object := range strings.Split(c.text, "\n---\n") {
				s.create(object)
			}
			eventually(t, "a pod with the shim", func() error { return injected(s.admit(trainer(nil))) })
			for name, pod := range map[string]*core.Pod{
				"another plugin": trainer(nil, core.EnvVar{Name: "NCCL_PROFILER_PLUGIN", Value: "inspector"}),
				"no GPU": {
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "web"},
					Spec: core.PodSpec{Containers: []core.Container{{Name: "web", Image: "web:1"}}},
				},
			} {
				if injected(s.admit(pod)) == nil {
					t.Errorf("%s: the pod is changed", name)
				}
			}
		})
	}
}

// webhook starts the chart's webhook and has the server ask it. The chart's configuration names a service, which nothing here serves: the
// address takes its place.
func (s *server) webhook() {
	s.t.Helper()
	dir := s.t.TempDir()
	authority := certificate(s.t, dir)
	if err := os.WriteFile(filepath.Join(dir, "web.yml"), []byte("tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	host, port := address(s.t)
	daemon(s.t, dir, nil, "culprit-analyzer", "inject", "--web.listen-address="+host+":"+port, "--web.config.file="+dir+"/web.yml", "--shim.image=registry.example.org/culprit-exporter:1")
	for _, object := range render(s.t, values(s.t, "prometheus-operator")) {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(object), &o.Object); err != nil || o.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		for _, hook := range o.Object["webhooks"].([]any) {
			path, _, _ := unstructured.NestedString(hook.(map[string]any), "clientConfig", "service", "path")
			hook.(map[string]any)["clientConfig"] = map[string]any{"url": "https://" + host + ":" + port + path, "caBundle": authority}
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			s.t.Fatal(err)
		}
		s.create(string(text))
	}
	eventually(s.t, "a pod with the shim", func() error { return injected(s.admit(trainer(nil))) })
}

// operator is what an operator's controller makes of the recipe in deploy/kubernetes/jobs.
type operator struct {
	recipe, module string
	crds           []string
	labels         map[string]string // Of a pod of the job.
	env            []core.EnvVar     // Of the container, or of the process where the launcher sets it.
	job            string            // On the page.
}

func set(name, value string) core.EnvVar { return core.EnvVar{Name: name, Value: value} }

func field(name, path string) core.EnvVar {
	return core.EnvVar{Name: name, ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: path}}}
}

// torchrun are the variables of a process that torchrun starts without --rdzv-id.
var torchrun = []core.EnvVar{set("TORCHELASTIC_RUN_ID", "none"), set("MASTER_PORT", "29500")}

// operators have the labels and variables that their controllers set, by their sources at the pinned release.
var operators = []operator{
	{
		// pkg/runtime/framework/plugins/torch; its pods are JobSet's.
		"kubeflow-trainer.yaml", "github.com/kubeflow/trainer/v2@v2.1.0", []string{"manifests/base/crds/*.yaml"},
		map[string]string{"jobset.sigs.k8s.io/jobset-name": "llama", "batch.kubernetes.io/job-name": "llama-node-0"},
		append(torchrun, set("PET_NNODES", "2"), set("PET_MASTER_ADDR", "llama-node-0-0.llama"), set("MASTER_ADDR", "llama-node-0-0.llama")), "ml/llama",
	},
	{
		// pkg/controller.v1/pytorch/envvar.go. The MPIJob of this release is the MPI Operator's older one.
		"pytorchjob.yaml", "github.com/kubeflow/trainer@v1.9.3", []string{"manifests/base/crds/kubeflow.org_pytorchjobs.yaml"},
		map[string]string{"training.kubeflow.org/job-name": "llama", "training.kubeflow.org/replica-type": "master"},
		append(torchrun, set("MASTER_ADDR", "llama-master-0"), set("PET_NNODES", "4"), set("NODE_RANK", "0")), "ml/llama",
	},
	{
		// pkg/controller/mpi_job_controller.go. sshd starts the process: it has mpirun's variables, and none of its container's.
		"mpijob.yaml", "github.com/kubeflow/mpi-operator@v0.6.0", []string{"manifests/base/kubeflow.org_mpijobs.yaml"},
		map[string]string{"training.kubeflow.org/job-name": "llama", "training.kubeflow.org/job-role": "worker"},
		[]core.EnvVar{set("CULPRIT_JOB_ID", "ml/llama"), set("PMIX_NAMESPACE", "1234")}, "ml/llama",
	},
	{
		// pkg/controllers/job/job_controller_util.go, plugins/distributed-framework/pytorch.
		"volcano.yaml", "volcano.sh/volcano@v1.10.0", []string{"config/crd/volcano/bases/batch.volcano.sh_jobs.yaml"},
		map[string]string{"volcano.sh/job-name": "llama", "volcano.sh/job-namespace": "ml"},
		[]core.EnvVar{set("MASTER_ADDR", "llama-master-0.llama"), set("MASTER_PORT", "23456")}, "ml/llama",
	},
	{
		// controllers/ray/common/pod.go; RAY_JOB_ID and MASTER_ADDR are of a worker of Ray 2.60 that trains with PyTorch.
		"raycluster.yaml", "github.com/ray-project/kuberay/ray-operator@v1.4.2", []string{"config/crd/bases/*.yaml"},
		map[string]string{"ray.io/cluster": "llama", "ray.io/group": "gpu"},
		[]core.EnvVar{
			field("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"), set("RAY_JOB_ID", "ffffffff"), set("MASTER_ADDR", "10.1.2.3"), set("MASTER_PORT", "29500"),
		}, "ml/llama/10.1.2.3:29500",
	},
	{
		// pkg/utils/pod/pod_utils.go.
		"leaderworkerset.yaml", "sigs.k8s.io/lws@v0.7.0", []string{"config/crd/bases/*.yaml"},
		map[string]string{"leaderworkerset.sigs.k8s.io/name": "llama", "leaderworkerset.sigs.k8s.io/group-index": "1"},
		append(torchrun, set("LWS_LEADER_ADDRESS", "llama-1.llama.ml"), set("LWS_GROUP_SIZE", "2"), set("MASTER_ADDR", "llama-1.llama.ml")), "ml/llama-1",
	},
	{
		// pkg/controllers/jobset_controller.go; the index is Kubernetes' job controller's.
		"jobset.yaml", "sigs.k8s.io/jobset@v0.10.1", []string{"config/components/crd/bases/*.yaml"},
		map[string]string{"jobset.sigs.k8s.io/jobset-name": "llama", "batch.kubernetes.io/job-name": "llama-node-0", "batch.kubernetes.io/job-completion-index": "1"},
		append(torchrun, field("JOB_COMPLETION_INDEX", "metadata.labels['batch.kubernetes.io/job-completion-index']"), set("MASTER_ADDR", "llama-node-0-0.llama")),
		"ml/llama",
	},
}

// TestServerOperators has the server take each recipe by its operator's own CRDs, and ask the webhook about a pod as that operator makes it.
// A process with the pod's variables then has the name that the page gives the job.
func TestServerOperators(t *testing.T) {
	s := startServer(t)
	s.webhook()
	exporter := startExporter(t)
	for _, o := range operators {
		t.Run(o.recipe, func(t *testing.T) {
			s.t = t
			s.definitions(o.module, o.crds...)
			s.accepted(read(t, filepath.Join("deploy/kubernetes/jobs", o.recipe)))
			pod := s.admit(trainer(o.labels, o.env...))
			if err := injected(pod); err != nil {
				t.Fatal(err)
			}
			exporter.sees(t, o.job, process(t, pod))
		})
	}
}

// TestServerFailsOpen has pods start unchanged where the webhook is gone, and where they are not to be changed.
func TestServerFailsOpen(t *testing.T) {
	s := startServer(t)
	t.Run("webhook", func(t *testing.T) {
		s.t = t
		s.webhook()
		for name, pod := range map[string]*core.Pod{
			"a pod's label": trainer(map[string]string{"culprit-inject": "disabled"}),
			"another namespace": func() *core.Pod {
				s.create(`{apiVersion: v1, kind: Namespace, metadata: {name: web}}`)
				s.create(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: web}}`)
				pod := trainer(nil)
				pod.Namespace = "web"
				return pod
			}(),
		} {
			if injected(s.admit(pod)) == nil {
				t.Errorf("%s: the pod is changed", name)
			}
		}
	})
	s.t = t
	if injected(s.admit(trainer(nil))) == nil {
		t.Error("a pod is changed without a webhook")
	}
}

// TestServerPodSecurity has pods in namespaces of each level. None is refused, and each loads the shim.
func TestServerPodSecurity(t *testing.T) {
	s := startServer(t)
	s.webhook()
	for _, level := range []string{"privileged", "baseline", "restricted"} {
		s.create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + level + `, labels: {culprit-inject: enabled, pod-security.kubernetes.io/enforce: ` + level + `}}}`)
		s.create(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: ` + level + `}}`)
		pod := trainer(nil)
		pod.Namespace = level
		no, yes := false, true
		pod.Spec.SecurityContext = &core.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}}
		pod.Spec.Containers[0].SecurityContext = &core.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}}
		made := s.admit(pod)
		if err := injected(made); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		// The API server has added volumes of its own.
		host := slices.ContainsFunc(made.Spec.Volumes, func(v core.Volume) bool { return v.HostPath != nil })
		if host != (level == "privileged") {
			t.Errorf("%s: the pod has %+v", level, made.Spec.Volumes)
		}
	}
}

// process are the variables of a pod's process on a node, with what the node would mount in its place on this machine.
func process(t *testing.T, pod *core.Pod) []string {
	t.Helper()
	values := map[string]string{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID)}
	for name, value := range pod.Labels {
		values["metadata.labels['"+name+"']"] = value
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOSTNAME=" + pod.Name, "KUBERNETES_SERVICE_HOST=10.96.0.1", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"}
	for _, e := range pod.Spec.Containers[0].Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = values[e.ValueFrom.FieldRef.FieldPath]
		}
		switch e.Name {
		case "CULPRIT_DIR":
			continue
		case "NCCL_PROFILER_PLUGIN":
			value = absolute(t, "bin/"+filepath.Base(value))
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

type exporter struct{ url, traces string }

func startExporter(t *testing.T) *exporter {
	t.Helper()
	host, port := address(t)
	e := &exporter{"http://" + host + ":" + port, t.TempDir()}
	daemon(t, e.traces, nil, "culprit-exporter", "--web.listen-address="+host+":"+port, "--trace.dir="+e.traces, "--no-trace.search")
	return e
}

// sees runs a rank with an environment until the exporter knows it as one of the job.
func (e *exporter) sees(t *testing.T, job string, env []string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(absolute(t, "bin/ringjob"), "--rendezvous="+t.TempDir(), "--layout=dp1", "--steps=0", "--report-every=0")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(env, "CULPRIT_DIR="+e.traces), &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s", out.String())
		}
	}()
	eventually(t, "the rank", func() error {
		resp, err := http.Get(e.url + "/api/v1/state")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var state struct {
			Processes []struct {
				JobID    string `json:"job_id"`
				Identity struct {
					PID int `json:"pid"`
				} `json:"identity"`
			} `json:"processes"`
		}
		if err := json.Unmarshal(text, &state); err != nil {
			return err
		}
		for _, p := range state.Processes {
			if p.Identity.PID == cmd.Process.Pid {
				if p.JobID != job {
					t.Fatalf("the job is %q, want %q", p.JobID, job)
				}
				return nil
			}
		}
		return fmt.Errorf("no process %d among %d", cmd.Process.Pid, len(state.Processes))
	})
}

// TestServerKyverno has Kyverno's own command apply the policy to pods, of which one is to load the shim. The policy fits Kyverno's CRD.
func TestServerKyverno(t *testing.T) {
	const policy = "deploy/kubernetes/kyverno-policy.yaml"
	s := startServer(t)
	s.definitions("github.com/kyverno/kyverno@v1.14.4", "config/crds/kyverno/kyverno.io_clusterpolicies.yaml")
	s.accepted(read(t, policy))
	out, err := exec.Command(absolute(t, "bin/tools/kyverno"), "apply", absolute(t, policy), "--resource=testdata/kyverno/pods.yaml",
		"--values-file=testdata/kyverno/values.yaml").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := 0
	for _, text := range strings.Split(string(out), "policy culprit-inject applied to ")[1:] {
		name, rest, _ := strings.Cut(text, ":\n")
		object, _, _ := strings.Cut(rest, "\n---")
		var pod core.Pod
		if err := yaml.Unmarshal([]byte(object), &pod); err != nil {
			t.Fatalf("%v: %s", err, object)
		}
		seen++
		changed := len(pod.Spec.Volumes) > 0
		if changed != (pod.Name == "llama") {
			t.Errorf("%s becomes %s", name, object)
		}
		if !changed {
			continue
		}
		if err := injected(&pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if mounts := pod.Spec.Containers[0].VolumeMounts; mounts[0].SubPathExpr != "$(CULPRIT_POD_UID)" {
			t.Errorf("%s mounts %+v", name, mounts)
		}
	}
	if seen != 8 {
		t.Errorf("%d pods were looked at: %s", seen, out)
	}
}
