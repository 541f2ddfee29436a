// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestKeeper keeps of the incidents of the job those that fit, and none of another job.
func TestKeeper(t *testing.T) {
	large := make([]byte, 2<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	mux := http.NewServeMux()
	mux.HandleFunc("/incidents", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"incidents":[{"id":"a","job_id":"j"},{"id":"b","job_id":"j"},{"id":"c","job_id":"j"},{"id":"d","job_id":"other"}]}`))
	})
	for id, data := range map[string][]byte{"a": []byte("first"), "b": large, "c": []byte("last")} {
		mux.HandleFunc("/incidents/"+id+"/evidence.tar.gz", func(w http.ResponseWriter, _ *http.Request) {
			z := gzip.NewWriter(w)
			_, _ = z.Write(data)
			_ = z.Close()
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	k := keeper{dir: t.TempDir(), left: 1 << 10}
	if err := k.incidents(t.Context(), server.URL+"/incidents", "j"); !errors.Is(err, errNoRoom) || !strings.Contains(err.Error(), "b.tar.zst") {
		t.Fatalf("%v; want what was left out", err)
	}
	for name, want := range map[string][]byte{"d.json": nil, "a.tar.zst": []byte("first"), "b.tar.zst": nil, "c.tar.zst": []byte("last")} {
		got, _ := os.ReadFile(filepath.Join(k.dir, name))
		if r, err := zstd.NewReader(bytes.NewReader(got)); err == nil && want != nil {
			got, _ = io.ReadAll(r)
			r.Close()
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if err := k.incidents(t.Context(), server.URL+"/nowhere", "j"); err == nil {
		t.Error("incidents that are not there are kept")
	}
}
