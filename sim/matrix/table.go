// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/lab/nccl"
)

// Latest gives the last result of each case, only those of a build unless it is empty.
func Latest(results []Result, build string) map[Case]Result {
	out := map[Case]Result{}
	for _, r := range results {
		if build == "" || r.Build == build {
			out[r.Case] = r
		}
	}
	return out
}

// cellText is what the table says of a result.
func cellText(r Result) string {
	switch {
	case r.Status == Right && r.PageSeconds > 0:
		return fmt.Sprintf("%.1f s", r.PageSeconds)
	case r.Status == Right:
		return "quiet"
	case r.Status == Unknown:
		return "unnamed"
	}
	return strings.ToUpper(string(r.Status))
}

// Describe says in one line how a case ended.
func Describe(r Result) string {
	if r.Why == "" {
		return cellText(r)
	}
	return cellText(r) + ": " + firstLine(r.Why)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// ReportBuilds says of which states the results are.
func ReportBuilds(w io.Writer, results map[Case]Result) {
	count := map[string]int{}
	for _, r := range results {
		count[fmt.Sprintf("build %s (commit %s)", r.Build, r.Commit)]++
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(w, "%d results are of %s\n", count[name], name)
	}
}

// ReportRepeated writes how often each case was right, the longest time to a page, and every failure. It says whether
// there is one.
func ReportRepeated(w io.Writer, results []Result) bool {
	type tally struct {
		runs, right int
		worst       float64
	}
	tallies := map[Case]*tally{}
	worst, highest := 0.0, 0.0
	var bad []Result
	for _, r := range results {
		t := tallies[r.Case]
		if t == nil {
			t = &tally{}
			tallies[r.Case] = t
		}
		t.runs++
		if r.Status == Right || r.Status == Unknown {
			t.right++
		} else {
			bad = append(bad, r)
		}
		t.worst = max(t.worst, r.PageSeconds)
		worst, highest = max(worst, r.PageSeconds), max(highest, r.Load)
	}
	lines := [][]string{{"case", "right", "runs", "longest to page"}}
	for _, c := range slices.SortedFunc(maps.Keys(tallies), func(a, b Case) int { return cmp.Compare(a.Name(), b.Name()) }) {
		t := tallies[c]
		page := "quiet"
		if t.worst > 0 {
			page = fmt.Sprintf("%.1f s", t.worst)
		}
		lines = append(lines, []string{c.Name(), strconv.Itoa(t.right), strconv.Itoa(t.runs), page})
	}
	fmt.Fprintln(w)
	writeTable(w, lines)
	fmt.Fprintf(w, "\n%d runs, %d failures, longest time from fault to page %.1f s, highest load average %.1f\n", len(results), len(bad), worst, highest)
	for _, r := range bad {
		fmt.Fprintf(w, "\n%s %s at %s (fault at rank %d): %s\n", strings.ToUpper(string(r.Status)), r.Name(), r.Ended, r.Rank, r.Why)
	}
	return len(bad) > 0
}

// Report writes a table a mode, releases against faults, and what is wrong. It says whether anything is.
func Report(w io.Writer, results map[Case]Result) bool {
	for _, mode := range Modes {
		rows, columns := axes(results, mode.Mode)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n\n", mode.Mode, mode.About)
		lines := [][]string{append([]string{"NCCL"}, columns...)}
		for _, version := range rows {
			line := []string{version}
			for _, fault := range columns {
				text := ""
				if r, ok := results[Case{version, mode.Mode, fault}]; ok {
					text = cellText(r)
				}
				line = append(line, text)
			}
			lines = append(lines, line)
		}
		writeTable(w, lines)
	}
	return writeSummary(w, results)
}

// axes gives the releases, newest first, and the faults of which a mode has results.
func axes(results map[Case]Result, mode Mode) (rows, columns []string) {
	for c := range results {
		if c.Mode == mode && !slices.Contains(rows, c.Version) {
			rows = append(rows, c.Version)
		}
	}
	slices.SortFunc(rows, func(a, b string) int { return -nccl.CompareVersions(a, b) })
	for _, fault := range Faults {
		if slices.ContainsFunc(rows, func(v string) bool { _, ok := results[Case{v, mode, fault}]; return ok }) {
			columns = append(columns, fault)
		}
	}
	return rows, columns
}

// writeTable writes a table of Markdown with columns of even width.
func writeTable(w io.Writer, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], len(text))
		}
	}
	for n, line := range lines {
		for i, text := range line {
			fmt.Fprintf(w, "| %-*s ", widths[i], text)
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}

// writeSummary writes the numbers and each wrong case. It says whether there is one.
func writeSummary(w io.Writer, results map[Case]Result) bool {
	count := map[Status]int{}
	var worst Result
	var bad []Result
	for _, r := range results {
		count[r.Status]++
		switch r.Status {
		case Right:
			if r.PageSeconds > worst.PageSeconds {
				worst = r
			}
		case Wrong, Broken:
			bad = append(bad, r)
		}
	}
	fmt.Fprintf(w, "\n%d cases: %d right, %d unnamed where the source cannot always tell, %d wrong, %d not to be run\n",
		len(results), count[Right], count[Unknown], count[Wrong], count[Broken])
	if worst.PageSeconds > 0 {
		fmt.Fprintf(w, "longest time from fault to page: %.1f s (%s)\n", worst.PageSeconds, worst.Name())
	}
	slices.SortFunc(bad, func(a, b Result) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, r := range bad {
		fmt.Fprintf(w, "\n%s %s (fault at rank %d): %s\n", strings.ToUpper(string(r.Status)), r.Name(), r.Rank, r.Why)
		if r.Evidence != "" {
			fmt.Fprintf(w, "  evidence: %s\n", r.Evidence)
		}
	}
	return len(bad) > 0
}
