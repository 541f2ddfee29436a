// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func recorded(t *testing.T, name string) *Recording {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecorded(t *testing.T) {
	for _, name := range []string{"healthy", "gpu-slow", "link-slow", "link-stall", "op-not-entered", "gpu-freeze"} {
		v, _, notes := Analyze([]*Recording{recorded(t, name)})
		t.Logf("%s: %s %v: %s", name, v.Class, v.Culprits, v.Summary)
		for _, e := range append(v.Evidence, notes...) {
			t.Log("   ", e)
		}
		tb := newTable([]*Recording{recorded(t, name)})
		for _, s := range tb.streams {
			m := s.match()
			t.Log("matched", m.ok, len(m.ops), m.period, m.offset)
			for _, r := range s.ranks {
				t.Log(r, len(s.ops[r]), s.ops[r][max(0, len(s.ops[r])-3):])
			}
		}
	}
}
