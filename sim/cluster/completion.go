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
	missing := recentKept * len(b.p.Comms)
	n := b.r.history.n
	for i := n - 1; i >= 0 && missing > 0; i-- {
		h := b.r.history.at(i)
		sl := h.o.comm.slot
		if b.shown[i] {
			continue
		}
		if count[sl]++; count[sl] > recentKept {
			continue
		}
		missing--
		b.p.Completions = append(b.p.Completions, b.s.completion(b.r, h.o, h.m, b.index[sl], b.r.history.ticket(i)))
	}
	slices.Reverse(b.p.Completions)
}

// completion is the record of a finished operation.
func (s *sim) completion(r *rank, o *op, m int32, index uint32, ticket uint64) trace.Completion {
	host := &s.hosts[s.hw[r.id].host]
	mb := &o.mem[m]
	c := trace.Completion{
		Ticket: ticket, CommID: o.comm.id, CommIndex: index, CommGeneration: 1,
		NRanks: int32(len(o.comm.members)), Rank: r.comms[o.comm.slot].rank,
		Number: uint64(mb.number), Seq: uint64(mb.seq),
		GroupOrdinal: uint64(mb.ordinal), CalledNS: host.clock(mb.called), EnqueuedNS: host.clock(mb.enq), EnteredNS: host.clock(mb.entered), LeftNS: host.clock(mb.left),
	}
	b := snapshotter{s: s}
	to := trace.Op{Peer: -1, Root: -1, Channels: uint32(len(o.comm.rings))}
	b.describe(&to, o, m)
	c.Func, c.Algo, c.Proto, c.DatatypeBytes = to.Func, to.Algo, to.Proto, to.DatatypeBytes
	c.Count, c.Bytes, c.Peer, c.Root, c.Channels, c.Flags = to.Count, to.Bytes, to.Peer, to.Root, to.Channels, to.Flags
	if !s.cfg.Level.calls() {
		c.CalledNS = c.EnqueuedNS
	}
	if s.kernelsSeen(o.comm) {
		c.GPUNS = uint64(mb.left - mb.entered)
	} else {
		c.EnteredNS = 0
		c.Flags |= trace.OpLeftInferred
	}
	if s.cfg.Level.kernels() && o.comm.toSelf {
		c.Flags |= trace.OpKernelUntrusted
	}
	if s.endless(o) {
		c.Flags |= trace.OpNoCompletion
		c.LeftNS = c.EnqueuedNS
	}
	if o.comm.hosts > 1 && s.cfg.Level.steps() {
		d := s.dirsOf(o, m)
		c.Send, c.Recv = d.send.record(host), d.recv.record(host)
		c.SendProbes, c.RecvProbes = uint32(d.send.probes), uint32(d.recv.probes)
		c.GPUReadyNS = c.Send.FirstStepNS // Posting a buffer is no step here: the first is the GPU's data.
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
	c := s.calibrated(o)
	d := c.dirs[m]
	mb := &o.mem[m]
	var send, recv [3]Time
	if o.p2p {
		send, recv = c.pairWaits(o)
		d.send.slowPeer, d.recv.slowPeer = o.dst, o.src // The calibration may be that of another pair.
	} else {
		send, recv = s.ringWaits(o, int(m))
	}
	first := mb.entered + max(0, c.dirs[m].firstStep()-1)
	d.send.shift(c, mb, first, send)
	d.recv.shift(c, mb, first, recv)
	return d
}

// shift moves a calibrated direction to where the member's operation took place and adds the waiting for others.
func (x *dir) shift(c *calibration, mb *member, first Time, waited [3]Time) {
	if x.flows == 0 {
		*x = dir{}
		return
	}
	for i, w := range waited {
		x.wait[i] += w * Time(x.flows)
		x.gap = max(x.gap, w)
	}
	x.first = first
	x.last = max(first, mb.left-max(0, c.time-(x.last-1)))
	x.slowest = x.last - x.first
	x.fastest = x.slowest
}

// pairWaits are the waits of a send and of its receive beyond the transfer itself.
func (c *calibration) pairWaits(o *op) (send, recv [3]Time) {
	a, b := &o.mem[0], &o.mem[1]
	send[0] = max(0, a.entered-a.enq)
	send[1] = max(0, b.entered-a.entered)
	if c.fits {
		send[1] = max(0, b.enq-a.entered)
	}
	recv[0] = max(0, a.entered-b.enq)
	recv[2] = max(0, b.entered-max(a.entered, b.enq))
	return send, recv
}

// ringWaits are member m's waits of a collective in which nothing is odd. Its proxy waits from the launch on: for its
// own kernel to enter and for its predecessor's data. Then all wait for the last to enter: upstream of that one the
// receivers' buffers fill up, downstream nothing arrives.
func (s *sim) ringWaits(o *op, m int) (send, recv [3]Time) {
	c := o.comm
	n := len(o.mem)
	latest := int(o.latest)
	mb := &o.mem[m]
	last := o.mem[latest].entered
	late := last - mb.entered
	pos := int(c.place[m])
	prev := &o.mem[c.rings[0][(pos+n-1)%n]]
	send[0] = max(0, mb.entered-mb.enq)
	if down := (pos - int(c.place[latest]) + n) % n; m == latest || down <= n/2 {
		send[0] += late
		recv[0] = max(0, last-mb.enq)
		if m == latest {
			recv[0] = max(0, prev.entered-mb.enq)
			recv[2] = max(0, mb.entered-max(prev.entered, mb.enq))
		}
	} else {
		send[1] = late
		recv[0] = max(0, prev.entered-mb.enq)
		recv[2] = max(0, last-max(prev.entered, mb.enq))
	}
	return send, recv
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

func (x *dir) record(h *host) trace.Direction {
	out := trace.Direction{
		Flows: uint32(x.flows), Steps: uint32(x.steps), Bytes: uint64(x.bytes),
		ActiveNS: uint64(x.active), LargestGapNS: uint64(x.gap),
		SlowestChannel: uint32(x.slowChannel), SlowestPeer: x.slowPeer,
		SlowestNS: uint64(max(0, x.slowest)), FastestNS: uint64(max(0, x.fastest)),
	}
	if x.flows > 0 {
		out.FirstStepNS, out.LastStepNS = h.clock(x.first), h.clock(x.last)
	}
	for i := range x.wait {
		out.WaitNS[i] = uint64(x.wait[i])
	}
	return out
}
