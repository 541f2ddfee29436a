// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func TestDefaults(t *testing.T) {
	s, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/dev/shm/culprit"}, s.node.Dirs); diff != "" {
		t.Errorf("directories (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: 3 * time.Second, RankSeries: 100, MaxSeries: 20000}, s.nccl); diff != "" {
		t.Errorf("nccl (-want +got):\n%s", diff)
	}
	on := map[string]bool{}
	for name, v := range s.collector {
		on[name] = *v
	}
	if diff := cmp.Diff(map[string]bool{"nccl": true, "host": true, "rdma": true, "pci": true, "nvml": true, "ras": false, "uprobe": false}, on); diff != "" {
		t.Errorf("collectors (-want +got):\n%s", diff)
	}
	if s.node.Interval != 100*time.Millisecond || s.node.KeepDead != 10*time.Minute || (*s.web.WebListenAddresses)[0] != ":9850" {
		t.Errorf("settings %+v, listening on %v", s.node, *s.web.WebListenAddresses)
	}
	if s.history.MaxBytes != 16<<20 || s.history.DirBytes != 512<<20 || s.history.Dir != "" {
		t.Errorf("history %+v", s.history)
	}
}

func TestCollectorFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		on   string
	}{
		{"", "host nccl nvml pci rdma"},
		{"--no-collector.host --collector.ras", "nccl nvml pci ras rdma"},
		{"--collector.disable-defaults", ""},
		{"--collector.disable-defaults --collector.nccl --collector.rdma", "nccl rdma"},
		{"--collector.disable-defaults --no-collector.nccl", ""},
	} {
		s, err := parseFlags(strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		var on []string
		for name, v := range s.collector {
			if *v {
				on = append(on, name)
			}
		}
		slices.Sort(on)
		if got := strings.Join(on, " "); got != tt.on {
			t.Errorf("%s: %s, want %s", tt.args, got, tt.on)
		}
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{
		{"--sample-interval=0s"},
		{"--sample-interval=often"},
		{"--collector.nccl.detail=some"},
		{"--runtime.gomaxprocs=0"},
		{"--no-such-flag"},
		{"argument"},
	} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestServeFails(t *testing.T) {
	for name, args := range map[string][]string{
		"no procfs":           {"--path.procfs=" + t.TempDir()},
		"no history folder":   {"--history.dir=" + filepath.Join(t.TempDir(), "absent")},
		"no such address":     {"--web.listen-address=256.0.0.1:1"},
		"broken web settings": {"--web.listen-address=127.0.0.1:0", "--web.config.file=" + filepath.Join(t.TempDir(), "absent")},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parseFlags(append([]string{"--trace.dir=" + t.TempDir(), "--runtime.gomaxprocs=2"}, args...))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := serve(ctx, promslog.NewNopLogger(), s); err == nil {
				t.Error("no error")
			}
		})
	}
}

// serveWith runs an exporter with further flags until the test ends, and gives its address.
func serveWith(t *testing.T, flags ...string) string {
	t.Helper()
	addr := freeAddress(t)
	s, err := parseFlags(append([]string{"--trace.dir=" + t.TempDir(), "--web.listen-address=" + addr, "--runtime.gomaxprocs=2"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), promslog.NewNopLogger(), s) }()
	t.Cleanup(func() { // The test's context has ended by then.
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return addr
}

// TestBasicAuthentication has the toolkit's web configuration guard every path.
func TestBasicAuthentication(t *testing.T) {
	config := filepath.Join(t.TempDir(), "web.yml")
	// The password is "secret".
	const users = "basic_auth_users:\n  me: $2y$04$KbfPbDSyoMpUhWuqEbtfX.CvLxOczRBYhvMVRgARPuAdI7nsvq9cW\n"
	if err := os.WriteFile(config, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := serveWith(t, "--web.config.file="+config)
	waitHealthy(t, addr)
	for _, path := range []string{"/", "/metrics", "/-/healthy", nodeapi.StatePath, nodeapi.TracePath} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d without a password", path, resp.StatusCode)
		}
	}
}

// TestTLS has the toolkit's web configuration serve with a certificate made for the test.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir)
	config := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(config, []byte("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := serveWith(t, "--web.config.file="+config)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "node-1", MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := client.Get("https://" + addr + nodeapi.StatePath)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.TLS == nil {
				t.Errorf("%d, TLS %v", resp.StatusCode, resp.TLS)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if resp, err := http.Get("https://" + addr + "/metrics"); err == nil {
		resp.Body.Close()
		t.Error("a client takes a certificate that nobody it knows has signed")
	}
	resp, err := http.Get("http://" + addr + "/metrics")
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("served without TLS")
		}
	}
}

// certificate writes cert.pem and key.pem for node-1 to dir and gives a pool that trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node-1"}, DNSNames: []string{"node-1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	for name, content := range map[string][]byte{"cert.pem": certPEM, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certPEM) {
		t.Fatal("the certificate cannot be read")
	}
	return pool
}

// TestNothingToWatch is the exporter on a machine without jobs, GPUs and RDMA.
func TestNothingToWatch(t *testing.T) {
	addr := freeAddress(t)
	s, err := parseFlags([]string{
		"--trace.dir=" + filepath.Join(t.TempDir(), "later"), "--path.sysfs=" + t.TempDir(), "--web.listen-address=" + addr,
		"--history.dir=" + t.TempDir(), "--runtime.gomaxprocs=2",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, promslog.NewNopLogger(), s) }()
	waitHealthy(t, addr)
	j := &job{t: t, addr: addr}
	body := j.body("/metrics")
	for _, want := range []string{
		`culprit_exporter_collector_success{collector="nccl"} 1`, `culprit_exporter_collector_success{collector="rdma"} 1`,
		`culprit_exporter_collector_success{collector="nvml"} 1`, `culprit_exporter_trace_files{state="live"} 0`,
		`culprit_exporter_build_info{`, `culprit_host_cpus `,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	var state nodeapi.State
	if err := json.Unmarshal([]byte(j.body(nodeapi.StatePath)), &state); err != nil || state.Version != nodeapi.Version || state.Processes == nil {
		t.Errorf("state %+v, %v", state, err)
	}
	if !strings.Contains(j.body("/"), "culprit-exporter") {
		t.Error("no landing page")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ending: %v", err)
	}
}
