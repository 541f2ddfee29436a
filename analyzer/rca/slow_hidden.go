// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"maps"
	"slices"
)

// hiddenComm names operations that a source recorded as computation.
const hiddenComm CommID = "hidden synchronisation"

// hiddenSyncs finds computations that are none: ranks begin them far apart and leave them together, so there is an
// operation inside that the source did not record (a norm over all gradients, a barrier). Their length is waiting.
func (t *timeline) hiddenSyncs() map[string]bool {
	type place struct {
		fn   string
		iter int32
	}
	type extent struct {
		first, last [2]int64 // Of starts, of ends.
		ranks       int
		twice       bool
	}
	at := map[place]*extent{}
	for n, list := range t.ranks {
		if !t.clock[n].known {
			continue
		}
		seen := map[place]bool{}
		for _, i := range list {
			s := &t.segs[i]
			if s.Kind != SegmentCompute || s.iter == noIteration {
				continue
			}
			p := place{s.Func, s.iter}
			e := at[p]
			if e == nil {
				e = &extent{}
				at[p] = e
			}
			if seen[p] {
				e.twice = true
				continue
			}
			seen[p] = true
			for k, v := range [2]int64{t.clock[n].toReference(s.enter), t.clock[n].toReference(s.End)} {
				if e.ranks == 0 {
					e.first[k], e.last[k] = v, v
				}
				e.first[k], e.last[k] = min(e.first[k], v), max(e.last[k], v)
			}
			e.ranks++
		}
	}
	together, apart := map[string]int{}, map[string]int{}
	for p, e := range at {
		if e.twice || e.ranks < 2 {
			apart[p.fn]++
			continue
		}
		const least = 1_000_000 // Starts closer than a millisecond tell nothing.
		starts, ends := e.last[0]-e.first[0], e.last[1]-e.first[1]
		switch {
		case starts < least:
		case 10*ends < starts:
			together[p.fn]++
		default:
			apart[p.fn]++
		}
	}
	out := map[string]bool{}
	for _, fn := range slices.Sorted(maps.Keys(together)) {
		if together[fn] >= 3 && together[fn] >= 9*apart[fn] {
			out[fn] = true
		}
	}
	return out
}

// arrival is a rank's entering an operation after a gap.
type arrival struct {
	node  int32
	seg   int32
	enter int64 // On the reference's clock, as left.
	left  int64 // When what came before had ended.
}

// hiddenWaits finds gaps that are waiting: ranks whose work before ended far apart enter an operation together, so they
// were held by something that was not recorded at all. It gives that wait as operations of its own.
func (t *timeline) hiddenWaits() []Segment {
	type place struct {
		fn   string
		iter int32
	}
	at := map[place][]arrival{}
	twice := map[string]bool{}
	for n, list := range t.ranks {
		if !t.clock[n].known {
			continue
		}
		seen := map[place]bool{}
		for _, i := range list {
			s := &t.segs[i]
			if s.Kind != SegmentOp || s.iter == noIteration || s.pred < 0 || twice[s.Func] {
				continue
			}
			p := place{s.Func, s.iter}
			if seen[p] {
				twice[s.Func] = true
				continue
			}
			seen[p] = true
			c := &t.clock[n]
			at[p] = append(at[p], arrival{int32(n), i, c.toReference(s.enter), c.toReference(t.segs[s.pred].End)})
		}
	}
	found, seen := map[string]int{}, map[string]int{}
	held := map[string][][]arrival{}
	for p, as := range at {
		if twice[p.fn] {
			continue
		}
		seen[p.fn]++
		if hs := heldTogether(as); len(hs) > 0 {
			found[p.fn]++
			held[p.fn] = append(held[p.fn], hs...)
		}
	}
	var out []Segment
	for _, fn := range slices.Sorted(maps.Keys(found)) {
		if found[fn] < 3 || 10*found[fn] < 8*seen[fn] {
			continue
		}
		slices.SortFunc(held[fn], func(x, y []arrival) int {
			return cmp.Or(cmp.Compare(x[0].enter, y[0].enter), cmp.Compare(x[0].node, y[0].node))
		})
		for k, h := range held[fn] {
			for _, a := range h {
				s := &t.segs[a.seg]
				out = append(out, Segment{
					Rank: s.Rank, Kind: SegmentOp, Iteration: s.Iteration, Comm: hiddenComm, Func: "before " + fn, Number: -1, Seq: int64(k), Peer: -1,
					Bytes: -1, Start: t.segs[s.pred].End, End: s.enter, Entered: t.segs[s.pred].End, SlowestChannel: -1, SlowestPeer: -1, Stage: s.Stage, DataRank: s.DataRank,
					Layer: -1, Microbatch: -1,
				})
			}
		}
	}
	return out
}

// heldTogether gives the sets of ranks that enter within a moment although they came from work that ended far apart.
func heldTogether(as []arrival) [][]arrival {
	const (
		moment = 2_000_000 // ns: what starts after one wait starts within it.
		apart  = 20        // The work before ends over so many times the span in which they enter.
		least  = 3
	)
	slices.SortFunc(as, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.enter, b.enter), cmp.Compare(a.node, b.node)) })
	var out [][]arrival
	for from := 0; from < len(as); {
		to := from + 1
		first, last := as[from].left, as[from].left
		for ; to < len(as) && as[to].enter-as[from].enter <= moment; to++ {
			first, last = min(first, as[to].left), max(last, as[to].left)
		}
		h := as[from:to]
		from = to
		if len(h) >= least && 10*len(h) >= len(as) && last-first >= apart*max(moment/4, h[len(h)-1].enter-h[0].enter) {
			out = append(out, h)
		}
	}
	return out
}

// uncover gives the timeline with hidden operations as what they are, itself when there are none.
func (t *timeline) uncover() *timeline {
	hidden, waits := t.hiddenSyncs(), t.hiddenWaits()
	if len(hidden)+len(waits) == 0 {
		return t
	}
	tl := make([]Segment, 0, len(t.segs)+len(waits))
	tl = append(tl, waits...)
	for i := range t.segs {
		s := *t.segs[i].Segment
		if s.Kind == SegmentCompute && hidden[s.Func] {
			if t.segs[i].iter == noIteration {
				continue
			}
			s.Kind, s.Comm, s.Number, s.Seq, s.Peer = SegmentOp, hiddenComm, -1, int64(t.segs[i].iter), -1
		}
		tl = append(tl, s)
	}
	return newTimeline(t.index, tl)
}
