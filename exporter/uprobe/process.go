// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/tracefile"
)

const (
	maxComms = 256
	// opTail is how many operations of a communicator are kept that nothing tells the end of, as the shim keeps them.
	opTail = 16
	maxOps = maxComms * opTail * 4
)

// process turns what the probes see of one process into its trace file: the same facts as the preload hooks write.
type process struct {
	id     trace.Identity
	file   *os.File // Has no name; the sampler reads it.
	writer *tracefile.Writer
	status trace.Status

	comms   map[uint64]*comm // By the address of NCCL's struct.
	threads map[uint32]*thread
	changed map[*comm]bool
	slots   uint32   // Of communicators, used so far.
	free    []uint32 // Slots of operations.
	opSlots uint32   // Used so far.
	lost    uint64   // As the kernel counted last.
}

// comm is a communicator.
type comm struct {
	trace.Comm
	children int32
	seq      [trace.NumFunc]uint64 // Operations called so far, per function.
	open     []*trace.Op           // Oldest first.
	dirty    map[*trace.Op]bool
	hidden   bool // It has operations that NCCL does not count: no two processes would number them alike.
}

// thread is what a thread of the process is in.
type thread struct {
	inside  []uint16 // Kinds of the calls that it is in, outermost first.
	depth   int      // ncclGroupStart without its end.
	called  []*call  // Operations since the outermost start.
	waiting []blocked
	gone    uint64 // Address of the communicator that the call ends; 0 none.
}

type call struct {
	comm *comm
	op   *trace.Op
}

// blocked is a call inside a group that blocks at the group's end.
type blocked struct {
	id     trace.CommID
	nranks int32
	comm   *comm
}

func newProcess(id trace.Identity) (*process, error) {
	id.Capabilities = trace.CapCommIdentity | trace.CapAPIEvents
	size := tracefile.Size{Comms: maxComms, Ops: maxOps, Flows: 1, Completions: 4096, Lifecycle: 256, QPs: 1, Transfers: 1}
	w, file, err := tracefile.CreateUnlinked(id, size)
	if err != nil {
		return nil, err
	}
	p := &process{
		id: id, file: file, writer: w, comms: map[uint64]*comm{}, threads: map[uint32]*thread{}, changed: map[*comm]bool{},
		status: trace.Status{HeartbeatNS: id.CreatedNS},
	}
	return p, nil
}

func (p *process) close() error { return errors.Join(p.writer.Close(), p.file.Close()) }

// remember takes in a communicator that was made before: NCCL's own count tells how many operations have been called. One that a
// record has told of since is known better.
func (p *process) remember(f *found, now uint64) {
	if p.comms[f.address] == nil {
		p.commOf(f.address, &f.identity, &f.called, f.children, now)
	}
}

// see takes in one record. Records of one thread come in order.
func (p *process) see(h *head, e *enter) {
	p.status.HeartbeatNS = max(p.status.HeartbeatNS, h.AtNS)
	p.status.Callbacks++
	t := p.threads[h.TID]
	if t == nil {
		t = &thread{}
		p.threads[h.TID] = t
	}
	if e == nil {
		p.leave(t, h)
		return
	}
	// NCCL calls some of its functions from others. The outermost one counts.
	t.inside = append(t.inside, h.Kind)
	if len(t.inside) > 1 {
		return
	}
	switch f := &functions[h.Kind]; f.role {
	case operates:
		p.operate(t, f, h, e)
	case groupEnd:
		if t.depth == 1 {
			p.status.GroupOpenSinceNS = h.AtNS
			for _, b := range t.waiting {
				p.begin("ncclGroupEnd", b, h)
			}
		}
	case blocks:
		p.block(t, f, h, e)
	case groupStart:
	}
}

func (p *process) leave(t *thread, h *head) {
	at := -1
	for i := len(t.inside) - 1; i >= 0 && at < 0; i-- {
		if t.inside[i] == h.Kind {
			at = i
		}
	}
	if at < 0 {
		return // It began before the attach.
	}
	t.inside = t.inside[:at] // What lies above lost its return.
	if at > 0 {
		return
	}
	const success, inProgress = 0, 7 // ncclResult_t.
	accepted := h.Result == success || h.Result == inProgress
	switch f := &functions[h.Kind]; f.role {
	case operates:
		if t.depth == 0 {
			p.returned(t, accepted, h.AtNS)
		}
	case groupStart:
		if h.Result == success {
			t.depth++
		}
	case groupEnd:
		p.groupEnded(t, accepted, h)
	case blocks:
		if t.depth == 0 {
			p.end(f.name, h)
		}
		if f.ends && accepted && t.gone != 0 {
			p.forget(t.gone, h.AtNS)
		}
		t.gone = 0
	}
}

func (p *process) groupEnded(t *thread, accepted bool, h *head) {
	if t.depth == 0 {
		return
	}
	if t.depth--; t.depth > 0 {
		return
	}
	p.status.GroupOpenSinceNS = 0
	p.status.GroupCount++
	p.returned(t, accepted, h.AtNS)
	if len(t.waiting) > 0 {
		p.end("ncclGroupEnd", h)
		t.waiting = nil
	}
}

// commOf gives the communicator at an address, as NCCL identifies it; nil where it does not.
func (p *process) commOf(address uint64, id *identity, called *[len(counted)]uint64, children int32, now uint64) *comm {
	c := p.comms[address]
	if !id.plausible() {
		return c
	}
	if c != nil && uint64(c.ID) == id.Hash && c.NRanks == id.NRanks {
		c.children = children
		return c
	}
	if c != nil {
		p.forget(address, now) // Another one lies there now.
	}
	if p.slots == maxComms {
		p.status.DroppedComms++
		return nil
	}
	c = &comm{
		Comm: trace.Comm{
			Index: p.slots, Generation: 1, Flags: trace.CommHasAPI, ID: trace.CommID(id.Hash), NRanks: id.NRanks, Rank: id.Rank, NNodes: -1,
			Device: id.Device, CreatedNS: now,
		},
		children: children, dirty: map[*trace.Op]bool{},
	}
	p.slots++
	c.resume(called)
	p.comms[address] = c
	p.changed[c] = true
	return c
}

// resume goes on from NCCL's count. Operations before it were called, and nothing tells of their end.
func (c *comm) resume(called *[len(counted)]uint64) {
	var sum uint64
	for i, f := range counted {
		sum += called[i]
		c.seq[f], c.SeqStarted[f] = called[i], called[i]
	}
	c.OpsCalled, c.OpsStarted, c.OpsCompleted, c.OpsUnseen = sum, sum, sum, sum
}

func (p *process) operate(t *thread, f *function, h *head, e *enter) {
	c := p.commOf(e.Comm, &e.Identity, &e.Called, e.Children, h.AtNS)
	if c == nil || c.hidden {
		return
	}
	if !isCounted(f.op) {
		p.hide(c, h.AtNS)
		return
	}
	p.align(c, &e.Called)
	op := &trace.Op{
		Generation: 1, CommIndex: c.Index, CommGeneration: c.Generation, Number: c.OpsCalled, Seq: c.seq[f.op], Func: f.op, Count: e.Count,
		Peer: -1, Root: -1, State: trace.OpCalled, CalledNS: h.AtNS, UserTID: h.TID, GroupOrdinal: uint32(len(t.called)) + 1,
	}
	if f.peer != 0 {
		op.Root = e.Peer
	}
	if e.Datatype >= 0 && int(e.Datatype) < len(datatypes) {
		d := datatypes[e.Datatype]
		op.Datatype, op.DatatypeBytes, op.Bytes = d.name, d.bytes, e.Count*uint64(d.bytes)
	}
	if f.op == trace.AllReduce && op.Bytes <= 4 {
		op.Flags |= trace.OpBarrier
	}
	c.seq[f.op]++
	c.OpsCalled++
	c.OpsInFlight++
	c.LastCalledNS, c.UserTID = h.AtNS, h.TID
	p.changed[c] = true
	var ok bool
	if op.Index, ok = p.slot(); !ok {
		p.status.DroppedOps++
		return
	}
	c.open = append(c.open, op)
	c.dirty[op] = true
	t.called = append(t.called, &call{c, op})
}

// align goes on from NCCL's count where operations were missed, and counts them as dropped.
func (p *process) align(c *comm, called *[len(counted)]uint64) {
	for i, f := range counted {
		if called[i] > c.seq[f] {
			missed := called[i] - c.seq[f]
			c.seq[f] += missed
			c.OpsCalled += missed
			c.OpsStarted += missed
			c.OpsCompleted += missed
			c.OpsUnseen += missed
			p.status.DroppedOps += missed
		}
	}
}

// hide gives up a communicator.
func (p *process) hide(c *comm, now uint64) {
	c.hidden = true
	c.Ended, c.DestroyedNS = true, now
	p.status.DroppedComms++
	for _, op := range c.open {
		p.writer.FreeOp(op.Index)
		p.free = append(p.free, op.Index)
	}
	c.open, c.OpsInFlight = nil, 0
	clear(c.dirty)
	p.changed[c] = true
}

func (p *process) slot() (uint32, bool) {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i, true
	}
	if p.opSlots == maxOps {
		return 0, false
	}
	p.opSlots++
	return p.opSlots - 1, true
}

// returned notes that NCCL has taken the operations of a call or a group, or has refused them.
func (p *process) returned(t *thread, accepted bool, now uint64) {
	for _, call := range t.called {
		c, op := call.comm, call.op
		if c.hidden {
			continue
		}
		c.OpsInFlight--
		op.Flags |= trace.OpNoCompletion
		if accepted {
			op.State, op.EnqueuedNS = trace.OpEnqueued, now
			c.OpsStarted++
			c.SeqStarted[op.Func] = op.Seq + 1
		}
		c.dirty[op] = true
		p.changed[c] = true
		p.letGo(c)
	}
	t.called = t.called[:0]
}

// letGo completes the oldest operations where many later ones have come.
func (p *process) letGo(c *comm) {
	for len(c.open) > opTail && c.open[0].Flags&trace.OpNoCompletion != 0 {
		op := c.open[0]
		c.open = c.open[1:]
		delete(c.dirty, op)
		p.writer.FreeOp(op.Index)
		p.free = append(p.free, op.Index)
		c.OpsCompleted++
		c.OpsUnseen++
		c.FuncCompleted[op.Func]++
		c.FuncBytes[op.Func] += op.Bytes
		c.LastCompletedNS = op.EnqueuedNS
		p.writer.Complete(trace.Completion{
			CommID: c.ID, CommIndex: c.Index, CommGeneration: c.Generation, NRanks: c.NRanks, Rank: c.Rank, Number: op.Number, Seq: op.Seq, Func: op.Func,
			DatatypeBytes: op.DatatypeBytes, Count: op.Count, Bytes: op.Bytes, Peer: op.Peer, Root: op.Root,
			Flags:    op.Flags | trace.OpLeftInferred | trace.OpEndUnseen,
			CalledNS: op.CalledNS, EnqueuedNS: op.EnqueuedNS, LeftNS: op.EnqueuedNS, GroupOrdinal: uint64(op.GroupOrdinal),
		})
	}
}

func (p *process) block(t *thread, f *function, h *head, e *enter) {
	b := blocked{id: trace.CommID(e.ID), nranks: e.NRanks}
	if f.comm != 0 {
		b.comm = p.commOf(e.Comm, &e.Identity, &e.Called, e.Children, h.AtNS)
		if f.ends {
			t.gone = e.Comm
		}
	}
	if c := b.comm; c != nil {
		b.id, b.nranks = c.ID, c.NRanks
		if f.makes {
			b.id = childOf(c.ID, c.children)
		}
	}
	if t.depth > 0 {
		t.waiting = append(t.waiting, b)
		return
	}
	p.begin(f.name, b, h)
}

// childOf gives what all ranks know the n-th communicator that is made from one by. It is only an id of the call.
func childOf(parent trace.CommID, n int32) trace.CommID {
	id := (uint64(parent) ^ uint64(uint32(n))<<32 ^ 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15
	return trace.CommID(id ^ id>>32)
}

func (p *process) begin(name string, b blocked, h *head) {
	ev := trace.LifecycleEvent{
		AtNS: h.AtNS, Kind: trace.LifeCallBegin, CommIndex: -1, CommID: b.id, Arg0: uint64(uint32(max(b.nranks, 0)))<<32 | uint64(h.TID), Text: name,
	}
	if b.comm != nil && !b.comm.hidden {
		ev.CommIndex = int64(b.comm.Index)
	}
	p.writer.Live(ev)
}

func (p *process) end(name string, h *head) {
	p.writer.Live(trace.LifecycleEvent{AtNS: h.AtNS, Kind: trace.LifeCallEnd, CommIndex: -1, Arg0: uint64(h.TID)<<32 | uint64(uint32(h.Result)), Text: name})
}

// forget notes that a communicator is no more.
func (p *process) forget(address, now uint64) {
	c := p.comms[address]
	if c == nil {
		return
	}
	delete(p.comms, address)
	for _, op := range c.open {
		p.writer.FreeOp(op.Index)
		p.free = append(p.free, op.Index)
	}
	c.open, c.OpsInFlight = nil, 0
	clear(c.dirty)
	c.Ended, c.DestroyedNS = true, now
	p.changed[c] = true
}

// dropped takes in how many records of the process the kernel had no room for, in all. What its threads are in is not known then.
func (p *process) dropped(lost uint64) {
	if lost == p.lost {
		return
	}
	p.status.DroppedOps += lost - p.lost
	p.lost = lost
	for _, t := range p.threads {
		t.inside, t.depth, t.waiting = nil, 0, nil
	}
	p.status.GroupOpenSinceNS = 0
}

// flush writes what has changed since the last time.
func (p *process) flush() {
	for c := range p.changed {
		for op := range c.dirty {
			p.writer.PutOp(*op)
		}
		clear(c.dirty)
		p.writer.PutComm(c.Comm)
	}
	clear(p.changed)
	p.writer.SetStatus(p.status)
}

// list gives the communicators that there are, largest first.
func (p *process) list() []trace.Comm {
	out := []trace.Comm{}
	for c := range maps.Values(p.comms) {
		if !c.hidden {
			out = append(out, c.Comm)
		}
	}
	slices.SortFunc(out, func(a, b trace.Comm) int {
		return cmp.Or(cmp.Compare(b.NRanks, a.NRanks), cmp.Compare(a.Index, b.Index))
	})
	return out
}
