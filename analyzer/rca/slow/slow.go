// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// finding is one explanation of why iterations take as long as they do, with what its removal would gain.
type finding struct {
	class  rca.Class
	cause  rca.Cause
	nodes  []int32 // Accused ranks; none for findings that accuse nobody.
	ends   []int32 // Ranks of which one or the other may be meant, where it is a link.
	group  string  // Link, stage or group, where no rank is meant.
	gain   float64 // Length over length without it.
	times  float64 // By what factor transfers of a place are outstanding longer; 0 where it is no place in the network.
	weight float64
	what   string // For the summary, after the names.
	mode   string // persistent, intermittent, fluctuating (H7).
	once   bool   // In one iteration alone.
	rare   bool   // In spikes, or seen a few times only.
	link   bool   // A place in the network that is sure to be the reason; it is between its ends that the weight is torn.
	comm   int32
	lane   int // Channel, -1 none.
}

// slowAnalysis is the analysis of finished work: whose time it is.
type slowAnalysis struct {
	*timeline
	whole    *timeline // All that was seen.
	early    *timeline // Iterations before the job became slower; nil when it did not while watched.
	onset    float64   // By what factor it became slower, 1 not.
	base     *baseline
	replay   *replay
	walk     *walk
	iterTime float64 // Mean length of an iteration, ns.
	series   []int64 // Length of each iteration as the median rank saw it, ns.
	paused   *pauses // nil: none.
	doubted  []int32 // Ranks whose records contradict the others' and are left out.
	holes    float64 // Share of the work that has no record, or comes after some that may have none.
}

// Analyze explains why a job is slow. ok is false without finished work.
func Analyze(x *job.Index) (rca.Verdict, bool) {
	a := newSlowAnalysis(x)
	if a == nil {
		return rca.Verdict{}, false
	}
	return a.verdict(), true
}

// newSlowAnalysis prepares the analysis; nil without finished work.
func newSlowAnalysis(x *job.Index) *slowAnalysis {
	t := newTimeline(x, x.Ev.Timeline)
	if len(t.segs) == 0 {
		return nil
	}
	doubted := t.contradicted()
	t = t.without(doubted).uncover().restore()
	a := &slowAnalysis{timeline: t, whole: t, doubted: doubted, onset: 1, series: t.iterationTimes()}
	if k, ratio := changePoint(a.series); ratio >= leastOnset {
		early, late := t.between(0, k), t.between(k, t.iters)
		if late.iters >= 3 && asMany(early.busiest(), late.busiest()) {
			a.early, a.timeline, a.onset = early, late, ratio
		}
	}
	a.holes = a.holeShare()
	a.withoutWaits()
	a.base = newBaseline(a.timeline, a.early)
	if a.paused = a.findPauses(); a.paused != nil {
		a.base = newBaseline(a.timeline, a.early)
	}
	a.replay = newReplay(a.timeline)
	a.walk = a.walkBack()
	a.iterTime = a.replay.base / float64(max(1, a.iters))
	return a
}

// busiest is of how many pieces the median iteration is, of whichever rank has most of it on record.
func (t *timeline) busiest() int64 {
	most, mine := make([]int64, t.iters), make([]int64, t.iters)
	for _, list := range t.ranks {
		clear(mine)
		for _, i := range list {
			if k := t.segs[i].iter; k != noIteration {
				mine[k]++
			}
		}
		for k := range most {
			most[k] = max(most[k], mine[k])
		}
	}
	return median64(most)
}

// leastOnset is the factor from which a lasting change of the iteration time is one.
const leastOnset = 1.05

// changePoint finds where the iterations became longer for good; ratio 1 when they did not. Trouble that comes and goes
// shows in the mean of several iterations, not in their median.
func changePoint(series []int64) (at int, ratio float64) {
	const most = 1000
	v := toFloats(series[max(0, len(series)-most):])
	first := len(series) - len(v)
	for _, blocks := range []int{len(v), 48, 24, 12} {
		size := len(v) / max(1, blocks)
		if size < 1 || blocks < len(v) && size < 2 {
			continue
		}
		means := make([]float64, len(v)/size)
		for i := range means {
			for _, x := range v[i*size : (i+1)*size] {
				means[i] += x / float64(size)
			}
		}
		if k, r := cut(means); r >= leastOnset {
			return first + k*size, r
		}
	}
	k, r := jump(v)
	return first + k, r
}

// jump finds a change so recent that only two iterations show it, of a job whose iterations are long: both are longer than
// any before, by more than one pause in either would explain.
func jump(v []float64) (at int, ratio float64) {
	const after, before, factor = 2, 4, 1.2
	k := len(v) - after
	if k < before {
		return 0, 1
	}
	usual, spread := center(v[:k])
	least, most := slices.Min(v[k:]), slices.Max(v[:k])
	if usual <= 0 || least < factor*most || least-most <= 4*spread {
		return 0, 1
	}
	return k, least / usual
}

// cut finds the place that leaves the least distance of the values from their side's median, if the noise on both sides
// does not explain it.
func cut(v []float64) (at int, ratio float64) {
	const side = 3
	best := 0.0
	for k := side; k+side <= len(v); k++ {
		before := distance(v[:k])
		after := distance(v[k:])
		if cost := before + after; at == 0 || cost < best {
			at, best = k, cost
		}
	}
	if at == 0 {
		return 0, 1
	}
	b, bs := center(v[:at])
	l, ls := center(v[at:])
	if least, most := slices.Min(v[at:]), slices.Max(v[:at]); least-most > 4*bs && least >= leastOnset*most {
		return at, l / b // Every one since is longer than every one before.
	}
	const mostCounted = 16 // Medians of many values are surer than of few, to a point: noise has a memory.
	sure := 4 / math.Sqrt(float64(max(side, min(at, len(v)-at, mostCounted)))/side)
	if b <= 0 || l <= b || l-b < sure*max(bs, ls) {
		return 0, 1
	}
	return at, l / b
}

// lastLonger gives by what factor the last whole iteration was longer than any before it, 1 when it was not by much.
func (a *slowAnalysis) lastLonger() float64 {
	const before, factor = 2, 1.2
	k := len(a.series) - 1
	if k < before {
		return 1
	}
	r := float64(a.series[k]) / float64(max(1, slices.Max(a.series[:k])))
	return pick(r >= factor, r, 1)
}

// distance gives the sum of distances from the median.
func distance(v []float64) (sum float64) {
	mid, _ := center(v)
	for _, x := range v {
		sum += max(x-mid, mid-x)
	}
	return sum
}

func toFloats(v []int64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// iterationTimes gives the length of every iteration but the last, as the median rank saw it.
func (t *timeline) iterationTimes() []int64 {
	if t.iters < 2 {
		return nil
	}
	lengths := make([][]int64, t.iters-1)
	for _, begun := range t.iterationStarts() {
		for k := 0; k+1 < len(begun); k++ {
			if begun[k] != 0 && begun[k+1] > begun[k] {
				lengths[k] = append(lengths[k], begun[k+1]-begun[k])
			}
		}
	}
	var out []int64
	for _, v := range lengths {
		if len(v) > 0 {
			out = append(out, median64(v))
		}
	}
	return out
}

// findings gives every explanation that would gain something, best first.
func (a *slowAnalysis) findings() []finding {
	var out []finding
	add := func(f finding, ok bool) {
		if ok {
			out = append(out, f)
		}
	}
	if a.iters >= 2 {
		heavy, some := a.heavyRanks()
		if a.startsUnseen() {
			add(a.believable(heavy, some))
		} else {
			add(heavy, some)
			add(a.becameSlower())
			add(a.stage())
			add(a.rotating(pick(some, heavy.gain, 1)))
		}
	}
	net := a.network()
	out = append(out, net...)
	if len(net) == 0 {
		add(a.insideHost())
	}
	add(a.global())
	told := func(f finding) bool { return f.weight >= pick(f.class == rca.GlobalSlow, evenly, placed) }
	if a.paused == nil && !slices.ContainsFunc(out, told) {
		add((&slowAnalysis{timeline: a.whole, base: a.base, replay: a.replay}).slowInSpells())
	}
	slices.SortStableFunc(out, func(x, y finding) int { return cmp.Compare(y.score(), x.score()) })
	return a.localFirst(out)
}

// Weights from which it was seen to be everybody alike, and from which one place or rank is the reason.
const (
	evenly = 0.5
	placed = 0.6
)

// localFirst: that everybody got slower follows from one rank's getting slower, too. A local explanation that accounts
// for half of it comes first; where it was not seen to be everybody alike, one that gains a tenth does, or, where those who
// wait for it were not all seen, half of that.
func (a *slowAnalysis) localFirst(fs []finding) []finding {
	enough, sure := 1.1, placed
	if a.visitedRanks() < a.World {
		enough, sure = 1.05, 0.55
	}
	if len(fs) < 2 || fs[0].class != rca.GlobalSlow {
		return fs
	}
	for i := range fs {
		f := &fs[i]
		if f.class == rca.GlobalSlow || f.weight < sure && !f.link {
			continue
		}
		if f.gain-1 >= 0.5*(fs[0].gain-1) || fs[0].weight < evenly && f.gain >= enough {
			local := *f
			return append([]finding{local}, slices.Delete(slices.Clone(fs), i, i+1)...)
		}
	}
	return fs
}

// score ranks explanations: what they gain, tempered by how sure they are.
func (f *finding) score() float64 { return (f.gain - 1) * f.weight }

func (a *slowAnalysis) verdict() rca.Verdict {
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
	if len(fs) == 0 && a.paused != nil && a.iters >= 2 {
		return a.verdictOfPauses(v)
	}
	if len(fs) == 0 {
		v.Class, v.Confidence = rca.Healthy, rca.Round(0.8*(1-0.4*a.Unseen())*a.clarity())
		v.Summary = words.NobodySlower
		if a.iters < 2 {
			v.Class, v.Confidence = rca.Unknown, 0.3
			v.Summary = words.TooFewIterations
		}
		if r := a.lastLonger(); r > 1 {
			v.Class, v.Confidence = rca.Unknown, 0.3
			v.Summary = fmt.Sprintf(words.LastLonger, r)
		}
		if seen := a.visitedRanks(); seen < a.World && a.iters >= 2 {
			v.Class, v.Confidence = rca.Unknown, 0.3
			v.Summary = fmt.Sprintf(words.NobodySeenSlower, words.Count(seen), words.Count(a.World-seen))
			v.Ask = a.unseenPartners()
		}
		if times, ok := a.owes(); ok && v.Class == rca.Healthy {
			a.unexplained(&v, times)
		}
		if s := spellOf(a.series); s != nil {
			v.Evidence = append(v.Evidence, fmt.Sprintf(words.LongIterations, count(s.long), len(a.series), s.times))
		}
		return v
	}
	v.Hypotheses = a.hypotheses(fs)
	f := &fs[0]
	if limits := a.limits(); f.class == rca.GlobalSlow && f.weight < evenly && len(limits) > 0 {
		v.Class, v.Confidence = rca.Unknown, 0.3
		v.Summary = fmt.Sprintf(words.SlowerForNoCause, f.gain, strings.Join(limits, "; "))
		v.Ask = a.unseenPartners()
		return v
	}
	if times, _ := a.owes(); len(f.nodes) > 0 && a.fallsShort(f) {
		a.unexplained(&v, times)
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: -1, Channel: -1, Group: "suspects: " + words.RankNumbers(a.IDs(f.nodes)), Why: f.what})
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.WouldBe, f.cause, f.what, shorter(f.gain)))
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
	v.Class, v.Cause = f.class, f.cause
	v.Code = v.Class.Code()
	v.Slowdown = rca.Round(f.gain)
	v.Confidence = rca.Round(f.weight * a.coverage() * (1 - 0.2*a.Lossy()))
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
	if a.paused != nil {
		v.Evidence = append(v.Evidence, a.paused.sentence(a))
	}
	v.Evidence = append([]string{fmt.Sprintf(words.IterationsTake, a.iters, length(a.iterTime/1e6), length(a.iterTime/f.gain/1e6))}, v.Evidence...)
	v.Evidence = append(v.Evidence, a.pathEvidence(f)...)
	v.Evidence = append(v.Evidence, a.whatIfEvidence(&v)...)
	for _, g := range fs[1:] {
		if len(v.RuledOut) < 8 {
			c := rca.Candidate{Rank: -1, Group: g.group, Reason: fmt.Sprintf(words.WouldGain, g.cause, g.what, shorter(g.gain))}
			if len(g.nodes) > 0 {
				c.Rank = a.Nodes[g.nodes[0]].ID
			}
			v.RuledOut = append(v.RuledOut, c)
		}
	}
	v.Action = rca.ActionFor(v.Class, v.Cause)
	if len(v.Culprits) > 0 {
		v.Action = cmp.Or(rca.ActionForFacts(v.Cause, &v.Culprits[0], a.Ev.Facts), v.Action)
	}
	v.Page = (v.Class == rca.SlowCompute || v.Class == rca.SlowComm || v.Class == rca.SlowMixed) && a.Carries(v.Class, v.Confidence) && len(f.nodes) > 0 && !f.once && f.gain >= a.Opt.IrregularFactor
	if f.class == rca.SlowCompute && (f.rare || a.paused != nil && a.iters < leastBesidePause || a.early == nil && a.iters < often) {
		v.Page = false
	}
	if f.class == rca.SlowCompute && a.early == nil && a.iters < often && len(f.nodes) > 1 {
		a.takeTurns(f, &v)
	}
	return v
}

// shorter gives, in percent, by how much iterations would be shorter without what makes them gain times as long.
func shorter(gain float64) float64 { return 100 * (1 - 1/gain) }

// hypotheses gives the explanations with what decides between them, best first.
func (a *slowAnalysis) hypotheses(fs []finding) []rca.Hypothesis {
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
func (a *slowAnalysis) takeTurns(f *finding, v *rca.Verdict) {
	v.Class, v.Code, v.Cause, v.Confidence = rca.Unknown, "", rca.CauseUnknown, 0.3
	v.Culprits = []rca.Culprit{{Rank: -1, Channel: -1, Group: "suspects: " + words.RankNumbers(a.IDs(f.nodes)), Why: f.what}}
	v.Summary += fmt.Sprintf(words.TooFewToAccuse, pick(a.iters == 1, "1 iteration was", fmt.Sprintf(words.IterationsSeen, a.iters)))
	v.Action = words.LookLater
}

// A rank's own work pages only where it was seen often enough. With iterations from before the job became slower to compare with,
// those that show a lasting change are enough. Without, pauses that take turns look in few iterations as if all who paused were
// slow in each. leastBesidePause is from how many iterations on a rank's own work is judged where one of them held a pause.
const leastBesidePause = 12

// verdictOfBusyHosts is the verdict where a rank stands out, and all hosts share what would explain it.
func (a *slowAnalysis) verdictOfBusyHosts(v rca.Verdict, f *finding) rca.Verdict {
	v.Class, v.Cause, v.Confidence, v.Slowdown = rca.Unknown, rca.CauseUnknown, 0.3, rca.Round(f.gain)
	v.Summary = fmt.Sprintf(words.BusyHosts, words.Opener(a.RankList(f.nodes)), f.what)
	v.Action = words.RelieveHosts
	return v
}

// mix turns a computation and a communication finding of like size on the same ranks into CCL-D's S3. It gives which finding it joined to
// the first, 0 none.
func (a *slowAnalysis) mix(fs []finding) int {
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

func (a *slowAnalysis) slowSentence(f *finding) string {
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
func (a *slowAnalysis) unseenPartners() []int {
	spent := map[int]int64{}
	for i := range a.segs {
		s := &a.segs[i]
		if s.Kind != rca.SegmentOp || a.complete(&a.jobs[s.job]) {
			continue
		}
		if s.Peer >= 0 {
			if n := a.NodeOf(s.Peer); n >= 0 && len(a.ranks[n]) == 0 {
				spent[s.Peer] += s.stay
			}
			continue
		}
		if ci, ok := s.in(); ok {
			for _, n := range a.Comms[ci].At {
				if n >= 0 && len(a.ranks[n]) == 0 && a.Nodes[n].ID >= 0 {
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

func (a *slowAnalysis) visitedRanks() int {
	n := 0
	for i := range a.ranks {
		if len(a.ranks[i]) > 0 {
			n++
		}
	}
	return n
}

// pathEvidence says how much of the critical path the accused hold.
func (a *slowAnalysis) pathEvidence(f *finding) []string {
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

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}
