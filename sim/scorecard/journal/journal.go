// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the outcomes of a scorecard as they come, so that a run that is ended can go on, and tells how long the
// rest will take.
package journal

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Entry is one line of a journal: an outcome and the tree that it is of.
type Entry struct {
	Commit string `json:"commit"`
	// PeakMiB is the process's peak of resident memory after the run, the Machine it ran on.
	PeakMiB float64       `json:"peak_mib"`
	Machine string        `json:"machine"`
	Outcome judge.Outcome `json:"outcome"`
}

// Journal keeps outcomes as they come, one JSON line each, so that a run that is ended can go on later.
type Journal = jsonl.File[Entry]

// Open opens a journal to append to: a new one, or with keep one that may have entries.
func Open(path string, keep bool) (*Journal, []Entry, error) {
	j, entries, err := jsonl.Open[Entry](path, keep)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the journal: %w", err)
	}
	return j, entries, nil
}

// Read reads the entries of a journal that may still be written to.
func Read(path string) ([]Entry, error) {
	entries, err := jsonl.Read[Entry](path)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return entries, nil
}

// Remaining splits the cases into outcomes that the entries have of this commit, and cases that are still to run.
func Remaining(cases []matrix.Case, entries []Entry, commit string) (have []judge.Outcome, left []matrix.Case) {
	known := map[string]*judge.Outcome{}
	for i := range entries {
		if entries[i].Commit == commit {
			known[entries[i].Outcome.Name] = &entries[i].Outcome
		}
	}
	for i := range cases {
		if o := known[cases[i].Name]; o != nil {
			have = append(have, *o)
		} else {
			left = append(left, cases[i])
		}
	}
	return have, left
}

// Latest gives the last outcome of every run in the entries, in order of first appearance, and the commits they are of.
func Latest(entries []Entry) (outcomes []judge.Outcome, commits []string) {
	at := map[string]int{}
	commit := []string{}
	for i := range entries {
		o := &entries[i].Outcome
		k, ok := at[o.Name]
		if !ok {
			k = len(outcomes)
			at[o.Name] = k
			outcomes, commit = append(outcomes, judge.Outcome{}), append(commit, "")
		}
		outcomes[k], commit[k] = *o, entries[i].Commit
	}
	for _, c := range commit {
		if !slices.Contains(commits, c) {
			commits = append(commits, c)
		}
	}
	return outcomes, commits
}

// InOrder sorts outcomes as the cases are; those of no case come last.
func InOrder(outcomes []judge.Outcome, cases []matrix.Case) []judge.Outcome {
	at := make(map[string]int, len(cases))
	for i := range cases {
		at[cases[i].Name] = i
	}
	place := func(o judge.Outcome) int {
		if i, ok := at[o.Name]; ok {
			return i
		}
		return len(cases)
	}
	out := slices.Clone(outcomes)
	slices.SortStableFunc(out, func(a, b judge.Outcome) int { return place(a) - place(b) })
	return out
}
