// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/lab/ncclrecord/job"
	"github.com/culprit-project/culprit/lab/ncclrecord/rules"
)

// TestDocument holds the table in docs/nccl-behaviour.md, one column an interface, to the report, one column a library.
func TestDocument(t *testing.T) {
	var report bytes.Buffer
	if err := rules.Document(&report, "../testdata", job.Culprit); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "nccl-behaviour.md"))
	if err != nil {
		t.Fatal(err)
	}
	libraries, found := verdicts(report.String())
	columns, want := verdicts(string(page))
	if len(want) < 20 {
		t.Fatalf("the page has %d rules", len(want))
	}
	for rule, cells := range want {
		for i, column := range columns {
			var all []string
			for k, library := range libraries {
				if k < len(found[rule]) && !strings.Contains(library, "-") && strings.Contains(column, minor.FindString(library)) {
					all = append(all, found[rule][k])
				}
			}
			slices.Sort(all)
			if all = slices.Compact(all); len(all) == 0 {
				t.Errorf("the recordings have no rule %q for %s", rule, column)
			} else if got := summary(all); got != cells[i] {
				t.Errorf("%s: %q is %s in the recordings, %s on the page", column, rule, got, cells[i])
			}
		}
	}
}

var minor = regexp.MustCompile(`^\d+\.\d+`)

// summary is what libraries that use one interface show.
func summary(different []string) string {
	if len(different) > 1 {
		return "some"
	}
	return different[0]
}

// verdicts reads the tables of rules: the columns of the first, and for each rule yes, no, some or –.
func verdicts(text string) (columns []string, rules map[string][]string) {
	rules = map[string][]string{}
	inside := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case cells[0] == "rule":
			inside = columns == nil || len(cells) == len(columns)+1
			if columns == nil {
				columns = cells[1:]
			}
		case inside && !strings.HasPrefix(cells[0], "---"):
			row := make([]string, 0, len(columns))
			for _, c := range cells[1:] {
				word, _, _ := strings.Cut(c, " ")
				if word != "yes" && word != "no" && word != "–" {
					word = "some"
				}
				row = append(row, word)
			}
			rules[cells[0]] = row
		}
	}
	return columns, rules
}
