// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// verdict writes what was found.
func (a *analysis) verdict() rca.Verdict {
	v := job.NewVerdict(a.Index)
	v.RanksVisited = a.visitedRanks()
	v.Methods = a.votes()
	v.WhatIf = a.whatIfs()
	for i := range a.Ev.Missing {
		m := &a.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	for _, n := range a.doubted {
		v.Missing = append(v.Missing, fmt.Sprintf(words.Contradicted, a.RankName(n)))
	}
	fs := a.findings()
	if len(fs) == 0 && a.paused != nil && a.now.iters >= 2 {
		return a.verdictOfPauses(v)
	}
	if len(fs) == 0 {
		a.composeNobody(&v)
		return v
	}
	v.Hypotheses = a.hypotheses(fs)
	f := &fs[0]
	if a.tooLittle(f, &v) {
		return v
	}
	if a.unproven(f) {
		return a.verdictWithoutPast(v, f)
	}
	with := a.mix(fs)
	if a.sharedBy(f) {
		return a.verdictOfBusyHosts(v, f)
	}
	v.Hypotheses[0].Chosen = true
	if with > 0 && with < len(v.Hypotheses) {
		v.Hypotheses[with].Chosen = true
	}
	a.accuse(f, &v)
	a.addEvidence(f, fs[1:], &v)
	v.Page = a.pages(f, &v)
	if f.class == rca.SlowCompute && a.past == nil && a.now.iters < often && len(f.nodes) > 1 {
		a.takeTurns(f, &v)
	}
	return v
}

// composeNobody: nothing explains why the job would be slower than it was.
func (a *analysis) composeNobody(v *rca.Verdict) {
	v.Class, v.Confidence = rca.Healthy, rca.Round(nobodyWeight*a.SeenFactor()*a.clarity())
	v.Summary = words.NobodySlower
	unknown := func(summary string) {
		v.Class, v.Confidence, v.Summary = rca.Unknown, unknownWeight, summary
	}
	if a.now.iters < 2 {
		unknown(words.TooFewIterations)
	}
	if r := a.lastLonger(); r > 1 {
		unknown(fmt.Sprintf(words.LastLonger, r))
	}
	if seen := a.visitedRanks(); seen < a.World && a.now.iters >= 2 {
		unknown(fmt.Sprintf(words.NobodySeenSlower, words.Count(seen), words.Count(a.World-seen)))
		v.Ask = a.unseenPartners()
	}
	if times, ok := a.owes(); ok && v.Class == rca.Healthy {
		a.unexplained(v, times)
	}
	if s := spellOf(a.series); s != nil {
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.LongIterations, count(s.long), len(a.series), s.times))
	}
}

// tooLittle writes the verdict where the best explanation explains too little: everybody is slower and the evidence says why it may not
// show more, or the job has lost far more than its suspects account for.
func (a *analysis) tooLittle(f *finding, v *rca.Verdict) bool {
	if limits := a.limits(); f.class == rca.GlobalSlow && f.weight < evenly && len(limits) > 0 {
		v.Class, v.Confidence = rca.Unknown, unknownWeight
		v.Summary = fmt.Sprintf(words.SlowerForNoCause, f.gain, strings.Join(limits, "; "))
		v.Ask = a.unseenPartners()
		return true
	}
	if times, _ := a.owes(); len(f.nodes) > 0 && a.fallsShort(f) {
		a.unexplained(v, times)
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: -1, Group: "suspects: " + words.RankNumbers(a.IDs(f.nodes)), Why: f.what})
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.WouldBe, f.cause, f.what, shorter(f.gain)))
		return true
	}
	return false
}

// accuse names whom the finding is about, and whom else to ask.
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
	if len(f.nodes) == 0 && f.group != "" {
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: f.lane, Group: f.group, Why: f.what})
	}
	if f.comm >= 0 {
		v.Comm = a.Comms[f.comm].Name
	}
	v.Summary = a.slowSentence(f)
	v.Action = rca.ActionFor(v.Class, v.Cause)
	if len(v.Culprits) > 0 {
		v.Action = cmp.Or(rca.ActionForFacts(v.Cause, &v.Culprits[0], a.Ev.Facts), v.Action)
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
	if s := a.parallelismEvidence(); s != "" {
		v.Evidence = append(v.Evidence, s)
	}
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

// pages says that a person is called: somebody is named who costs enough, and not once, rarely or within few iterations.
func (a *analysis) pages(f *finding, v *rca.Verdict) bool {
	if v.Class != rca.SlowCompute && v.Class != rca.SlowComm && v.Class != rca.SlowMixed {
		return false
	}
	if f.class == rca.SlowCompute && (f.rare || a.paused != nil && a.now.iters < leastBesidePause || a.past == nil && a.now.iters < often) {
		return false
	}
	return a.Carries(v.Class, v.Confidence) && len(f.nodes) > 0 && !f.once && f.gain >= a.Opt.IrregularFactor
}

// shorter gives, in percent, by how much iterations would be shorter without what makes them gain times as long.
func shorter(gain float64) float64 { return 100 * (1 - 1/gain) }

// hypotheses gives the explanations with what decides between them, best first.
func (a *analysis) hypotheses(fs []finding) []rca.Hypothesis {
	var out []rca.Hypothesis
	for i := range fs[:min(len(fs), rca.MaxHypotheses)] {
		f := &fs[i]
		h := rca.Hypothesis{
			Class: f.class, Cause: f.cause, Weight: rca.Round(f.weight), Saves: rca.Round(1 - 1/f.gain), Group: pick(len(f.nodes) == 0, cmp.Or(f.group, words.AllRanks), f.group), Reason: words.Opener(f.what),
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

// takeTurns keeps several ranks that were late in a few iterations from being accused together: one after the other may have paused.
func (a *analysis) takeTurns(f *finding, v *rca.Verdict) {
	v.Class, v.Code, v.Cause, v.Confidence = rca.Unknown, "", rca.CauseUnknown, unknownWeight
	v.Culprits = []rca.Culprit{{Rank: -1, Channel: -1, Group: "suspects: " + words.RankNumbers(a.IDs(f.nodes)), Why: f.what}}
	v.Summary += fmt.Sprintf(words.TooFewToAccuse, pick(a.now.iters == 1, "1 iteration was", fmt.Sprintf(words.IterationsSeen, a.now.iters)))
	v.Action = words.LookLater
}

// verdictOfBusyHosts is the verdict where a rank stands out, and all hosts share what would explain it.
func (a *analysis) verdictOfBusyHosts(v rca.Verdict, f *finding) rca.Verdict {
	v.Class, v.Cause, v.Confidence, v.Slowdown = rca.Unknown, rca.CauseUnknown, unknownWeight, rca.Round(f.gain)
	v.Summary = fmt.Sprintf(words.BusyHosts, words.Opener(a.RankList(f.nodes)), f.what)
	v.Action = words.RelieveHosts
	return v
}

// mix turns a computation and a communication finding of like size on the same ranks into CCL-D's S3. It gives which finding it joined to
// the first, 0 none.
func (a *analysis) mix(fs []finding) int {
	if len(fs) < 2 || fs[0].class != rca.SlowCompute && fs[0].class != rca.SlowComm {
		return 0
	}
	for i := range fs[1:] {
		g := &fs[i+1]
		if g.class == fs[0].class || g.class != rca.SlowCompute && g.class != rca.SlowComm {
			continue
		}
		share := (fs[0].gain - 1) / (fs[0].gain + g.gain - 2)
		if share <= a.Opt.Beta && len(g.nodes) > 0 && len(fs[0].nodes) > 0 && slices.Contains(g.nodes, fs[0].nodes[0]) {
			fs[0].class = rca.SlowMixed
			fs[0].what += "; " + g.what
			return i + 1
		}
		return 0
	}
	return 0
}

func (a *analysis) slowSentence(f *finding) string {
	gain := fmt.Sprintf(words.WithoutIt, shorter(f.gain))
	mode := pick(f.mode == "", "", ", "+f.mode)
	switch {
	case len(f.nodes) > 0:
		return fmt.Sprintf("%s: %s%s; %s.", words.Opener(a.RankList(f.nodes)), f.what, mode, gain)
	case f.class == rca.GlobalSlow:
		return words.Opener(f.what) + words.NoMachine
	case f.class == rca.Imbalance:
		return fmt.Sprintf(words.Uneven, words.Opener(f.group), f.what, gain)
	}
	return fmt.Sprintf("%s: %s%s; %s.", words.Opener(f.group), f.what, mode, gain)
}

// unseenPartners gives the unseen ranks in whose operations the others spend most time.
func (a *analysis) unseenPartners() []int {
	spent := map[int]int64{}
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if s.Kind != rca.SegmentOp || a.now.complete(&a.now.jobs[s.job]) {
			continue
		}
		if s.Peer >= 0 {
			if n := a.NodeOf(s.Peer); n >= 0 && len(a.now.ranks[n]) == 0 {
				spent[s.Peer] += s.stay
			}
			continue
		}
		if ci, ok := s.in(); ok {
			for _, n := range a.Comms[ci].At {
				if n >= 0 && len(a.now.ranks[n]) == 0 && a.Nodes[n].ID >= 0 {
					spent[a.Nodes[n].ID] += s.stay
				}
			}
		}
	}
	ids := make([]int, 0, len(spent))
	for id := range spent {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y int) int { return cmp.Or(cmp.Compare(spent[y], spent[x]), cmp.Compare(x, y)) })
	const most = 64
	return ids[:min(most, len(ids))]
}

func (a *analysis) visitedRanks() int {
	n := 0
	for i := range a.now.ranks {
		if len(a.now.ranks[i]) > 0 {
			n++
		}
	}
	return n
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
