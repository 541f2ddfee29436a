// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeeper keeps of the incidents of the job those that fit, and none of another job.
func TestKeeper(t *testing.T) {
	large := make([]byte, 2<<10)
	mux := http.NewServeMux()
	mux.HandleFunc("/incidents", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"incidents":[{"id":"a","job_id":"j"},{"id":"b","job_id":"j"},{"id":"c","job_id":"j"},{"id":"d","job_id":"other"}]}`))
	})
	for id, data := range map[string][]byte{"a": []byte("first"), "b": large, "c": []byte("last")} {
		mux.HandleFunc("/incidents/"+id+"/evidence.tar.gz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	k := keeper{dir: t.TempDir(), left: 1 << 10}
	if err := k.incidents(t.Context(), server.URL+"/incidents", "j"); !errors.Is(err, errNoRoom) || !strings.Contains(err.Error(), "b.tar.gz") {
		t.Fatalf("%v; want what was left out", err)
	}
	for name, want := range map[string][]byte{"d.json": nil, "a.tar.gz": []byte("first"), "b.tar.gz": nil, "c.tar.gz": []byte("last")} {
		if got, _ := os.ReadFile(filepath.Join(k.dir, name)); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if err := k.incidents(t.Context(), server.URL+"/nowhere", "j"); err == nil {
		t.Error("incidents that are not there are kept")
	}
}
