// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/culprit-project/culprit/trace"

// unset marks a time that is not known yet, as against Never.
const unset Time = -1

// op is a collective of a communicator, or one send with its receive (member 0 sends, member 1 receives).
type op struct {
	comm     *comm
	mem      []member
	dirs     []memberDirs
	flows    *flowsAt
	agreed   *instr   // The call of most members, once all have made it.
	number   int64    // Among the communicator's collectives, or among the pair's sends.
	size     int64    // Bytes of the pair.
	group    [2]int64 // Of a pair: what the groups that it is part of send and receive over the network in all.
	src, dst int32    // Members of the pair.
	entered  int32    // Members whose kernels run.
	latest   int32    // The last of them to enter, once all have.
	p2p      bool
	resolved bool
	queued   bool // Waits in the list of operations that not everybody entered.
	odd      bool // Computed step by step: dirs holds the waits.
}

// pairOp is a pair with its members, in one piece of memory.
type pairOp struct {
	op
	mem [2]member
}

// flowsAt are the flows of an operation in flight at some moment.
type flowsAt struct {
	at    Time
	links []*link
}

// member is one rank's part of an operation.
type member struct {
	in                         *instr
	called, enq, entered, left Time
	number, seq, iter          int32
	ordinal                    int32 // In its group of calls, from 1.
}

// memberDirs is what a rank's completion record says of an operation that was computed step by step.
type memberDirs struct{ send, recv dir }

// dir sums one direction's flows.
type dir struct {
	flows, steps     int
	probes           int // Most of the flows.
	bytes            int64
	wait             [3]Time
	active, gap      Time
	first, last      Time
	slowChannel      uint16
	slowPeer         int32
	slowest, fastest Time
}

func (o *op) fn() trace.Func {
	if in := o.majority(); in != nil {
		return in.fn
	}
	return trace.FuncUnknown
}

// bytes is the size that most members gave; the pair's own size for a send.
func (o *op) bytes() int64 {
	if o.p2p {
		return o.size
	}
	if in := o.majority(); in != nil {
		return in.bytes
	}
	return 0
}

// majority is the call that most members made.
func (o *op) majority() *instr {
	if o.agreed != nil {
		return o.agreed
	}
	if o.consistent() {
		for i := range o.mem {
			if o.mem[i].in != nil {
				return o.mem[i].in
			}
		}
		return nil
	}
	type sig struct {
		fn    trace.Func
		bytes int64
	}
	count := map[sig]int{}
	var best *instr
	most := 0
	for i := range o.mem {
		in := o.mem[i].in
		if in == nil {
			continue
		}
		k := sig{in.fn, in.bytes}
		count[k]++
		if count[k] > most {
			most, best = count[k], in
		}
	}
	return best
}

// consistent tells whether all members that called the operation called the same.
func (o *op) consistent() bool {
	var first *instr
	for i := range o.mem {
		in := o.mem[i].in
		if in == nil {
			continue
		}
		if first == nil {
			first = in
		} else if in != first && (in.fn != first.fn || in.bytes != first.bytes || in.dtype != first.dtype) {
			return false
		}
	}
	return true
}

// rounds is the number of kernel rounds that member m makes by its own call.
func (o *op) rounds(s *sim, m int32, p plan) int {
	full := p.loops * (p.hops + 1) * p.slices
	if o.p2p || o.mem[m].in == nil {
		return full
	}
	own := o.mem[m].in
	if own.fn == o.fn() && own.bytes == o.bytes() {
		return full
	}
	q := ringPlan(own.fn, own.bytes, len(o.mem), len(o.comm.rings), s.cfg.Job.Proto, false)
	return q.loops * (q.hops + 1) * q.slices / p.scale
}

// steps is the number of network steps that member m's proxy was told.
func (o *op) steps(s *sim, m int32, p plan) int {
	if o.p2p || o.mem[m].in == nil {
		return p.loops * p.hops * p.slices
	}
	own := o.mem[m].in
	if own.fn == o.fn() && own.bytes == o.bytes() {
		return p.loops * p.hops * p.slices
	}
	q := ringPlan(own.fn, own.bytes, len(o.mem), len(o.comm.rings), s.cfg.Job.Proto, false)
	return q.loops * q.hops * q.slices
}

// share is the part of the NIC that the pair has: transfers of one group share it by their size, so that they end
// together.
func (o *op) share(s *sim) float64 { return s.gpuShare() * o.part() / p2pChannels }

// part is the pair's part of its groups.
func (o *op) part() float64 {
	part := 1.0
	for _, t := range o.group {
		if t > 0 {
			part = min(part, float64(o.size)/float64(t))
		}
	}
	return part
}
