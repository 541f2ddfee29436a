// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// intro tells what the figures are and how to have them again.
func (r *Report) intro() []string {
	what := fmt.Sprintf("%s: %d simulated runs (%s), seed %d, commit %s; %d faults had no effect, or slowed the iterations by less than 10%%: they have a column of their own, and count nowhere else.",
		r.Date.UTC().Format(time.DateOnly), r.Summary.Runs, r.Mode, r.Seed, r.Commit, r.Summary.Without)
	if r.Seconds > 0 {
		what += fmt.Sprintf(" The run took %.0f s on %s.", r.Seconds, r.Machine)
	}
	again := fmt.Sprintf("Again: `culprit-sim scorecard --%s --seed %d%s`.", r.Mode, r.Seed, r.drawnFlag())
	if r.Mode == modeSlices {
		again = "Again: `culprit-sim scorecard --full` with `--min-ranks`, `--ranks`, `--group` and `--only` for each slice, then `culprit-sim scorecard-report` of their journals."
	}
	out := []string{
		what,
		again + " The same seed gives the same runs. docs/simulator.md describes the model and what it leaves out: every figure here is about simulated clusters, and none replaces a real one.",
		"The engine gets what the nodes' exporters would serve, and nothing else. The sealed answer meets its verdict only in the judge.",
	}
	if r.Mode != "quick" {
		out = append(out, planText)
	}
	return out
}

// planText tells what the full matrix runs where.
const planText = "The full matrix: up to 64 ranks every severity; GPT on 512 ranks every kind of fault at its first severity (half, where the fault takes a share) and at the papers' harshest; " +
	"FSDP on 512 and GPT on 2,048 nine scenarios, on 8,192 and 10,240 ranks five. A run on 10,240 ranks costs a hundred times one on 64: large scales show whether an answer holds there, small ones how often."

// modeSlices is the mode of a report on slices of the matrix that were run one after the other.
const modeSlices = "slices"

// Markdown writes the report.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Scorecard\n\n<!-- Written by culprit-sim scorecard. -->\n")
	for _, p := range r.intro() {
		b.WriteString("\n" + p + "\n")
	}
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n## %s\n", t.title)
		if t.note != "" {
			b.WriteString("\n" + t.note + "\n")
		}
		if len(t.rows) == 0 {
			b.WriteString("\nNone.\n")
			continue
		}
		b.WriteString("\n| " + strings.Join(cells(t.head), " | ") + " |\n|" + strings.Repeat("---|", len(t.head)) + "\n")
		for _, row := range t.rows {
			b.WriteString("| " + strings.Join(cells(row), " | ") + " |\n")
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func cells(row []string) []string {
	out := make([]string, len(row))
	for i, c := range row {
		out[i] = strings.ReplaceAll(c, "|", "\\|")
	}
	return out
}
