// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cutoff_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/cutoff"
)

func TestJSON(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`{"a": [1, 2], "b": "x"}`, `{"a": [1, 2], "b": "x"}`},
		{`{"a": [1, 2], "b": "x`, `{"a": [1, 2]}`},
		{`{"a": [1, 2`, `{"a": [1]}`},
		{`{"a": [{"c": 1, "d": {"e": 2}}, {"c"`, `{"a": [{"c": 1, "d": {"e": 2}}]}`},
		{`{"a": "},\"]", "b": 1, "c`, `{"a": "},\"]", "b": 1}`},
		{`{"a`, ``},
		{``, ``},
	} {
		if got := string(cutoff.JSON([]byte(tc.in))); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.in, got, tc.want)
		}
	}
}

// Wherever a document is cut off, what comes back is a document.
func TestAnywhere(t *testing.T) {
	doc := `{"a": [1, -2.5e3, {"b": null, "c": ["x\\", "y\"z", true]}], "d": {"e": {}, "f": []}, "g": "ü,]}"}`
	for end := strings.Index(doc, ",") + 1; end <= len(doc); end++ {
		if got := cutoff.JSON([]byte(doc[:end])); !json.Valid(got) {
			t.Errorf("cut at %d: %s", end, got)
		}
	}
}

// What comes back of whatever is a beginning of it, but for what it closes.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a": [{"c": 1}, {"c": "x\\"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := cutoff.JSON(data); len(got) > 2*len(data)+1 {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
	})
}
