// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"math"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// atOnset gives the iterations before the job became slower for good, those since, and by what factor; nil, all of them and 1 where it
// did not while it was watched.
func (t *timeline) atOnset(series []int64) (past, now *timeline, ratio float64) {
	k, ratio := changePoint(series)
	if ratio < leastOnset {
		return nil, t, 1
	}
	past, now = t.between(0, k), t.between(k, t.iters)
	if now.iters < leastSince || !asMany(past.busiest(), now.busiest()) {
		return nil, t, 1
	}
	return past, now, ratio
}

// busiest is the number of segments in the median iteration, on the rank that recorded most of it.
func (t *timeline) busiest() int64 {
	most, mine := make([]int64, t.iters), make([]int64, t.iters)
	for _, list := range t.ranks {
		clear(mine)
		for _, i := range list {
			if k := t.segs[i].iter; k != noIteration {
				mine[k]++
			}
		}
		for k := range most {
			most[k] = max(most[k], mine[k])
		}
	}
	return median64(most)
}

// changePoint finds where the iterations became longer for good; ratio 1 when they did not. Trouble that comes and goes
// shows in the mean of several iterations, not in their median.
func changePoint(series []int64) (at int, ratio float64) {
	const most = 1000
	v := toFloats(series[max(0, len(series)-most):])
	first := len(series) - len(v)
	for _, blocks := range []int{len(v), 48, 24, 12} {
		size := len(v) / max(1, blocks)
		if size < 1 || blocks < len(v) && size < 2 {
			continue
		}
		means := make([]float64, len(v)/size)
		for i := range means {
			for _, x := range v[i*size : (i+1)*size] {
				means[i] += x / float64(size)
			}
		}
		if k, r := cut(means); r >= leastOnset {
			return first + k*size, r
		}
	}
	k, r := jump(v)
	return first + k, r
}

// jump finds a change so recent that only two iterations show it, of a job whose iterations are long: both are longer than
// any before, by more than one pause in either would explain.
func jump(v []float64) (at int, ratio float64) {
	const after, before = 2, 4
	k := len(v) - after
	if k < before {
		return 0, 1
	}
	usual, spread := center(v[:k])
	least, most := slices.Min(v[k:]), slices.Max(v[:k])
	if usual <= 0 || least < jumpFactor*most || least-most <= beyondNoise*spread {
		return 0, 1
	}
	return k, least / usual
}

// cut finds the place that leaves the least distance of the values from their side's median, if the noise on both sides
// does not explain it.
func cut(v []float64) (at int, ratio float64) {
	const side = 3
	best := 0.0
	for k := side; k+side <= len(v); k++ {
		before := distance(v[:k])
		after := distance(v[k:])
		if cost := before + after; at == 0 || cost < best {
			at, best = k, cost
		}
	}
	if at == 0 {
		return 0, 1
	}
	b, bs := center(v[:at])
	l, ls := center(v[at:])
	if least, most := slices.Min(v[at:]), slices.Max(v[:at]); least-most > beyondNoise*bs && least >= leastOnset*most {
		return at, l / b // Every one since is longer than every one before.
	}
	const mostCounted = 16 // Medians of many values are surer than of few, to a point: noise has a memory.
	sure := beyondNoise / math.Sqrt(float64(max(side, min(at, len(v)-at, mostCounted)))/side)
	if b <= 0 || l <= b || l-b < sure*max(bs, ls) {
		return 0, 1
	}
	return at, l / b
}

// lastLonger gives by what factor the last iteration, ended or not, is longer than any before it, 1 when it is not by much.
func (a *analysis) lastLonger() float64 {
	// One may have ended since that not all ranks show.
	open := a.now.sinceLast() - median64(slices.Clone(a.series))
	return max(lastOf(a.series), lastOf(append(slices.Clip(a.series), open)))
}

// lastOf gives by what factor the last of some iterations is longer than any before it, 1 when it is not by much.
func lastOf(series []int64) float64 {
	const before = 2
	k := len(series) - 1
	if k < before {
		return 1
	}
	r := float64(series[k]) / float64(max(1, slices.Max(series[:k])))
	return pick(r >= jumpFactor, r, 1)
}

// sinceLast gives for how long all ranks were watched since the last iteration began that all of them show, ns; 0 unknown.
func (t *timeline) sinceLast() int64 {
	var open []int64
	for n, list := range t.ranks {
		r := t.Nodes[n].Rank
		k := slices.IndexFunc(list, func(i int32) bool { return t.segs[i].iter == int32(t.iters-1) }) // Far fewer than 2^31 iterations.
		if r == nil || k < 0 {
			continue
		}
		last := &t.segs[list[len(list)-1]]
		in := slices.IndexFunc(r.Memberships, func(m rca.Membership) bool { return m.Comm == last.record.Comm })
		if in >= 0 && r.Memberships[in].SinceCompleted >= 0 {
			open = append(open, last.enter+last.stay+int64(r.Memberships[in].SinceCompleted)-t.segs[list[k]].enter)
		}
	}
	if len(open) == 0 {
		return 0
	}
	return slices.Min(open) // One that was read later tells of later iterations.
}
