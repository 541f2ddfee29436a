// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/model"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
	"github.com/culprit-project/culprit/sim/scorecard/trial"
)

// leastRight is how many verdicts of each set of the small corpus are right. They may only become more.
var leastRight = map[string]int{"nccl": 3, "gpu": 12, "jobs": 81, "examples": 8, "matrix": 25, "drawn 311": 2}

// What is recorded in the tree, and hangs of two small jobs at every level of evidence: nobody innocent is accused, and no fewer verdicts
// are right than were before. `culprit-sim corpus` judges the whole. The hangs were written by
//
//	culprit-sim corpus write --tree= --blind= --group=hang --ranks=32 --harm=none --only=/fsdp-8/,nic_down/dead/gpt-32,gpu_error/dead/gpt-32,op_not_entered/stuck/gpt-32,deadlock/order/gpt-32 --dir=…/testdata
//	culprit-sim corpus write --tree= --blind= --harm=none --later=125s --only=process_killed/killed/gpt-32/1/+2m5s/steps --dir=…/testdata
//	culprit-sim corpus write --tree= --blind= --harm=none --only=host_lost/lost/gpt-32/1/steps --dir=…/testdata
//	culprit-sim corpus write --tree= --blind=311 --harm=none --only=311-96,311-59 --dir=…/testdata
//
// and a drawn job in its first step, of 24 s, by another rule of when drawn faults begin.
func TestSmallCorpus(t *testing.T) {
	recorded := t.TempDir()
	w, err := Create(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Recorded(t.Context(), "../../.."); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var verdicts []Verdict
	for _, dir := range []string{recorded, "testdata"} {
		cases, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		judged, err := Judge(t.Context(), dir, cases, engine.Analyze, runtime.GOMAXPROCS(0))
		if err != nil {
			t.Fatal(err)
		}
		verdicts = append(verdicts, judged...)
	}
	for _, v := range verdicts {
		if v.Fate == judge.FateInnocent {
			t.Errorf("%s accuses an innocent: %s", v.Case, v.Summary)
		}
	}
	for _, p := range parts(verdicts) {
		got := TallyOf(p.of(verdicts))
		t.Logf("%s: %s", p.name, got)
		if got[judge.FateRight] < leastRight[p.name] {
			t.Errorf("%s: %d right, want at least %d", p.name, got[judge.FateRight], leastRight[p.name])
		}
	}
}

// modelRight is the same of the model, of the cases that stand still or are quiet. It may name nobody in jobs that are only slow.
var modelRight = map[string]int{"nccl": 3, "gpu": 9, "matrix": 23}

// The model that runs beside the engine accuses no innocent in the small corpus either.
func TestSmallCorpusByModel(t *testing.T) {
	recorded := t.TempDir()
	w, err := Create(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"nccl", "gpu"} {
		if err := w.incidents("../../../analyzer/offline/testdata/"+set, set); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var verdicts []Verdict
	for _, dir := range []string{recorded, "testdata"} {
		cases, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		judged, err := Judge(t.Context(), dir, cases, model.Analyze, runtime.GOMAXPROCS(0))
		if err != nil {
			t.Fatal(err)
		}
		verdicts = append(verdicts, judged...)
	}
	var out bytes.Buffer
	if err := WriteBeside(&out, "model", verdicts, verdicts); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "innocent:") {
		t.Errorf("the model accuses an innocent:\n%s", out.String())
	}
	for set, least := range modelRight {
		p := part{set, func(v *Verdict) bool { return v.Set == set }}
		if got := TallyOf(p.of(verdicts)); got[judge.FateRight] < least {
			t.Errorf("%s: %s, want at least %d right", set, got, least)
		}
	}
}

// A run is kept with what its verdict rests on, which gives the same verdict again, undisturbed and under harm.
func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: 1, Harm: "records-10", Only: []string{"process_killed/killed/fsdp-8/"}})
	runs := 0
	if err := w.Simulate(t.Context(), cases, trial.Resources{Workers: 1}, func() { runs++ }); err != nil {
		t.Fatal(err)
	}
	if n, err := w.Close(); err != nil || n != 2 || runs != 1 {
		t.Fatalf("%d cases of %d runs, %v", n, runs, err)
	}
	kept, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := Judge(t.Context(), dir, kept, engine.Analyze, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range []string{"matrix", "harm records-10"} {
		r, err := kept[i].rests(dir)
		if err != nil {
			t.Fatal(err)
		}
		if v := verdicts[i]; v.Set != set || v.Fate != judge.FateRight || v.Summary != r.Verdict.Summary || v.TruthClass != "not_entered" {
			t.Errorf("%+v, it was %s", v, r.Verdict.Summary)
		}
	}
}

func TestDiff(t *testing.T) {
	verdict := func(name, fate, cause string) Verdict {
		return Verdict{Case: name, Set: "s", Fate: fate, Said: judge.Said{Cause: cause}}
	}
	before := []Verdict{verdict("same", "right", "gpu"), verdict("better", "unknown", ""), verdict("worse", "right", "gpu"), verdict("cause", "right", "cpu"), verdict("gone", "right", "")}
	after := []Verdict{verdict("same", "right", "gpu"), verdict("better", "right", "gpu"), verdict("worse", "innocent", "gpu"), verdict("cause", "right", "gpu"), verdict("new", "right", "")}
	var names []string
	for _, c := range Diff(before, after) {
		v := c.New
		if v == nil {
			v = c.Old
		}
		names = append(names, v.Case)
	}
	if want := []string{"worse", "cause", "new", "gone", "better"}; !slices.Equal(names, want) {
		t.Errorf("changes are %v, want %v", names, want)
	}
	var out bytes.Buffer
	if err := WriteDiff(&out, before, after); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"right -> innocent: worse", "5 of 5 verdicts changed", "gone     gone: right"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the diff has no %q:\n%s", want, out.String())
		}
	}
	if !TallyOf(after).Worse(TallyOf(before)) || TallyOf(before).Worse(TallyOf(before)) {
		t.Error("one more innocent is no worse")
	}
}
