// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func recorded(t *testing.T, name string) *Recording {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
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

// TestP4RecordedFlows: flows of six real processes, as testdata/record.sh records them. Their counters move by whole transfers, so a slow
// link cannot be told, and is not.
func TestP4RecordedFlows(t *testing.T) {
	for _, c := range []struct {
		name  string
		class rca.Class
		rank  int
		group string
	}{
		{"healthy", rca.Unknown, -1, ""},
		{"link-slow", rca.Unknown, -1, ""},
		{"gpu-slow", rca.SlowCompute, 2, ""},
		{"op-not-entered", rca.NotEntered, 4, ""},  // Rank 3 has sent nothing either: rank 4 has not posted buffers.
		{"link-stall", rca.Fault, -1, "link 3->4"}, // Of rank 3. Rank 4 has sent least.
		{"gpu-freeze", rca.Fault, -1, "link 0->1"}, // Of rank 1.
	} {
		v, _, _ := Analyze([]*Recording{recorded(t, c.name)})
		named := rca.Culprit{Rank: -1}
		if len(v.Culprits) == 1 {
			named = v.Culprits[0]
		}
		if v.Class != c.class || len(v.Culprits) > 1 || named.Rank != c.rank || named.Group != c.group {
			t.Errorf("%s: %s %+v: %s", c.name, v.Class, v.Culprits, v.Summary)
		}
		if v.Page || v.Confidence > 0.5 {
			t.Errorf("%s: pages %v, confidence %v", c.name, v.Page, v.Confidence)
		}
	}
}
