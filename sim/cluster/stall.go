// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"time"
)

// Stall is a span in which a communicator of a rank had an operation in flight and made no progress: what
// nccl_stall_seconds counts.
type Stall struct {
	Rank     int
	From, To Time // To is Never when it lasted at the end of the run.
}

// stallKept is the shortest stall that is remembered.
const stallKept = Time(time.Second)

// noteStall remembers the quiet spans of an operation that the rank leaves.
func (r *rank) noteStall(o *op, m int32, before, left Time) {
	mb := &o.mem[m]
	if left-max(mb.called, before) <= stallKept {
		return
	}
	from := max(mb.called, before)
	if mb.entered-from > stallKept {
		r.stalls = append(r.stalls, Stall{int(r.id), from, mb.entered})
	}
	last := mb.entered
	for i := range o.mem {
		if e := o.mem[i].entered; e < Never {
			last = max(last, e)
		}
	}
	if last = min(last, left); last-max(mb.entered, before) > stallKept {
		r.stalls = append(r.stalls, Stall{int(r.id), max(mb.entered, before), last})
	}
}

// Stalls lists every rank's stalls longer than a second, by rank and time.
func (rec *Recording) Stalls() []Stall {
	s := rec.s
	var out []Stall
	for i := range s.ranks {
		r := &s.ranks[i]
		out = append(out, r.stalls...)
		var since [numSlots]Time
		var open [numSlots]bool
		r.inFlight(func(sl slot, o *op, m int32) {
			t := max(o.mem[m].called, r.count[sl].lastLeft)
			if e := o.mem[m].entered; e != unset && e <= s.horizon {
				// What began a moment ago has not stalled: its flows need not be looked at.
				if t = max(t, e); s.horizon-t > stallKept {
					t = max(t, s.progress(o, m))
				}
			}
			if !open[sl] || t > since[sl] {
				since[sl], open[sl] = t, true
			}
		})
		for sl := range numSlots {
			if open[sl] && s.horizon-since[sl] > stallKept {
				out = append(out, Stall{int(r.id), since[sl], Never})
			}
		}
	}
	slices.SortFunc(out, func(a, b Stall) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.From, b.From)) })
	return out
}

// progress is when the flows of member m of an operation in flight last moved.
func (s *sim) progress(o *op, m int32) Time {
	if o.comm.hosts == 1 {
		return 0
	}
	me := m
	if o.p2p {
		me = [2]int32{o.src, o.dst}[m]
	}
	var t Time
	for _, l := range s.snapshotLinks(o) {
		if l.peerSrc == me {
			t = max(t, l.send.last)
		}
		if l.peerDst == me {
			t = max(t, l.recv.last)
		}
	}
	return t
}

// Iterations gives the times at which a rank ended its iterations.
func (rec *Recording) Iterations(rank int) []Time { return rec.s.ranks[rank].ends }
