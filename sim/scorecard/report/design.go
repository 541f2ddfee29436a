// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/sim/scorecard/baseline"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// Asked is one floor that the design asks for, beside what was measured.
type Asked struct {
	ID   string  `json:"id"`
	Text string  `json:"text"`
	Want float64 `json:"want"` // Of Measured.
	// Measured counts runs, or for a paper's table its cases.
	Measured Share    `json:"measured"`
	State    string   `json:"state"` // met, missed, not run.
	Failing  []string `json:"failing,omitempty"`
}

// States of a floor.
const (
	stateMet    = "met"
	stateMissed = "missed"
	stateNotRun = "not run"
)

// caseBar is the share of a case's runs that must be right for the case to count; up to 19 runs that is all of them.
const caseBar = 0.95

// design measures what the design asks for. Runs whose fault had no effect are left out.
func design(all []judge.Outcome, s *Summary) []Asked {
	top1 := func(o *judge.Outcome) bool { return o.Top1 && o.Accuses() }
	half := func(low, high int) []judge.Outcome {
		return filter(all, func(o *judge.Outcome) bool {
			return o.Guilty() && o.Group == matrix.GroupSlow && o.Severity == matrix.HalfSeverity && o.Ranks >= low && o.Ranks <= high
		})
	}
	stuck := filter(all, func(o *judge.Outcome) bool { return o.Guilty() && o.Group == matrix.GroupHang })
	small, large := half(0, 2048), half(8192, 10240)
	out := []Asked{
		{ID: "hangs", Text: "hangs, top-1, at every scale", Want: 0.99, Measured: s.Hang.Top1, Failing: atScales(stuck, 0, 10240, 0.99, func(o *judge.Outcome) bool { return o.Top1 })},
		{ID: "slow", Text: "slowness at 50% severity, 8 to 2,048 ranks, top-1", Want: 0.97, Measured: share(small, top1), Failing: atScales(small, 0, 2048, 0.97, top1)},
		{ID: "slow-large", Text: "slowness at 50% severity, 8,192 and 10,240 ranks, top-1", Want: 0.95, Measured: share(large, top1), Failing: atScales(large, 8192, 10240, 0.95, top1)},
		cases("ccl-d", "CCL-D's six classes on 16 devices: class and rank", all, matrix.CCLDCases(), func(o *judge.Outcome) bool { return o.ClassRight && o.Top1 }),
		cases("pulse", "Pulse's twelve scenarios: machine and kind", all, matrix.PulseCases(), func(o *judge.Outcome) bool { return o.ClassRight && o.HostRight }),
		cases("mycroft", "Mycroft's seven faults: the rank, or the machine where it is that", all, matrix.MycroftCases(), func(o *judge.Outcome) bool { return o.Top1 }),
		{ID: "healthy", Text: "healthy runs in which nobody is accused", Want: 1, Measured: s.Healthy},
		{ID: "benign", Text: "benign runs in which nobody is accused", Want: 1, Measured: s.Benign},
		better(s.Methods),
	}
	for i := range out {
		a := &out[i]
		switch {
		case a.Measured.Of == 0:
			a.State = stateNotRun
		case a.Measured.Value() < a.Want:
			a.State = stateMissed
		case a.State == "":
			a.State = stateMet
		}
	}
	return out
}

// atScales lists the scales that alone are under what is asked, and those of the design at which nothing was run.
func atScales(counted []judge.Outcome, low, high int, want float64, right func(*judge.Outcome) bool) []string {
	if len(counted) == 0 {
		return nil
	}
	var out []string
	for _, n := range scalesOf(counted) {
		if s := share(ofRanks(counted, n), right); s.Of > 0 && s.Value() < want {
			out = append(out, fmt.Sprintf("%d of %d at %s ranks", s.Hits, s.Of, thousands(n)))
		}
	}
	return append(out, notRun(counted, low, high)...)
}

// cases counts a paper's cases of which all, or all but one in twenty, runs are right. A case that was not run, or never
// had an effect, is not met.
func cases(id, text string, all []judge.Outcome, list []matrix.PaperCase, right func(*judge.Outcome) bool) Asked {
	a := Asked{ID: id, Text: text, Want: 1, Measured: Share{Of: len(list)}}
	ran := 0
	for i := range list {
		c := &list[i]
		of := standsFor(c)
		s := share(filter(all, func(o *judge.Outcome) bool { return o.Effect && of(o) }), right)
		ran += s.Of
		switch {
		case s.Of == 0:
			a.Failing = append(a.Failing, c.Name+": no run with an effect")
		case s.Value() < caseBar:
			a.Failing = append(a.Failing, fmt.Sprintf("%s: %d of %d", c.Name, s.Hits, s.Of))
		default:
			a.Measured.Hits++
		}
	}
	if ran == 0 {
		return Asked{ID: id, Text: text, Want: 1}
	}
	a.Measured.Low, a.Measured.High = wilson(a.Measured.Hits, a.Measured.Of)
	return a
}

// better counts the papers' methods that, alone, are no better than the whole: of all runs, of hangs and of slowness.
func better(scores []MethodScore) Asked {
	a := Asked{ID: "whole", Text: "papers' methods that alone are not better than the whole", Want: 1}
	for i := range scores {
		m := &scores[i]
		if !slices.ContainsFunc(baseline.Methods, func(x baseline.Method) bool { return x.Name == m.Method && x.Paper }) || m.All.Of == 0 {
			continue
		}
		w := &scores[0]
		var at []string
		for _, x := range []struct {
			name        string
			alone, both Share
		}{{"all runs", m.All, w.All}, {"hangs", m.Hang, w.Hang}, {"slowness", m.Slow, w.Slow}} {
			if x.alone.Hits > x.both.Hits {
				at = append(at, fmt.Sprintf("%s in %s: %s against %s", m.Method, x.name, x.alone.Short(), x.both.Short()))
			}
		}
		a.Measured.Of++
		if len(at) == 0 {
			a.Measured.Hits++
		}
		a.Failing = append(a.Failing, at...)
	}
	a.Measured.Low, a.Measured.High = wilson(a.Measured.Hits, a.Measured.Of)
	return a
}
