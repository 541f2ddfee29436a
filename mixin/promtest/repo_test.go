// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../.."

// files lists the files of the repository that match a pattern, and fails when there are none: a check of nothing passes.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatalf("listing %s: %v", pattern, err)
	}
	if len(found) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading a file of the repository: %v", err)
	}
	return string(text)
}

// rules reads every rule of rules/.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var out []rulefmt.Rule
	for _, path := range files(t, "rules/*.yaml") {
		groups, errs := rulefmt.ParseFile(path, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		for _, err := range errs {
			t.Errorf("%s: %v", path, err)
		}
		if groups == nil {
			t.Fatalf("%s: no groups", path)
		}
		for _, group := range groups.Groups {
			out = append(out, group.Rules...)
		}
	}
	return out
}

// catalogue is every metric that an expression may name: those documented, and those that rules record.
func catalogue(t *testing.T) Catalogue {
	t.Helper()
	out, err := ReadCatalogue(strings.NewReader(read(t, filepath.Join(root, "docs", "metrics.md"))))
	if err != nil {
		t.Fatalf("docs/metrics.md: %v", err)
	}
	for _, rule := range rules(t) {
		if rule.Record != "" {
			labels := map[string]map[string]bool{"job_id": nil, "owner": nil}
			if strings.HasPrefix(rule.Record, "job_id:culprit_nccl_comm_") {
				for _, name := range []string{"comm", "function", "algorithm", "protocol", "path", "size"} {
					labels[name] = nil
				}
			}
			out[rule.Record] = Metric{Type: "gauge", Labels: labels}
		}
	}
	return out
}

func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var out []rulefmt.Rule
	for _, rule := range rules(t) {
		if rule.Alert != "" {
			out = append(out, rule)
		}
	}
	return out
}
