// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"math"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
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
	const after, before = 2, 4
	k := len(v) - after
	if k < before {
		return 0, 1
	}
	usual, spread := center(v[:k])
	least, most := slices.Min(v[k:]), slices.Max(v[:k])
	if usual <= 0 || least < jumpFactor*most || least-most <= 4*spread {
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
	const before = 2
	k := len(a.series) - 1
	if k < before {
		return 1
	}
	r := float64(a.series[k]) / float64(max(1, slices.Max(a.series[:k])))
	return pick(r >= jumpFactor, r, 1)
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

// localFirst: that everybody got slower follows from one rank's getting slower, too. A local explanation that accounts
// for half of it comes first; where it was not seen to be everybody alike, one that gains a tenth does, or, where those who
// wait for it were not all seen, half of that.
func (a *slowAnalysis) localFirst(fs []finding) []finding {
	enough, sure := localGain, placed
	if a.visitedRanks() < a.World {
		enough, sure = localGainUnseen, placedUnseen
	}
	if len(fs) < 2 || fs[0].class != rca.GlobalSlow {
		return fs
	}
	for i := range fs {
		f := &fs[i]
		if f.class == rca.GlobalSlow || f.weight < sure && !f.link {
			continue
		}
		if f.gain-1 >= localShare*(fs[0].gain-1) || fs[0].weight < evenly && f.gain >= enough {
			local := *f
			return append([]finding{local}, slices.Delete(slices.Clone(fs), i, i+1)...)
		}
	}
	return fs
}

// score ranks explanations: what they gain, tempered by how sure they are.
func (f *finding) score() float64 { return (f.gain - 1) * f.weight }

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}
