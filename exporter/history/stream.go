// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// logRate and logBurst bound what the state log of one process may take, in bytes a second and at once. A process
	// that moves so many flows is not stuck; it is then logged less often, at least every thinnedPeriod.
	logRate       = 64 << 10
	logBurst      = 256 << 10
	thinnedPeriod = time.Second
)

// stream is the history of one process.
type stream struct {
	process nodeapi.Process // Identity and communicators.
	metaNS  uint64
	comms   map[commSlot]trace.CommKey // All there have been.
	blocks  []*block                   // Sealed.
	open    *block
	// Operations by slot: in flight at the last round, and in the log. spare is current's memory of the round before.
	current, spare, logged map[uint32]opKey
	ended                  []uint32 // Slots of logged operations that are over, not written yet.
	lookAtAll              bool     // Flows may differ from the log although they have not changed since the last round.
	ops                    []*trace.Op
	flows                  []*trace.Flow // Scratch, as ops.

	done, life progress // In the process's rings.

	loggedNS  uint64 // When the state log was written last.
	allowance int    // Bytes that it may take now.
	allowedNS uint64 // When the allowance was raised last.
}

type commSlot struct{ index, generation uint32 }

// opKey tells an operation from the next one in its slot.
type opKey struct {
	index, generation uint32
	number            uint64
}

func newStream() *stream {
	return &stream{
		open: newBlock(), comms: map[commSlot]trace.CommKey{}, current: map[uint32]opKey{}, spare: map[uint32]opKey{},
		logged: map[uint32]opKey{},
	}
}

// mostQPs is how many queue pairs of a process are described.
const mostQPs = 256

// describe copies who the process is.
func (st *stream) describe(p *node.Process) {
	kernel := p.Kernel
	kernel.Threads = nil
	comms := append(st.process.Comms[:0], p.Snap.Comms...)                           //nolint:gocritic // The same memory, for another value.
	qps := append(st.process.QPs[:0], p.Snap.QPs[:min(len(p.Snap.QPs), mostQPs)]...) //nolint:gocritic // The same.
	st.process = nodeapi.Process{
		File: p.File(), JobID: p.JobID, Rank: p.Rank, Host: p.Host, GPU: p.GPU, Pod: p.Place.Pod, Namespace: p.Place.Namespace,
		Container: p.Place.Container, Refuted: p.Place.Refuted, Kernel: &kernel,
	}
	st.process.Identity, st.process.Status = p.Snap.Identity, p.Snap.Status
	st.process.Comms = comms
	// Completion.SendQP is a key to them: their device and far end are the NICs of an operation (M2).
	st.process.QPs = qps
	for i := range p.Snap.Comms {
		c := &p.Snap.Comms[i]
		st.comms[commSlot{c.Index, c.Generation}] = c.Key()
	}
}

// description says of which process the stream's blocks are.
func (st *stream) description() description {
	p := st.process
	p.Comms = make([]trace.Comm, len(st.process.Comms))
	for i := range p.Comms {
		p.Comms[i] = brief(&st.process.Comms[i])
	}
	p.QPs = make([]trace.QP, len(st.process.QPs))
	for i := range p.QPs {
		p.QPs[i] = briefQP(&st.process.QPs[i])
	}
	return description{Process: p, Done: st.done.ticket, Life: st.life.ticket}
}

// progress is how far a ring has been read. An exporter that starts again reads a process's rings from their beginning.
type progress struct {
	ticket  uint64 // Of the last record.
	resumed bool   // It is an earlier exporter's, and the ring has not been read since.
}

// unread gives the records that are new and how many were lost before or among them.
func unread[T any](p *progress, records []T, lost uint64, ticket func(*T) uint64) ([]T, uint64) {
	if len(records) == 0 {
		return records, lost
	}
	known, resumed := p.ticket, p.resumed
	newest := ticket(&records[len(records)-1])
	*p = progress{ticket: newest}
	if !resumed {
		return records, lost
	}
	if newest < known {
		return nil, 0 // Another ring, or a lie: nobody can say what is new.
	}
	records = slices.DeleteFunc(slices.Clone(records), func(r T) bool { return ticket(&r) <= known })
	return records, newest - known - min(newest-known, uint64(len(records)))
}

// sample makes a line of what is being logged.
func (st *stream) sample(atNS uint64, status *trace.Status, ops []*trace.Op, flows []*trace.Flow) *nodeapi.Sample {
	p := &st.process
	line := &nodeapi.Sample{AtNS: atNS, Rank: p.Rank, JobID: p.JobID, File: p.File, Status: *status, Ended: st.ended}
	for _, o := range ops {
		line.Ops = append(line.Ops, *o)
	}
	for _, f := range flows {
		line.Flows = append(line.Flows, *f)
	}
	return line
}

// allowed tells whether the state log may be written now.
func (st *stream) allowed(now uint64) bool {
	since := trace.Since(now, st.allowedNS)
	if st.allowedNS == 0 || since > logBurst/logRate*time.Second {
		st.allowance = logBurst
	} else {
		st.allowance = min(logBurst, st.allowance+int(since.Seconds()*logRate))
	}
	st.allowedNS = now
	return st.allowance > 0 || trace.Since(now, st.loggedNS) >= thinnedPeriod
}

// due gives the operations to log in this round and notes those logged before that are over.
func (st *stream) due(snap *trace.Snapshot) []*trace.Op {
	before, now := st.current, st.spare
	clear(now)
	ops := st.ops[:0]
	for i := range snap.Ops {
		o := &snap.Ops[i]
		if o.State == trace.OpLeft {
			continue
		}
		key := opKey{o.Index, o.Generation, o.Number}
		now[o.Index] = key
		if before[o.Index] == key && key.generation != 0 {
			ops = append(ops, o)
		}
	}
	st.current, st.spare, st.ops = now, before, ops
	for index, key := range st.logged {
		if now[index] != key {
			st.ended = append(st.ended, index)
			delete(st.logged, index)
		}
	}
	for _, o := range ops {
		if _, known := st.logged[o.Index]; !known {
			st.logged[o.Index] = now[o.Index]
			st.lookAtAll = true
		}
	}
	return ops
}

func (st *stream) opChanged(o *trace.Op) bool {
	s := st.open.base.ops[o.Index]
	if s == nil {
		return true
	}
	w := &st.open.scratch
	w.list = w.list[:0]
	w.op(o)
	return !slices.Equal(w.list, s.list)
}

// changedFlows puts the flows that carry logged operations and differ from what the block has of them into its next
// sample, and gives them. Only flows that have changed since the last round are looked at, unless the last round does not
// count.
func (st *stream) changedFlows(snap *trace.Snapshot) []*trace.Flow {
	flows := st.flows[:0]
	var index, generation uint32 // Of the operation that the last flow looked at carries: flows of one lie together.
	known, logged := false, false
	look := func(f *trace.Flow) {
		if f.State == trace.FlowIdle {
			return
		}
		if !known || f.OpIndex != index || f.OpGeneration != generation {
			index, generation, known = f.OpIndex, f.OpGeneration, true
			key, ok := st.logged[index]
			logged = ok && key.generation == generation
		}
		if logged && st.open.addFlow(f) {
			flows = append(flows, f)
		}
	}
	if st.lookAtAll {
		for i := range snap.Flows {
			look(&snap.Flows[i])
		}
	} else {
		for _, i := range snap.ChangedFlows() {
			look(&snap.Flows[i])
		}
	}
	st.flows, st.lookAtAll = flows, false
	return flows
}
