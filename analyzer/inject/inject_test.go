// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/culprit-project/culprit/internal/ports"
)

var update = flag.Bool("update", false, "Write the golden files.")

// site is a running webhook, as the API server sees it.
type site struct {
	t      *testing.T
	url    string
	client *http.Client
	path   string // Empty: Path.
}

// start runs the subcommand with a certificate of its own.
func start(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "culprit-inject.culprit.svc"}, DNSNames: []string{"culprit-inject.culprit.svc"},
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
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{
		"tls.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		"web.yml": []byte("tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	addr := free[0]
	app := kingpin.New("test", "")
	_, run := Command(app)
	if _, err := app.Parse([]string{"inject", "--shim.image=" + shimImage, "--web.listen-address=" + addr, "--web.config.file=" + filepath.Join(dir, "web.yml")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != 0 {
			t.Errorf("it ended with %d", status)
		}
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	s := &site{t: t, url: "https://" + addr, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "culprit-inject.culprit.svc", MinVersion: tls.VersionTLS12},
	}}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := s.client.Get(s.url + "/-/healthy")
		if err == nil {
			resp.Body.Close()
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func (s *site) post(body string) (int, string) {
	s.t.Helper()
	resp, err := s.client.Post(s.url+cmp.Or(s.path, Path), "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// admit posts a pod as the API server does, and gives the answer and the pod as it becomes.
func (s *site) admit(object string) (*response, map[string]any) {
	s.t.Helper()
	status, text := s.post(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"705ab4f5","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"ml","operation":"CREATE","userInfo":{"username":"a"},"object":` + object + `}}`)
	if status != http.StatusOK {
		s.t.Fatalf("%d: %s", status, text)
	}
	var out review
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		s.t.Fatal(err)
	}
	if out.Response == nil || out.Response.UID != "705ab4f5" || out.Kind != "AdmissionReview" || out.APIVersion != "admission.k8s.io/v1" {
		s.t.Fatalf("%s", text)
	}
	var tree map[string]any
	if err := json.Unmarshal([]byte(object), &tree); err != nil {
		s.t.Fatal(err)
	}
	if len(out.Response.Patch) > 0 {
		var operations []operation
		if err := json.Unmarshal(out.Response.Patch, &operations); err != nil {
			s.t.Fatal(err)
		}
		for _, o := range operations {
			apply(s.t, tree, o)
		}
	}
	return out.Response, tree
}

// apply does an operation of a JSON patch (RFC 6902) of the kinds that are used.
func apply(t *testing.T, tree any, o operation) {
	t.Helper()
	parts := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
	var set func(node any, parts []string) any
	set = func(node any, parts []string) any {
		if len(parts) == 0 {
			return o.Value
		}
		switch n := node.(type) {
		case map[string]any:
			if _, there := n[parts[0]]; !there && (len(parts) > 1 || o.Op == "replace") {
				t.Fatalf("%s: nothing is at %s", o.Path, parts[0])
			}
			n[parts[0]] = set(n[parts[0]], parts[1:])
			return n
		case []any:
			if parts[0] == "-" && o.Op == "add" && len(parts) == 1 {
				return append(n, o.Value)
			}
			i, err := strconv.Atoi(parts[0])
			if err != nil || i >= len(n) {
				t.Fatalf("%s: no element %s of %d", o.Path, parts[0], len(n))
			}
			n[i] = set(n[i], parts[1:])
			return n
		}
		t.Fatalf("%s: %T has no members", o.Path, node)
		return nil
	}
	set(tree, parts)
}

// shape is what the tests look at of a pod after injection.
type shape struct {
	Spec struct {
		Containers []struct {
			Name         string
			Env          []envVar
			VolumeMounts []mount
		}
		Volumes []volume
	}
}

func shaped(t *testing.T, tree map[string]any) shape {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var s shape
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func environ(env []envVar) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		out[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			out[e.Name] = "field " + e.ValueFrom.FieldRef.FieldPath
		}
	}
	return out
}

// gpuPod is a pod with one container that has a GPU, and more in it.
func gpuPod(labels, container string) string {
	return fmt.Sprintf(`{"metadata":{"generateName":"train-","labels":{%s}},"spec":{"containers":[{"name":"trainer","resources":{"limits":{"nvidia.com/gpu":"8"}}%s}]}}`, labels, container)
}

const (
	shimPath  = "/var/lib/culprit/shim"
	shimImage = "registry.example.org/culprit-exporter:1"
)

func TestInject(t *testing.T) {
	s := start(t)
	identity := map[string]string{
		"POD_NAME": "field metadata.name", "POD_NAMESPACE": "field metadata.namespace", "CULPRIT_POD_UID": "field metadata.uid",
		"CONTAINER_NAME": "trainer", "CULPRIT_DIR": "/dev/shm/culprit",
	}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		maps.Copy(out, identity)
		maps.Copy(out, more)
		return out
	}
	for _, c := range []struct {
		name, pod string
		want      map[string]string
	}{
		{"nothing set", gpuPod("", ""), with(map[string]string{"NCCL_PROFILER_PLUGIN": shimPath + "/" + plugin})},
		{
			"a library path", gpuPod("", `,"env":[{"name":"LD_LIBRARY_PATH","value":"/opt/nccl"}]`),
			with(map[string]string{"NCCL_PROFILER_PLUGIN": plugin, "LD_LIBRARY_PATH": shimPath + ":/opt/nccl"}),
		},
		{
			"another plugin", gpuPod("", `,"env":[{"name":"A","value":"b"},{"name":"NCCL_PROFILER_PLUGIN","value":"inspector"}]`),
			with(map[string]string{"A": "b", "NCCL_PROFILER_PLUGIN": shimPath + "/" + plugin, "CULPRIT_CHAIN": "libnccl-profiler-inspector.so"}),
		},
		{
			"names of its own", gpuPod(`"training.kubeflow.org/job-name":"llama","job-name":"inner"`, `,"env":[{"name":"POD_NAME","value":"mine"}]`),
			with(map[string]string{"NCCL_PROFILER_PLUGIN": shimPath + "/" + plugin, "POD_NAME": "mine", "JOB_NAME": "llama"}),
		},
		{
			"another pod's folder", gpuPod("", `,"env":[{"name":"CULPRIT_POD_UID","value":"theirs"},{"name":"POD_UID","value":"theirs"},{"name":"CULPRIT_POD_UID","value":"again"}]`),
			with(map[string]string{"NCCL_PROFILER_PLUGIN": shimPath + "/" + plugin, "POD_UID": "theirs"}),
		},
		{"a JobSet", gpuPod(`"jobset.sigs.k8s.io/jobset-name":"gpt","batch.kubernetes.io/job-name":"gpt-workers-0"`, ""), with(map[string]string{"NCCL_PROFILER_PLUGIN": shimPath + "/" + plugin, "JOB_NAME": "gpt"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &site{t: t, url: s.url, client: s.client}
			answer, tree := s.admit(c.pod)
			got := shaped(t, tree)
			if !answer.Allowed || answer.PatchType != "JSONPatch" || len(answer.Warnings) > 0 {
				t.Errorf("%+v", answer)
			}
			if diff := gocmp.Diff(c.want, environ(got.Spec.Containers[0].Env)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			mounts := []mount{{traceVolume, "/dev/shm/culprit", "$(CULPRIT_POD_UID)", false}, {shimVolume, shimPath, "", true}}
			if diff := gocmp.Diff(mounts, got.Spec.Containers[0].VolumeMounts); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			volumes := []volume{
				{Name: traceVolume, HostPath: &hostPath{"/dev/shm/culprit", "DirectoryOrCreate"}}, {Name: shimVolume, HostPath: &hostPath{shimPath, "DirectoryOrCreate"}},
			}
			if diff := gocmp.Diff(volumes, got.Spec.Volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			// Webhooks are asked again when another one has changed the pod.
			changed, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := s.admit(string(changed)); len(again.Patch) > 0 {
				t.Errorf("a second time: %s", again.Patch)
			}
		})
	}
}

// podVolumes has pods that get volumes of their own, by the file in testdata that tools/helm judges by PodSecurity's own code.
var podVolumes = map[string]string{
	// As strict as the level restricted demands, with a quota's resources, and with an init container of its own.
	"restricted": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"train","namespace":"ml"},"spec":{"securityContext":{"runAsNonRoot":true,"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"}},` +
		`"initContainers":[{"name":"data","image":"a","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],` +
		`"containers":[{"name":"trainer","image":"a","resources":{"limits":{"cpu":"96","memory":"1Ti","nvidia.com/gpu":"8"},"requests":{"cpu":96,"rdma/hca":"1"}},` +
		`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`,
	"baseline": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"train","namespace":"ml"},"spec":{"securityContext":{"runAsUser":0},"resourceClaims":[{"name":"gpus","resourceClaimName":"gpus"}],` +
		`"containers":[{"name":"trainer","image":"a","resources":{"claims":[{"name":"gpus"}]}}]}}`,
}

// TestPodVolumes gives pods volumes of their own, and an init container that fills one with the shim.
func TestPodVolumes(t *testing.T) {
	s := start(t)
	s.path = PodPath
	for name, object := range podVolumes {
		t.Run(name, func(t *testing.T) {
			s := &site{t: t, url: s.url, client: s.client, path: s.path}
			answer, tree := s.admit(object)
			if !answer.Allowed || len(answer.Warnings) > 0 {
				t.Errorf("%+v", answer)
			}
			got, err := json.MarshalIndent(tree, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("the pod becomes (-want +got):\n%s", diff)
			}
			if again, _ := s.admit(string(got)); len(again.Patch) > 0 {
				t.Errorf("a second time: %s", again.Patch)
			}
		})
	}
	answer, _ := s.admit(`{"spec":{"initContainers":[{"name":"culprit-shim"}],"containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpu":1}}}]}}`)
	if len(answer.Patch) > 0 || len(answer.Warnings) != 1 {
		t.Errorf("a container of the same name: %+v", answer)
	}
}

// TestCommand has mistakes refused by which no pod would be traced, or pods would be refused.
func TestCommand(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "set --web.config.file"},
		{"--web.config.file=web.yml --shim.dir=shim", "--shim.dir=shim must be an absolute path"},
		{"--web.config.file=web.yml --trace.dir=culprit", "--trace.dir=culprit must be an absolute path"},
	} {
		app := kingpin.New("test", "")
		_, run := Command(app)
		if _, err := app.Parse(append([]string{"inject"}, strings.Fields(c.args)...)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if status := run(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); status != 1 || !strings.Contains(log.String(), c.want) {
			t.Errorf("%q: status %d, %s, want %q", c.args, status, log.String(), c.want)
		}
	}
}

// TestSidecar has only the container with a GPU changed, and the pod's own volumes kept.
func TestSidecar(t *testing.T) {
	s := start(t)
	_, tree := s.admit(`{"metadata":{"name":"a"},"spec":{"volumes":[{"name":"data","emptyDir":{}}],"containers":[{"name":"logs"},` +
		`{"name":"trainer","volumeMounts":[{"name":"data","mountPath":"/data"}],"resources":{"limits":{"nvidia.com/mig-1g.10gb":1}}}]}}`)
	got := shaped(t, tree)
	if len(got.Spec.Volumes) != 3 || got.Spec.Volumes[0].Name != "data" {
		t.Errorf("volumes %+v", got.Spec.Volumes)
	}
	if len(got.Spec.Containers[0].Env) > 0 || len(got.Spec.Containers[1].VolumeMounts) != 3 {
		t.Errorf("%+v", got.Spec.Containers)
	}
}

// TestLeftAlone has pods that pass as they are.
func TestLeftAlone(t *testing.T) {
	s := start(t)
	for _, c := range []struct{ name, pod, warning string }{
		{"no GPU", `{"spec":{"containers":[{"name":"a"}]}}`, ""},
		{"not wanted", gpuPod(`"culprit-inject":"disabled"`, ""), ""},
		{"switched off", gpuPod("", `,"env":[{"name":"CULPRIT_DISABLE","value":"1"}]`), "CULPRIT_DISABLE"},
		{"from elsewhere", gpuPod("", `,"env":[{"name":"LD_LIBRARY_PATH","valueFrom":{"configMapKeyRef":{"name":"a","key":"b"}}}]`), "comes from elsewhere"},
		{"linked in", gpuPod("", `,"env":[{"name":"NCCL_PROFILER_PLUGIN","value":"STATIC_PLUGIN"}]`), "linked in"},
		{"mounted", gpuPod("", `,"volumeMounts":[{"name":"own","mountPath":"/dev/shm/culprit/"}]`), "mounted at"},
		{"no pod", `{"spec":{"containers":"none"}}`, "not traced"},
		{"all traces", gpuPod("", `,"volumeMounts":[{"name":"culprit-traces","mountPath":"/all"}]`), "does not have"},
		{"shim to write to", gpuPod("", `,"volumeMounts":[{"name":"culprit-shim","mountPath":"/all"}]`), "does not have"},
		{
			"beside the trainer", `{"spec":{"containers":[{"name":"a","volumeMounts":[{"name":"culprit-shim","mountPath":"/all"}]},` +
				`{"name":"b","resources":{"limits":{"nvidia.com/gpu":1}}}]}}`, "does not have",
		},
		{
			"before the trainer", `{"spec":{"initContainers":[{"name":"a","volumeMounts":[{"name":"culprit-traces","mountPath":"/all"}]}],` +
				`"containers":[{"name":"b","resources":{"limits":{"nvidia.com/gpu":1}}}]}}`, "does not have",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &site{t: t, url: s.url, client: s.client}
			answer, _ := s.admit(c.pod)
			if !answer.Allowed || len(answer.Patch) > 0 || answer.PatchType != "" || !strings.Contains(strings.Join(answer.Warnings, "\n"), c.warning) {
				t.Errorf("%+v", answer)
			}
		})
	}
	for _, body := range []string{"", "{}", "[", `{"request":{"object":` + strings.Repeat(" ", maxReview), `{"kind":"AdmissionReview","request":"` + strings.Repeat(" ", maxReview)} {
		if status, text := s.post(body); status != http.StatusBadRequest {
			t.Errorf("%.20q gets %d %s", body, status, text)
		}
	}
}

// TestDebugContainers has containers added to a pod that runs. One that mounts what all pods of the node share is refused, whatever it calls
// itself; nothing else is.
func TestDebugContainers(t *testing.T) {
	const host = `{"name":"culprit-traces","hostPath":{"path":"/dev/shm/culprit"}},{"name":"culprit-shim","hostPath":{"path":"/x"}},{"name":"own","hostPath":{"path":"/data"}}`
	for _, c := range []struct {
		name, volumes, containers string
		refused                   bool
	}{
		{"no mounts", host, `{"name":"debug"}`, false},
		{"the pod's own volume", host, `{"name":"debug","volumeMounts":[{"name":"own","mountPath":"/a"}]}`, false},
		{"all traces", host, `{"name":"debug","volumeMounts":[{"name":"culprit-traces","mountPath":"/a"}]}`, true},
		{"the shim", host, `{"name":"debug","volumeMounts":[{"name":"own","mountPath":"/b"},{"name":"culprit-shim","mountPath":"/a"}]}`, true},
		{"the shim, read", host, `{"name":"debug","volumeMounts":[{"name":"culprit-shim","mountPath":"/a","readOnly":true}]}`, true},
		{"the second of two", host, `{"name":"a"},{"name":"b","volumeMounts":[{"name":"culprit-traces","mountPath":"/a"}]}`, true},
		{"volumes of its own", `{"name":"culprit-traces","emptyDir":{}}`, `{"name":"debug","volumeMounts":[{"name":"culprit-traces","mountPath":"/a"}]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t)
			body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"ml","operation":"UPDATE","subResource":"ephemeralcontainers",` +
				`"object":{"metadata":{"name":"llm-0"},"spec":{"containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpu":1}}}],"volumes":[` + c.volumes + `],"ephemeralContainers":[` + c.containers + `]}}}}`
			status, text := s.post(body)
			var out review
			if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK || out.Response == nil {
				t.Fatalf("%d %s, %v", status, text, err)
			}
			if r := out.Response; r.Allowed == c.refused || len(r.Patch) > 0 || c.refused && (r.Status == nil || !strings.Contains(r.Status.Message, "of the node")) {
				t.Errorf("%s", text)
			}
		})
	}
}

// TestHugeReviews has reviews that take many times their length when they are decoded or answered. Each passes unchanged, is counted, and
// costs little more than its text.
func TestHugeReviews(t *testing.T) {
	list := func(element string, bytes int) string {
		return strings.TrimSuffix(strings.Repeat(element+",", bytes/(len(element)+1)), ",")
	}
	const gpu = `"resources":{"limits":{"a/gpu":1}}`
	const most = maxReview - 4096
	pod := func(containers string) string { return `{"spec":{"containers":[` + containers + `]}}` }
	label := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ name, object, counted string }{
		{"very many containers", pod(list(`{"name":"a",`+gpu+`}`, most)), "too_large"},
		{"as many as may be decoded", pod(list(`{`+gpu+`}`, maxValues*7)), "too_large"},
		{"empty containers", pod(list(`{}`, most)), "too_large"},
		{"numbers", `{"metadata":{"labels":{}},"spec":{"x":[` + list("1", most) + `]}}`, "too_large"},
		{"brackets", strings.Repeat("[", most), "too_large"},
		{"a body larger than any", pod(list(`{"name":"a"}`, maxReview+1)), "too_large"},
		{"a job's long name", `{"metadata":{"labels":{"job-name":"` + label + `"}},` + pod(list(`{"name":"a",`+gpu+`}`, maxTrainers*40))[1:], "injected"},
		{"a long path", pod(`{"name":"a",` + gpu + `,"env":[{"name":"LD_LIBRARY_PATH","value":"` + strings.Repeat("<", 1<<20) + `"}]}`), "unchanged"},
		{"a long plugin", pod(`{"name":"a",` + gpu + `,"env":[{"name":"NCCL_PROFILER_PLUGIN","value":"` + strings.Repeat("<", 1<<20) + `"}]}`), "unchanged"},
		{"a long name", pod(`{"name":"` + strings.Repeat("<", 1<<20) + `",` + gpu + `}`), "unchanged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := NewHandler(Options{TraceDir: "/dev/shm/culprit", ShimDir: shimPath}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5","namespace":"ml","object":` + c.object + `}}`
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)))
			runtime.ReadMemStats(&after)
			var out review
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK || !out.Response.Allowed || out.Response.UID != "705ab4f5" || out.Kind != "AdmissionReview" {
				t.Fatalf("%d %.300s, %v", w.Code, w.Body, err)
			}
			if n := testutil.ToFloat64(h.reviews.WithLabelValues(c.counted)); n != 1 {
				t.Errorf("not counted as %s: %.300s", c.counted, w.Body)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
				t.Errorf("a review of %d bytes takes %d", len(body), used)
			}
		})
	}
}

// TestSlowReviews has clients that send the beginnings of reviews and no more, each from an address of its own or all from one. Another one's
// review is answered meanwhile.
func TestSlowReviews(t *testing.T) {
	const usual, large = "usual", "large"
	text := map[string]string{usual: "{", large: strings.Repeat(" ", maxUsual+1)}
	for _, c := range []struct {
		name, slow, review string
		addresses          bool // Many.
	}{
		{"one address", usual, large, false},
		{"one address, large reviews", large, large, false},
		{"many addresses", usual, large, true},
		{"many addresses, large reviews", large, usual, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			entered := make(chan struct{}, 2*reading)
			h := NewHandler(Options{TraceDir: "/dev/shm/culprit", ShimDir: shimPath}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range 2 * reading {
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, Path, io.MultiReader(strings.NewReader(text[c.slow]), &stalled{entered, ctx}))
				r.RemoteAddr = "192.0.2.1:1000"
				if c.addresses {
					r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1000", 10+i)
				}
				wg.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
			}
			held := map[string]int{usual: 2 * reading, large: readingPerClient}[c.slow]
			if c.slow == large && c.addresses {
				held = reading
			}
			for range held {
				<-entered
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(strings.TrimSuffix(text[c.review], "{")+`{"request":{"uid":"1","object":{}}}`))
			r.RemoteAddr = "192.0.2.2:1000"
			h.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			cancel()
			wg.Wait()
		})
	}
}

// stalled is a body of which nothing comes.
type stalled struct {
	entered chan<- struct{}
	ctx     context.Context
}

func (s *stalled) Read([]byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	case <-s.ctx.Done():
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// FuzzReview has any text posted. It is answered, and where it is a review its pod passes.
func FuzzReview(f *testing.F) {
	for _, object := range []string{gpuPod("", ""), gpuPod("", `,"env":[{"name":"CULPRIT_POD_UID","value":"x"}]`), `{"spec":{"containers":[{}]}}`, "null", "[[["} {
		f.Add([]byte(`{"kind":"AdmissionReview","request":{"uid":"1","object":` + object + `}}`))
	}
	h := NewHandler(Options{TraceDir: "/dev/shm/culprit", ShimDir: shimPath}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
		if w.Code == http.StatusBadRequest {
			return
		}
		var out review
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK || out.Response == nil || !out.Response.Allowed {
			t.Errorf("%d %.300s, %v", w.Code, w.Body, err)
		}
	})
}
