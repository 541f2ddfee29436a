// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryMetricIsUsed: what is exported is read by a rule, a dashboard or a query of the analyzer. A series that nobody reads costs every site.
func TestEveryMetricIsUsed(t *testing.T) {
	var text strings.Builder
	for _, pattern := range []string{"rules/*.yaml", "dashboards/*.json", "analyzer/config/config.go", "analyzer/config/node.go"} {
		for _, path := range files(t, pattern) {
			text.WriteString(read(t, path))
		}
	}
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`culprit_[a-z0-9_]+`).FindAllString(text.String(), -1) {
		used[name] = true
	}
	names, err := ReadCatalogue(strings.NewReader(read(t, filepath.Join(root, "docs", "metrics.md"))))
	if err != nil {
		t.Fatal(err)
	}
	for name := range names {
		if !strings.HasPrefix(name, "culprit_") {
			continue
		}
		found := false
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			found = found || used[name+suffix]
		}
		if !found {
			t.Errorf("no rule, dashboard or query reads %s", name)
		}
	}
}
