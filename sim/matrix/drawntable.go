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

	"github.com/culprit-project/culprit/lab/nccl"
	"github.com/culprit-project/culprit/lab/nccl/draw"
)

// LatestDrawn gives the last result of each drawn job in their order, only those of a build unless it is empty.
func LatestDrawn(results []Drawn, build string) []Drawn {
	last := map[string]Drawn{}
	for i := range results {
		if r := &results[i]; build == "" || r.Build == build {
			last[r.Name()] = *r
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Drawn) int {
		return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Number, b.Number), nccl.CompareVersions(a.Release, b.Release))
	})
}

// DescribeDrawn says in one line how a drawn job ended.
func DescribeDrawn(d *Drawn) string {
	text := string(d.Fate)
	if d.Fate == FateRight && d.PageSeconds > 0 {
		text = fmt.Sprintf("%s after %.1f s", text, d.PageSeconds)
	}
	if d.Why != "" {
		text += ": " + firstLine(d.Why)
	}
	return text
}

// ReportDrawn writes how drawn jobs ended, by release, by level of evidence and by fault, and each that failed. It says whether one is wrong.
func ReportDrawn(w io.Writer, results []Drawn) bool {
	fmt.Fprintln(w)
	tallyDrawn(w, "NCCL", results, func(d *Drawn) string { return d.Release }, func(a, b string) int { return nccl.CompareVersions(b, a) })
	tallyDrawn(w, "evidence", results, func(d *Drawn) string { return string(LevelOf(&d.Job)) }, func(a, b string) int {
		return cmp.Compare(slices.Index(Levels, Level(a)), slices.Index(Levels, Level(b)))
	})
	tallyDrawn(w, "fault", results, func(d *Drawn) string { return groupOf(&d.Job) }, cmp.Compare[string])
	wrong, wall, cpu := false, 0.0, 0.0
	for i := range results {
		wall, cpu = wall+results[i].Seconds, cpu+results[i].CPU
	}
	if n := float64(len(results)); n > 0 {
		fmt.Fprintf(w, "a job took %.0f s, and %.0f s of processors' time, on average\n\n", wall/n, cpu/n)
	}
	for i := range results {
		d := &results[i]
		if !d.Fate.Failed() {
			continue
		}
		wrong = wrong || d.Fate.Breaks()
		fmt.Fprintf(w, "%s %s (%s, %d ranks on %d hosts, fault at rank %d): %s\n", d.Fate, d.Name(), d.Layout(), d.Ranks, d.Hosts, d.Rank, d.Why)
		if d.Evidence != "" {
			fmt.Fprintf(w, "  evidence: %s\n", d.Evidence)
		}
	}
	return wrong
}

// groupOf is the row of a job in the table of faults.
func groupOf(j *draw.Job) string {
	if j.Group == draw.Healthy {
		return string(j.Group)
	}
	row := string(j.Group) + ": " + j.Kind()
	switch {
	case j.For > 0:
		row += ", ends by itself"
	case j.When != draw.Middle:
		row += ", " + string(j.When) + " operation"
	}
	return row
}

// tallyDrawn writes a table of fates with a row for each value of a key, and one of all.
func tallyDrawn(w io.Writer, title string, results []Drawn, key func(*Drawn) string, order func(a, b string) int) {
	rows := map[string][]*Drawn{}
	var all []*Drawn
	for i := range results {
		d := &results[i]
		rows[key(d)] = append(rows[key(d)], d)
		all = append(all, d)
	}
	head := []string{title, "jobs"}
	for _, f := range Fates {
		head = append(head, string(f))
	}
	lines := [][]string{append(head, "s to page, median", "longest")}
	for _, name := range slices.SortedFunc(maps.Keys(rows), order) {
		lines = append(lines, tallyLine(name, rows[name]))
	}
	writeTable(w, append(lines, tallyLine("all", all)))
	fmt.Fprintln(w)
}

func tallyLine(name string, results []*Drawn) []string {
	count := map[Fate]int{}
	var seconds []float64
	for _, d := range results {
		count[d.Fate]++
		if d.Fate == FateRight && d.PageSeconds > 0 {
			seconds = append(seconds, d.PageSeconds)
		}
	}
	line := []string{name, strconv.Itoa(len(results))}
	for _, f := range Fates {
		text := ""
		if count[f] > 0 {
			text = strconv.Itoa(count[f])
		}
		line = append(line, text)
	}
	if len(seconds) == 0 {
		return append(line, "", "")
	}
	slices.Sort(seconds)
	return append(line, fmt.Sprintf("%.1f", seconds[len(seconds)/2]), fmt.Sprintf("%.1f", seconds[len(seconds)-1]))
}
