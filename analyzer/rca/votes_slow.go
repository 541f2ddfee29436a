// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/ccld"
	"github.com/culprit-project/culprit/analyzer/rca/holmes"
	"github.com/culprit-project/culprit/analyzer/rca/pulse"
)

// votes gives what each method alone would say of slowness.
func (a *slowAnalysis) votes() []Vote {
	return []Vote{a.walkVote(), a.ccldVote(), a.mycroftVote(), a.pulseVote(), a.holmesVote()}
}

// walkVote names who holds most of the critical path beyond an even share.
func (a *slowAnalysis) walkVote() Vote {
	v := Vote{Method: "critical-path", Class: Unknown, Ranks: []int{}}
	best, most := int32(-1), int64(0)
	for n := range a.walk.time {
		if own := a.walk.time[n][pathCompute] + a.walk.time[n][pathHost]; own > most {
			best, most = int32(n), own
		}
	}
	if best < 0 || a.walk.total == 0 {
		return v
	}
	share := float64(most) / float64(a.walk.total)
	v.Note = fmt.Sprintf("rank %d computes on %.0f%% of the path", a.nodes[best].id, 100*share)
	if share > 2/float64(max(2, a.visitedRanks())) && share > 0.2 {
		v.Class, v.Ranks = SlowCompute, []int{a.nodes[best].id}
	}
	return v
}

// rounds gives the collectives of every communicator as CCL-D's rounds.
func rounds(t *timeline) map[int32][]ccld.Round {
	out := map[int32][]ccld.Round{}
	var first int64
	for i := range t.segs {
		if s := t.clock[t.segs[i].node].toReference(t.segs[i].enter); i == 0 || s < first {
			first = s
		}
	}
	for _, id := range t.order {
		j := &t.jobs[id]
		if j.compute || j.p2p || len(j.parts) < 2 {
			continue
		}
		s := &t.segs[j.parts[0]]
		ci, ok := t.comOf[s.Comm]
		if !ok {
			continue
		}
		r := ccld.Round{Barrier: s.Func == "AllReduce" && s.Bytes > 0 && s.Bytes <= 4, At: time.Duration(t.clock[s.node].toReference(s.enter) - first)}
		for _, p := range j.parts {
			g := &t.segs[p]
			r.Ranks = append(r.Ranks, g.Rank)
			r.Duration = append(r.Duration, time.Duration(g.stay))
			rate := 0.0
			if busy := max(int64(g.SendWait[sendNet]), int64(g.Active)); busy > 0 && g.Steps > 0 {
				rate = float64(g.Steps) / float64(busy)
			}
			r.Rate = append(r.Rate, rate)
		}
		out[ci] = append(out[ci], r)
	}
	return out
}

func (a *slowAnalysis) ccldVote() Vote {
	v := Vote{Method: "ccl-d", Class: Unknown, Ranks: []int{}, Note: "R below its bound"}
	now := rounds(a.timeline)
	before := now
	if a.early != nil {
		before = rounds(a.early)
	}
	o := ccld.Options{Alpha: a.opt.Alpha, Beta: a.opt.Beta, Theta: a.opt.Theta, Repeat: 1}
	var best ccld.Result
	for ci := range a.comms {
		w := now[int32(ci)]
		if len(w) == 0 {
			continue
		}
		base, _ := ccld.Baseline(before[int32(ci)], 0)
		if r := ccld.Analyze(w, base, o); r.Kind != ccld.Normal && r.TMax-r.TBase > best.TMax-best.TBase {
			best = r
		}
	}
	if best.Kind == ccld.Normal {
		return v
	}
	v.Class = map[ccld.Kind]Class{ccld.Compute: SlowCompute, ccld.Comm: SlowComm, ccld.Mixed: SlowMixed}[best.Kind]
	v.Note = fmt.Sprintf("R %.2f, P %.2f", best.R, best.P)
	for _, r := range [2]int{best.Rank, best.Second} {
		if r >= 0 && !slices.Contains(v.Ranks, r) {
			v.Ranks = append(v.Ranks, r)
		}
	}
	return v
}

// mycroftVote names the rank that constantly starts late in its groups (algorithm 2 for stragglers).
func (a *slowAnalysis) mycroftVote() Vote {
	v := Vote{Method: "mycroft", Class: Unknown, Ranks: []int{}, Note: fmt.Sprintf("nobody constantly later than %v", a.opt.LateAfter)}
	late, all := make([]int, len(a.nodes)), make([]int, len(a.nodes))
	for i := range a.jobs {
		j := &a.jobs[i]
		if j.compute || j.p2p || len(j.parts) < 2 {
			continue
		}
		starts := make([]int64, len(j.parts))
		for k, p := range j.parts {
			starts[k] = a.clock[a.segs[p].node].toReference(a.segs[p].enter)
			all[a.segs[p].node]++
		}
		// The middle of two is the earlier: one of two can be late.
		sorted := slices.Clone(starts)
		slices.Sort(sorted)
		mid := sorted[(len(sorted)-1)/2]
		for k, p := range j.parts {
			if time.Duration(starts[k]-mid) >= a.opt.LateAfter {
				late[a.segs[p].node]++
			}
		}
	}
	best := -1
	for n := range late {
		if late[n] > 0 && 2*late[n]*max(1, a.iters) >= all[n] && (best < 0 || late[n] > late[best]) {
			best = n
		}
	}
	if best >= 0 && late[best] >= max(2, a.iters/2) {
		v.Class, v.Ranks, v.Note = SlowCompute, []int{a.nodes[best].id}, "constantly late to start"
	}
	return v
}

// pulseVote sums up what Pulse says of every collective that crosses hosts.
func (a *slowAnalysis) pulseVote() Vote {
	v := Vote{Method: "pulse", Class: Unknown, Ranks: []int{}, Note: "normal starts, active times and durations"}
	type hit struct {
		rank int
		kind pulse.Kind
	}
	count := map[hit]int{}
	total := 0
	samples := []pulse.Sample{}
	for i := range a.jobs {
		j := &a.jobs[i]
		if j.compute || j.p2p || len(j.parts) < 2 {
			continue
		}
		samples = samples[:0]
		for _, p := range j.parts {
			s := &a.segs[p]
			samples = append(samples, pulse.Sample{
				Rank: s.Rank, Started: true, Complete: true, Duration: time.Duration(s.stay), Active: s.SendWait[sendNet], Volume: s.Bytes,
				Start: time.Duration(a.clock[s.node].toReference(s.enter)),
			})
		}
		total++
		if r, k := pulse.Locate(samples, 0); k != pulse.Normal {
			count[hit{r, k}]++
		}
	}
	var best hit
	for h, n := range count {
		if n > count[best] || n == count[best] && cmp.Or(cmp.Compare(h.rank, best.rank), cmp.Compare(h.kind, best.kind)) < 0 {
			best = h
		}
	}
	if n := count[best]; n > 0 && n >= max(2, a.iters/2) {
		v.Ranks = []int{best.rank}
		switch best.kind {
		case pulse.SlowCompute:
			v.Class, v.Note = SlowCompute, fmt.Sprintf("first to start late, in %d of %d collectives", n, total)
		case pulse.SlowNetwork:
			v.Class, v.Note = SlowComm, fmt.Sprintf("longest active time, in %d of %d collectives", n, total)
		}
	}
	return v
}

// operators is Holmes' graph over the timeline: a segment is an operator.
type operators struct {
	*slowAnalysis
	usual  map[token][]float64 // Times of the same operator when all was well.
	length float64             // Of an iteration, s.
	asked  map[int32]bool      // Ranks whose operators were looked at (H6).
}

func (o *operators) Group(op int) []int {
	parts := o.jobs[o.segs[op].job].parts
	out := make([]int, len(parts))
	for i, p := range parts {
		out[i] = int(p)
	}
	return out
}

func (o *operators) Peer(op int) int {
	for _, p := range o.jobs[o.segs[op].job].parts {
		if int(p) != op {
			return int(p)
		}
	}
	return -1
}

func (o *operators) P2P(op int) bool { return o.jobs[o.segs[op].job].p2p }

func (o *operators) Before(op int) []int {
	s := &o.segs[op]
	var out []int
	list := o.ranks[s.node]
	at, _ := slices.BinarySearchFunc(list, s.enter, func(i int32, t int64) int { return cmp.Compare(o.segs[i].enter, t) })
	const far = 4096
	// Back to the same operation of the iteration before.
	for k := at - 1; k >= 0 && len(out) < far && o.segs[list[k]].pos != s.pos; k-- {
		if o.segs[list[k]].Kind == SegmentOp {
			out = append(out, int(list[k]))
		}
	}
	return out
}

func (o *operators) Abnormal(op int) bool {
	s := &o.segs[op]
	o.asked[s.node] = true
	f := holmes.FeaturesOf(float64(s.stay)/1e9, o.length, o.usual[o.tokenOf(s)])
	return f.Abnormal()
}

// holmesVote searches the graph from the abnormal operators of a pivot rank in the latest irregular iterations.
func (a *slowAnalysis) holmesVote() Vote {
	v := Vote{Method: "holmes", Class: Unknown, Ranks: []int{}, Note: "no irregular iteration"}
	o := &operators{slowAnalysis: a, usual: map[token][]float64{}, length: a.iterTime / 1e9, asked: map[int32]bool{}}
	normal := a.early
	var irregular []int
	if normal == nil {
		normal = a.timeline
		lengths := toFloats(a.series)
		irregular = holmes.Irregular(lengths, len(lengths), a.opt.IrregularFactor)
	} else {
		for i := range a.iters {
			irregular = append(irregular, i)
		}
	}
	if len(irregular) == 0 {
		return v
	}
	const kept = 256
	for i := range normal.segs {
		s := &normal.segs[i]
		if k := normal.tokenOf(s); s.Kind == SegmentOp && len(o.usual[k]) < kept {
			o.usual[k] = append(o.usual[k], float64(s.stay)/1e9)
		}
	}
	pivot := slices.IndexFunc(a.ranks, func(l []int32) bool { return len(l) > 0 })
	count := map[holmes.Found]int{}
	ranks := map[[2]int]int{}
	const last, perIteration = 4, 8
	for _, it := range irregular[max(0, len(irregular)-last):] {
		n := 0
		for _, i := range a.ranks[pivot] {
			s := &a.segs[i]
			if int(s.iter) != it || s.Kind != SegmentOp || n == perIteration || !o.Abnormal(int(i)) {
				continue
			}
			n++
			for _, f := range holmes.Search(o, int(i)) {
				if count[f]++; count[f] == 1 {
					ranks[[2]int{a.segs[f.Op].Rank, int(f.Cause)}]++
				}
			}
		}
	}
	best := [2]int{-1, 0}
	for r, n := range ranks {
		if best[0] < 0 || n > ranks[best] || n == ranks[best] && cmp.Or(cmp.Compare(r[0], best[0]), cmp.Compare(r[1], best[1])) < 0 {
			best = r
		}
	}
	if best[0] < 0 {
		v.Note = "no abnormal operator on the pivot rank"
		return v
	}
	v.Note = fmt.Sprintf("search from rank %d asked %d ranks", a.nodes[pivot].id, len(o.asked))
	if holmes.Cause(best[1]) == holmes.Compute {
		v.Class, v.Ranks = SlowCompute, []int{best[0]}
		return v
	}
	v.Class = SlowComm
	for f := range count {
		if f.Cause == holmes.Network && a.segs[f.Op].Rank == best[0] {
			for _, p := range a.jobs[a.segs[f.Op].job].parts {
				if r := a.segs[p].Rank; !slices.Contains(v.Ranks, r) && len(v.Ranks) < maxCulprits {
					v.Ranks = append(v.Ranks, r)
				}
			}
		}
	}
	slices.Sort(v.Ranks)
	return v
}
