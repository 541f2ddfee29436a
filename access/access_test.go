// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/access"
)

var all = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func status(h http.Handler, method, user string, state *tls.ConnectionState) int {
	r := httptest.NewRequest(method, "/", nil)
	r.TLS = state
	if user != "" {
		r.SetBasicAuth(user, "checked before")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}}
}

func TestRestrict(t *testing.T) {
	file := write(t, "basic_auth_users: {operator: x, viewer: x}\ntls_server_config: {client_auth_type: VerifyClientCertIfGiven}\n")
	h, err := access.Restrict(all, file, []string{"operator", "analyzer"})
	if err != nil {
		t.Fatal(err)
	}
	given := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate("analyzer")}}
	verified := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{certificate("analyzer")}}}
	for _, tt := range []struct {
		method, user string
		state        *tls.ConnectionState
		want         int
	}{
		{http.MethodGet, "", nil, 200},
		{http.MethodGet, "viewer", nil, 200},
		{http.MethodHead, "viewer", nil, 200},
		{http.MethodPost, "operator", nil, 200},
		{http.MethodPut, "viewer", nil, 403},
		{http.MethodPost, "viewer", nil, 403},
		{http.MethodDelete, "", nil, 403},
		{http.MethodPost, "analyzer", nil, 403}, // A certificate's name is no user's.
		{http.MethodPost, "", given, 403},
		{http.MethodPost, "", verified, 200},
		{http.MethodPost, "viewer", verified, 200},
	} {
		if got := status(h, tt.method, tt.user, tt.state); got != tt.want {
			t.Errorf("%s as %q, certificate %v: %d, want %d", tt.method, tt.user, tt.state != nil, got, tt.want)
		}
	}

	// Without users in the file nobody's name is checked.
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := status(h, http.MethodPost, "operator", nil); got != 403 {
		t.Errorf("a name that nobody checked: %d", got)
	}
}

func TestRestrictNobody(t *testing.T) {
	h, err := access.Restrict(all, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := status(h, http.MethodPost, "", nil); got != 200 {
		t.Errorf("%d", got)
	}
}

func TestRestrictRefuses(t *testing.T) {
	for name, file := range map[string]string{
		"no file": "", "no such file": "/nonexistent", "no users": write(t, "tls_server_config: {}"), "no such user": write(t, "basic_auth_users: {viewer: x}"),
		"not YAML": write(t, "\t{"),
	} {
		if _, err := access.Restrict(all, file, []string{"operator"}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Handlers behind it are told who asks, and only names that somebody proved.
func TestClient(t *testing.T) {
	file := write(t, "basic_auth_users: {operator: x, viewer: x}")
	for _, tt := range []struct {
		file  string
		users []string
		user  string
		name  string
		may   bool
	}{
		{"", nil, "operator", "", true},
		{file, nil, "viewer", "viewer", true},
		{file, nil, "somebody", "", true},
		{file, []string{"operator"}, "operator", "operator", true},
		{file, []string{"operator"}, "viewer", "viewer", false},
		{file, []string{"operator"}, "", "", false},
	} {
		var name string
		var may bool
		h, err := access.Restrict(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { name, may = access.Client(r.Context()) }), tt.file, tt.users)
		if err != nil {
			t.Fatal(err)
		}
		if status(h, http.MethodGet, tt.user, nil); name != tt.name || may != tt.may {
			t.Errorf("%q with users %v: %q, %t", tt.user, tt.users, name, may)
		}
	}
	if name, may := access.Client(t.Context()); name != "" || may {
		t.Errorf("outside of it: %q, %t", name, may)
	}
}

// TestGuardedAnswers: no answer is taken for another type, shown within another's page, or kept, also one that refuses.
func TestGuardedAnswers(t *testing.T) {
	h, err := access.Restrict(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/incidents", nil))
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}
