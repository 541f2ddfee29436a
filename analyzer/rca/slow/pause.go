// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
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

// findPauses finds them, and takes them out of the ranks' own work. A machine that is slow now and then is slow all
// through such an iteration, and seldom at even distances; who writes a checkpoint, evaluates or collects garbage stops
// once.
func (a *slowAnalysis) findPauses() *pauses {
	usual := a.usualIteration()
	if usual <= 0 {
		return nil
	}
	type stop struct {
		node, iter int32
		seg        int32
		long       int64
	}
	var stops []stop
	at := map[int32]int{}
	for n := range a.ranks {
		for _, i := range a.ranks[n] {
			s := &a.segs[i]
			if s.iter == noIteration || s.pred < 0 || s.also {
				continue
			}
			extra := s.gap - a.base.gap[i]
			if float64(extra) < leastPause*usual || a.timeline.early && float64(s.host) < nearlyAll*float64(extra) {
				continue
			}
			stops = append(stops, stop{int32(n), s.iter, i, extra})
			at[s.iter]++
		}
	}
	p := &pauses{}
	for it := range at {
		p.iters = append(p.iters, it)
	}
	slices.Sort(p.iters)
	if len(stops) == 0 || float64(len(p.iters)) > mostPaused*float64(a.iters) {
		return nil
	}
	in := map[int32]bool{}
	for _, s := range stops {
		p.longest = max(p.longest, s.long)
		if in[s.node] {
			continue
		}
		in[s.node] = true
		p.nodes = append(p.nodes, s.node)
		if r := a.Nodes[s.node].Rank; r != nil && r.WriteBytesPerSec >= a.Opt.StorageBytesPerSec {
			p.writing = true
		}
	}
	p.regular = evenSpaced(p.iters)
	if !p.writing && len(p.iters) >= regularFrom && !p.regular {
		return nil // Now and then, for no reason that can be seen: that is what a bad machine does, too.
	}
	for _, s := range stops {
		a.segs[s.seg].gap, a.segs[s.seg].host = a.base.gap[s.seg], min(a.segs[s.seg].host, a.base.gap[s.seg])
	}
	return p
}

// usualIteration is the median length of an iteration, ns.
func (a *slowAnalysis) usualIteration() float64 {
	mid, _ := center(toFloats(a.timeline.iterationTimes()))
	return mid
}

// evenSpaced says that numbers in ascending order lie at equal distances, give or take one.
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
func (p *pauses) sentence(a *slowAnalysis) string {
	s := fmt.Sprintf(words.Paused,
		words.Opener(a.RankList(p.nodes)), words.Span(time.Duration(p.longest)), len(p.iters), a.iters)
	switch {
	case p.writing:
		return s + words.PausedWriting
	case p.regular:
		return s + words.PausedRegularly
	}
	return s + words.PausedOnce
}

// verdictOfPauses is the verdict when pauses are all that was found.
func (a *slowAnalysis) verdictOfPauses(v rca.Verdict) rca.Verdict {
	v.Class, v.Cause, v.Confidence = rca.Benign, rca.CauseCheckpoint, pausesWeight
	if a.paused.writing || a.paused.regular {
		v.Confidence = regularPausesWeight
	}
	v.Confidence = rca.Round(v.Confidence * a.SeenFactor() * a.clarity())
	v.Summary = a.paused.sentence(a)
	v.Action = rca.ActionFor(v.Class, v.Cause)
	return v
}
