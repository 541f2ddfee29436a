// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"

	"github.com/culprit-project/culprit/trace"
)

const (
	linkRing    = 16   // Steps remembered per link; more than any window.
	proxyWork   = 700  // Nanoseconds that an action of the proxy takes.
	proxyTurn   = 1000 // Nanoseconds of its time that an action costs, with its share of polling the other flows.
	proxyTurns  = 3    // Actions per step and direction: post, see it done, hand on; receive, flush, give back.
	flushTime   = 1500 // GPUDirect flush, ns.
	kernelStep  = 1200 // A kernel's fixed time per step, ns.
	kernelRate  = 350. // Bytes per nanosecond through a kernel's copy and reduction.
	pollTime    = 900  // Between two polls of a receiver that is not ready, ns.
	netWindow   = 4    // Steps in flight, Simple: NCCL_STEPS (8) over sliceSteps (2).
	smallWindow = 8    // Steps in flight, LL and LL128 and point-to-point.
)

// limit is a resource on a link's path that does not always work at its nominal rate.
type limit struct {
	rate float64 // Bytes per ns at factor 1.
	p    *profile
	// soft: at factor 0 what is under way goes on. A thread that stands still begins nothing; the NIC sends what it was
	// given.
	soft bool
}

// link is one direction of one channel between two members of a communicator: the sender's flow and the receiver's flow
// when it crosses the network, or an NVLink or shared-memory edge that no proxy serves.
type link struct {
	sim      *sim
	src, dst int32 // Global ranks.
	peerDst  int32 // Rank of the destination in the communicator.
	peerSrc  int32
	channel  uint16
	net      bool
	win      int
	rate     float64 // Bytes per ns.
	lat      Time
	flush    Time
	odd      []limit
	total    int   // Steps.
	chunk    int64 // Bytes per step.
	scale    int   // Real steps per simulated step.
	startSrc Time  // The sender's proxy has the operation.
	startDst Time
	until    Time // Counters and waits are those at this time.
	quirks   bool // Proxies may be late.

	k                             int // Steps pushed.
	lastTrans, lastWire, lastDone Time
	lastGiven, lastConsumed       Time
	done, recvd, given, consumed  [linkRing]Time

	send, recv side
}

// side is what one end's proxy knows at the time asked for.
type side struct {
	posted, ready, transmitted, done int
	wait                             [3]Time
	active                           Time
	first, last                      Time // First and last change of a counter.
	gap                              Time
	probes                           int   // That find the count changed: of sending the acknowledged, of receiving the arrived.
	probe                            int64 // The last of them.
	head                             trace.FlowState
	since                            Time
	headSet                          bool
}

func (s *side) moved(t Time) {
	if s.first == 0 {
		s.first = t
	} else {
		s.gap = max(s.gap, t-s.last)
	}
	s.last = max(s.last, t)
}

// counted notes a change of the side's count at t, for as many real steps since the one before as one simulated step stands for.
func (s *side) counted(t Time, steps int) {
	const probe = int64(1 << 20) // Of the shim, ns.
	at := int64(t) / probe
	if s.probes == 0 {
		s.probes = 1
	} else {
		s.probes += int(min(int64(steps), max(0, at-s.probe)))
	}
	s.probe = at
}

// finish gives the time at which bytes put on the wire at start have left it.
func (l *link) finish(start Time, bytes int64) Time {
	if start >= Never {
		return Never
	}
	if len(l.odd) == 0 {
		return start + Time(float64(bytes)/l.rate)
	}
	left := float64(bytes)
	for t := start; ; {
		rate, until := l.rate, Never
		for _, o := range l.odd {
			f, u := o.p.at(t)
			if until = min(until, u); f > 0 || !o.soft {
				rate = min(rate, o.rate*f)
			}
		}
		if rate > 0 {
			need := Time(left / rate)
			if until >= Never || need <= until-t {
				return t + need
			}
			left -= float64(until-t) * rate
		}
		if until >= Never {
			return Never
		}
		t = until
	}
}

// arrived is the time at which the receiver's kernel may read step k; Never when it was never sent.
func (l *link) arrived(k int) Time {
	if k >= l.k {
		return Never
	}
	return l.given[k%linkRing]
}

// credit is the time at which the sender's kernel may fill step k's buffer.
func (l *link) credit(k int) Time {
	if !l.net {
		if k < l.win {
			return 0
		}
		return l.consumed[(k-l.win)%linkRing]
	}
	if k < l.win {
		return l.startSrc
	}
	return l.done[(k-l.win)%linkRing]
}

// posted is the time at which the receiver has offered step k's buffer to the network.
func (l *link) posted(k int) Time {
	if k < l.win {
		return l.startDst
	}
	return l.consumed[(k-l.win)%linkRing]
}

// push tells the link that the sender's kernel has produced step k at g. Steps are pushed in order.
func (l *link) push(k int, g Time) {
	i := k % linkRing
	l.k = k + 1
	if !l.net {
		d := l.finish(max(g, l.lastDone), l.chunk)
		l.lastDone = d
		l.done[i], l.recvd[i], l.given[i] = d, d+l.lat, d+l.lat
		return
	}
	vis := l.poll(l.src, max(g, l.lastTrans, l.startSrc))
	tr := l.act(l.src, max(vis, l.posted(k)), 1)
	wire := l.finish(max(tr, l.lastWire), l.chunk)
	dn := max(l.lastDone, l.act(l.src, wire+l.lat, 2))
	rc := max(l.lastGiven, l.act(l.dst, wire+l.lat, 3))
	gv := rc + l.flush
	if l.flush > 0 {
		gv = l.act(l.dst, rc+l.flush, 4)
	}
	l.noteSend(k, vis, tr, dn)
	if rc <= l.until {
		l.recv.ready++
		l.recv.moved(rc)
		l.recv.counted(rc, l.scale)
	}
	if gv <= l.until {
		l.recv.transmitted++
		l.recv.moved(gv)
	}
	l.lastTrans, l.lastWire, l.lastDone, l.lastGiven = tr, wire, dn, gv
	l.done[i], l.recvd[i], l.given[i] = dn, rc, gv
}

// noteSend counts step k on the sender's side.
func (l *link) noteSend(k int, vis, tr, dn Time) {
	s := &l.send
	base := max(l.lastDone, l.credit(k))
	if vis <= l.until {
		s.ready++
		s.moved(vis)
		s.wait[0] += max(0, vis-base)
	}
	if tr <= l.until {
		s.transmitted++
		s.moved(tr)
		s.wait[1] += max(0, tr-max(vis, base))
	}
	if dn <= l.until {
		s.done++
		s.moved(dn)
		s.counted(dn, l.scale)
		s.wait[2] += max(0, dn-max(tr, base))
		s.active += dn - max(tr, l.lastDone)
	} else if !s.headSet {
		s.headSet = true
		switch {
		case vis > l.until:
			s.head, s.since = trace.FlowSendGPU, base
		case tr > l.until:
			s.head, s.since = trace.FlowSendPeer, vis
		default:
			s.head, s.since = trace.FlowSendNet, tr
			s.active += l.until - max(tr, l.lastDone)
		}
	}
}

// consume tells the link that the receiver's kernel has read step k at t.
func (l *link) consume(k int, t Time) {
	i := k % linkRing
	if !l.net {
		l.consumed[i] = t
		return
	}
	c := l.act(l.dst, t, 5)
	r := &l.recv
	base := max(l.lastConsumed, l.posted(k))
	if l.recvd[i] <= l.until {
		r.wait[0] += max(0, l.recvd[i]-base)
	}
	if l.given[i] <= l.until {
		r.wait[1] += max(0, l.given[i]-max(l.recvd[i], base))
	}
	if c <= l.until {
		r.done++
		r.moved(c)
		r.wait[2] += max(0, c-max(l.given[i], base))
		r.active += max(0, l.recvd[i]-base)
	}
	l.consumed[i] = c
	l.lastConsumed = max(l.lastConsumed, c)
}

// seal fills in what only the end of the evaluation shows: buffers posted and what a stuck head waits for.
func (l *link) seal() {
	if !l.net {
		return
	}
	s, r := &l.send, &l.recv
	if l.startSrc <= l.until {
		s.posted = min(l.total, s.done+l.win)
	}
	if l.startDst <= l.until {
		r.posted = min(l.total, r.done+l.win)
	}
	switch {
	case s.done == l.total || l.startSrc > l.until:
		s.head = trace.FlowQueued
		if s.done == l.total {
			s.head = trace.FlowIdle
		}
	case !s.headSet:
		s.head, s.since = trace.FlowSendGPU, l.credit(s.done)
		if s.done > 0 {
			s.since = max(s.since, l.done[(s.done-1)%linkRing])
		}
	}
	switch {
	case r.done == l.total:
		r.head = trace.FlowIdle
	case l.startDst > l.until:
		r.head = trace.FlowQueued
	default:
		i := r.done % linkRing
		base := l.posted(r.done)
		if r.done > 0 {
			base = max(base, l.consumed[(r.done-1)%linkRing])
		}
		switch {
		case r.done >= l.k || l.recvd[i] > l.until:
			r.head, r.since = trace.FlowRecvNet, base
		case l.given[i] > l.until:
			r.head, r.since = trace.FlowRecvFlush, max(base, l.recvd[i])
		default:
			r.head, r.since = trace.FlowRecvGPU, max(base, l.given[i])
		}
	}
}

// poll is the time at which rank's proxy thread, alive, sees what is there at t.
func (l *link) poll(rank int32, t Time) Time {
	if !l.quirks {
		return t
	}
	return l.sim.hw[rank].proxy.finish(t, 0)
}

// act is the time at which rank's proxy thread has dealt with what is there at t.
func (l *link) act(rank int32, t Time, stage int64) Time {
	if t >= Never {
		return Never
	}
	if !l.quirks {
		return t + proxyWork
	}
	hw := &l.sim.hw[rank]
	t = hw.proxy.finish(t, proxyWork)
	for _, d := range hw.proxyDelay {
		if t < d.from || t >= d.to {
			continue
		}
		u := uniform(l.sim.cfg.Seed, forProxy, int64(rank), int64(t), stage)
		if d.mean > 0 { // A merged step stands for scale actions.
			t += Time(-math.Log(1-u) * float64(d.mean) * float64(l.scale))
		}
		if d.chance > 0 && u < 1-math.Pow(1-d.chance, float64(l.scale)) {
			t += d.pause
		}
	}
	return t
}
