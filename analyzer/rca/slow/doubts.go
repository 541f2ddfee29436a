// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// doubt is a row of the table of reasons not to name the best explanation. The verdict then says what would decide it.
type doubt struct {
	name  string
	holds func(*analysis, *chosen) bool
	say   func(*analysis, *chosen, *rca.Verdict)
	after bool // It leaves the evidence in the verdict, and takes back the accusation.
}

// doubts is the table; the first row that holds gives the verdict.
var doubts = []doubt{
	{name: "not_all_alike", holds: (*analysis).notAlike, say: (*analysis).sayNotAlike},
	{name: "accounts_for_too_little", holds: (*analysis).fallsShort, say: (*analysis).sayFallsShort},
	{name: "never_faster", holds: (*analysis).unproven, say: (*analysis).sayUnproven},
	{name: "all_hosts_busy", holds: (*analysis).sharedBy, say: (*analysis).sayShared},
	{name: "may_wait_unseen", holds: (*analysis).mayWaitUnseen, say: (*analysis).sayMayWaitUnseen},
	{name: rca.RowMayBeChance, holds: (*analysis).mayBeChance, say: (*analysis).sayMayBeChance},
	{name: "may_take_turns", holds: (*analysis).fewIterations, say: (*analysis).sayTakeTurns, after: true},
}

// doubt says the first doubt that holds; false when none does.
func (a *analysis) doubt(c *chosen, v *rca.Verdict, after bool) bool {
	i := slices.IndexFunc(doubts, func(d doubt) bool { return d.after == after && a.Opt.Without != d.name && d.holds(a, c) })
	if i < 0 {
		return false
	}
	v.Row = doubts[i].name
	v.Class, v.Code, v.Cause, v.Confidence = rca.Unknown, "", rca.CauseUnknown, unknownWeight
	doubts[i].say(a, c, v)
	return true
}

// suspect describes the ranks of an explanation without accusing them.
func (a *analysis) suspect(f *finding) rca.Culprit {
	who := f.group
	if len(f.nodes) > 0 {
		who = words.RankNumbers(a.IDs(f.nodes))
	}
	return rca.Culprit{Rank: -1, Channel: f.lane, Group: "suspects: " + who, Why: f.what}
}

// notAlike holds where all ranks, or most groups, are slower, and were not seen to be so by one factor: that may follow from one rank that
// does not stand out. The rows that find this keep a small place from explaining all of it, and are no answer.
func (a *analysis) notAlike(c *chosen) bool {
	return c.alone.global() && c.weight < evenly
}

func (a *analysis) sayNotAlike(c *chosen, v *rca.Verdict) {
	v.Slowdown = rca.Round(c.gain)
	v.Summary = a.withLimits(fmt.Sprintf(words.SlowerForNoCause, words.Opener(c.alone.what)))
	v.Ask, v.Action = a.unseenPartners(), a.again()
}

// again says what to wait for before the next look: hosts that did not tell in time, or more of the job.
func (a *analysis) again() string {
	if a.historiesLate() {
		return words.HistoriesLate
	}
	return words.LookLater
}

// historiesLate: hosts did not send in time what their ranks did.
func (a *analysis) historiesLate() bool {
	return slices.ContainsFunc(a.Ev.Missing, func(m rca.Missing) bool { return m.What == "history" })
}

// withLimits ends a sentence with what was not seen.
func (a *analysis) withLimits(sentence string) string {
	if limits := a.limits(); len(limits) > 0 {
		return strings.TrimSuffix(sentence, ".") + ": " + strings.Join(limits, "; ") + "."
	}
	return sentence
}

// The job's own past says by how much it is slower, whatever finished work was read. An answer has to account for that. Whether a job without
// a past is slow at all is unknown.

// owes reports whether the job is slower than in its past, and by how much.
func (a *analysis) owes() (times float64, ok bool) {
	return a.Ev.Slowdown, a.Ev.Slowdown >= a.Opt.IrregularFactor
}

// leavesMost reports whether an explanation accounts for little of the slowdown, and most work that could account for the rest was not seen.
func (a *analysis) leavesMost(f *finding) bool {
	times, ok := a.owes()
	return ok && len(f.nodes) > 0 && a.startsUnseen() && f.gain-1 < leastOwed*(times-1)
}

func (a *analysis) fallsShort(c *chosen) bool { return a.leavesMost(&c.finding) }

func (a *analysis) sayFallsShort(c *chosen, v *rca.Verdict) {
	a.sayUnexplained(v)
	suspects := a.suspect(c.alone)
	suspects.Channel = -1
	v.Culprits = append(v.Culprits, suspects)
	v.Evidence = append(v.Evidence, fmt.Sprintf(words.WouldBe, c.cause, c.alone.what, shorter(c.gain)))
}

// unproven holds where a place in the network is slower than others by no more than healthy places differ, the job is not known to have
// been faster, and the node reports nothing.
func (a *analysis) unproven(c *chosen) bool {
	_, slower := a.owes()
	return c.alone.class == rca.SlowComm && c.times > 0 && c.times < leastTimes && a.past == nil && !slower && !a.anySick(c.nodes, c.times)
}

func (a *analysis) sayUnproven(c *chosen, v *rca.Verdict) {
	v.Slowdown = rca.Round(c.gain)
	v.Culprits = []rca.Culprit{a.suspect(c.alone)}
	v.Summary = a.slowSentence(c.alone) + words.NeverFaster
	v.Action = words.CompareRuns
}

// sharedBy: all hosts share what would explain it. Threads wait for a CPU on all of them, and times in flight hold that waiting, too: a
// thread that does not run sees late that a transfer has ended.
func (a *analysis) sharedBy(c *chosen) bool {
	if c.class != rca.SlowCompute && c.class != rca.SlowComm && c.class != rca.SlowMixed || len(c.nodes) == 0 {
		return false
	}
	sick := a.anySick(c.nodes, c.times) || slices.ContainsFunc(c.nodes, func(n int32) bool { return a.hasFact(n, "gpu") })
	return a.allShortOfCPU() && c.gain < plainly && !sick
}

func (a *analysis) sayShared(c *chosen, v *rca.Verdict) {
	v.Slowdown = rca.Round(c.gain)
	v.Summary = fmt.Sprintf(words.BusyHosts, words.Opener(a.RankList(c.nodes)), c.what)
	v.Action = words.RelieveHosts
}

func (a *analysis) sayMayBeChance(c *chosen, v *rca.Verdict) {
	v.Slowdown = rca.Round(c.gain)
	v.Culprits = []rca.Culprit{a.suspect(c.alone)}
	v.Summary = a.slowSentence(c.alone) + fmt.Sprintf(words.MayBeChance, pick(a.now.iters == 1, "1 iteration was", fmt.Sprintf(words.IterationsSeen, a.now.iters)))
	v.Action = a.again()
}

// fewIterations holds where several ranks were late in few iterations: they may have paused one after the other.
func (a *analysis) fewIterations(c *chosen) bool {
	return c.class == rca.SlowCompute && a.past == nil && a.now.iters < often && len(c.nodes) > 1
}

func (a *analysis) sayTakeTurns(c *chosen, v *rca.Verdict) {
	suspects := a.suspect(&c.finding)
	suspects.Channel = -1
	v.Culprits = []rca.Culprit{suspects}
	v.Summary += fmt.Sprintf(words.TooFewToAccuse, pick(a.now.iters == 1, "1 iteration was", fmt.Sprintf(words.IterationsSeen, a.now.iters)))
	v.Action = a.again()
}

// silence is a row of the table of verdicts for jobs in which no row explains anything.
type silence struct {
	name  string
	holds func(*analysis) bool
	say   func(*analysis, *rca.Verdict)
}

// silences is the table; the first row that holds gives the verdict.
var silences = []silence{
	{"pauses", func(a *analysis) bool { return a.paused != nil && a.repeats() }, (*analysis).sayPaused},
	{"nobody_seen", func(a *analysis) bool { return a.visitedRanks() < a.World && a.repeats() }, (*analysis).sayNobodySeen},
	{"last_iteration", func(a *analysis) bool { return a.lastLonger() > 1 }, (*analysis).sayLastLonger},
	{"too_few_iterations", func(a *analysis) bool { return !a.repeats() }, func(_ *analysis, v *rca.Verdict) { v.Summary = words.TooFewIterations }},
	{"unexplained", func(a *analysis) bool { return a.slower() > 1 }, (*analysis).sayUnexplained},
	{"histories_late", (*analysis).historiesLate, (*analysis).sayHistoriesLate},
	{"nobody", func(*analysis) bool { return true }, (*analysis).sayHealthy},
}

// sayNobody writes the verdict where no row explains anything.
func (a *analysis) sayNobody(v *rca.Verdict) {
	s := silences[slices.IndexFunc(silences, func(s silence) bool { return a.Opt.Without != s.name && s.holds(a) })]
	v.Row, v.Class, v.Confidence = s.name, rca.Unknown, unknownWeight
	s.say(a, v)
	if s := spellOf(a.series); s != nil && v.Class != rca.Benign {
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.LongIterations, count(s.long), len(a.series), s.times))
	}
}

func (a *analysis) sayPaused(v *rca.Verdict) {
	v.Class, v.Cause = rca.Benign, rca.CauseCheckpoint
	weight := pick(a.paused.writing || a.paused.regular, regularPausesWeight, pausesWeight)
	v.Confidence = rca.Round(weight * a.SeenFactor() * a.clarity())
	v.Summary = a.paused.sentence(a)
	v.Action = rca.ActionFor(v.Class, v.Cause)
}

func (a *analysis) sayNobodySeen(v *rca.Verdict) {
	seen := a.visitedRanks()
	v.Summary = fmt.Sprintf(words.NobodySeenSlower, words.Count(seen), words.Count(a.World-seen))
	v.Ask = a.unseenPartners()
}

func (a *analysis) sayLastLonger(v *rca.Verdict) {
	v.Summary = fmt.Sprintf(words.LastLonger, a.lastLonger())
	v.Action = a.again()
}

// sayUnexplained says that the job is slower than in its past, and that the evidence does not show why.
func (a *analysis) sayUnexplained(v *rca.Verdict) {
	v.Summary = a.withLimits(fmt.Sprintf(words.SlowerThanHealthy, a.slower()))
	v.Ask = a.unseenPartners()
}

// slower is by what factor the job is known to have become slower: beside its past in Prometheus, or for good while it was watched; 1 not at
// all.
func (a *analysis) slower() float64 {
	if times, ok := a.owes(); ok {
		return times
	}
	return pick(a.hasPast(), a.onset, 1)
}

// sayHistoriesLate does not call a job healthy of which a slow machine has sent only a part.
func (a *analysis) sayHistoriesLate(v *rca.Verdict) {
	v.Summary = words.NobodyInHistories
	v.Ask, v.Action = a.unseenPartners(), a.again()
}

func (a *analysis) sayHealthy(v *rca.Verdict) {
	v.Class, v.Confidence = rca.Healthy, rca.Round(nobodyWeight*a.SeenFactor()*a.clarity())
	v.Summary = words.NobodySlower
}
