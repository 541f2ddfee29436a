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

// hiddenNumber is its number in a timeline.
const hiddenNumber int32 = -1

// hiddenSyncs finds computations that are none: ranks begin them far apart and leave them together, so there is an
// operation inside that the source did not record (a norm over all gradients, a barrier). Their length is waiting.
func (t *timeline) hiddenSyncs() map[string]bool {
	type place struct {
		fn   string
		iter int32
	}
	type extent struct {
		starts, ends []int64 // Of each rank, on the reference's clock.
		twice        bool    // A rank computes it more than once.
	}
	at := map[place]*extent{}
	for n, list := range t.ranks {
		if !t.clock[n].known {
			continue
		}
		seen := map[place]bool{}
		for _, i := range list {
			s := &t.segs[i]
			if !s.compute || s.iter == noIteration {
				continue
			}
			p := place{t.FuncNames[s.fn], s.iter}
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
			e.starts, e.ends = append(e.starts, t.entered(s)), append(e.ends, t.clock[n].toReference(s.end))
		}
	}
	together, apart := map[string]int{}, map[string]int{}
	for p, e := range at {
		if e.twice || len(e.starts) < 2 {
			apart[p.fn]++
			continue
		}
		starts, ends := slices.Max(e.starts)-slices.Min(e.starts), slices.Max(e.ends)-slices.Min(e.ends)
		switch {
		case starts < apartFrom:
		case leaveTogether*ends < starts:
			together[p.fn]++
		default:
			apart[p.fn]++
		}
	}
	out := map[string]bool{}
	for fn, n := range together {
		out[fn] = n >= leastTogether && n >= mostlyTogether*apart[fn]
	}
	maps.DeleteFunc(out, func(_ string, hidden bool) bool { return !hidden })
	return out
}

// uncover turns hidden operations into operations. Those outside a whole iteration have no counterpart on other ranks and are left out.
func (t *timeline) uncover() (*timeline, repair) {
	hidden := t.hiddenSyncs()
	if len(hidden) == 0 {
		return t, repair{}
	}
	r := repair{}
	tl := make([]rca.Segment, 0, len(t.segs))
	for i := range t.segs {
		s := *t.segs[i].record
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
