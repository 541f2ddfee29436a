// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"github.com/culprit-project/culprit/trace"
)

// launch calls a collective or a group of sends and receives on its communicator's stream, behind the computation
// queued so far.
func (r *rank) launch(s *sim, in *instr, pc int) {
	hw := &s.hw[r.id]
	called := r.host
	r.host = hw.cpu.finish(called, Time(callTime))
	at := r.comms[in.slot]
	c := s.comms[at.comm]
	it := item{in: in, iter: r.iter, pc: int32(pc), dep: -1, enq: r.host}
	if st := &r.streams[computeStream]; st.pos > 0 {
		it.dep, it.depPos = computeStream, st.pos-1
	}
	n := &r.count[in.slot]
	n.lastCalled = called
	if in.kind == doCollect {
		o := c.collective(n.collectives)
		n.collectives++
		m := &o.mem[at.rank]
		*m = member{in: in, called: called, enq: r.host, entered: unset, left: unset, number: int32(n.called), seq: r.seqs[in.slot][in.fn], iter: r.iter, ordinal: 1}
		r.seqs[in.slot][in.fn]++
		n.called++
		it.o, it.m = o, at.rank
		s.note(o)
	} else {
		it.group = &group{r.launchGroup(s, c, in, called)}
	}
	if r.host <= s.horizon {
		n.started = n.called
	}
	stream := 1 + int(in.slot)
	r.enqueue(stream, it)
	if in.blocking {
		r.await(in)
	}
	r.halted = r.host > s.horizon
}

// launchGroup calls all sends and receives of a group.
func (r *rank) launchGroup(s *sim, c *comm, in *instr, called Time) []finished {
	at := r.comms[in.slot]
	r.halved = r.halves(s, c, in, r.halved[:0])
	halves := r.halved
	var tx, rx int64
	for _, h := range halves {
		if s.hw[c.members[h.delta]].host != s.hw[r.id].host {
			if h.send {
				tx += h.bytes
			} else {
				rx += h.bytes
			}
		}
	}
	refs := make([]finished, 0, len(halves))
	n := &r.count[in.slot]
	for i, h := range halves {
		src, dst, side := at.rank, h.delta, int32(0)
		fn := trace.Send
		if !h.send {
			src, dst, side = h.delta, at.rank, 1
			fn = trace.Recv
		}
		o := c.transfer(src, dst, h.send)
		if o.size == 0 || h.send {
			o.size = h.bytes
		}
		o.mem[side] = member{
			in: in, called: called, enq: r.host, entered: unset, left: unset, number: int32(n.called), seq: int32(o.number), iter: r.iter, ordinal: int32(i) + 1,
		}
		o.group[side] = [2]int64{tx, rx}[side]
		n.called++
		r.seqs[in.slot][fn]++
		refs = append(refs, finished{o: o, m: side})
		s.note(o)
	}
	return refs
}

// halves lists this rank's sends and receives of a group, delta holding the peer's rank in the communicator.
// The list is appended to out.
func (r *rank) halves(s *sim, c *comm, in *instr, out []half) []half {
	n := int32(len(c.members))
	me := r.comms[in.slot].rank
	if in.allToAll {
		for i := int32(1); i < n; i++ {
			to, from := (me+i)%n, (me-i+n)%n
			give, take := to, me
			if in.combine {
				give, take = me, from
			}
			out = append(out,
				half{send: true, delta: to, bytes: int64(float64(in.bytes) * s.load(r.iter, in, int(give)))},
				half{delta: from, bytes: int64(float64(in.bytes) * s.load(r.iter, in, int(take)))})
		}
		return out
	}
	for _, h := range in.halves {
		if h.abs {
			if me == 0 {
				for p := int32(1); p < n; p++ {
					out = append(out, half{send: !h.send, delta: p, bytes: h.bytes})
				}
			} else {
				out = append(out, half{send: h.send, delta: 0, bytes: h.bytes})
			}
			continue
		}
		h.delta = ((me+h.delta)%n + n) % n
		out = append(out, h)
	}
	return out
}

// uncalled is a member that has not called the operation.
var uncalled = member{called: unset, enq: Never, entered: unset, left: unset}

// collective finds or makes the communicator's collective of that number.
func (c *comm) collective(number int64) *op {
	for number >= c.first+int64(len(c.ops)) {
		c.ops = append(c.ops, nil)
	}
	o := c.ops[number-c.first]
	if o == nil {
		o = &op{comm: c, number: number, mem: make([]member, len(c.members))}
		for i := range o.mem {
			o.mem[i] = uncalled
		}
		c.ops[number-c.first] = o
	}
	return o
}

// drop forgets a collective that everybody has entered.
func (c *comm) drop(number int64) {
	c.ops[number-c.first] = nil
	done := 0
	for done < len(c.ops) && c.ops[done] == nil {
		done++
	}
	// Number and place move together: what was never called is nil too, but lies behind what was.
	c.ops, c.first = c.ops[done:], c.first+int64(done)
}

// transfer finds or makes the next send or receive between two members.
func (c *comm) transfer(src, dst int32, send bool) *op {
	p := c.pairing(src, dst)
	own, other := &p.recvs, p.sends
	if send {
		own, other = &p.sends, p.recvs
	}
	seq := *own
	*own++
	if seq < other { // The other side was there before.
		o := p.open[0]
		p.open[0] = nil
		p.open = p.open[1:]
		return o
	}
	both := &pairOp{mem: [2]member{uncalled, uncalled}, op: op{comm: c, p2p: true, src: src, dst: dst, number: seq}}
	both.op.mem = both.mem[:]
	p.open = append(p.open, &both.op)
	return &both.op
}

// note keeps the operation in the list of those not entered by everybody.
func (s *sim) note(o *op) {
	if !o.queued {
		o.queued = true
		s.waiting = append(s.waiting, o)
	}
	if len(s.waiting) > s.compactAt {
		s.compact()
		s.compactAt = max(4096, 2*len(s.waiting))
	}
}

// compact drops resolved operations from the waiting list.
func (s *sim) compact() {
	open := s.waiting[:0]
	for _, o := range s.waiting {
		if !o.resolved {
			open = append(open, o)
		}
	}
	clear(s.waiting[len(open):])
	s.waiting = open
}

// rankOf is the global rank of the operation's member i.
func (o *op) rankOf(i int) int32 {
	if o.p2p {
		if i == 0 {
			return o.comm.members[o.src]
		}
		return o.comm.members[o.dst]
	}
	return o.comm.members[i]
}

// runStream lets a stream go on and tells whether anything finished.
func (r *rank) runStream(s *sim, index int) bool {
	st := &r.streams[index]
	did := false
	for st.head < len(st.queue) {
		it := &st.queue[st.head]
		if !it.started && !r.begin(s, st, it) {
			return did
		}
		end, ok := r.ended(s, it)
		if !ok || end > s.horizon {
			return did
		}
		if index > 0 {
			r.retire(s, it, end)
		}
		st.tail = max(st.tail, end)
		st.ends[st.done%endsKept] = st.tail
		st.done++
		it.o, it.group = nil, nil
		st.head++
		did = true
		if r.full && index == computeStream && len(st.queue)-st.head == launchQueue/2 {
			r.drained = st.tail
		}
	}
	return did
}

// begin starts an item whose turn it is; false when it must wait.
func (r *rank) begin(s *sim, st *stream, it *item) bool {
	t := max(it.enq, st.tail)
	if it.dep >= 0 {
		d := &r.streams[it.dep]
		if d.done <= it.depPos {
			return false
		}
		if d.done-it.depPos > endsKept {
			s.err = fmt.Errorf("rank %d: stream %d ran %d items ahead", r.id, it.dep, d.done-it.depPos)
			return false
		}
		t = max(t, d.ends[it.depPos%endsKept])
	}
	if t > s.horizon {
		return false
	}
	if it.o != nil || it.group != nil {
		if t = s.hw[r.id].gpu.finish(t, Time(kernelGap)); t > s.horizon {
			return false
		}
	}
	it.started, it.start = true, t
	if it.o != nil {
		s.enter(it.o, it.m, t)
	}
	if it.group != nil {
		for _, f := range it.group.refs {
			s.enter(f.o, f.m, t)
		}
	}
	return true
}

// enter notes that member m's kernel of an operation runs from t on.
func (s *sim) enter(o *op, m int32, t Time) {
	o.mem[m].entered = t
	if o.entered++; int(o.entered) == len(o.mem) {
		s.resolve(o)
	}
}

// ended is when a started item ends, if that is known.
func (r *rank) ended(s *sim, it *item) (Time, bool) {
	if it.o != nil {
		left := it.o.mem[it.m].left
		return max(it.start, left), left != unset
	}
	if it.group != nil {
		end := it.start
		for _, f := range it.group.refs {
			left := f.o.mem[f.m].left
			if left == unset {
				return 0, false
			}
			end = max(end, left)
		}
		return end, true
	}
	if it.in == nil || it.in.kind != doCompute {
		return it.start, true
	}
	return s.hw[r.id].gpu.finish(it.start, r.duration(s, it)), true
}

// retire counts an item's operations as completed and remembers them.
func (r *rank) retire(s *sim, it *item, end Time) {
	if it.o == nil && it.group == nil {
		return
	}
	n := &r.count[it.in.slot]
	if it.o != nil {
		r.history.add(finished{it.o, it.m, end}, s.cfg.History)
		n.completed++
	} else {
		for _, f := range it.group.refs {
			f.at = end
			r.history.add(f, s.cfg.History)
		}
		n.completed += int64(len(it.group.refs))
	}
	n.lastLeft = end
}

// finishedOps calls f for the rank's remembered finished operations, oldest first.
func (r *rank) finishedOps(f func(o *op, m int32)) {
	for i := range r.history.n {
		h := r.history.at(i)
		f(h.o, h.m)
	}
}

// inFlight calls f for the operations called and not left, in call order per communicator.
func (r *rank) inFlight(f func(sl slot, o *op, m int32)) {
	for sl := range numSlots {
		st := &r.streams[1+sl]
		for i := st.head; i < len(st.queue); i++ {
			it := &st.queue[i]
			if it.o != nil {
				f(sl, it.o, it.m)
			}
			if it.group != nil {
				for _, ref := range it.group.refs {
					f(sl, ref.o, ref.m)
				}
			}
		}
	}
}
