// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package auth_test starts the real programs with the example files of this folder.
package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/culprit-project/culprit/internal/ports"
)

// patience is how long anything may take before the test gives up on it.
const patience = 5 * time.Minute

// parts are the programs, by the ports that the examples have for them.
var parts = map[string]string{"exporter": "9850", "analyzer": "9851", "prometheus": "9090", "alertmanager": "9093"}

// site is a folder with the examples, filled in, and the programs that run with them.
type site struct {
	t    *testing.T
	dir  string
	addr map[string]string // By part.
	pool *x509.CertPool
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) write(name string, content []byte) {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.dir, name), content, 0o600))
}

func password(client string) string { return "of-" + client }

// certify writes NAME.crt and NAME.key, good for servers and clients.
func (s *site) certify(name string) tls.Certificate {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := s.ca, s.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	s.must(err)
	private, err := x509.MarshalECPrivateKey(key)
	s.must(err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	s.write(name+".crt", certPEM)
	s.write(name+".key", keyPEM)
	if s.ca == nil {
		s.key = key
		s.ca, err = x509.ParseCertificate(der)
		s.must(err)
		s.pool.AddCert(s.ca)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	s.must(err)
	return pair
}

var (
	hashes = regexp.MustCompile(`HASH_OF_[A-Z]+`)
	mutual = regexp.MustCompile(`(?m)^( +)# ((?:cert|key)_file: )`)
)

// changes are what the test adds to the examples: a rule, and a short pause between two looks at the alerts.
var changes = map[string]func(string) string{
	"prometheus.yml": func(text string) string { return text + "rule_files: [rule.yaml]\n" },
	"analyzer.yml": func(text string) string {
		return strings.Replace(text, "\nalertmanager:\n", "\nalertmanager:\n  poll_interval: 1s\n", 1)
	},
}

// newSite fills the examples in: hashes, ports, and with mutual the lines for clients' certificates.
func newSite(t *testing.T, withCertificates bool) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), addr: map[string]string{}, pool: x509.NewCertPool()}
	s.certify("ca")
	var replace []string
	for part, port := range parts {
		free, err := ports.Free(1)
		s.must(err)
		_, own, err := net.SplitHostPort(free[0])
		s.must(err)
		s.addr[part] = "localhost:" + own
		replace = append(replace, "localhost:"+port, s.addr[part])
		s.certify(part)
	}
	for _, client := range []string{"prometheus", "analyzer", "alertmanager", "operator", "viewer"} {
		s.write(client+".password", []byte(password(client)))
	}
	examples, err := filepath.Glob("*.yml")
	s.must(err)
	for _, name := range examples {
		content, err := os.ReadFile(name)
		s.must(err)
		text := hashes.ReplaceAllStringFunc(string(content), func(mark string) string {
			client := strings.ToLower(strings.TrimPrefix(mark, "HASH_OF_"))
			hash, err := bcrypt.GenerateFromPassword([]byte(password(client)), bcrypt.MinCost)
			s.must(err)
			return string(hash)
		})
		if withCertificates {
			text = mutual.ReplaceAllString(text, "$1$2")
		}
		text = strings.NewReplacer(replace...).Replace(text)
		if change := changes[name]; change != nil {
			text = change(text)
		}
		s.write(name, []byte(text))
	}
	s.write("rule.yaml", fmt.Appendf(nil, rule, s.addr["exporter"]))
	return s
}

// run starts a program, and ends it with the test.
func (s *site) run(program string, args ...string) {
	s.t.Helper()
	if _, err := os.Stat(program); err != nil {
		s.t.Fatalf("%v: go run ./tools/ci run tools builds it", err)
	}
	out, err := os.Create(filepath.Join(s.dir, filepath.Base(program)+".log"))
	s.must(err)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, s.dir
	s.must(cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Close()
		if s.t.Failed() {
			log, _ := os.ReadFile(out.Name())
			s.t.Logf("%s:\n%s", program, log)
		}
	})
}

// start runs all programs.
func (s *site) start(exporterWeb string) {
	s.t.Helper()
	root, err := filepath.Abs("../..")
	s.must(err)
	bin := filepath.Join(root, "bin")
	tools := filepath.Join(bin, "tools")
	s.run(filepath.Join(bin, "culprit-exporter"), "--web.config.file="+exporterWeb, "--web.listen-address="+s.addr["exporter"],
		"--web.enable-control", "--web.act-user=operator", "--trace.dir="+filepath.Join(s.dir, "traces"), "--collector.disable-defaults", "--collector.nccl", "--kubernetes.pod-logs=")
	s.run(filepath.Join(tools, "alertmanager"), "--config.file=alertmanager.yml", "--web.config.file=alertmanager-web.yml",
		"--storage.path=alertmanager", "--web.listen-address="+s.addr["alertmanager"], "--cluster.listen-address=")
	// Prometheus sends the first alert before it has found its Alertmanager, and by default not again for a minute.
	s.run(filepath.Join(tools, "prometheus"), "--rules.alert.resend-delay=1s", "--config.file=prometheus.yml", "--web.config.file=prometheus-web.yml",
		"--storage.tsdb.path=prometheus", "--web.listen-address="+s.addr["prometheus"])
	s.run(filepath.Join(bin, "culprit-analyzer"), "serve", "--config.file=analyzer.yml", "--web.config.file=analyzer-web.yml",
		"--web.listen-address="+s.addr["analyzer"], "--web.act-user=alertmanager", "--web.act-user=operator")
}

// ask makes a request of a part as a client with its password; nobody is "".
func (s *site) ask(client, method, part, path, body string, certificates ...tls.Certificate) (int, string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "https://"+s.addr[part]+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if client != "" {
		r.SetBasicAuth(client, password(client))
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.pool, Certificates: certificates}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// await asks until the answer is right.
func (s *site) await(what string, try func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.Tick(200 * time.Millisecond)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("waiting for %s: %v", what, err)
		}
		<-tick
	}
}

// has awaits an answer that contains all words.
func (s *site) has(client, part, path string, words ...string) {
	s.t.Helper()
	s.await(part+path, func() error {
		code, text, err := s.ask(client, http.MethodGet, part, path, "")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("status %d, %w", code, err)
		}
		for _, word := range words {
			if !regexp.MustCompile(word).MatchString(text) {
				return fmt.Errorf("no %s in:\n%s", word, text)
			}
		}
		return nil
	})
}

// status wants an answer's status at once.
func (s *site) status(want int, client, method, part, path, body string) {
	s.t.Helper()
	if code, text, err := s.ask(client, method, part, path, body); err != nil || code != want {
		s.t.Errorf("%s %s%s as %q: %d, want %d, %v\n%s", method, part, path, client, code, want, err, text)
	}
}

const up = "/api/v1/query?query=sum(up)"

// rule fires for ever. The analyzer then asks Prometheus, and the exporter that the alert names.
const rule = `
groups:
  - name: test
    interval: 1s
    rules:
      - alert: CulpritJobStalled
        expr: vector(1)
        labels: {culprit: trigger, kind: hang, severity: none, job_id: train, instance: %q}
`

// everybodyWorks follows the trigger through all parts.
func (s *site) everybodyWorks() {
	s.t.Helper()
	s.has("viewer", "prometheus", up, `"2"`) // Exporter and analyzer are scraped.
	s.has("operator", "alertmanager", "/api/v2/alerts", "CulpritJobStalled")
	s.has("viewer", "analyzer", "/metrics", `culprit_analyzer_webhook_requests_total{code="200"} [1-9]`,
		`culprit_analyzer_source_requests_total{outcome="ok",source="prometheus"} [1-9]`,
		`culprit_analyzer_source_requests_total{outcome="ok",source="exporter"} [1-9]`,
		`culprit_analyzer_source_requests_total{outcome="ok",source="alertmanager"} [1-9]`)
}

// TestCredentials starts the programs with the examples. They work together, nobody gets an answer without credentials, and whoever
// may look may not act.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.start("exporter-web.yml")
	s.everybodyWorks()
	for _, request := range []struct{ method, part, path, body string }{
		{http.MethodGet, "exporter", "/metrics", ""},
		{http.MethodGet, "exporter", "/api/v1/state", ""},
		{http.MethodGet, "exporter", "/api/v1/trace", ""},
		{http.MethodPut, "exporter", "/api/v1/events", "none"},
		{http.MethodGet, "analyzer", "/", ""},
		{http.MethodGet, "analyzer", "/metrics", ""},
		{http.MethodGet, "analyzer", "/api/v1/incidents", ""},
		{http.MethodPost, "analyzer", "/api/v1/analyze", `{"job_id": "train"}`},
		{http.MethodPost, "analyzer", "/api/v1/alerts", `{}`},
		{http.MethodGet, "prometheus", up, ""},
		{http.MethodPost, "alertmanager", "/api/v2/alerts", "[]"},
	} {
		s.status(http.StatusUnauthorized, "", request.method, request.part, request.path, request.body)
		s.status(http.StatusUnauthorized, "stranger", request.method, request.part, request.path, request.body)
		plain, err := http.Get("http://" + s.addr[request.part] + request.path)
		if err == nil {
			plain.Body.Close()
			if plain.StatusCode != http.StatusBadRequest {
				t.Errorf("%s%s without TLS: %d", request.part, request.path, plain.StatusCode)
			}
		}
	}
	s.status(http.StatusOK, "viewer", http.MethodGet, "analyzer", "/", "")
	s.status(http.StatusOK, "prometheus", http.MethodGet, "analyzer", "/api/v1/incidents", "")
	for _, looker := range []string{"viewer", "prometheus"} {
		s.status(http.StatusForbidden, looker, http.MethodPost, "analyzer", "/api/v1/analyze", `{"job_id": "train"}`)
		s.status(http.StatusForbidden, looker, http.MethodPost, "analyzer", "/api/v1/alerts", `{}`)
	}
	s.status(http.StatusAccepted, "operator", http.MethodPost, "analyzer", "/api/v1/analyze", `{"job_id": "train"}`)
	s.status(http.StatusForbidden, "analyzer", http.MethodPut, "exporter", "/api/v1/events", "none")
}

// TestClientCertificates is the same with exporters that want certificates of their clients.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	s.start("exporter-web-mtls.yml")
	s.everybodyWorks()
	if code, text, err := s.ask("analyzer", http.MethodGet, "exporter", "/api/v1/state", ""); err == nil {
		t.Errorf("the exporter answers a client without a certificate: %d\n%s", code, text)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "analyzer.crt"), filepath.Join(s.dir, "analyzer.key"))
	s.must(err)
	if code, text, err := s.ask("", http.MethodGet, "exporter", "/api/v1/state", "", pair); err != nil || code != http.StatusOK {
		t.Errorf("with a certificate: %d, %v\n%s", code, err, text)
	}
	if code, text, err := s.ask("", http.MethodPut, "exporter", "/api/v1/events", "none", pair); err != nil || code != http.StatusForbidden {
		t.Errorf("who may look switches events: %d, %v\n%s", code, err, text)
	}
}
