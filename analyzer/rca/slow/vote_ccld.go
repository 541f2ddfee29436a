// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/ccld"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// windows gives the collectives of every communicator as CCL-D's rounds, those of an iteration in one window.
func windows(t *timeline) map[int32][][]ccld.Round {
	out, last := map[int32][][]ccld.Round{}, map[int32]int32{}
	var first int64
	for i := range t.segs {
		if s := t.entered(&t.segs[i]); i == 0 || s < first {
			first = s
		}
	}
	for j := range t.collectives() {
		s := &t.segs[j.parts[0]]
		ci, ok := s.in()
		if !ok {
			continue
		}
		if before, open := last[ci]; !open || before != s.iter {
			out[ci], last[ci] = append(out[ci], nil), s.iter
		}
		w := &out[ci][len(out[ci])-1]
		*w = append(*w, t.round(j, first))
	}
	return out
}

// round gives a collective as CCL-D sees it; first is the reference's time of the first one.
func (t *timeline) round(j *joint, first int64) ccld.Round {
	s := &t.segs[j.parts[0]]
	r := ccld.Round{
		Ranks: make([]int, 0, len(j.parts)), Duration: make([]time.Duration, 0, len(j.parts)),
		Barrier: t.FuncNames[s.fn] == "AllReduce" && s.bytes > 0 && s.bytes <= 4, At: time.Duration(t.entered(s) - first),
	}
	for _, p := range j.parts {
		g := &t.segs[p]
		r.Ranks = append(r.Ranks, g.record.Rank)
		r.Duration = append(r.Duration, time.Duration(g.stay))
	}
	r.Send = t.probes(j, func(g *seg) (int, int) { return g.record.SendFlows, g.record.SendProbes })
	r.Recv = t.probes(j, func(g *seg) (int, int) { return g.record.RecvFlows, g.record.RecvProbes })
	return r
}

// probes gives what probes found of one direction at each member of a collective. Nil where a member with flows has none: its rate may be
// the lowest.
func (t *timeline) probes(j *joint, of func(*seg) (flows, probes int)) []int {
	out := make([]int, 0, len(j.parts))
	for _, p := range j.parts {
		flows, n := of(&t.segs[p])
		if flows > 0 && n == 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// ccldVote is CCL-D's slowdown ratio (C5) against the baseline of the first rounds, with a bound that comes from the healthy iterations
// where enough were seen, and the class by the share of waiting in it (C6).
func (a *analysis) ccldVote() rca.Vote {
	v := rca.Vote{Method: "ccl-d", Class: rca.Unknown, Ranks: []int{}, Note: words.MethodRatio}
	now := windows(a.now)
	before := now
	if a.past != nil {
		before = windows(a.past)
	}
	var best ccld.Result
	for ci := range a.Comms {
		w, healthy := now[int32(ci)], before[int32(ci)]
		if len(w) == 0 {
			continue
		}
		base, _ := ccld.Baseline(slices.Concat(healthy...), 0)
		o := ccld.Options{Alpha: a.Opt.Alpha, Beta: a.Opt.Beta, Theta: a.Opt.Theta, Repeat: min(repeat, len(w))}
		if a.past != nil {
			o.Theta = ccld.Theta(ratios(healthy, base), a.Opt.Theta)
		}
		if r := ccld.Repeated(w, base, o); r.Kind != ccld.Normal && r.TMax-r.TBase > best.TMax-best.TBase {
			best = r
		}
	}
	if best.Kind == ccld.Normal {
		return v
	}
	v.Class = map[ccld.Kind]rca.Class{ccld.Compute: rca.SlowCompute, ccld.Comm: rca.SlowComm, ccld.Mixed: rca.SlowMixed}[best.Kind]
	v.Note = fmt.Sprintf("R %.2f, P %.2f", best.R, best.P)
	for _, r := range [2]int{best.Rank, best.Second} {
		if r >= 0 && !slices.Contains(v.Ranks, r) {
			v.Ranks = append(v.Ranks, r)
		}
	}
	return v
}

// ratios gives R of each window.
func ratios(ws [][]ccld.Round, base time.Duration) []float64 {
	out := make([]float64, 0, len(ws))
	for _, w := range ws {
		out = append(out, ccld.Analyze(w, base, ccld.Options{Theta: math.Inf(1)}).R)
	}
	return out
}
