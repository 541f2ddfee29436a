// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/culprit-project/culprit/trace"

// calibKey names operations that take the same time when nothing is odd.
type calibKey struct {
	shape string
	fn    trace.Func
	bytes int64
	net   bool
	share float64
	after bool // The job-wide change.
}

// calibration is what the step-by-step evaluation says of an operation that everybody enters together.
type calibration struct {
	time Time // Entered to left.
	dirs []memberDirs
	// fits: the sender's data fits the buffers, so it leaves without the receiver's kernel.
	fits bool
}

// resolve gives the times at which the members leave an operation that all have entered.
func (s *sim) resolve(o *op) {
	o.resolved = true
	if !o.p2p {
		o.comm.drop(o.number)
	}
	last := Time(0)
	for i := range o.mem {
		if t := o.mem[i].entered; t > last {
			last, o.latest = t, int32(i)
		}
	}
	same := o.consistent()
	if o.agreed = o.mem[0].in; !same {
		o.agreed = nil
		o.agreed = o.majority()
	}
	c := s.calibrated(o)
	if s.isOdd(o, c) || !same {
		e := s.evaluate(o, Never-1, false, true)
		for i := range o.mem {
			o.mem[i].leave(e.left[i])
		}
		if o.odd = true; o.comm.hosts > 1 {
			o.dirs = make([]memberDirs, len(o.mem))
			e.sumAll(o.dirs)
		}
	} else {
		for i := range o.mem {
			o.mem[i].leave(s.fluid(o, i, last, c))
		}
	}
	for i := range o.mem {
		s.wake(o.rankOf(i))
	}
}

// leave notes when a member leaves, unless it left before the others entered.
func (m *member) leave(t Time) {
	if m.left == unset {
		m.left = t
	}
}

// fluid is when member i leaves an operation in which nothing is odd: the last to enter sets the pace.
func (s *sim) fluid(o *op, i int, last Time, c *calibration) Time {
	if o.p2p && i == 0 && c.fits {
		return max(o.mem[0].entered, o.mem[1].enq) + c.time
	}
	skew := Time(800 * uniform(s.cfg.Seed, forSkew, int64(i), int64(last), int64(o.rankOf(i))))
	return last + c.time + skew
}

// calibrated gives the nominal time of an operation, computing it step by step the first time.
func (s *sim) calibrated(o *op) *calibration {
	if o.p2p || o.agreed == nil || o.mem[0].in != o.agreed {
		return s.calibratedBy(o)
	}
	after := s.after(o)
	for i := range o.comm.known {
		if k := &o.comm.known[i]; k.in == o.agreed && k.after == after {
			return k.calibration
		}
	}
	c := s.calibratedBy(o)
	o.comm.known = append(o.comm.known, calibratedCall{o.agreed, after, c})
	return c
}

// calibratedCall is the calibration of a communicator's collective.
type calibratedCall struct {
	in          *instr
	after       bool
	calibration *calibration
}

// calibratedBy is calibrated by the operation's shape.
func (s *sim) calibratedBy(o *op) *calibration {
	key := calibKey{shape: o.comm.shape, fn: o.mem[0].in.fn, bytes: o.bytes(), after: s.after(o)}
	if o.p2p {
		key.fn = trace.Send
		key.net = s.hw[o.rankOf(0)].host != s.hw[o.rankOf(1)].host
		key.share = o.share(s)
	}
	if c := s.calib[key]; c != nil {
		return c
	}
	flat := *o
	flat.mem = make([]member, len(o.mem))
	base := Time(0)
	if key.after {
		base = s.changed
	}
	for i := range o.mem {
		flat.mem[i] = o.mem[i]
		flat.mem[i].enq, flat.mem[i].entered = base, base+1
	}
	e := evaluation{sim: s, comm: o.comm, op: &flat, until: Never - 1, nominal: !key.after, coarse: true}
	e.all()
	c := &calibration{}
	for _, t := range e.left {
		c.time = max(c.time, t-base-1)
	}
	c.dirs = make([]memberDirs, len(e.left))
	if o.comm.hosts > 1 {
		e.sumAll(c.dirs)
	}
	for i := range c.dirs {
		c.dirs[i].send.since(base)
		c.dirs[i].recv.since(base)
	}
	if o.p2p {
		c.fits = o.size <= p2pChannels*p2pChunk*smallWindow
	}
	s.calib[key] = c
	return c
}

// since makes times those after a moment.
func (d *dir) since(base Time) {
	if d.first > 0 {
		d.first, d.last = d.first-base, d.last-base
	}
}

// after tells whether an operation was launched after the job-wide change, by all that have.
func (s *sim) after(o *op) bool {
	if s.changed >= Never {
		return false
	}
	for i := range o.mem {
		if o.mem[i].enq < s.changed {
			return false
		}
	}
	return true
}

// isOdd tells whether a resource of some member is not nominal at some time from the first launch until all can be over.
// Data that fits the receiver's buffers is on its way once the sender's kernel and the receiver's proxy are there.
func (s *sim) isOdd(o *op, c *calibration) bool {
	from, to := Never, Time(0)
	for i := range o.mem {
		from, to = min(from, o.mem[i].enq), max(to, o.mem[i].entered)
	}
	if c.fits {
		to = max(o.mem[0].entered, o.mem[1].enq)
	}
	to += c.time
	if from < s.changed && to >= s.changed {
		return true
	}
	for i := range o.mem {
		hw := &s.hw[o.rankOf(i)]
		if hw.oddFrom <= to && from <= hw.oddTo {
			return true
		}
	}
	return false
}

// evaluate computes an operation step by step. Members that have not called or entered it never do.
func (s *sim) evaluate(o *op, until Time, stop, coarse bool) *evaluation {
	at := *o
	at.mem = make([]member, len(o.mem))
	copy(at.mem, o.mem)
	for i := range at.mem {
		m := &at.mem[i]
		if m.entered == unset {
			m.entered = Never
		}
		if m.called == unset {
			m.enq = Never
		}
	}
	e := &evaluation{sim: s, comm: o.comm, op: &at, until: until, coarse: coarse, stop: stop}
	e.all()
	return e
}

// all evaluates the operation by its algorithm.
func (e *evaluation) all() {
	switch {
	case e.op.p2p:
		e.pair()
	case e.treeUsed():
		e.treeAll()
	default:
		e.ring()
	}
	for _, l := range e.links {
		l.seal()
	}
}

// treeUsed tells whether NCCL would take the tree: AllReduce over several hosts, small or by configuration.
func (e *evaluation) treeUsed() bool {
	if e.op.fn() != trace.AllReduce || e.comm.hosts < 2 {
		return false
	}
	return e.op.bytes() <= treeBelow || (e.sim.cfg.Job.Tree && e.comm.slot == slotDP)
}

const treeBelow = 64 << 10

// setDirs keeps member i's sums of an operation computed step by step.
func (o *op) setDirs(e *evaluation, i int) {
	if o.dirs == nil {
		o.dirs = make([]memberDirs, len(o.mem))
	}
	o.odd = true
	o.dirs[i] = e.dirs(i)
}

// sumAll sums the flows of all members.
func (e *evaluation) sumAll(out []memberDirs) {
	for _, l := range e.links {
		if !l.net {
			continue
		}
		a, b := int(l.peerSrc), int(l.peerDst)
		if e.op.p2p {
			a, b = 0, 1
		}
		out[a].send.add(&l.send, l, l.peerDst)
		out[b].recv.add(&l.recv, l, l.peerSrc)
	}
}

// dirs sums the flows of member i.
func (e *evaluation) dirs(i int) memberDirs {
	var d memberDirs
	me := int32(i)
	if e.op.p2p {
		me = [2]int32{e.op.src, e.op.dst}[i]
	}
	for _, l := range e.links {
		if !l.net {
			continue
		}
		if l.peerSrc == me {
			d.send.add(&l.send, l, l.peerDst)
		}
		if l.peerDst == me {
			d.recv.add(&l.recv, l, l.peerSrc)
		}
	}
	return d
}

func (d *dir) add(s *side, l *link, peer int32) {
	d.flows++
	d.steps += s.done * l.scale
	d.bytes += int64(s.done) * l.chunk
	for i := range d.wait {
		d.wait[i] += s.wait[i]
	}
	d.active = max(d.active, s.active)
	d.gap = max(d.gap, s.gap)
	d.probes = max(d.probes, s.probes)
	if d.first == 0 || (s.first > 0 && s.first < d.first) {
		d.first = s.first
	}
	took := s.last - s.first
	if d.flows == 1 || took < d.fastest {
		d.fastest = took
	}
	if d.flows == 1 || s.last > d.last {
		d.slowChannel, d.slowPeer, d.slowest = l.channel, peer, took
	}
	d.last = max(d.last, s.last)
}
