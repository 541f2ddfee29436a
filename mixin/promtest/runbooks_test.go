// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// verdict is the alert that the analyzer posts: it has a runbook and no rule.
const verdict = "CulpritFound"

func TestEveryAlertHasARunbook(t *testing.T) {
	wanted := map[string]bool{verdict: true}
	for _, rule := range alerts(t) {
		wanted[rule.Alert] = true
	}
	for _, path := range files(t, "docs/runbooks/*.md") {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		if !wanted[name] {
			t.Errorf("runbook %s belongs to no alert", name)
		}
		delete(wanted, name)
		text := read(t, path)
		if !strings.HasPrefix(text, "# "+name+"\n") {
			t.Errorf("runbook %s is not titled by its alert", name)
		}
		for _, section := range []string{"## Meaning", "## Impact", "## Diagnosis", "## Mitigation"} {
			if !strings.Contains(text, "\n"+section+"\n") {
				t.Errorf("runbook %s has no section %q", name, section)
			}
		}
	}
	for name := range wanted {
		t.Errorf("alert %s has no runbook", name)
	}
}

var promqlBlock = regexp.MustCompile("(?s)```promql\n(.*?)```")

// TestRunbookQueries checks the queries that a tired person will paste. A query ends where an empty line or the block does.
func TestRunbookQueries(t *testing.T) {
	names := catalogue(t)
	for _, path := range files(t, "docs/runbooks/*.md") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, block := range promqlBlock.FindAllStringSubmatch(read(t, path), -1) {
				for query := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n\n") {
					expr, err := Parse(query)
					if err != nil {
						t.Error(err)
						continue
					}
					for _, what := range Undocumented(expr, names) {
						t.Errorf("%s is not in docs/metrics.md and no rule records it", what)
					}
				}
			}
		})
	}
}

var mentioned = regexp.MustCompile("`(culprit_[a-z_]+)`")

// TestRunbooksNameOnlyDocumentedSeries checks the prose, too.
func TestRunbooksNameOnlyDocumentedSeries(t *testing.T) {
	names := catalogue(t)
	for _, path := range files(t, "docs/runbooks/*.md") {
		for _, m := range mentioned.FindAllStringSubmatch(read(t, path), -1) {
			if _, ok := names.Find(m[1]); !ok {
				t.Errorf("%s names %s, which docs/metrics.md does not have", filepath.Base(path), m[1])
			}
		}
	}
}

var causeConstant = regexp.MustCompile(`(?m)^\tCause\w+\s+Cause = "(\w+)"`)

// TestVerdictRunbookHasEveryCause follows the verdict's runbook_url, which ends in #cause.
func TestVerdictRunbookHasEveryCause(t *testing.T) {
	causes := causeConstant.FindAllStringSubmatch(read(t, filepath.Join(root, "analyzer", "rca", "verdict.go")), -1)
	if len(causes) < 10 {
		t.Fatalf("only %d causes found in analyzer/rca/verdict.go", len(causes))
	}
	text := read(t, filepath.Join(root, "docs", "runbooks", verdict+".md"))
	for _, cause := range causes {
		if !strings.Contains(text, "\n### "+cause[1]+"\n") {
			t.Errorf("cause %s has no section", cause[1])
		}
	}
}

var runbookLink = regexp.MustCompile(`\]\((\w+\.md)\)`)

func TestRunbookLinksResolve(t *testing.T) {
	have := map[string]bool{}
	for _, path := range files(t, "docs/runbooks/*.md") {
		have[filepath.Base(path)] = true
	}
	for _, path := range files(t, "docs/runbooks/*.md") {
		for _, m := range runbookLink.FindAllStringSubmatch(read(t, path), -1) {
			if !have[m[1]] {
				t.Errorf("%s links to %s, which does not exist", filepath.Base(path), m[1])
			}
		}
	}
}
