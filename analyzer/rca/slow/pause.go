// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// pauses are iterations in which ranks left the loop for long, once, between two operations, and went on as before.
type pauses struct {
	nodes   []int32 // Who paused.
	iters   []int32 // In which iterations, ascending.
	longest int64   // ns.
	writing bool    // One of them writes to storage now.
	regular bool    // They come at even distances.
}

// stop is a gap that is a pause.
type stop struct {
	seg  int32
	long int64 // Beyond what its peers take, ns.
}

// stops finds the gaps that are longer than their peers' by a good part of an iteration, all of it the host's.
func (t *timeline) stops() []stop {
	usual, _ := center(toFloats(t.iterationTimes()))
	if usual <= 0 {
		return nil
	}
	var out []stop
	peers := t.peerWork()
	for _, list := range t.ranks {
		for _, i := range list {
			s := &t.segs[i]
			if !s.works() {
				continue
			}
			extra := s.gap - peers.gap[i]
			if float64(extra) < leastPause*usual || t.ahead && float64(s.host) < nearlyAll*float64(extra) {
				continue
			}
			out = append(out, stop{i, extra})
		}
	}
	return out
}

// apart keeps the stops, rank by rank, that do not come in pauseRun iterations in a row: who stops in one iteration after the other does not go
// on as before.
func (t *timeline) apart(stops []stop) []stop {
	at := func(k int) *seg { return &t.segs[stops[k].seg] }
	var kept []stop
	for from := 0; from < len(stops); {
		to := from + 1
		for to < len(stops) && at(to).node == at(from).node && at(to).iter-at(to-1).iter <= 1 {
			to++
		}
		if at(to-1).iter-at(from).iter+1 < pauseRun {
			kept = append(kept, stops[from:to]...)
		}
		from = to
	}
	return kept
}

// iterationsOf gives the iterations in which ranks stopped, each once, in ascending order.
func (t *timeline) iterationsOf(stops []stop) []int32 {
	var out []int32
	for _, s := range stops {
		out = append(out, t.segs[s.seg].iter)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// withoutPauses takes pauses out of the ranks' own work. A machine that is slow now and then is slow all through such an iteration, and
// seldom at even distances; who writes a checkpoint, evaluates or collects garbage stops once.
func (t *timeline) withoutPauses() (*timeline, repair) {
	all := t.stops()
	if len(all) == 0 {
		return t, repair{}
	}
	stops := t.apart(all)
	if len(stops) == 0 || t.pausedTooOften(t.iterationsOf(all)) {
		return t, repair{left: len(all)}
	}
	p := &pauses{iters: t.iterationsOf(stops)}
	gaps := t.gaps()
	for _, stop := range stops {
		s := &t.segs[stop.seg]
		p.longest = max(p.longest, stop.long)
		if !slices.Contains(p.nodes, s.node) {
			p.nodes = append(p.nodes, s.node)
		}
		if r := t.Nodes[s.node].Rank; r != nil && r.WriteBytesPerSec >= t.Opt.StorageBytesPerSec {
			p.writing = true
		}
		gaps[stop.seg] = t.peerWork().gap[stop.seg]
	}
	p.regular = evenSpaced(p.iters)
	if t.pausedTooOften(p.iters) || !p.writing && len(p.iters) >= regularFrom && !p.regular {
		return t, repair{left: len(stops)} // Irregular stops without a visible reason: a bad machine does the same.
	}
	return t.withGaps(gaps), repair{changed: len(stops), paused: p}
}

// pausedTooOften reports whether iterations with pauses, in ascending order, are no exception, in all or from the first to the last of them.
func (t *timeline) pausedTooOften(at []int32) bool {
	if float64(len(at)) > mostPaused*float64(t.iters) {
		return true
	}
	return len(at) >= regularFrom && float64(len(at)-1) > mostPaused*float64(at[len(at)-1]-at[0])
}

// evenSpaced reports whether numbers in ascending order lie at equal distances, give or take one.
func evenSpaced(at []int32) bool {
	if len(at) < regularFrom {
		return false
	}
	least, most := at[1]-at[0], at[1]-at[0]
	for k := 2; k < len(at); k++ {
		least, most = min(least, at[k]-at[k-1]), max(most, at[k]-at[k-1])
	}
	return most-least <= 1
}

// sentence says what was seen.
func (p *pauses) sentence(a *analysis) string {
	s := fmt.Sprintf(words.Paused,
		words.Opener(a.RankList(p.nodes)), words.Span(time.Duration(p.longest)), len(p.iters), a.now.iters)
	switch {
	case p.writing:
		return s + words.PausedWriting
	case p.regular:
		return s + words.PausedRegularly
	}
	return s + words.PausedOnce
}
