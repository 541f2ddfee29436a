// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// fast are small cases of every kind.
func fast(t *testing.T) []matrix.Case {
	t.Helper()
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: 1, Levels: []cluster.Level{cluster.KernelEvents}, Only: []string{
		"process_killed/killed/fsdp-8/", "gpu_throttle/50%/gpt-32/", "healthy/none/fsdp-8/", "checkpoint_one/20_s/fsdp-8/", "stage_imbalance/from_the_start/gpt-32/",
	}})
	if len(cases) != 5 {
		t.Fatalf("%d cases", len(cases))
	}
	return cases
}

// untimed leaves out what the machine decides.
func untimed(list []judge.Outcome) []judge.Outcome {
	for i := range list {
		o := &list[i]
		o.AnalysisMS, o.AnalysisCPU, o.AllocMiB, o.SimSeconds, o.Seconds = 0, 0, 0, 0, 0
	}
	return list
}

func TestRunJudgesAndRepeats(t *testing.T) {
	cases := fast(t)
	done := 0
	first, err := Run(t.Context(), cases, Resources{Workers: 2}, func(*judge.Outcome) { done++ })
	if err != nil || done != len(cases) || len(first) != len(cases) {
		t.Fatalf("%v, %d done, %d outcomes", err, done, len(first))
	}
	for i := range first {
		o := &first[i]
		if o.Name != cases[i].Name {
			t.Errorf("outcome %d is of %s, want %s", i, o.Name, cases[i].Name)
		}
		if o.RanksFetched != o.Ranks && o.Group != matrix.GroupHang || o.BytesFetched == 0 {
			t.Errorf("%s: %d ranks, %d bytes fetched", o.Name, o.RanksFetched, o.BytesFetched)
		}
		if o.AnalysisMS <= 0 || o.SimSeconds <= 0 {
			t.Errorf("%s: analysis %g ms, simulation %g s", o.Name, o.AnalysisMS, o.SimSeconds)
		}
		if !o.Effect || len(o.Methods) != len(baseline.Methods) {
			t.Errorf("%s: effect %v, %d methods", o.Name, o.Effect, len(o.Methods))
		}
		if hurt := o.Group == matrix.GroupHang || o.Group == matrix.GroupSlow && o.Scenario != "stage_imbalance"; hurt && (!o.Triggered || o.Latency <= 0 || o.Latency > 60) {
			t.Errorf("%s: told %v after %g s", o.Name, o.Triggered, o.Latency)
		}
	}
	again, err := Run(t.Context(), cases, Resources{Workers: 1}, func(*judge.Outcome) {})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(untimed(first), untimed(again)) {
		t.Error("the same cases give different outcomes")
	}
}

// What methods and costs are judged by is the look that the verdict rests on, also where an incident was open before the fault and the
// look that found the job standing asked for the present alone.
func TestJudgesTheLookOfTheVerdict(t *testing.T) {
	cases := matrix.Cases(matrix.Options{Quick: true, Seed: 1, Harm: matrix.HarmNone, Levels: []cluster.Level{cluster.KernelEvents}, Only: []string{"ecc_error/dead/gpt-32/"}})
	cases = slices.DeleteFunc(cases, func(c matrix.Case) bool { return !c.Young })
	if len(cases) != 1 {
		t.Fatalf("%d cases", len(cases))
	}
	m := &meter{}
	m.alone.RLock()
	defer m.alone.RUnlock()
	done, err := run(t.Context(), &cases[0], m)
	if err != nil {
		t.Fatal(err)
	}
	last, said := &done.s.last, done.s.verdict()
	if !last.outcome.Verdict.Class.StandsStill() || accusation(&last.outcome.Verdict) != accusation(said) {
		t.Errorf("the judged look says %s, the service %s", accusation(&last.outcome.Verdict), accusation(said))
	}
	longest := time.Duration(0)
	for i := range last.ev.Ranks {
		for j := range last.ev.Ranks[i].Memberships {
			for _, op := range last.ev.Ranks[i].Memberships[j].InFlight {
				longest = max(longest, op.Stuck)
			}
		}
	}
	if longest < 2*time.Second {
		t.Errorf("no operation of the judged evidence stands for longer than %v", longest)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, err := Run(ctx, fast(t), Resources{Workers: 1}, func(*judge.Outcome) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(out) == 0 || len(out) == 5 {
		t.Errorf("%d outcomes of a run that was ended after the first", len(out))
	}
}

func TestRunReportsErrors(t *testing.T) {
	cases := fast(t)
	cases[2].Config.Job.Model.Layers = 0
	cases[2].Config.Job.PP = 4
	if _, err := Run(t.Context(), cases, Resources{Workers: 2}, func(*judge.Outcome) {}); err == nil || !strings.Contains(err.Error(), cases[2].Name) {
		t.Errorf("error %v, want one that names %s", err, cases[2].Name)
	}
}

// What a case is judged by comes from the engine alone: it gets evidence, and the packages it is made of know nothing of
// the simulator that holds the answer.
func TestEngineCannotReadTheAnswer(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./analyzer/...")
	list.Dir = "../../.." // The module that the shipped programs are built from.
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing what the analyzer is made of: %v", err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("only %d packages", len(deps))
	}
	for _, d := range deps {
		if strings.Contains(d, "culprit/sim/") || strings.Contains(d, "prometheus/prometheus") {
			t.Errorf("the analyzer depends on %s", d)
		}
	}
	// Nor is there room in the evidence for anything of the answer's package.
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		if strings.Contains(typ.PkgPath(), "culprit/sim/") {
			t.Errorf("evidence holds a %s", typ)
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(typ.Elem())
		case reflect.Map:
			walk(typ.Key())
			walk(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				walk(f.Type)
			}
		case reflect.Interface, reflect.Func, reflect.Chan:
			t.Errorf("evidence holds a %s, through which anything can be had", typ)
		}
	}
	walk(reflect.TypeFor[rca.Evidence]())
}
