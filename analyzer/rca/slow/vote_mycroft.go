// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/mycroft"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// mycroftVote names the rank that constantly starts late in its groups (algorithm 2 for stragglers).
func (a *analysis) mycroftVote() rca.Vote {
	v := rca.Vote{Method: "mycroft", Class: rca.Unknown, Ranks: []int{}, Note: fmt.Sprintf(words.MethodNobodyLate, a.Opt.LateAfter)}
	late, all := make([]int, len(a.Nodes)), make([]int, len(a.Nodes))
	for j := range a.now.collectives() {
		starts := make([]int64, len(j.parts))
		for k, p := range j.parts {
			starts[k] = a.now.entered(&a.now.segs[p])
			all[a.now.segs[p].node]++
		}
		// The middle of two is the earlier: one of two can be late.
		sorted := slices.Clone(starts)
		slices.Sort(sorted)
		mid := sorted[(len(sorted)-1)/2]
		for k, p := range j.parts {
			if time.Duration(starts[k]-mid) >= a.Opt.LateAfter {
				late[a.now.segs[p].node]++
			}
		}
	}
	best := -1
	for n := range late {
		if late[n] > 0 && 2*late[n]*max(1, a.now.iters) >= all[n] && (best < 0 || late[n] > late[best]) {
			best = n
		}
	}
	if best >= 0 && late[best] >= max(2, a.now.iters/2) {
		v.Class, v.Ranks, v.Note = rca.SlowCompute, []int{a.Nodes[best].ID}, words.MethodLate
		return v
	}
	a.slowComponent(&v)
	return v
}

// slowComponent holds the ranks of every collective against Mycroft's principles (M9): the rank of which the GPU or the network takes longer
// than those of the others, and explains what its part takes longer.
func (a *analysis) slowComponent(v *rca.Vote) {
	type hit struct {
		rank      int
		component string
	}
	count, total := map[hit]int{}, 0
	var flows []mycroft.Flow // Of one collective at a time.
	for j := range a.now.collectives() {
		total++
		flows = flows[:0]
		for _, p := range j.parts {
			s := &a.now.segs[p]
			start := time.Duration(a.now.entered(s))
			// All leave together, so the whole stay tells nothing of one of them: what its own parts took does.
			took := s.record.SendWait[sendGPU] + s.record.SendWait[sendNet]
			flows = append(flows, mycroft.Flow{
				Rank: s.record.Rank, Channel: s.record.SlowestChannel, Start: start, End: start + max(1, took), GPU: s.record.SendWait[sendGPU], Network: s.record.SendWait[sendNet],
			})
		}
		for _, b := range mycroft.Check(flows) {
			if b.Principle == mycroft.SlowComponent {
				count[hit{b.Rank, b.Component}]++
			}
		}
	}
	best, n := mostFrequent(count, func(x, y hit) int { return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.component, y.component)) })
	if n >= max(2, a.now.iters/2) {
		v.Class, v.Ranks = pick(best.component == "network", rca.SlowComm, rca.SlowCompute), []int{best.rank}
		v.Note = fmt.Sprintf(words.MethodComponent, mycroft.SlowComponent, best.component, n, total)
	}
}
