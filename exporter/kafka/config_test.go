// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestBrokersThatWantToKnowWhoComes streams to brokers with TLS and SASL, by each mechanism, and as somebody whom they do not know.
func TestBrokersThatWantToKnowWhoComes(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler()) // For its certificate.
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, sasl := range map[string]string{
		"plain":          "{mechanism: PLAIN, username: culprit, password: right}",
		"scram-256":      "{mechanism: SCRAM-SHA-256, username: culprit, password_file: password}",
		"scram-512":      "{mechanism: SCRAM-SHA-512, username: culprit, password: right}",
		"wrong password": "{mechanism: PLAIN, username: culprit, password: wrong}",
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := kfake.NewCluster(kfake.SeedTopics(1, "traces"), kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}),
				kfake.Superuser("PLAIN", "culprit", "right"), kfake.Superuser("SCRAM-SHA-256", "culprit", "right"), kfake.Superuser("SCRAM-SHA-512", "culprit", "right"))
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			dir := t.TempDir()
			for name, content := range map[string]string{
				"ca.pem": string(ca), "password": "right\n", "kafka.yml": "tls_config: {ca_file: ca.pem}\nsasl: " + sasl,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var log lines
			sink, err := New(Options{Brokers: cluster.ListenAddrs(), Topic: "traces", Config: filepath.Join(dir, "kafka.yml")}, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer sink.client.Close()
			sink.Send(&nodeapi.Process{JobID: "llm"}, &nodeapi.TraceLine{Lifecycle: &nodeapi.ProcessLifecycleEvent{}})
			if name == "wrong password" {
				log.eventually(t, "No Kafka broker answers")
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := sink.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if n := sink.sent.Load(); n != 1 {
				t.Errorf("%d records sent", n)
			}
		})
	}
}

func TestBrokersFileErrors(t *testing.T) {
	for content, want := range map[string]string{
		"sasl: {mechanism: GSSAPI}":        `sasl: mechanism "GSSAPI" is none of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512`,
		"sasl: {user: me}":                 "field user not found",
		"tls_config: {ca_file: absent}":    "no such file",
		"sasl: {password_file: absent}":    "no such file",
		"tls_config: {min_version: NEVER}": "unknown TLS version",
	} {
		file := filepath.Join(t.TempDir(), "kafka.yml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := New(Options{Brokers: []string{"127.0.0.1:1"}, Config: file}, promslog.NewNopLogger())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--kafka.config.file") {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// eventually waits until the log has said something.
func (l *lines) eventually(t *testing.T, want string) {
	t.Helper()
	said := func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.b.String()
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(said(), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log says %q, want %q", said(), want)
		}
	}
}

// TestNoBrokerAnswers has the log say so before anything is sent.
func TestNoBrokerAnswers(t *testing.T) {
	var log lines
	sink, err := New(Options{Brokers: []string{"127.0.0.1:1"}, Topic: "traces"}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.client.Close()
	log.eventually(t, "No Kafka broker answers")
}
