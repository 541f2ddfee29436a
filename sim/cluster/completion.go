// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/culprit-project/culprit/trace"
)

// completions writes the newest few finished operations of every communicator, oldest first.
func (b *snapshotter) completions() {
	var count [numSlots]int
	n := len(b.r.history)
	for i := n - 1; i >= 0; i-- {
		h := b.r.history[(b.r.oldest+i)%n]
		sl := h.o.comm.slot
		if count[sl]++; count[sl] > recentKept {
			continue
		}
		b.p.Completions = append(b.p.Completions, b.s.completion(b.r, h.o, h.m, b.index[sl], uint64(b.r.dropped)+uint64(i)+1)) //nolint:gosec // Counts.
	}
	slices.Reverse(b.p.Completions)
}

// completion is the record of a finished operation.
func (s *sim) completion(r *rank, o *op, m int32, index uint32, ticket uint64) trace.Completion {
	host := &s.hosts[s.hw[r.id].host]
	mb := &o.mem[m]
	c := trace.Completion{
		Ticket: ticket, CommID: o.comm.id, CommIndex: index, CommGeneration: 1,
		NRanks: int32(len(o.comm.members)), Rank: r.comms[o.comm.slot].rank, //nolint:gosec // Few.
		Number: uint64(mb.number), Seq: uint64(mb.seq), //nolint:gosec // Counts.
		CalledNS: host.clock(mb.called), EnqueuedNS: host.clock(mb.enq), EnteredNS: host.clock(mb.entered), LeftNS: host.clock(mb.left),
	}
	b := snapshotter{s: s}
	var to trace.Op
	to.Peer, to.Root, to.Channels = -1, -1, uint32(len(o.comm.rings)) //nolint:gosec // Few.
	b.describe(&to, o, m)
	c.Func, c.Algo, c.Proto, c.DatatypeBytes = to.Func, to.Algo, to.Proto, to.DatatypeBytes
	c.Count, c.Bytes, c.Peer, c.Root, c.Channels, c.Flags = to.Count, to.Bytes, to.Peer, to.Root, to.Channels, to.Flags
	if s.cfg.NoKernelEvents {
		c.EnteredNS = 0
		c.Flags |= trace.OpLeftInferred
	} else {
		c.GPUNS = uint64(mb.left - mb.entered) //nolint:gosec // Durations.
	}
	if o.comm.hosts > 1 {
		d := s.dirsOf(o, m)
		c.Send, c.Recv = d.send.record(host), d.recv.record(host)
	}
	return c
}

// dirsOf gives the waits of a member: kept when the operation was computed step by step, else from the calibration and
// the member's place relative to the last to enter.
func (s *sim) dirsOf(o *op, m int32) memberDirs {
	if o.odd {
		if o.dirs == nil {
			return memberDirs{}
		}
		return o.dirs[m]
	}
	c, ok := s.calibrated(o)
	if !ok {
		return memberDirs{}
	}
	mb := &o.mem[m]
	last := Time(0)
	latest := 0
	for i := range o.mem {
		if e := o.mem[i].entered; e > last {
			last, latest = e, i
		}
	}
	return c.waited(o, int(m), latest, mb, last)
}

// waited is what a member's flows show when nothing is odd and it waited for the last to enter: upstream of it the
// receiver's buffers fill up, downstream nothing arrives.
func (c *calibration) waited(o *op, m, latest int, mb *member, last Time) memberDirs {
	nominal := c.dirs[m]
	d := nominal
	wait := max(0, last-mb.entered)
	shift := func(x *dir) {
		if x.flows == 0 {
			*x = dir{}
			return
		}
		x.first = mb.entered + (nominal.firstStep() - 1)
		x.last = mb.left - max(0, c.time-(x.last-1))
		x.gap = max(x.gap, wait)
		x.slowest = x.last - x.first
		x.fastest = x.slowest
	}
	n := len(o.mem)
	spread := func(x *dir, reason int) {
		for range x.flows {
			x.wait[reason] += wait
		}
	}
	if o.p2p {
		switch {
		case m == 0:
			d.recv = dir{}
			spread(&d.send, 1)
		default:
			d.send = dir{}
			spread(&d.recv, 0)
		}
	} else if m != latest && n > 1 {
		pos := o.comm.position(m)
		down := (pos - o.comm.position(latest) + n) % n
		if down <= n/2 {
			spread(&d.send, 0)
			spread(&d.recv, 0)
		} else {
			spread(&d.send, 1)
			spread(&d.recv, 2)
		}
	}
	shift(&d.send)
	shift(&d.recv)
	return d
}

func (d *memberDirs) firstStep() Time {
	switch {
	case d.send.flows == 0:
		return d.recv.first
	case d.recv.flows == 0:
		return d.send.first
	}
	return min(d.send.first, d.recv.first)
}

// position is a member's place in the first channel's ring.
func (c *comm) position(m int) int {
	return slices.Index(c.rings[0], int32(m)) //nolint:gosec // Few.
}

func (d *dir) record(h *host) trace.Direction {
	out := trace.Direction{
		Flows: uint32(d.flows), Steps: uint32(d.steps), Bytes: uint64(d.bytes), //nolint:gosec // Counts.
		ActiveNS: uint64(d.active), LargestGapNS: uint64(d.gap), //nolint:gosec // Durations.
		SlowestChannel: uint32(d.slowChannel), SlowestPeer: d.slowPeer,
		SlowestNS: uint64(max(0, d.slowest)), FastestNS: uint64(max(0, d.fastest)), //nolint:gosec // Durations.
	}
	if d.flows > 0 {
		out.FirstStepNS, out.LastStepNS = h.clock(d.first), h.clock(d.last)
	}
	for i := range d.wait {
		out.WaitNS[i] = uint64(d.wait[i]) //nolint:gosec // Durations.
	}
	return out
}
