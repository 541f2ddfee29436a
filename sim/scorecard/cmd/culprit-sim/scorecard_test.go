// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/journal"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/report"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A run writes its reports, and what it has is not run again.
func TestScorecardRunsAndResumes(t *testing.T) {
	f := scorecardFlags{only: "process_killed/killed/fsdp-8/,healthy/none/fsdp-8/", out: t.TempDir(), workers: 2, verbose: true}
	f.opt.Seed = 1
	f.markdown = filepath.Join(f.out, "results", "copy.md")
	var out, progress bytes.Buffer
	if err := runScorecard(t.Context(), &f, &report.Floors{}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"process_killed/killed/fsdp-8/1", "2 runs in", "met      hangs, top-1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
	var r report.Report
	if err := json.Unmarshal(read(t, filepath.Join(f.out, "scorecard.json")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Outcomes) != 2 || r.Outcomes[0].Name != "process_killed/killed/fsdp-8/1" {
		t.Errorf("the JSON has %d outcomes", len(r.Outcomes))
	}
	if got := read(t, f.markdown); !bytes.Equal(read(t, filepath.Join(f.out, "scorecard.md")), got) {
		t.Errorf("--markdown differs from the report:\n%s", got)
	}
	if page := read(t, filepath.Join(f.out, "scorecard.html")); !bytes.Contains(page, []byte("</html>")) {
		t.Error("the page is not complete")
	}
	before := read(t, filepath.Join(f.out, "outcomes.jsonl"))
	f.resume = true
	progress.Reset()
	if err := runScorecard(t.Context(), &f, &report.Floors{}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "2 of 2 runs are there already") {
		t.Errorf("progress: %s", progress.String())
	}
	if after := read(t, filepath.Join(f.out, "outcomes.jsonl")); !bytes.Equal(before, after) {
		t.Error("runs that were there have been run again")
	}
}

// A figure under its floor makes the command fail, and is named.
func TestScorecardFailsUnderItsFloors(t *testing.T) {
	whole := matrix.Cases(matrix.Options{Quick: true, Seed: 1})
	dir := t.TempDir()
	kept, _, err := journal.Open(filepath.Join(dir, "outcomes.jsonl"), false)
	if err != nil {
		t.Fatal(err)
	}
	// Runs of the whole matrix that another process has done: of the hangs, every second one wrong.
	for i, c := range whole {
		o := judge.Outcome{
			Name: c.Name, Scenario: c.Scenario, Group: c.Group, Workload: c.Workload, Severity: c.Severity, Ranks: c.Ranks, Seed: c.Seed,
			Level: string(c.Level), Effect: true, Triggered: true, Said: judge.Said{Class: "healthy"},
		}
		if c.Group == "hang" {
			o.Class, o.TruthRanks, o.Culprits = "fault", []int{1}, []int{1}
			o.Top1, o.Right, o.ClassRight = i%2 == 0, i%2 == 0, true
		}
		if err := kept.Add(&journal.Entry{Commit: commit(t.Context()), Outcome: o}); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	f := scorecardFlags{out: dir, workers: 1, resume: true}
	f.opt.Seed = 1
	floors := &report.Floors{AtLeast: map[string]float64{"hang_top1": 0.9, "healthy_not_accused": 1}, Met: []string{"hangs"}}
	var out, progress bytes.Buffer
	err = runScorecard(t.Context(), &f, floors, &out, &progress)
	if err == nil {
		t.Fatal("half of the hangs are wrong, and nothing fails")
	}
	for _, want := range []string{"under the floors", "hang_top1: 0.5", "design hangs: missed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "healthy_not_accused") {
		t.Errorf("a figure that is at its floor is named: %v", err)
	}
	if !strings.Contains(out.String(), "reports: "+dir) {
		t.Error("the reports are not written when floors are missed")
	}
	f.noFloors = true
	if err := runScorecard(t.Context(), &f, floors, &out, &progress); err != nil {
		t.Errorf("--no-floors: %v", err)
	}
}

func TestScorecardReportOfJournals(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, commit := range []string{"one", "two"} {
		path := filepath.Join(dir, commit+".jsonl")
		kept, _, err := journal.Open(path, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"healthy/none/fsdp-8/1", "healthy/none/fsdp-8/" + commit}[i:] {
			o := judge.Outcome{Name: name, Scenario: "healthy", Group: "healthy", Level: string(cluster.KernelEvents), Effect: true}
			if err := kept.Add(&journal.Entry{Commit: commit, Outcome: o}); err != nil {
				t.Fatal(err)
			}
		}
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	out := filepath.Join(dir, "out")
	if err := run(t.Context(), append([]string{"scorecard-report", "--out", out}, paths...)); err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(read(t, filepath.Join(out, "scorecard.json")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Summary.Runs != 3 || r.Commit != "one, two" || r.Mode != "slices" {
		t.Errorf("%d runs of %s, mode %s", r.Summary.Runs, r.Commit, r.Mode)
	}
	if err := run(t.Context(), []string{"scorecard-report", filepath.Join(dir, "none.jsonl")}); err == nil {
		t.Error("a report of a journal that is not there")
	}
}

// TestBadInput has mistakes on the command line told by the flag that has them.
func TestBadInput(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"scorecard --blind=x", `--blind=x: "x" is no seed`},
		{"scorecard --blind=1 --runs=0", "--runs=0"},
		{"scorecard --level=flows", "'flows'"},
		{"scorecard --scrape=10ms", "--scrape=10ms"},
		{"scorecard --scrape=2m", "no rules fit a scrape interval of 2m0s"},
		{"calibrate --blind=1,-2", `"-2" is no seed`},
	} {
		if err := run(t.Context(), strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error with %s", c.args, err, c.says)
		}
	}
}

// What a drawn case is harmed by is drawn, too, unless --harm chooses.
func TestHarmsOfDrawnCases(t *testing.T) {
	for harm, want := range map[string]func(harmed, of int) bool{
		matrix.HarmSample: func(harmed, of int) bool { return harmed > 0 && harmed < of },
		matrix.HarmNone:   func(harmed, _ int) bool { return harmed == 0 },
		"clock":           func(harmed, of int) bool { return harmed == of },
	} {
		f := scorecardFlags{blind: "7", runs: 60}
		f.opt.Harm = harm
		cases, _, err := f.cases()
		if err != nil {
			t.Fatal(err)
		}
		harmed := 0
		for i := range cases {
			if len(cases[i].Harms) > 0 {
				harmed++
			}
		}
		if !want(harmed, len(cases)) {
			t.Errorf("--harm=%s: %d of %d", harm, harmed, len(cases))
		}
	}
}
