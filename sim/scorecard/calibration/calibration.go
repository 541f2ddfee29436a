// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package calibration fits the confidence of verdicts to how often they were right.
package calibration

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// What a calibration is fitted with.
const (
	// calibrationPrior is as how many verdicts the engine's own weight counts in each knot.
	prior = 10
	// calibrationCeiling is the largest confidence: one verdict in fifty may fail by what the simulator does not have.
	ceiling = 0.98
	// calibrationBin is the least number of verdicts of a knot, where there are as many.
	leastVerdicts = 25
)

// said is a verdict that was judged.
type said struct {
	level  rca.Level
	class  rca.Class
	weight float64
	right  bool
	counts float64 // As how many verdicts: clean and harmed ones are half of the mixture each.
}

// saidOf lists the verdicts of runs, on clean and on spoiled evidence. Those that name nobody because they do not know are not
// calibrated.
func saidOf(outcomes []judge.Outcome) []said {
	var out []said
	add := func(level string, s *judge.Said, j *judge.Judgement, counts float64) {
		if s.Weight > 0 && !j.Unknown {
			out = append(out, said{rca.Level(level), rca.Class(s.Class), s.Weight, j.Holds(), counts})
		}
	}
	for i := range outcomes {
		o := &outcomes[i]
		if !o.Effect {
			continue
		}
		add(o.Level, &o.Said, &o.Judgement, 1)
		for k := range o.Harmed {
			h := &o.Harmed[k]
			add(o.Level, &h.Said, &h.Judgement, 1/float64(len(o.Harmed)))
		}
	}
	return out
}

// saidOfPeople lists the verdicts that people judged on real jobs.
func saidOfPeople(feedback []incident.ListedFeedback) []said {
	var out []said
	for i := range feedback {
		f := &feedback[i]
		if f.Said.Weight > 0 && f.Said.Class != rca.Unknown {
			out = append(out, said{f.Said.Level, f.Said.Class, f.Said.Weight, f.Right, 1})
		}
	}
	return out
}

// Fit fits the engine's calibration to judged runs, and to what people said of verdicts on real jobs.
func Fit(outcomes []judge.Outcome, feedback []incident.ListedFeedback, command, commit string) *rca.Calibration {
	people := saidOfPeople(feedback)
	verdicts := append(saidOf(outcomes), people...)
	runs, harmed := 0, 0
	for i := range outcomes {
		if outcomes[i].Effect {
			runs++
			harmed += len(outcomes[i].Harmed)
		}
	}
	c := &rca.Calibration{
		Version: rca.CalibrationVersion, Command: command, Commit: commit, Prior: prior, Ceiling: ceiling,
		Mix:      fmt.Sprintf("%d runs of the quick matrix and of drawn jobs, half of the weight, and %d verdicts on spoiled evidence of the same runs, the other half", runs, harmed),
		Families: families(verdicts), Levels: map[rca.Level]map[rca.Family]rca.Curve{},
	}
	if len(people) > 0 {
		c.Mix += fmt.Sprintf(", and %d verdicts on real jobs that people judged", len(people))
	}
	for _, l := range []rca.Level{rca.LevelKernels, rca.LevelSteps, rca.LevelLaunches, rca.LevelCalls} {
		c.Levels[l] = families(slices.DeleteFunc(slices.Clone(verdicts), func(s said) bool { return s.level != l }))
	}
	return c
}

// families gives the curve of each family that has verdicts.
func families(verdicts []said) map[rca.Family]rca.Curve {
	out := map[rca.Family]rca.Curve{}
	for _, f := range []rca.Family{rca.FamilyHang, rca.FamilySlow, rca.FamilyNobody, rca.FamilyQuiet} {
		mine := slices.DeleteFunc(slices.Clone(verdicts), func(s said) bool { return rca.FamilyOf(s.class) != f })
		if rising := curve(mine); len(rising) > 0 {
			out[f] = rising
		}
	}
	return out
}

// bin is verdicts of about one weight.
type bin struct {
	counts, right, weight float64 // Sums, weighted.
	n, hits               int
}

func (b *bin) add(o bin) {
	b.counts += o.counts
	b.right += o.right
	b.weight += o.weight
	b.n += o.n
	b.hits += o.hits
}

func (b *bin) mean() float64 { return b.weight / b.counts }

// share is how many were right, with the engine's own weight as a prior.
func (b *bin) share() float64 {
	return (b.right + prior*b.mean()) / (b.counts + prior)
}

// curve gives the rising curve that is nearest to the shares (isotonic regression by pooling adjacent violators), under the
// ceiling.
func curve(verdicts []said) rca.Curve {
	slices.SortStableFunc(verdicts, func(a, b said) int { return cmp.Compare(a.weight, b.weight) })
	var bins []bin
	for i := 0; i < len(verdicts); {
		var b bin
		for w := verdicts[i].weight; i < len(verdicts) && (verdicts[i].weight == w || b.n < leastVerdicts); i++ {
			w = verdicts[i].weight
			b.add(binOf(&verdicts[i]))
		}
		bins = append(bins, b)
	}
	if n := len(bins); n > 1 && bins[n-1].n < leastVerdicts {
		bins[n-2].add(bins[n-1])
		bins = bins[:n-1]
	}
	var pooled []bin
	for _, b := range bins {
		pooled = append(pooled, b)
		for n := len(pooled); n > 1 && pooled[n-1].share() <= pooled[n-2].share(); n = len(pooled) {
			pooled[n-2].add(pooled[n-1])
			pooled = pooled[:n-1]
		}
	}
	var out rca.Curve
	for _, b := range pooled {
		out = append(out, rca.Knot{Weight: round3(b.mean()), Confidence: round3(min(b.share(), ceiling)), Verdicts: b.n, Right: b.hits})
	}
	return out
}

func binOf(s *said) bin {
	b := bin{counts: s.counts, weight: s.counts * s.weight, n: 1}
	if s.right {
		b.right, b.hits = s.counts, 1
	}
	return b
}

func round3(x float64) float64 { return math.Round(1000*x) / 1000 }
