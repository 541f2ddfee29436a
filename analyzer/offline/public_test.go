// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// publicCase is a text as somebody might paste it, with what a person could tell from it.
type publicCase struct {
	name string
	// files below testdata/public; none: text is the whole input, named log.
	files []string
	text  string
	log   string
	args  []string
	exit  int
	// ranks are those that may be named; all of them must be, unless any is right.
	ranks []int
	// head are parts of the headline; says of the whole report, never of nothing in it.
	head, says, never []string
}

// public are 31 classes of fault, one small input each, with the truth that answers.json beside them holds.
func public(t *testing.T) []publicCase {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "public", "answers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		Name                     string
		Files, Head, Says, Never []string
		Exit                     int
		Ranks                    []int
	}
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	var out []publicCase
	for _, a := range answers {
		out = append(out, publicCase{name: a.Name, files: a.Files, exit: a.Exit, ranks: a.Ranks, head: a.Head, says: a.Says, never: a.Never})
	}
	return out
}

// judgePublic runs the command on a case.
func judgePublic(t *testing.T, c *publicCase) (verdict, report string) {
	t.Helper()
	var paths []string
	for _, f := range c.files {
		paths = append(paths, filepath.Join("testdata", "public", c.name, f))
	}
	if len(paths) == 0 {
		paths = []string{writeFile(t, c.log, c.text)}
	}
	var doc, text, errs bytes.Buffer
	exit := Main(t.Context(), append(append([]string{"--json"}, c.args...), paths...), &doc, &errs)
	Main(t.Context(), append(append([]string{"--explain"}, c.args...), paths...), &text, &errs)
	report = text.String()
	if exit == ExitData {
		return judgedNotRead, errs.String()
	}
	var out struct{ Verdict rca.Verdict }
	if err := json.Unmarshal(doc.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	var named []int
	for _, k := range out.Verdict.Culprits {
		if k.Rank >= 0 {
			named = append(named, k.Rank)
		}
	}
	slices.Sort(named)
	for _, r := range named {
		if !slices.Contains(c.ranks, r) && (len(c.ranks) == 0 || !containsAll(c.ranks, named)) && !subset(c.ranks, named) {
			return judgedWrong, report
		}
	}
	headline, _, _ := strings.Cut(report, "\n")
	for _, s := range c.never {
		if strings.Contains(report, s) {
			return judgedWrong, fmt.Sprintf("it says %q:\n%s", s, report)
		}
	}
	if len(c.ranks) > 0 && len(named) == 0 {
		return judgedUnknown, report
	}
	for _, s := range c.head {
		if !strings.Contains(headline, s) {
			return judgedUnknown, fmt.Sprintf("the headline lacks %q:\n%s", s, report)
		}
	}
	for _, s := range c.says {
		if !strings.Contains(report, s) {
			return judgedUnknown, fmt.Sprintf("the report lacks %q:\n%s", s, report)
		}
	}
	switch {
	case exit != c.exit:
		return judgedUnknown, fmt.Sprintf("exit code %d, want %d:\n%s", exit, c.exit, report)
	case !slices.Equal(named, c.ranks) && len(named) > len(c.ranks):
		return judgedWider, report
	case !slices.Equal(named, c.ranks):
		return judgedUnknown, report
	}
	return judgedRight, report
}

func containsAll(all, some []int) bool {
	return !slices.ContainsFunc(some, func(r int) bool { return !slices.Contains(all, r) })
}

// subset: the ranks meant are among those named, which is wider.
func subset(meant, named []int) bool { return len(meant) > 0 && containsAll(named, meant) }

// Texts that people have in hand, judged by what a person could tell from them.
func TestPublic(t *testing.T) {
	for _, set := range []struct {
		name  string
		cases []publicCase
	}{{"the 31 classes", public(t)}, {"others of the classes", publicOthers}} {
		counts := map[string]int{}
		var table strings.Builder
		tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
		for i := range set.cases {
			c := &set.cases[i]
			got, report := judgePublic(t, c)
			counts[got]++
			fmt.Fprintf(tw, "%s\t%s\n", c.name, got)
			if got != judgedRight && got != judgedWider {
				t.Errorf("%s: %s: %s", c.name, got, report)
			}
		}
		_ = tw.Flush()
		t.Logf("\n%s%s: right %d, wider %d, unknown %d, wrong %d, not read %d", table.String(), set.name, counts[judgedRight], counts[judgedWider], counts[judgedUnknown], counts[judgedWrong], counts[judgedNotRead])
	}
}
