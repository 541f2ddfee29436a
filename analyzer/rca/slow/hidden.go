// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// hiddenComm names operations that a source recorded as computation.
const hiddenComm rca.CommID = "hidden synchronisation"

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
			if s.Kind != rca.SegmentCompute || s.iter == noIteration {
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
		starts, ends := e.last[0]-e.first[0], e.last[1]-e.first[1]
		switch {
		case starts < apartFrom:
		case leaveTogether*ends < starts:
			together[p.fn]++
		default:
			apart[p.fn]++
		}
	}
	out := map[string]bool{}
	for _, fn := range slices.Sorted(maps.Keys(together)) {
		if together[fn] >= leastTogether && together[fn] >= mostlyTogether*apart[fn] {
			out[fn] = true
		}
	}
	return out
}

// uncover turns hidden operations into what they are. Those outside a whole iteration have nobody to be matched with, and are left out.
func (t *timeline) uncover() (*timeline, repair) {
	hidden := t.hiddenSyncs()
	if len(hidden) == 0 {
		return t, repair{}
	}
	r := repair{}
	tl := make([]rca.Segment, 0, len(t.segs))
	for i := range t.segs {
		s := *t.segs[i].Segment
		if s.Kind == rca.SegmentCompute && hidden[s.Func] {
			if t.segs[i].iter == noIteration {
				r.left++
				continue
			}
			r.changed++
			s.Kind, s.Comm, s.Number, s.Seq, s.Peer = rca.SegmentOp, hiddenComm, -1, int64(t.segs[i].iter), -1
		}
		tl = append(tl, s)
	}
	return newTimeline(t.Index, tl), r
}
