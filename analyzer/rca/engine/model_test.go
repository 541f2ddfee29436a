// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// model is a tiny job: every rank runs a program of operations on a stream, rings move step by step through windows, and an
// injected fault brings the job to a standstill. The final state is the evidence.
type model struct {
	dp, pp, tp int
	channels   int
	ahead      int // Operations that the CPU may call before the first has finished.
	perHost    int
	ranks      []*mrank
	comms      []*mcomm
	fault      mfault
}

type mfault struct {
	kind  string // link, gpu, skip, other, stop, stop_outside, kill, kernel, size.
	rank  int
	after int // The fault strikes after this many calls of the rank.
	step  int64
}

type mcomm struct {
	id, name string
	members  []int
}

type mcall struct {
	comm  *mcomm
	fn    string
	peer  int // Rank in the communicator.
	bytes int64
}

type mrank struct {
	id      int
	program []mcall // One iteration.
	called  int     // Calls in all.
	ops     []*mop  // Called and not finished, in stream order.
	done    []*mop  // Finished, oldest first.
	counts  map[*mcomm]int64
	finish  map[*mcomm]int64
	seqs    map[string]int64
	stopped bool
	gone    bool
	outside bool
}

type mop struct {
	call      mcall
	me        int
	number    int64
	seq       int64
	flows     []*mflow
	started   bool
	freeSteps int64 // Length of a ring's loop.
}

type mflow struct {
	rca.Flow
	op *mop
}

const mwindow = 4

func newModel(dp, pp, tp int) *model {
	m := &model{dp: dp, pp: pp, tp: tp, channels: 2, ahead: 2, perHost: 2}
	comm := func(name string, members []int) *mcomm {
		c := &mcomm{id: fmt.Sprintf("%s/%d", name, len(members)), name: name, members: members}
		m.comms = append(m.comms, c)
		return c
	}
	at := func(p, d, t int) int { return (p*dp+d)*tp + t }
	tps, dps, pps := map[int]*mcomm{}, map[int]*mcomm{}, map[int]*mcomm{}
	for p := range pp {
		for d := range dp {
			var mem []int
			for t := range tp {
				mem = append(mem, at(p, d, t))
			}
			c := comm(fmt.Sprintf("tp_%d", p*dp+d), mem)
			for _, r := range mem {
				tps[r] = c
			}
		}
		for t := range tp {
			var mem []int
			for d := range dp {
				mem = append(mem, at(p, d, t))
			}
			c := comm(fmt.Sprintf("dp_%d", p*tp+t), mem)
			for _, r := range mem {
				dps[r] = c
			}
		}
	}
	for d := range dp {
		for t := range tp {
			var mem []int
			for p := range pp {
				mem = append(mem, at(p, d, t))
			}
			c := comm(fmt.Sprintf("pp_%d", d*tp+t), mem)
			for _, r := range mem {
				pps[r] = c
			}
		}
	}
	for p := range pp {
		for d := range dp {
			for t := range tp {
				id := at(p, d, t)
				r := &mrank{id: id, counts: map[*mcomm]int64{}, finish: map[*mcomm]int64{}, seqs: map[string]int64{}}
				add := func(c *mcomm, fn string, peer int, bytes int64) {
					if len(c.members) > 1 {
						r.program = append(r.program, mcall{c, fn, peer, bytes})
					}
				}
				if p > 0 {
					add(pps[id], "Recv", p-1, 1<<20)
				}
				add(tps[id], "AllReduce", -1, 4<<20)
				add(tps[id], "AllReduce", -1, 4<<20)
				if p < pp-1 {
					add(pps[id], "Send", p+1, 1<<20)
					add(pps[id], "Recv", p+1, 1<<20)
				}
				add(tps[id], "AllReduce", -1, 4<<20)
				if p > 0 {
					add(pps[id], "Send", p-1, 1<<20)
				}
				add(dps[id], "ReduceScatter", -1, 8<<20)
				add(dps[id], "AllGather", -1, 8<<20)
				m.ranks = append(m.ranks, r)
			}
		}
	}
	return m
}

// run lets the job continue until nothing moves or the ticks are used up; it reports whether the job stands still.
func (m *model) run(ticks int) bool {
	for range ticks {
		moved := false
		for _, r := range m.ranks {
			moved = m.cpu(r) || moved
		}
		for _, r := range m.ranks {
			if len(r.ops) == 0 {
				continue
			}
			for i, o := range r.ops {
				if i == 0 || o.started && isMP2P(o) {
					moved = m.work(r, o) || moved
				}
			}
			moved = m.retire(r) || moved
		}
		if !moved {
			return true
		}
	}
	return false
}

func isMP2P(o *mop) bool { return o.call.fn == "Send" || o.call.fn == "Recv" }

func (m *model) hit(r *mrank, kind string) bool {
	return m.fault.kind == kind && m.fault.rank == r.id && r.called >= m.fault.after
}

func (m *model) cpu(r *mrank) bool {
	if r.stopped || r.gone || r.outside || len(r.ops) > m.ahead {
		return false
	}
	switch {
	case m.hit(r, "skip"), m.hit(r, "stop_outside"), m.hit(r, "kill"):
		// Let the called operations run first.
		r.outside = true
		return true
	}
	call := r.program[r.called%len(r.program)]
	if m.fault.rank == r.id && r.called == m.fault.after {
		switch m.fault.kind {
		case "other":
			if call.peer < 0 {
				call.fn = "Broadcast"
			}
		case "size":
			if call.peer < 0 {
				call.bytes /= 2
			}
		}
	}
	r.called++
	o := &mop{call: call, number: r.counts[call.comm]}
	r.counts[call.comm]++
	for i, id := range call.comm.members {
		if id == r.id {
			o.me = i
		}
	}
	key := fmt.Sprint(call.comm.id, call.fn, call.peer)
	o.seq = r.seqs[key]
	r.seqs[key]++
	o.addFlows(m.channels)
	r.ops = append(r.ops, o)
	return true
}

func (o *mop) addFlows(channels int) {
	n := len(o.call.comm.members)
	for ch := range channels {
		add := func(send bool, peer int, total int64) {
			o.flows = append(o.flows, &mflow{Flow: rca.Flow{Channel: ch, Send: send, Peer: peer, Total: total}, op: o})
		}
		switch {
		case o.call.fn == "Send":
			add(true, o.call.peer, 6)
		case o.call.fn == "Recv":
			add(false, o.call.peer, 6)
		default:
			o.freeSteps = int64(n - 1)
			if o.call.fn == "AllReduce" {
				o.freeSteps *= 2
			}
			total := 3 * o.freeSteps
			add(true, (o.me+1)%n, total)
			add(false, (o.me+n-1)%n, total)
		}
	}
}

// peerFlow finds the other end of a flow, nil while the peer is not in the operation.
func (m *model) peerFlow(f *mflow) (*mrank, *mflow) {
	p := m.ranks[f.op.call.comm.members[f.Peer]]
	for _, o := range p.ops {
		if o.call.comm != f.op.call.comm || o.call.fn == "Broadcast" != (f.op.call.fn == "Broadcast") || o.call.bytes != f.op.call.bytes {
			continue
		}
		if isMP2P(o) {
			if !isMP2P(f.op) || o.seq != f.op.seq || o.call.peer != f.op.me || o.call.fn == f.op.call.fn {
				continue
			}
		} else if o.number != f.op.number {
			continue
		}
		for _, g := range o.flows {
			if g.Channel == f.Channel && g.Send != f.Send && g.Peer == f.op.me {
				return p, g
			}
		}
	}
	return p, nil
}

func (m *model) work(r *mrank, o *mop) bool {
	frozen := m.fault.kind == "gpu" && m.fault.rank == r.id && r.called > m.fault.after
	if !o.started {
		if m.hit(r, "kernel") || r.gone {
			return false
		}
		o.started = true
		return true
	}
	moved := false
	for _, f := range o.flows {
		if !f.Send {
			continue
		}
		var back *mflow
		for _, g := range o.flows {
			if !g.Send && g.Channel == f.Channel {
				back = g
			}
		}
		moved = m.sendFlow(r, f) || moved
		if !(frozen && f.Ready >= m.fault.step) && !r.gone {
			moved = produce(f, back) || moved
		}
	}
	for _, f := range o.flows {
		if f.Send {
			continue
		}
		if !r.stopped && !r.gone {
			if post := min(f.Total, f.Done+mwindow); f.Posted < post {
				f.Posted = post
				moved = true
			}
			if f.Transmitted < f.Ready {
				f.Transmitted = f.Ready
				moved = true
			}
		}
		if isMP2P(o) && !frozen && !r.gone && f.Done < f.Transmitted {
			f.Done++
			moved = true
		}
	}
	m.strike(r, o)
	return moved
}

// strike stops a process in the middle of an operation.
func (m *model) strike(r *mrank, o *mop) {
	if m.fault.kind != "stop" || !m.hit(r, "stop") || r.stopped {
		return
	}
	for _, f := range o.flows {
		if f.Done >= m.fault.step {
			r.stopped = true
		}
	}
}

func (m *model) sendFlow(r *mrank, f *mflow) bool {
	moved := false
	p, g := m.peerFlow(f)
	if !r.stopped && !r.gone {
		if post := min(f.Total, f.Done+mwindow); f.Posted < post {
			f.Posted = post
			moved = true
		}
		if f.Ready > f.Transmitted && g != nil && g.Posted > f.Transmitted {
			f.Transmitted++
			moved = true
		} else if f.Ready > f.Transmitted {
			f.PeerPolls++
		}
	}
	stalled := m.fault.kind == "link" && m.fault.rank == r.id && r.called > m.fault.after && f.Done >= m.fault.step
	if f.Transmitted > f.Done && g != nil && !p.stopped && !p.gone && !r.stopped && !stalled {
		f.Done++
		g.Ready++
		moved = true
	}
	return moved
}

// produce acts as the kernel: it needs room to send and, after a loop's first step, received data.
func produce(f, back *mflow) bool {
	if back == nil {
		if f.Ready < f.Posted {
			f.Ready++
			return true
		}
		return false
	}
	loop := f.op.freeSteps
	moved := false
	if f.Ready < f.Posted && f.Ready < f.Total {
		switch {
		case f.Ready%loop == 0 && back.Done == f.Ready:
			f.Ready++
			moved = true
		case f.Ready%loop != 0 && back.Transmitted > back.Done:
			f.Ready++
			back.Done++
			moved = true
		}
	}
	if f.Ready%loop == 0 && back.Done < f.Ready && back.Transmitted > back.Done {
		back.Done++ // A loop's last receive is not sent on.
		moved = true
	}
	return moved
}

func (m *model) retire(r *mrank) bool {
	moved := false
	for len(r.ops) > 0 {
		o := r.ops[0]
		if r.stopped || r.gone || !o.started {
			return moved
		}
		for _, f := range o.flows {
			if f.Done < f.Total {
				return moved
			}
		}
		r.ops = r.ops[1:]
		r.done = append(r.done, o)
		r.finish[o.call.comm]++
		moved = true
	}
	return moved
}

// evidence takes a snapshot of the job.
func (m *model) evidence() rca.Evidence {
	ev := rca.Evidence{JobID: "model", WorldSize: len(m.ranks), Sources: []string{"model"}}
	for _, c := range m.comms {
		if len(c.members) > 1 {
			ev.Comms = append(ev.Comms, rca.Comm{ID: rca.CommID(c.id), Name: c.name, Size: len(c.members), Members: c.members})
		}
	}
	for _, r := range m.ranks {
		rk := rca.Rank{
			ID: r.id, Host: fmt.Sprintf("node%d", r.id/m.perHost), GPU: fmt.Sprint(r.id % m.perHost), PID: 1000 + r.id, State: rca.ProcessRunning, Caps: rcatest.AllCaps,
			ReadBytesPerSec: 0, WriteBytesPerSec: 0, CPUCores: 1, ProxyRunDelay: 0,
		}
		switch {
		case r.stopped, m.fault.kind == "stop_outside" && r.outside:
			rk.State = rca.ProcessStopped
		case r.gone, m.fault.kind == "kill" && r.outside:
			rk.State = rca.ProcessGone
		}
		for _, c := range m.comms {
			if len(c.members) < 2 {
				continue
			}
			for i, id := range c.members {
				if id == r.id {
					rk.Memberships = append(rk.Memberships, m.membership(r, c, i))
				}
			}
		}
		ev.Ranks = append(ev.Ranks, rk)
	}
	return ev
}

func (m *model) membership(r *mrank, c *mcomm, me int) rca.Membership {
	mb := rca.Membership{
		Comm: rca.CommID(c.id), CommRank: me, Called: r.counts[c], Completed: r.finish[c], FuncCalled: map[string]int64{},
		SinceCalled: 6 * time.Second, SinceCompleted: 6 * time.Second,
	}
	mb.Started = mb.Completed
	for i, o := range r.ops {
		if o.call.comm != c {
			continue
		}
		op := rca.Op{
			Number: o.number, Seq: o.seq, Func: o.call.fn, Peer: -1, Root: -1, Bytes: o.call.bytes, Count: o.call.bytes / 4, Datatype: "float32",
			Algo: "ring", Proto: "simple", State: rca.OpEnqueued, Age: 6*time.Second - time.Duration(i)*5*time.Millisecond, Stuck: 5 * time.Second, Channels: m.channels,
		}
		if isMP2P(o) {
			op.Peer = o.call.peer
		}
		if o.started {
			op.State, op.KernelStarted = rca.OpMoving, m.channels
			mb.Started++
			for _, f := range o.flows {
				g := f.Flow
				g.Stuck = 5 * time.Second
				op.Flows = append(op.Flows, g)
			}
		}
		mb.InFlight = append(mb.InFlight, op)
	}
	for k := max(0, len(r.done)-40); k < len(r.done); k++ {
		o := r.done[k]
		if o.call.comm != c {
			continue
		}
		op := rca.Op{Number: o.number, Seq: o.seq, Func: o.call.fn, Peer: -1, Root: -1, Bytes: o.call.bytes, Datatype: "float32", State: rca.OpLeft}
		if isMP2P(o) {
			op.Peer = o.call.peer
		}
		mb.Recent = append(mb.Recent, op)
	}
	return mb
}
