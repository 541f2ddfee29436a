// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
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

// analysis is what is asked of finished work: whose time it is.
type analysis struct {
	*job.Index
	history
	base     *baseline
	replay   *replay
	walk     *walk
	iterTime float64 // Mean length of an iteration, ns.
	holes    float64 // Share of the work that has no record, or comes after some that may have none.
}

// Analyze explains why a job is slow. ok is false without finished work.
func Analyze(x *job.Index) (rca.Verdict, bool) {
	h := repaired(newTimeline(x, x.Ev.Timeline))
	if h == nil {
		return rca.Verdict{}, false
	}
	return newAnalysis(h).verdict(), true
}

// newAnalysis prepares the questions that are asked of repaired work.
func newAnalysis(h *history) *analysis {
	t := h.now
	a := &analysis{Index: t.Index, history: *h, base: newBaseline(t, h.past), replay: newReplay(t), walk: t.walkBack(), holes: t.holeShare()}
	a.iterTime = a.replay.base / float64(max(1, t.iters))
	return a
}

// overall asks about all iterations that were seen, those before the job became slower too.
func (a *analysis) overall() *analysis {
	if a.past == nil {
		return a
	}
	return newAnalysis(&history{whole: a.whole, now: a.whole, onset: 1, series: a.series, doubted: a.doubted})
}

// findings gives every explanation that would gain something, best first.
func (a *analysis) findings() []finding {
	var out []finding
	add := func(f finding, ok bool) {
		if ok {
			out = append(out, f)
		}
	}
	if a.now.iters >= 2 {
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
		add(a.overall().slowInSpells())
	}
	slices.SortStableFunc(out, func(x, y finding) int { return cmp.Compare(y.score(), x.score()) })
	return a.localFirst(out)
}

// localFirst: that everybody got slower follows from one rank's getting slower, too. A local explanation that accounts
// for half of it comes first; where it was not seen to be everybody alike, one that gains a tenth does, or, where those who
// wait for it were not all seen, half of that.
func (a *analysis) localFirst(fs []finding) []finding {
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
