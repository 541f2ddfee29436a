// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/culprit-project/culprit/trace"
)

// evaluation computes one operation's flows step by step.
type evaluation struct {
	sim     *sim
	comm    *comm
	op      *op
	until   Time // Counters are those at this time.
	nominal bool // Every resource at its nominal rate.
	coarse  bool // Steps may be merged: only times and waits are wanted.
	stop    bool // Nothing after until is wanted.

	left  []Time
	links []*link
}

const maxCoarseLoops = 12

// plan is how NCCL cuts a collective: kernel rounds of Q slices per chunk, J hops per loop.
type plan struct {
	loops, hops, slices int
	slice               int64
	scale               int
}

func ringPlan(fn trace.Func, bytes int64, n, channels int, proto string, coarse bool) plan {
	p := plan{hops: n - 1, slices: 2, scale: 1}
	per := bytes / int64(channels)
	if fn == trace.AllReduce {
		p.hops = 2 * (n - 1)
		per = bytes / int64(channels*n)
	}
	slice := int64(1 << 20)
	switch proto {
	case "ll":
		p.slices, slice = 1, 32<<10
	case "ll128":
		p.slices, slice = 1, 576000
	}
	chunk := slice * int64(p.slices)
	p.loops = int(max(1, (per+chunk-1)/chunk))
	if coarse && p.loops > maxCoarseLoops {
		p.scale = (p.loops + maxCoarseLoops - 1) / maxCoarseLoops
		p.loops = (p.loops + p.scale - 1) / p.scale
	}
	p.slice = max(1, per/int64(p.loops*p.slices))
	return p
}

func windowOf(proto string) int {
	if proto == "simple" {
		return netWindow
	}
	return smallWindow
}

// newLink makes the link from member a to member b, which has the given share of its NIC or of NVLink.
func (e *evaluation) newLink(a, b int32, ch int, nic, nv float64) *link {
	s := e.sim
	src, dst := e.comm.members[a], e.comm.members[b]
	hs, hd := &s.hw[src], &s.hw[dst]
	l := &link{
		sim: s, src: src, dst: dst, peerSrc: a, peerDst: b, channel: uint16(ch), until: e.until,
		startSrc: Never, startDst: Never, scale: 1,
	}
	if hs.host == hd.host {
		l.win = smallWindow
		l.rate = s.cfg.Hardware.NVLinkRate / 1e9 * nv
		l.lat = Time(s.cfg.Hardware.NVLatency)
		if !e.nominal {
			for _, p := range []*profile{hs.nv, hd.nv} {
				if !p.empty() {
					l.odd = append(l.odd, limit{rate: l.rate, p: p})
				}
			}
		}
		return l
	}
	l.net, l.win, l.flush = true, netWindow, flushTime
	l.rate = s.cfg.Hardware.NICRate / 1e9 * nic
	l.lat = Time(s.cfg.Hardware.NetLatency)
	if e.nominal {
		return l
	}
	l.quirks = !hs.proxy.empty() || !hd.proxy.empty() || len(hs.proxyDelay) > 0 || len(hd.proxyDelay) > 0
	pcie := s.cfg.Hardware.PCIeRate / 1e9 * nic
	add := func(rate float64, p *profile) {
		if !p.empty() {
			l.odd = append(l.odd, limit{rate: rate, p: p})
		}
	}
	add(l.rate, s.nics[hs.host][hs.nic].tx)
	add(l.rate, s.nics[hd.host][hd.nic].rx)
	add(pcie, hs.pcie)
	add(pcie, hd.pcie)
	add(l.rate, s.paths[[2]int32{hs.host, hd.host}])
	return l
}

// begin sets when the proxies of the link's ends have the operation.
func (e *evaluation) begin(l *link, total, scale int, chunk int64, a, b *member) {
	l.total, l.scale, l.chunk = total, scale, chunk
	if !l.net {
		return
	}
	l.startSrc = l.act(l.src, a.enq, 6)
	l.startDst = l.act(l.dst, b.enq, 6)
}

// serve notes that the ends' proxy threads serve so many flows each while the link is busy: one after another, so that a
// thread that is slow enough, and not the wire, sets the pace.
func (e *evaluation) serve(l *link, flows float64) {
	if !l.quirks {
		return
	}
	rate := float64(l.chunk) / float64(l.scale) / (proxyTurns * proxyTurn * flows)
	for _, r := range []int32{l.src, l.dst} {
		if p := e.sim.hw[r].proxy; !p.empty() {
			l.odd = append(l.odd, limit{rate: rate, p: p, soft: true})
		}
	}
}

// flagged takes the flush out of a link whose data carries flags: the kernel sees what has arrived.
func (l *link) flagged(proto string) {
	if proto != "simple" {
		l.flush = 0
	}
}

// efficiency is the payload's share of what a protocol sends: LL has a flag of four bytes beside every four bytes of
// data, LL128 eight in 128.
func efficiency(proto string) float64 {
	switch proto {
	case "ll":
		return 0.5
	case "ll128":
		return 120. / 128
	}
	return 1
}

// kernel is the time at which rank's kernel has passed one step of bytes that it could begin at t.
func (e *evaluation) kernel(rank int32, t Time, bytes int64) Time {
	if t >= Never {
		return Never
	}
	w := Time(kernelStep + float64(bytes)/kernelRate)
	if e.nominal {
		return t + w
	}
	return e.sim.hw[rank].gpu.finish(t, w)
}

// ring evaluates a ring collective on all channels.
func (e *evaluation) ring() {
	o := e.op
	n := len(o.mem)
	e.left = make([]Time, n)
	job := &e.sim.cfg.Job
	for ch, order := range e.comm.rings {
		p := ringPlan(o.fn(), o.bytes(), n, len(e.comm.rings), job.Proto, e.coarse)
		links := make([]*link, n)
		nic, nv := e.shares()
		nic, nv = nic*efficiency(job.Proto), nv*efficiency(job.Proto)
		for i, a := range order {
			b := order[(i+1)%n]
			l := e.newLink(a, b, ch, nic, nv)
			if l.net {
				l.win = windowOf(job.Proto)
			}
			l.flagged(job.Proto)
			total := o.steps(e.sim, a, p)
			e.begin(l, total, p.scale, p.slice, &o.mem[a], &o.mem[b])
			e.serve(l, 2*float64(len(e.comm.rings)))
			links[i] = l
		}
		e.ringChannel(order, links, p)
		e.links = append(e.links, links...)
	}
}

// shares are the parts of a NIC and of an NVLink port that one channel of a collective has when all communicators of its
// kind run at once, as they do in training.
func (e *evaluation) shares() (nic, nv float64) {
	hw := &e.sim.cfg.Hardware
	perHost := max(1, len(e.comm.members)/max(1, e.comm.hosts))
	channels := len(e.comm.rings)
	links := float64(channels) * float64(hw.GPUsPerHost) / float64(perHost)
	return min(1, float64(hw.NICsPerHost)/links), 1 / float64(channels)
}

// gpuShare is the part of a NIC that one GPU has when all communicate at once.
func (s *sim) gpuShare() float64 {
	return min(1, float64(s.cfg.Hardware.NICsPerHost)/float64(s.cfg.Hardware.GPUsPerHost))
}

func (e *evaluation) ringChannel(order []int32, links []*link, p plan) {
	o := e.op
	n := len(order)
	now, fin := make([]Time, n), make([]Time, n)
	limit := make([]int, n) // Kernel rounds each member makes.
	for i, m := range order {
		now[i], fin[i] = o.mem[m].entered, Never
		limit[i] = o.rounds(e.sim, m, p)
	}
	round := 0
	for loop := range p.loops {
		for hop := range p.hops + 1 {
			for q := range p.slices {
				k := (loop*p.hops+hop)*p.slices + q
				earliest := Never
				for i := range order {
					if round >= limit[i] {
						now[i] = Never
						continue
					}
					g := now[i]
					in, out := links[(i+n-1)%n], links[i]
					if hop > 0 {
						g = max(g, in.given[(k-p.slices)%linkRing])
					}
					if hop < p.hops {
						g = max(g, out.credit(k))
					}
					now[i] = e.kernel(out.src, g, p.slice)
					earliest = min(earliest, now[i])
					if round == limit[i]-1 {
						fin[i] = now[i]
					}
				}
				for i := range order {
					if hop > 0 {
						links[(i+n-1)%n].consume(k-p.slices, now[i])
					}
					if hop < p.hops {
						links[i].push(k, now[i])
					}
				}
				round++
				if earliest >= Never || (e.stop && earliest > e.until) {
					e.finishChannel(order, fin)
					return
				}
			}
		}
	}
	e.finishChannel(order, fin)
}

// finishChannel notes when the members have left a channel.
func (e *evaluation) finishChannel(order []int32, fin []Time) {
	for i, m := range order {
		e.left[m] = max(e.left[m], fin[i])
	}
}

// treeAll evaluates a tree AllReduce on all channels.
func (e *evaluation) treeAll() {
	e.left = make([]Time, len(e.op.mem))
	for ch := range e.comm.rings {
		e.treeChannel(ch)
	}
}

// pair evaluates one send and its receive: member 0 of the operation sends to member 1.
func (e *evaluation) pair() {
	o := e.op
	e.left = make([]Time, 2)
	bytes := o.bytes()
	steps := int(max(1, (bytes/p2pChannels+p2pChunk-1)/p2pChunk))
	scale := 1
	if e.coarse && steps > 2*maxCoarseLoops {
		scale = (steps + 2*maxCoarseLoops - 1) / (2 * maxCoarseLoops)
		steps = (steps + scale - 1) / scale
	}
	chunk := max(1, bytes/p2pChannels/int64(steps))
	for ch := range p2pChannels {
		l := e.newLink(o.src, o.dst, ch, o.share(e.sim), o.share(e.sim))
		l.win = smallWindow
		e.begin(l, steps, scale, chunk, &o.mem[0], &o.mem[1])
		e.serve(l, 2*p2pChannels/max(1e-9, o.part()))
		g, h := o.mem[0].entered, o.mem[1].entered
		for k := range steps {
			g = e.kernel(l.src, max(g, l.credit(k)), chunk)
			l.push(k, g)
			h = e.kernel(l.dst, max(h, l.given[k%linkRing]), chunk)
			l.consume(k, h)
			if (g >= Never || e.stop && g > e.until) && (h >= Never || e.stop && h > e.until) {
				break
			}
		}
		if l.net {
			g = max(g, l.lastDone) // The sender's buffers are drained before it leaves.
		}
		if l.k < steps {
			g, h = Never, Never
		}
		e.left[0], e.left[1] = max(e.left[0], g), max(e.left[1], h)
		e.links = append(e.links, l)
	}
}

const (
	p2pChannels = 2
	p2pChunk    = 512 << 10
)
