// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/ccld"
	"github.com/culprit-project/culprit/analyzer/rca/pulse"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// votes gives what each method alone would say of slowness.
func (a *slowAnalysis) votes() []rca.Vote {
	return append([]rca.Vote{a.walkVote(), a.ccldVote(), a.mycroftVote(), a.pulseVote()}, a.holmesVotes()...)
}

// walkVote names who holds most of the critical path beyond an even share.
func (a *slowAnalysis) walkVote() rca.Vote {
	v := rca.Vote{Method: "critical-path", Class: rca.Unknown, Ranks: []int{}}
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
	v.Note = fmt.Sprintf(words.MethodOnPath, a.Nodes[best].ID, 100*share)
	if share > 2/float64(max(2, a.visitedRanks())) && share > 0.2 {
		v.Class, v.Ranks = rca.SlowCompute, []int{a.Nodes[best].ID}
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
		ci, ok := s.in()
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

func (a *slowAnalysis) ccldVote() rca.Vote {
	v := rca.Vote{Method: "ccl-d", Class: rca.Unknown, Ranks: []int{}, Note: words.MethodRatio}
	now := rounds(a.timeline)
	before := now
	if a.early != nil {
		before = rounds(a.early)
	}
	o := ccld.Options{Alpha: a.Opt.Alpha, Beta: a.Opt.Beta, Theta: a.Opt.Theta, Repeat: 1}
	var best ccld.Result
	for ci := range a.Comms {
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
	v.Class = map[ccld.Kind]rca.Class{ccld.Compute: rca.SlowCompute, ccld.Comm: rca.SlowComm, ccld.Mixed: rca.SlowMixed}[best.Kind]
	v.Note = fmt.Sprintf("R %.2f, P %.2f", best.R, best.P)
	for _, r := range [2]int{best.Rank, best.Second} {
		if r >= 0 && !slices.Contains(v.Ranks, r) {
			v.Ranks = append(v.Ranks, r)
		}
	}
	return v
}

// mycroftVote names the rank that constantly starts late in its groups (algorithm 2 for stragglers).
func (a *slowAnalysis) mycroftVote() rca.Vote {
	v := rca.Vote{Method: "mycroft", Class: rca.Unknown, Ranks: []int{}, Note: fmt.Sprintf(words.MethodNobodyLate, a.Opt.LateAfter)}
	late, all := make([]int, len(a.Nodes)), make([]int, len(a.Nodes))
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
			if time.Duration(starts[k]-mid) >= a.Opt.LateAfter {
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
		v.Class, v.Ranks, v.Note = rca.SlowCompute, []int{a.Nodes[best].ID}, words.MethodLate
	}
	return v
}

// pulseVote sums up what Pulse says of every collective that crosses hosts.
func (a *slowAnalysis) pulseVote() rca.Vote {
	v := rca.Vote{Method: "pulse", Class: rca.Unknown, Ranks: []int{}, Note: words.MethodNormal}
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
			v.Class, v.Note = rca.SlowCompute, fmt.Sprintf(words.MethodStartsLate, n, total)
		case pulse.SlowNetwork:
			v.Class, v.Note = rca.SlowComm, fmt.Sprintf(words.MethodActiveLongest, n, total)
		}
	}
	return v
}
