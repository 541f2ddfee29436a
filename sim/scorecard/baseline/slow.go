// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"cmp"
	"math"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// round is one collective seen at its members.
type round struct {
	comm   rca.CommID
	number int64
	parts  []*rca.Segment
}

// rounds groups the timeline's collectives by communicator and number, those seen at every member.
func (b *bench) rounds() map[rca.CommID][]*round {
	type key struct {
		comm rca.CommID
		n    int64
	}
	all := map[key]*round{}
	for i := range b.ev.Timeline {
		s := &b.ev.Timeline[i]
		if s.Kind != rca.SegmentOp || s.Peer >= 0 || s.Bytes <= 16 {
			continue
		}
		k := key{s.Comm, s.Number}
		r := all[k]
		if r == nil {
			r = &round{comm: s.Comm, number: s.Number}
			all[k] = r
		}
		r.parts = append(r.parts, s)
	}
	out := map[rca.CommID][]*round{}
	for _, r := range all {
		if len(r.parts) == len(b.member[r.comm]) && len(r.parts) > 1 {
			out[r.comm] = append(out[r.comm], r)
		}
	}
	for _, rs := range out {
		slices.SortFunc(rs, func(x, y *round) int { return cmp.Compare(x.number, y.number) })
	}
	return out
}

func stay(s *rca.Segment) float64 {
	if s.Entered > 0 {
		return float64(s.End - s.Entered)
	}
	return float64(s.End - s.Start)
}

// extremes of a round: the longest and the shortest stay and the rank of the shortest.
func (r *round) extremes() (longest, shortest float64, rank int) {
	shortest, rank = math.Inf(1), -1
	for _, p := range r.parts {
		d := stay(p)
		longest = max(longest, d)
		if d < shortest {
			shortest, rank = d, p.Rank
		}
	}
	return longest, shortest, rank
}

// lastArriverSlow names the rank that most often arrives last, however little.
func (b *bench) lastArriverSlow() int { return b.constantlyLate(0) }

func (b *bench) constantlyLate(threshold float64) int {
	best, rank := 0.0, -1
	rounds := b.rounds()
	for _, id := range b.comms() {
		late, total := map[int]float64{}, 0.0
		rs := rounds[id]
		for _, r := range rs[len(rs)/2:] {
			longest, shortest, last := r.extremes()
			if longest-shortest > threshold {
				late[last] += longest - shortest
				total++
			}
		}
		if total < float64(len(rs)/2)/2 {
			continue
		}
		for r, t := range late {
			if t > best || (t == best && r < rank) {
				best, rank = t, r
			}
		}
	}
	return rank
}

// threeSigma names the rank whose operations of one kind and size are, in the mean, furthest above their peers', beyond
// three standard deviations.
func (b *bench) threeSigma() int {
	type key struct {
		fn    string
		bytes int64
	}
	type cell struct{ sum, n float64 }
	by := map[key]map[int]*cell{}
	for i := range b.ev.Timeline {
		s := &b.ev.Timeline[i]
		k := key{s.Func, s.Bytes}
		if by[k] == nil {
			by[k] = map[int]*cell{}
		}
		c := by[k][s.Rank]
		if c == nil {
			c = &cell{}
			by[k][s.Rank] = c
		}
		c.sum += stay(s)
		c.n++
	}
	best, rank := 3.0, -1
	for _, ranks := range by {
		if len(ranks) < 4 {
			continue
		}
		mean, sq := 0.0, 0.0
		for _, c := range ranks {
			mean += c.sum / c.n / float64(len(ranks))
		}
		for _, c := range ranks {
			d := c.sum/c.n - mean
			sq += d * d / float64(len(ranks))
		}
		sigma := math.Sqrt(sq)
		for r, c := range ranks {
			if z := (c.sum/c.n - mean) / sigma; sigma > 0 && (z > best || (z == best && r < rank)) {
				best, rank = z, r
			}
		}
	}
	return rank
}
