// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/methods"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/model"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// Verdict is what the engine says of a case, judged.
type Verdict struct {
	Case       string `json:"case"`
	Set        string `json:"set"`
	Group      string `json:"group"`
	Level      string `json:"level,omitempty"`
	Harm       string `json:"harm,omitempty"`
	TruthClass string `json:"truth_class"`
	TruthRanks []int  `json:"truth_ranks,omitempty"`
	Fate       string `json:"fate"` // One of judge's fates.
	judge.Said
	// Rows are all rows of the engine's tables that the verdict names, the one that decided first.
	Rows []string `json:"rows,omitempty"`
}

// Method gives a verdict on evidence.
type Method func(rca.Evidence, rca.Options) rca.Verdict

// Methods are what a corpus can be judged by. Engine is the one that decides.
var Methods = map[string]Method{
	Engine: engine.Analyze, "model": model.Analyze,
	"mycroft": paper("mycroft"), "ccl-d": paper("ccl-d"), "pulse": paper("pulse"), "holmes": paper("holmes"),
}

// paper is what a paper's method alone says, as a verdict: who and of which class, and nothing about paging.
func paper(name string) Method {
	return func(ev rca.Evidence, opt rca.Options) rca.Verdict {
		v := rca.Verdict{Version: rca.VerdictVersion, JobID: ev.JobID, Class: rca.Unknown, Cause: rca.CauseUnknown, Confidence: 1, WorldSize: ev.WorldSize}
		for i, s := range methods.Of(methods.Say(&ev, &methods.Options{Engine: opt}), name) {
			if i > 0 {
				continue // What it says beside its vote.
			}
			v.Class, v.Summary = s.Class, s.Note
			for _, r := range s.Ranks {
				v.Culprits = append(v.Culprits, rca.Culprit{Rank: r, Channel: -1, Why: s.Note})
			}
		}
		return v
	}
}

// Engine is the name of the method that decides.
const Engine = "engine"

// Judge has a method analyse the cases of a corpus again, several at a time, and gives its verdicts in the order of the cases.
func Judge(ctx context.Context, dir string, cases []Case, method Method, workers int) ([]Verdict, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]Verdict, len(cases))
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				r, err := cases[i].rests(dir)
				if err != nil {
					cancel(err)
					return
				}
				out[i] = cases[i].judge(r, method, r.Options)
			}
		})
	}
	for i := range cases {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return out, context.Cause(ctx)
}

// judge gives the verdict of a method as the service would tell it, and compares it with the truth.
func (c *Case) judge(r *kept.Record, method Method, opt rca.Options) Verdict {
	v := method(r.Evidence, opt)
	r.Context.Apply(&v)
	h := judge.JudgeHarmed(c.Harm, c.Liar, &v, c.Answer, c.Effect, c.Where)
	out := Verdict{Case: c.Name, Set: c.Set, Group: c.Group, Level: c.Level, Harm: c.Harm, Fate: h.Fate(), Said: h.Said, TruthClass: "none", Rows: rowsOf(&v)}
	for i, t := range c.Answer.Truths {
		if i == 0 {
			out.TruthClass = t.Class
		}
		out.TruthRanks = append(out.TruthRanks, t.Ranks...)
	}
	return out
}

func rowsOf(v *rca.Verdict) []string {
	out := []string{v.Row}
	for i := range v.Hypotheses {
		if row := v.Hypotheses[i].Row; !slices.Contains(out, row) {
			out = append(out, row)
		}
	}
	return slices.DeleteFunc(out, func(row string) bool { return row == "" })
}

// fates are judge's, the best first.
var fates = []string{judge.FateRight, judge.FateWider, judge.FateUnknown, judge.FateMissed, judge.FateLiar, judge.FateInnocent}

// Tally is how many verdicts had each fate.
type Tally map[string]int

// TallyOf counts fates.
func TallyOf(list []Verdict) Tally {
	t := Tally{}
	for i := range list {
		t[list[i].Fate]++
	}
	return t
}

func (t Tally) String() string {
	var counts []string
	for _, f := range fates {
		counts = append(counts, fmt.Sprintf("%s %d", f, t[f]))
	}
	return strings.Join(counts, ", ")
}

// Worse reports whether one tally accuses more innocents than another, or is right less often.
func (t Tally) Worse(than Tally) bool {
	return t[judge.FateInnocent] > than[judge.FateInnocent] || t[judge.FateRight] < than[judge.FateRight]
}
