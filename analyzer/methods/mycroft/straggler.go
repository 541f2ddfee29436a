// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package mycroft

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Straggler is AnalyzeStragglerRootCause of algorithm 2: the rank that constantly starts or ends late in a group, else the component that
// breaks a principle of table 3 in most operations of a kind.
func Straggler(j *record.Job) record.Vote {
	v := record.Vote{Method: "mycroft", Class: rca.Unknown, Ranks: []int{}, Note: fmt.Sprintf("nobody constantly starts or ends %v late", j.Opt.LateAfter)}
	if rank, what, n, of := late(j); rank >= 0 {
		v.Class, v.Ranks, v.Note = rca.SlowCompute, []int{rank}, fmt.Sprintf("%s late in %d of %d collectives", what, n, of)
		return v
	}
	type hit struct {
		rank, channel int
		component     string
		group         *record.Group
		fn            string
		bytes         int64
	}
	count, took, of := map[hit]int{}, map[hit]time.Duration{}, map[hit]int{}
	for _, r := range j.Rounds {
		h := hit{group: r.Group, fn: r.Func, bytes: r.Bytes}
		of[h]++
		flows := flowsOf(r)
		for _, b := range Check(flows) {
			if b.Principle != SlowComponent {
				continue
			}
			h.rank, h.channel, h.component = b.Rank, b.Channel, b.Component
			count[h]++
			f := flows[slices.IndexFunc(flows, func(f Flow) bool { return f.Rank == b.Rank })]
			if took[h] += f.GPU; b.Component == "network" {
				took[h] += f.Network - f.GPU
			}
		}
	}
	var best hit
	n := 0
	for h, c := range count {
		// What takes longest is the bottleneck; the order decides between equals.
		order := cmp.Or(cmp.Compare(took[best], took[h]), cmp.Compare(h.rank, best.rank), cmp.Compare(h.channel, best.channel), cmp.Compare(h.component, best.component), cmp.Compare(h.bytes, best.bytes))
		if 2*c >= of[hit{group: h.group, fn: h.fn, bytes: h.bytes}] && order < 0 {
			best, n = h, c
		}
	}
	if n < constant(len(j.Lengths())) {
		return v
	}
	v.Class, v.Ranks = rca.SlowCompute, []int{best.rank}
	if best.component == "network" {
		v.Class = rca.SlowComm
	}
	v.Note = fmt.Sprintf("%s (%s), in %d of %d collectives", SlowComponent, best.component, n, of[hit{group: best.group, fn: best.fn, bytes: best.bytes}])
	if best.channel >= 0 {
		v.Note += fmt.Sprintf(", on channel %d alone", best.channel)
	}
	return v
}

// constant is how often something happens that is constant: in half of the iterations, and more than once.
func constant(iterations int) int { return max(2, iterations/2) }

// late gives the rank that most often starts, or ends, later than the middle of its group by the bound.
func late(j *record.Job) (rank int, what string, times, of int) {
	starts, ends, all := map[int]int{}, map[int]int{}, map[int]int{}
	for _, r := range j.Rounds {
		count := func(into map[int]int, at func(*record.Piece) time.Duration) {
			v := make([]time.Duration, len(r.Parts))
			for i, p := range r.Parts {
				v[i] = at(p)
			}
			slices.Sort(v)
			for _, p := range r.Parts {
				if at(p)-v[(len(v)-1)/2] >= j.Opt.LateAfter {
					into[p.Rank]++
				}
			}
		}
		count(starts, func(p *record.Piece) time.Duration { return p.Begin })
		count(ends, func(p *record.Piece) time.Duration { return p.Left })
		for _, p := range r.Parts {
			all[p.Rank]++
		}
	}
	rank = -1
	for _, by := range []struct {
		what  string
		count map[int]int
	}{{"starts", starts}, {"ends", ends}} {
		for r, n := range by.count {
			if n >= constant(len(j.Lengths())) && (n > times || n == times && what == by.what && r < rank) {
				rank, what, times, of = r, by.what, n, all[r]
			}
		}
	}
	return rank, what, times, of
}

// flowsOf gives the ranks of a collective as flows. All leave together, so the whole stay says nothing of one of them: what its own
// components took does. Where one of a rank's channels took longer than its others, the flow is that channel.
func flowsOf(r *record.Round) []Flow {
	const gpu, network = 0, 2 // Of a sender's waiting.
	var out []Flow
	for _, p := range r.Parts {
		f := Flow{Rank: p.Rank, Channel: -1, Start: p.Begin, GPU: p.SendWait[gpu], Network: p.SendWait[network]}
		if p.FastestTime > 0 && long(p.SlowestTime, p.FastestTime) {
			f.Channel = p.SlowestChannel
		}
		f.End = f.Start + max(1, f.GPU+f.Network)
		out = append(out, f)
	}
	return out
}
