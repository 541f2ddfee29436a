// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"strings"
	"testing"
)

// TestReaderPanics has a reader with a defect: it costs the file, and the next one is read.
func TestReaderPanics(t *testing.T) {
	yes := func([]byte) bool { return true }
	for name, r := range map[string]reader{
		"reading":     {"kind", yes, func(string, []byte, *Collection) (string, error) { panic("out of range\x1b[2J") }},
		"recognising": {"kind", func([]byte) bool { return []byte{}[len("x")] == 0 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := &Collection{}
			understand([]reader{r}, "evil", []byte("x"), got)
			understand([]reader{{"kind", yes, func(string, []byte, *Collection) (string, error) { return "", nil }}}, "good", []byte("x"), got)
			if len(got.Files) != 2 || !strings.Contains(got.Files[0].Error, "out of range") || got.Files[0].Kind != "" || got.Files[1].Kind != "kind" {
				t.Errorf("%+v", got.Files)
			}
		})
	}
}
