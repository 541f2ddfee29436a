// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/page"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// verdict writes what was found: the best explanation, unless there is a reason to doubt it.
func (a *analysis) verdict() rca.Verdict {
	v := job.NewVerdict(a.Index)
	v.RanksVisited = a.visitedRanks()
	v.Repairs = a.repairs
	v.WhatIf = a.whatIfs()
	for i := range a.Ev.Missing {
		m := &a.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	for _, n := range a.doubted {
		v.Missing = append(v.Missing, fmt.Sprintf(words.Contradicted, a.RankName(n)))
	}
	fs := a.findings()
	if len(fs) == 0 {
		a.sayNobody(&v)
		return v
	}
	v.Hypotheses = a.weighed(fs)
	c := a.choose(fs)
	a.nodeDecides(&c)
	if a.doubt(&c, &v, false) {
		return v
	}
	v.Row = c.rule
	v.Hypotheses[0].Chosen = true
	if c.with > 0 && c.with < len(v.Hypotheses) {
		v.Hypotheses[c.with].Chosen = true
	}
	a.accuse(&c.finding, &v)
	a.addEvidence(&c.finding, fs[1:], &v)
	v.Against = a.against(&c.finding)
	if page.ByEvidence(&v, &a.Opt, a.Level) && !a.beyondChance(&c.finding, pageChance) {
		v.Against = rca.AgainstChance
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.NotBeyondChance, int(1/pageChance)))
	}
	a.doubt(&c, &v, true)
	return v
}

// chosen is the explanation that a verdict rests on.
type chosen struct {
	finding
	alone *finding // Without what is mixed into it.
	with  int      // Which explanation that is, 0 none.
}

// choose takes the best explanation. A computation and a communication of like size on the same ranks make CCL-D's S3 together. Where the
// job's past tells by how much it became slower, neither may account for that alone: two explanations of the same time are no mixture.
func (a *analysis) choose(fs []finding) chosen {
	f := &fs[0]
	c := chosen{finding: *f, alone: f}
	slow := func(g *finding) bool { return g.class == rca.SlowCompute || g.class == rca.SlowComm }
	i := slices.IndexFunc(fs, func(g finding) bool { return slow(&g) && g.class != f.class })
	if !slow(f) || i < 0 || len(f.nodes) == 0 || !slices.Contains(fs[i].nodes, f.nodes[0]) {
		return c
	}
	lost := f.gain + fs[i].gain - 2
	if a.becameSlower() {
		lost = min(lost, a.onset-1)
	}
	if share := (f.gain - 1) / lost; share <= a.Opt.Beta {
		c.with, c.class = i, rca.SlowMixed
		c.what += "; " + fs[i].what
	}
	return c
}

// accuse writes the culprits into the verdict, and which ranks to ask next.
func (a *analysis) accuse(f *finding, v *rca.Verdict) {
	v.Class, v.Cause = f.class, f.cause
	v.Code = v.Class.Code()
	v.Slowdown = rca.Round(f.gain)
	v.Confidence = rca.Round(f.weight * a.coverage() * a.KeptFactor())
	a.narrow(f)
	v.Culprits, v.Evidence = a.culprits(f)
	switch {
	case a.visitedRanks() >= a.World:
	case f.class == rca.SlowCompute:
		v.Ask = a.unseenReplicas(f.nodes)
	case f.class == rca.SlowComm:
		v.Ask = a.unseenEnds(slices.Concat(f.nodes, f.ends))
	}
	v.RestsOn = a.IDs(f.ends)
	if len(f.nodes) == 0 && f.group != "" {
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: f.lane, Group: f.group, Why: f.what})
	}
	v.Comm = f.comm
	v.Summary = a.slowSentence(f)
	v.Action = rca.ActionFor(v.Class, v.Cause)
	if len(v.Culprits) > 0 {
		v.Action = cmp.Or(rca.ActionForFacts(v.Cause, &v.Culprits[0], a.Apart), v.Action)
	}
}

// addEvidence adds what speaks for the finding, and the explanations that were set aside.
func (a *analysis) addEvidence(f *finding, others []finding, v *rca.Verdict) {
	if a.paused != nil {
		v.Evidence = append(v.Evidence, a.paused.sentence(a))
	}
	v.Evidence = append([]string{fmt.Sprintf(words.IterationsTake, a.now.iters, length(a.iterTime/1e6), length(a.iterTime/f.gain/1e6))}, v.Evidence...)
	v.Evidence = append(v.Evidence, a.pathEvidence(f)...)
	v.Evidence = append(v.Evidence, a.whatIfEvidence(v)...)
	for _, g := range others[:min(len(others), maxRuledOut)] {
		c := rca.Candidate{Rank: -1, Group: g.group, Reason: fmt.Sprintf(words.WouldGain, g.cause, g.what, shorter(g.gain))}
		if len(g.nodes) > 0 {
			c.Rank = a.Nodes[g.nodes[0]].ID
		}
		v.RuledOut = append(v.RuledOut, c)
	}
}

// maxRuledOut is how many of the explanations that were set aside are told.
const maxRuledOut = 8

// against gives what speaks against waking somebody for an explanation, whatever it weighs; empty where nothing does.
func (a *analysis) against(f *finding) rca.Against {
	switch {
	case f.class == rca.SlowCompute && (a.paused != nil && a.now.iters < leastBesidePause || a.past == nil && a.now.iters < often):
		return rca.AgainstFew
	case len(f.nodes) == 0:
		return rca.AgainstNobody
	case f.once:
		return rca.AgainstOnce
	case f.gain < a.Opt.IrregularFactor:
		return rca.AgainstLittle
	}
	return ""
}

// shorter gives, in percent, by how much iterations would be shorter without what makes them gain times as long.
func shorter(gain float64) float64 { return 100 * (1 - 1/gain) }

// weighed gives the explanations with what decides between them, best first.
func (a *analysis) weighed(fs []finding) []rca.Hypothesis {
	var out []rca.Hypothesis
	for i := range fs[:min(len(fs), rca.MaxHypotheses)] {
		f := &fs[i]
		h := rca.Hypothesis{
			Row: f.rule, Class: f.class, Cause: f.cause, Weight: rca.Round(f.weight), Saves: rca.Round(1 - 1/f.gain),
			Group: f.group, Reason: words.Opener(f.what),
		}
		if len(f.nodes) == 0 {
			h.Group = cmp.Or(f.group, words.AllRanks)
		}
		for _, id := range a.IDs(f.nodes) {
			if id >= 0 && len(h.Ranks) < rca.MaxCulprits {
				h.Ranks = append(h.Ranks, id)
			}
		}
		out = append(out, h)
	}
	return out
}

// length says how long an iteration of so many milliseconds is.
func length(ms float64) string {
	if ms < 1e4 {
		return fmt.Sprintf("%.4g ms", ms)
	}
	return fmt.Sprintf("%.4g s", ms/1e3)
}

func (a *analysis) slowSentence(f *finding) string {
	gain := fmt.Sprintf(words.WithoutIt, shorter(f.gain))
	mode := pick(f.mode == "", "", ", "+f.mode)
	switch {
	case len(f.nodes) > 0:
		return fmt.Sprintf("%s: %s%s; %s.", words.Opener(a.RankList(f.nodes)), f.what, mode, gain)
	case f.global():
		return words.Opener(f.what) + words.NoMachine
	case f.class == rca.Imbalance:
		return fmt.Sprintf(pick(f.onePlace, words.UnevenOrSlow, words.Uneven), words.Opener(f.group), f.what, gain)
	}
	return fmt.Sprintf("%s: %s%s; %s.", words.Opener(f.group), f.what, mode, gain)
}

// pathEvidence says how much of the critical path the accused hold.
func (a *analysis) pathEvidence(f *finding) []string {
	if len(f.nodes) == 0 || a.walk.total == 0 {
		return nil
	}
	var mine [pathKinds]int64
	for _, n := range f.nodes {
		for k := range mine {
			mine[k] += a.walk.time[n][k]
		}
	}
	pc := func(d int64) float64 { return 100 * float64(d) / float64(a.walk.total) }
	return []string{fmt.Sprintf(words.OnCriticalPath,
		pc(mine[pathCompute]), pc(mine[pathHost]), pc(mine[pathTransfer]))}
}
