// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/pulse"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Thresholds of slowness.
const (
	lateness   = 5 * time.Millisecond // As pulse.Locate's.
	longer     = 1.3                  // As pulse.Locate's.
	votesMin   = 3                    // Operations that must point at a rank.
	votesShare = 0.5                  // Of all operations.
	rivals     = 3                    // Times as many as point at any other.
	worth      = 0.05                 // Of the time from one operation to the next that must be lost.
)

// hit is what one operation points at.
type hit struct {
	rank int // -1: several, or one that may wait for another.
	kind pulse.Kind
}

// slow sums up what Pulse says of the stream's operations: over all, else over the later half, since a fault may begin
// within the recording.
func (t *table) slow(s *stream, m *matched) finding {
	f := finding{s: s, rank: -1, to: -1}
	done := m.finished()
	if !m.ok || len(done) < votesMin {
		return f
	}
	if s.shape.mesh {
		if rank := pulse.SlowestRate(exchanges(done)); rank >= 0 && t.longest(done) == rank {
			f.rank, f.kind, f.share = rank, pulse.SlowNetwork, worth
			f.text = fmt.Sprintf(words.FlowsSlowestRate, rank, s.name())
			f.why = words.MethodSlowestRate
			return f
		}
	}
	hits, lost := t.hits(s, m, done)
	for _, from := range []int{0, len(hits) / 2} {
		if s.sum(&f, hits[from:], lost[from:], m.period) {
			break
		}
	}
	return f
}

// exchanges gives what each rank moved in each operation of a mesh (P6).
func exchanges(done []map[int]pulse.Operation) map[int][]pulse.Exchange {
	out := map[int][]pulse.Exchange{}
	for _, at := range done {
		for r, o := range at {
			out[r] = append(out[r], pulse.Exchange{Bytes: o.Volume, Active: o.Active})
		}
	}
	return out
}

// longest is the one rank that is active for longer than the others in the middle of all operations; -1 none or several. A rank that
// has little to send has a low rate, too, where its few bytes spread over as many intervals.
func (t *table) longest(done []map[int]pulse.Operation) int {
	of := map[int][]time.Duration{}
	for _, at := range done {
		for r, o := range at {
			of[r] = append(of[r], o.Active)
		}
	}
	var all []time.Duration
	for r := range of {
		all = append(all, middle(of[r]))
	}
	usual := middle(all)
	var long []int
	for r := range of {
		if d := middle(of[r]); float64(d) > longer*float64(usual) && d-usual > gapEpochs*t.length {
			long = append(long, r)
		}
	}
	return single(long)
}

// hits says of each operation whom it points at, and how much time that costs.
func (t *table) hits(s *stream, m *matched, done []map[int]pulse.Operation) (hits []hit, lost []time.Duration) {
	normal := usualDuration(done)
	for _, at := range done {
		samples := make([]pulse.Sample, 0, len(at))
		for _, r := range s.ranks {
			if o, ok := at[r]; ok {
				samples = append(samples, pulse.Sample{
					Rank: r, Started: true, Complete: true, Start: o.Start - m.offset[r], Duration: o.End - o.Start, Active: o.Active, Volume: o.Volume,
				})
			}
		}
		h, d := s.hit(samples, m.offset, normal, t.length)
		hits, lost = append(hits, h), append(lost, d)
	}
	return hits, lost
}

// usualDuration is how long operations take at their best.
func usualDuration(done []map[int]pulse.Operation) time.Duration {
	var all []time.Duration
	for _, at := range done {
		most := time.Duration(0)
		for _, o := range at {
			most = max(most, o.End-o.Start)
		}
		all = append(all, most)
	}
	slices.Sort(all)
	return all[len(all)/4]
}

// hit is what pulse.Locate says of an operation, as far as the recording's interval and the group's shape let it be believed.
func (s *stream) hit(samples []pulse.Sample, offset map[int]time.Duration, normal, interval time.Duration) (hit, time.Duration) {
	doubt := gapEpochs * interval
	_, kind := pulse.Locate(samples, normal)
	if kind == pulse.SlowCompute {
		bound := max(lateness, doubt)
		late, most := lateBy(samples, bound, func(x pulse.Sample) time.Duration { return x.Start })
		raw, _ := lateBy(samples, bound, func(x pulse.Sample) time.Duration { return x.Start + offset[x.Rank] })
		switch {
		case len(late) > 0 && !slices.Equal(late, raw):
			// Either a clock is ahead, or a rank's last data comes earlier than the others' in each operation.
			return hit{-1, kind}, most
		case len(late) > 0:
			return hit{s.shape.holder(late, func(int) bool { return true }), kind}, most
		}
		for i := range samples {
			samples[i].Start = 0 // Nobody is late as far as this recording can tell.
		}
		_, kind = pulse.Locate(samples, normal)
	}
	if kind != pulse.SlowNetwork {
		return hit{-1, kind}, 0
	}
	actives := middleOf(samples, func(x pulse.Sample) time.Duration { return x.Active })
	var long []int
	most := time.Duration(0)
	for _, x := range samples {
		if d := x.Active - actives; float64(x.Active) > longer*float64(actives) && d > doubt {
			long, most = append(long, x.Rank), max(most, d)
		}
	}
	if len(long) == 0 {
		return hit{-1, pulse.Normal}, 0
	}
	// Whoever gets its data slowly may seem as busy as the one that sends it so: several are told apart by a finer recording only.
	if s.shape.next == nil {
		return hit{-1, kind}, most
	}
	return hit{single(long), kind}, most
}

// lateBy gives the ranks that begin later than most by more than a bound, and by how much the last does.
func lateBy(samples []pulse.Sample, bound time.Duration, start func(pulse.Sample) time.Duration) (late []int, most time.Duration) {
	usual := middleOf(samples, start)
	for _, x := range samples {
		if d := start(x) - usual; d > bound {
			late, most = append(late, x.Rank), max(most, d)
		}
	}
	return late, most
}

func middleOf(samples []pulse.Sample, of func(pulse.Sample) time.Duration) time.Duration {
	v := make([]time.Duration, len(samples))
	for i, x := range samples {
		v[i] = of(x)
	}
	return middle(v)
}

// sum takes the rank and kind that most operations point at. It reports whether they point at anything.
func (s *stream) sum(f *finding, hits []hit, lost []time.Duration, period time.Duration) bool {
	count, cost := map[hit]int{}, map[hit][]time.Duration{}
	for i, h := range hits {
		if h.kind != pulse.Normal {
			count[h]++
			cost[h] = append(cost[h], lost[i])
		}
	}
	if len(count) == 0 {
		return false
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b hit) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.rank, b.rank), cmp.Compare(a.kind, b.kind))
	})
	best := order[0]
	n := count[best]
	share := float64(middle(cost[best])) / float64(max(1, period))
	if n < votesMin || float64(n) < votesShare*float64(len(hits)) || best.kind != pulse.SlowInside && share < worth {
		return false
	}
	f.kind, f.share = best.kind, share
	tie := len(order) > 1 && rivals*count[order[1]] > n
	switch {
	case best.kind == pulse.SlowInside:
		f.text = fmt.Sprintf(words.FlowsInside, s.name(), n, len(hits))
	case best.rank < 0 || tie:
		f.text = fmt.Sprintf(pick(best.kind == pulse.SlowCompute, words.FlowsSeveralLate, words.FlowsSeveralLong), s.name(), n, len(hits))
	case best.kind == pulse.SlowCompute:
		f.rank = best.rank
		f.text = fmt.Sprintf(words.FlowsLate, best.rank, s.name(), n, len(hits), words.Span(middle(cost[best])))
		f.why = fmt.Sprintf(words.MethodStartsLate, n, len(hits))
	default:
		f.rank = best.rank
		f.text = fmt.Sprintf(words.FlowsLong, best.rank, s.shape.next[best.rank], s.name(), n, len(hits))
		f.why = fmt.Sprintf(words.MethodActiveLongest, n, len(hits))
	}
	return true
}
