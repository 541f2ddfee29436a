// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/pulse"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// pulseVote sums up what Pulse says of every collective: who is late for it, else whose transfers were outstanding longest (P5), or who was
// in it for long without either (P7). Where that is no rank, it names the one whose exchanges by sends are slowest (P6).
func (a *analysis) pulseVote() rca.Vote {
	v := rca.Vote{Method: "pulse", Class: rca.Unknown, Ranks: []int{}, Note: words.MethodNormal}
	type hit struct {
		rank int
		kind pulse.Kind
	}
	count, total := map[hit]int{}, 0
	usual := a.usualDurations()
	samples := []pulse.Sample{}
	for j := range a.now.collectives() {
		samples = samples[:0]
		for _, p := range j.parts {
			s := &a.now.segs[p]
			samples = append(samples, pulse.Sample{
				Rank: s.record.Rank, Started: true, Complete: true, Duration: time.Duration(s.stay), Active: s.record.SendWait[sendNet], Volume: s.bytes,
				Start: time.Duration(a.now.entered(s)),
			})
		}
		total++
		if r, k := pulse.Locate(samples, time.Duration(usual[a.now.transferKeyOf(j)])); k != pulse.Normal {
			count[hit{r, k}]++
		}
	}
	best, n := mostFrequent(count, func(x, y hit) int { return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.kind, y.kind)) })
	if n < max(2, a.now.iters/2) {
		if rank := pulse.SlowestRate(a.exchanges()); rank >= 0 {
			v.Class, v.Ranks, v.Note = rca.SlowComm, []int{rank}, words.MethodSlowestRate
		}
		return v
	}
	v.Ranks = []int{best.rank}
	switch best.kind {
	case pulse.SlowCompute:
		v.Class, v.Note = rca.SlowCompute, fmt.Sprintf(words.MethodStartsLate, n, total)
	case pulse.SlowNetwork:
		v.Class, v.Note = rca.SlowComm, fmt.Sprintf(words.MethodActiveLongest, n, total)
	case pulse.SlowInside:
		v.Class, v.Note = rca.SlowComm, fmt.Sprintf(words.MethodInside, n, total)
	case pulse.Normal, pulse.StopNetwork, pulse.StopCompute: // Of work that has not ended.
	}
	return v
}

// usualDurations gives how long collectives take, by what they have in common: before the job became slower, where that was seen.
func (a *analysis) usualDurations() map[transferKey]int64 {
	if a.past == nil {
		return nil
	}
	all := map[transferKey][]int64{}
	for j := range a.past.collectives() {
		longest := int64(0)
		for _, p := range j.parts {
			longest = max(longest, a.past.segs[p].stay)
		}
		k := a.past.transferKeyOf(j)
		all[k] = append(all[k], longest)
	}
	return mediansOf(all)
}

// exchanges gives, by rank, its parts in exchanges that programs make of sends, in order: what was sent together is one.
func (a *analysis) exchanges() map[int][]pulse.Exchange {
	out := map[int][]pulse.Exchange{}
	for n, list := range a.now.ranks {
		id, open := a.Nodes[n].ID, false
		for _, i := range list {
			s := &a.now.segs[i]
			if ci, ok := s.in(); !ok || s.dir <= 0 || !a.now.exchange[ci] {
				open = open && s.also
				continue
			}
			active := max(s.record.SendActive, s.record.SendWait[sendNet])
			if !open || !s.also {
				out[id] = append(out[id], pulse.Exchange{})
				open = true
			}
			e := &out[id][len(out[id])-1]
			e.Bytes, e.Active = e.Bytes+s.bytes, max(e.Active, active)
		}
	}
	return out
}
