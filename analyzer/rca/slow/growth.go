// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// growth is how the ranks' own work has changed since the job became slower.
type growth struct {
	times []float64 // By node: own work now over what it was; 0 unknown.
	share []float64 // By node: what was added, as a share of an iteration.
}

// grown compares every rank with its own healthy past; nil without one. Half of the ranks may have become slower at
// once: against their peers they would not stand out.
func (a *analysis) grown() *growth {
	if a.past == nil || a.iterTime == 0 {
		return nil
	}
	before, piecesBefore := usualWork(a.past)
	now, pieces := usualWork(a.now)
	g := &growth{times: make([]float64, len(before)), share: make([]float64, len(before))}
	for n := range before {
		if before[n] > 0 && now[n] > 0 && asMany(piecesBefore[n], pieces[n]) {
			g.times[n] = now[n] / before[n]
			g.share[n] = (now[n] - before[n]) / a.iterTime
		}
	}
	return g
}

// asMany reports whether two iterations are made of as many pieces. Where they are not, records are lost or iterations are cut
// otherwise, and what the one takes says nothing of the other.
func asMany(before, now int64) bool {
	return float64(max(before, now)) <= asManyRoom*float64(min(before, now))
}

// usualWork gives each rank's own work in its usual iteration, ns, and of how many pieces it is: what each place in the
// iteration usually takes, so that neither pauses count nor what is lost.
func usualWork(t *timeline) (work []float64, pieces []int64) {
	work, pieces = make([]float64, len(t.Nodes)), make([]int64, len(t.Nodes))
	type piece struct{ pos, seg int32 }
	var at []piece
	var takes []int64
	for n, list := range t.ranks {
		at = at[:0]
		first, last := int32(-1), int32(-1)
		for p, i := range list {
			s := &t.segs[i]
			if s.iter == noIteration {
				continue
			}
			if first < 0 {
				first = s.iter
			}
			last = max(last, s.iter)
			if s.pred >= 0 && !s.also && s.pos >= 0 {
				// What is entered together has one gap, whichever of it ends first.
				pos := s.pos
				for q := p + 1; q < len(list) && t.batched(list, q); q++ {
					pos = min(pos, t.segs[list[q]].pos)
				}
				at = append(at, piece{pos, i})
			}
		}
		slices.SortStableFunc(at, func(x, y piece) int { return cmp.Compare(x.pos, y.pos) })
		for from := 0; from < len(at); {
			takes = takes[:0]
			to := from
			for ; to < len(at) && at[to].pos == at[from].pos; to++ {
				s := &t.segs[at[to].seg]
				switch {
				case s.compute && s.holed:
					takes = append(takes, s.stay)
				case s.compute:
					takes = append(takes, s.gap+s.stay)
				case !s.holed:
					takes = append(takes, s.gap)
				}
			}
			if 2*(to-from) > int(last-first+1) && len(takes) > 0 {
				work[n] += float64(median64(takes))
				pieces[n]++
			}
			from = to
		}
	}
	return work, pieces
}

// slower gives the ranks that have become slower and of those, as out, the ones that have about as the worst has, that one first.
func (g *growth) slower() (out []int32, some int) {
	top := 0.0
	for n, t := range g.times {
		if t >= leastGrowth && g.share[n] >= heavyShare {
			out = append(out, int32(n))
			top = max(top, t)
		}
	}
	some = len(out)
	out = slices.DeleteFunc(out, func(n int32) bool { return g.times[n]-1 < alikeGrowth*(top-1) })
	slices.SortFunc(out, func(x, y int32) int { return cmp.Or(cmp.Compare(g.times[y], g.times[x]), cmp.Compare(x, y)) })
	return out, some
}

// apart gives the ranks that became slower, the worst first, down to the widest gap in what was added to an iteration. What slows all ranks
// slows some of them more, and who comes next after the worst is no culprit for that.
func (g *growth) apart(slower []int32) []int32 {
	rest := 0.0
	for n, t := range g.times {
		if t > 0 && !slices.Contains(slower, int32(n)) {
			rest = max(rest, g.share[n])
		}
	}
	most, widest := len(slower), 0.0
	for i, n := range slower {
		next := rest
		if i+1 < len(slower) {
			next = g.share[slower[i+1]]
		}
		if gap := g.share[n] - next; gap >= widest {
			most, widest = i+1, gap
		}
	}
	return slower[:most]
}

// everybody reports whether the ranks that became slower are nearly all, and most of them by about the same factor. Then none of them
// stands out: what slows all ranks slows some of them more.
func (g *growth) everybody(alike, some int) bool {
	nearlyAll := func(n int) bool { return 10*n > 9*g.known() }
	return nearlyAll(alike) || 2*alike > g.known() && nearlyAll(some)
}

// known counts the ranks that can be compared.
func (g *growth) known() int {
	n := 0
	for _, t := range g.times {
		if t > 0 {
			n++
		}
	}
	return n
}

// asBefore gives what it would gain if the ranks' own work took what it did before.
func (a *analysis) asBefore(g *growth, nodes []int32) float64 {
	by := make([]float64, len(a.Nodes))
	for _, n := range nodes {
		by[n] = g.times[n]
	}
	scale := func(s *seg, was int64) int64 {
		if f := by[s.node]; f > 1 {
			return int64(float64(was) / f)
		}
		return was
	}
	return a.replay.gain(change{gap: scale, body: scale})
}

// grownRanks finds the ranks whose own work has grown while that of others has not; nil none.
func (a *analysis) grownRanks() *suspects {
	g := a.grown()
	if g == nil {
		return nil
	}
	slower, some := g.slower()
	if len(slower) == 0 || g.everybody(len(slower), some) {
		return nil
	}
	slower = g.apart(slower)
	worst := slower[0]
	s := &suspects{nodes: slower, share: g.share[worst], times: g.times[worst], weight: heavyGrownWeight}
	s.gain = max(a.asBefore(g, slower), a.leastGainOf(s.share))
	if s.gain < leastGain {
		return nil
	}
	return s
}

// stageBeyondPast finds that the work of all ranks of a stage has grown, and that they have no more than that in common. A model is not cut
// anew while it runs: of a stage that is one rank, or all of one host, the machine is what has changed.
func (a *analysis) stageBeyondPast(s *suspects) (finding, bool) {
	f := s.finding(fmt.Sprintf(words.StageGrew, s.times))
	st := a.wholeStage(s.nodes)
	if st == nil || a.onePlace(s.nodes) {
		return f, false
	}
	f.group = stageName(st, a.IDs(st.nodes))
	return f, true
}

// rankBeyondPast finds ranks that compute longer, or call later, than they did.
func (a *analysis) rankBeyondPast(s *suspects) (finding, bool) {
	f := s.finding(fmt.Sprintf(words.ComputesLonger, pick(len(s.nodes) == 1, "computes for", "compute for up to"), s.times))
	f.nodes, f.against = slices.Sorted(slices.Values(s.nodes)), (*analysis).comparePast
	f.cause, _ = a.whyHeavy(s.nodes, s.share)
	if 2*len(a.hostsOf(s.nodes)) > len(s.nodes) && len(s.nodes) > 2 {
		f.weight = scatteredWeight
	}
	return f, true
}

// wholeStage gives the pipeline stage whose ranks these are, all of them that were seen; nil none.
func (a *analysis) wholeStage(nodes []int32) *stageOf {
	if !a.pipelined() {
		return nil
	}
	stages := a.stagesOf()
	for i := range stages {
		if st := &stages[i]; len(stages) > 1 && sameNodes(st.nodes, nodes) {
			return st
		}
	}
	return a.allReplicas(nodes)
}

// allReplicas gives the pipeline stage whose ranks these are, if they are on several hosts and all that were seen of it:
// stages in the middle do the same work, and so have one role. nil none.
func (a *analysis) allReplicas(nodes []int32) *stageOf {
	if !a.pipelined() {
		return nil
	}
	if st := a.replicasOf(nodes[:1]); len(a.hostsOf(st)) > 1 && sameNodes(st, nodes) {
		return &stageOf{number: -1, nodes: st}
	}
	return nil
}

// sameNodes reports whether two lists hold the same nodes, in whatever order.
func sameNodes(x, y []int32) bool {
	return len(x) == len(y) && !slices.ContainsFunc(x, func(n int32) bool { return !slices.Contains(y, n) })
}

// onePlace reports whether the ranks are one, all that a host has, or of one host whose node complains.
func (a *analysis) onePlace(nodes []int32) bool {
	hosts := a.hostsOf(nodes)
	if len(nodes) == 1 || len(hosts) > 1 {
		return len(nodes) == 1
	}
	return a.oneHostAiling(nodes) || len(nodes) == countFunc(a.withWork(), func(n int32) bool { return a.Host(n) == hosts[0] })
}

// oneHostAiling reports whether the ranks are one host's and that host's own evidence speaks of GPU or CPU.
func (a *analysis) oneHostAiling(nodes []int32) bool {
	return len(a.hostsOf(nodes)) == 1 && a.factCause(nodes) != rca.CauseUnknown
}

func (a *analysis) hostsOf(nodes []int32) []string {
	var out []string
	for _, n := range nodes {
		if h := a.Host(n); !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// stageName names a stage as the source numbers it, else by its ranks.
func stageName(st *stageOf, ids []int) string {
	if st.number >= 0 {
		return fmt.Sprintf("stage %d (%s)", st.number, words.RankNumbers(ids))
	}
	return "stage of " + words.RankNumbers(ids)
}
