// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

// seqlockTries bounds how often a slot is read again that changes under the reader. A write takes well under a
// microsecond; a writer that was preempted or killed in the middle is not waited for.
const seqlockTries = 32

// slotCache remembers at which slot versions a Snapshot's communicators and flows were copied. Those that have not
// changed since are not copied again, which is most of them most of the time.
type slotCache struct {
	owner *File
	comms tableCache
	flows tableCache
	// Of each communicator's slot: whether its tables by function are as they were at the last copy, and whether it has
	// done anything since the last call.
	settled []bool
	busy    []bool
	// runs are the flows' slots one behind the other that have the same communicator: looking into the flows themselves
	// would cost as much as looking at them anew.
	runs []flowRun
}

// flowRun is flow slots up to end, from the end of the run before.
type flowRun struct{ comm, end uint32 }

// noComm is the communicator's slot of a flow's slot that is free.
const noComm = wire.None

type tableCache struct {
	slots    []uint64 // Version and generation of each slot in [0, high): the slot's first word.
	position []int32  // Index in the Snapshot, -1 for a slot that is not in it.
	changed  []int32  // Indexes in the Snapshot that the last call wrote.
}

// reset empties the cache for a table of high slots.
func (c *tableCache) reset(high uint32) {
	n := int(high)
	c.slots, c.position, c.changed = slices.Grow(c.slots[:0], n), slices.Grow(c.position[:0], n), slices.Grow(c.changed[:0], n)
}

func (c *tableCache) add(word uint64, position int32) {
	c.slots, c.position = append(c.slots, word), append(c.position, position)
	if position >= 0 {
		c.changed = append(c.changed, position)
	}
}

// tornWord stands for a slot that could not be read: as an odd version it matches none, so the slot is read again.
const tornWord = 1

// Snapshot copies the file's present state into s and reuses s's memory; a Snapshot that is passed again with the same
// file costs least. Slots in use are copied; one that never holds still is counted in Status.TornSlots and left out. On
// error s holds nothing of use.
func (f *File) Snapshot(s *Snapshot) error { return f.snapshot(s, true) }

// Refresh is Snapshot for a reader that comes back many times a second: it looks at the flows of those communicators
// only that have an operation in the table or have done something since the last call. What the writer changes against
// that rule, as a transfer that reports after its operation has ended, is missed until the next Snapshot. The first call
// with an s is a Snapshot.
func (f *File) Refresh(s *Snapshot) error { return f.snapshot(s, false) }

func (f *File) snapshot(s *Snapshot, whole bool) error {
	return f.guarded(func() error {
		s.Identity = f.ident
		high := f.readStatus(s)
		if s.cache.owner != f {
			s.cache.owner = f
			s.cache.comms.reset(0)
			s.cache.flows.reset(0)
			s.cache.runs = s.cache.runs[:0]
		}
		f.readComms(s, min(high.comms, f.comms.count), whole)
		f.readOps(s, min(high.ops, f.ops.count, maxRead))
		f.readFlows(s, min(high.flows, f.flows.count, maxRead), whole)
		f.readQPs(s, min(high.qps, f.qps.count, maxRead))
		return nil
	})
}

// Clone gives a copy that shares no memory with s.
func (s *Snapshot) Clone() Snapshot {
	return Snapshot{
		Identity: s.Identity,
		Status:   s.Status,
		Comms:    slices.Clone(s.Comms),
		Ops:      slices.Clone(s.Ops),
		Flows:    slices.Clone(s.Flows),
		QPs:      slices.Clone(s.QPs),
	}
}

// ChangedFlows gives the indexes in Flows that the last Snapshot call wrote; the others are as they were. The slice is
// valid until the next call.
func (s *Snapshot) ChangedFlows() []int32 { return s.cache.flows.changed }

// ChangedComms is ChangedFlows for Comms.
func (s *Snapshot) ChangedComms() []int32 { return s.cache.comms.changed }

type highs struct{ comms, ops, flows, qps uint32 }

// liveOffset is where the header's changing part starts.
const liveOffset = unsafe.Offsetof(wire.Header{}.Capabilities)

func (f *File) readStatus(s *Snapshot) highs {
	var h wire.Header
	live := (*[(unsafe.Sizeof(h) - liveOffset) / 8]uint64)(unsafe.Add(unsafe.Pointer(&h), liveOffset))
	copyWords(live, unsafe.Add(unsafe.Pointer(&f.data[0]), liveOffset), unsafe.Sizeof(*live))
	s.Identity.Capabilities = h.Capabilities
	s.Status = Status{
		EventMask:        h.EventMask,
		HeartbeatNS:      h.HeartbeatNS,
		RealMinusMonoNS:  h.RealMinusMonoNS,
		ClosedNS:         h.ClosedNS,
		GroupOpenSinceNS: h.GroupOpenSinceNS,
		GroupCount:       h.GroupCount,
		CompletionsHead:  h.CompletionsHead,
		LifecycleHead:    h.LifecycleHead,
		TransfersHead:    h.TransfersHead,
		DroppedComms:     h.DroppedComms,
		DroppedOps:       h.DroppedOps,
		DroppedFlows:     h.DroppedFlows,
		ContendedEvents:  h.ContendedEvents,
		ForeignEvents:    h.ForeignEvents,
		StaleEvents:      h.StaleEvents,
		RepeatedEvents:   h.RepeatedEvents,
		Callbacks:        h.Callbacks,
	}
	return highs{comms: h.CommsHigh, ops: h.OpsHigh, flows: h.FlowsHigh, qps: h.QPsHigh}
}

// readSlot copies one slot untorn. It reports false for a slot that kept changing.
func readSlot[T wire.Comm | wire.Op | wire.Flow | wire.QP](t table, i uint32, dst *T) bool {
	return readHead(t, i, dst, unsafe.Sizeof(*dst))
}

// readHead is readSlot for the slot's first bytes; the rest of dst stays as it is.
func readHead[T wire.Comm | wire.Op | wire.Flow | wire.QP](t table, i uint32, dst *T, bytes uintptr) bool {
	slot := t.slot(i)
	version := (*uint32)(slot)
	for range seqlockTries {
		before := atomic.LoadUint32(version)
		if before&1 != 0 {
			continue
		}
		copyWords(dst, slot, min(t.entry, bytes))
		if atomic.LoadUint32(version) == before {
			return true
		}
	}
	return false
}

// free tells that a slot holds nothing, by its first three numbers alone.
func (t table) free(i uint32) bool {
	return atomic.LoadUint32((*uint32)(unsafe.Add(t.slot(i), unsafe.Offsetof(wire.Op{}.InUse)))) == 0
}

// commHead is the part of a communicator before its tables by function, which are most of it.
const commHead = unsafe.Offsetof(wire.Comm{}.SeqStarted)

// readComms copies the communicators every time: the shim counts in them with single atomic stores from several threads,
// which leave the slot's version as it is. Unless whole is wanted, the tables by function are only copied of those that
// have counted operations since the last call or the one before: a table may be written just after the count. One that
// has ended stays readable until its slot is needed: only slots never used are left out.
func (f *File) readComms(s *Snapshot, high uint32, whole bool) {
	if whole || len(s.cache.comms.slots) != int(high) || !f.refreshComms(s) {
		f.copyComms(s, high)
	}
}

// refreshComms reports whether the Snapshot still has the same slots.
func (f *File) refreshComms(s *Snapshot) bool {
	c, w := &s.cache.comms, &f.scratch.comm
	c.changed = c.changed[:0]
	for i, position := range c.position {
		slot := uint32(i)
		if !readHead(f.comms, slot, w, commHead) || (w.Generation != 0) != (position >= 0) {
			return false
		}
		if position < 0 {
			continue
		}
		comm := &s.Comms[position]
		counted := comm.Generation != w.Generation || comm.OpsCompleted != w.OpsCompleted || comm.OpsStarted != w.OpsStarted ||
			comm.LastCompletedNS != w.LastCompletedNS
		s.cache.busy[i] = counted || comm.OpsCalled != w.OpsCalled || comm.LastProgressNS != w.LastProgressNS
		if !counted && s.cache.settled[i] {
			setCommHead(comm, slot, w)
			continue
		}
		if !readSlot(f.comms, slot, w) || w.Generation == 0 {
			return false
		}
		setComm(comm, slot, w)
		c.slots[i], s.cache.settled[i] = *(*uint64)(unsafe.Pointer(w)), !counted
		c.changed = append(c.changed, position)
	}
	return true
}

func (f *File) copyComms(s *Snapshot, high uint32) {
	c, w := &s.cache.comms, &f.scratch.comm
	c.reset(high)
	s.cache.settled, s.cache.busy = resized(s.cache.settled, high), resized(s.cache.busy, high)
	s.Comms = s.Comms[:0]
	for i := range high {
		s.cache.settled[i], s.cache.busy[i] = false, true
		switch {
		case !readSlot(f.comms, i, w):
			s.Status.TornSlots++
			c.add(tornWord, -1)
		case w.Generation == 0:
			c.add(*(*uint64)(unsafe.Pointer(w)), -1)
		default:
			position := len(s.Comms)
			s.Comms = append(s.Comms, Comm{})
			setComm(&s.Comms[position], i, w)
			c.add(*(*uint64)(unsafe.Pointer(w)), int32(position))
		}
	}
}

// resized gives list with n elements of any content.
func resized[E any](list []E, n uint32) []E { return slices.Grow(list[:0], int(n))[:n] }

func setComm(c *Comm, index uint32, w *wire.Comm) {
	setCommHead(c, index, w)
	c.SeqStarted = w.SeqStarted
	c.FuncCompleted = w.FuncCompleted
	c.FuncBytes = w.FuncBytes
	c.FuncNS = w.FuncNS
}

func setCommHead(c *Comm, index uint32, w *wire.Comm) {
	c.Index = index
	c.Generation = w.Generation
	c.Ended = w.InUse == 0
	c.Flags = CommFlags(w.Flags)
	c.ID = CommID(w.CommID)
	c.NRanks = w.NRanks
	c.Rank = w.Rank
	c.NNodes = w.NNodes
	c.ProxyTID = w.ProxyTID
	c.UserTID = w.UserTID
	c.OpsInFlight = w.OpsInFlight
	if !sameText(c.Name, w.Name[:]) {
		c.Name = text(w.Name[:])
	}
	c.CreatedNS = w.CreatedNS
	c.DestroyedNS = w.DestroyedNS
	c.OpsCalled = w.OpsCalled
	c.OpsStarted = w.OpsStarted
	c.OpsCompleted = w.OpsCompleted
	c.LastCalledNS = w.LastCalledNS
	c.LastProgressNS = w.LastProgressNS
	c.LastCompletedNS = w.LastCompletedNS
}

// sameText tells whether b is s and a NUL, without allocating.
func sameText(s string, b []byte) bool {
	return len(s) < len(b) && string(b[:len(s)]) == s && b[len(s)] == 0
}

func (f *File) readOps(s *Snapshot, high uint32) {
	s.Ops = s.Ops[:0]
	for i := range high {
		if f.ops.free(i) {
			continue
		}
		var w wire.Op
		if !readSlot(f.ops, i, &w) {
			s.Status.TornSlots++
			continue
		}
		if w.InUse == 0 {
			continue
		}
		s.Ops = append(s.Ops, Op{
			Index:          i,
			Generation:     w.Generation,
			Flags:          OpFlags(w.Flags),
			CommIndex:      w.CommIndex,
			CommGeneration: w.CommGeneration,
			Number:         w.Number,
			Seq:            w.Seq,
			Func:           Func(w.Func),
			Algo:           Algo(w.Algo),
			Proto:          Proto(w.Proto),
			DatatypeBytes:  w.DatatypeBytes,
			Datatype:       f.interned(w.Datatype),
			Count:          w.Count,
			Bytes:          w.Bytes,
			Peer:           w.Peer,
			Root:           w.Root,
			Channels:       w.Channels,
			State:          OpState(w.State),
			CalledNS:       w.CalledNS,
			EnqueuedNS:     w.EnqueuedNS,
			EnteredNS:      w.EnteredNS,
			FirstStepNS:    w.FirstStepNS,
			LastProgressNS: w.LastProgressNS,
			LeftNS:         w.LeftNS,
			KernelStarted:  w.KernelStarted,
			KernelStopped:  w.KernelStopped,
			ProxyStarted:   w.ProxyStarted,
			ProxyStopped:   w.ProxyStopped,
			UserTID:        w.UserTID,
		})
	}
}

// internLimit bounds the datatype names remembered per file; NCCL has about a dozen.
const internLimit = 64

func (f *File) interned(raw [16]byte) string {
	if s, ok := f.intern[raw]; ok {
		return s
	}
	s := text(raw[:])
	if len(f.intern) < internLimit {
		f.intern[raw] = s
	}
	return s
}

// readFlows copies the flows whose slots have changed since the last call with the same s. When a slot was taken or
// given back meanwhile, positions shift and everything is copied again.
func (f *File) readFlows(s *Snapshot, high uint32, whole bool) {
	if len(s.cache.flows.slots) != int(high) || !f.refreshFlows(s, whole) {
		f.copyFlows(s, high)
	}
}

// refreshFlows reports whether the Snapshot still has the same slots.
func (f *File) refreshFlows(s *Snapshot, whole bool) bool {
	busy := s.cache.busy
	for i := range s.Ops {
		if comm := s.Ops[i].CommIndex; int(comm) < len(busy) {
			busy[comm] = true
		}
	}
	s.cache.flows.changed = s.cache.flows.changed[:0]
	start, moved := uint32(0), false
	for _, run := range s.cache.runs {
		if whole || int(run.comm) >= len(busy) || busy[run.comm] {
			same, others := f.refreshRun(s, run, start)
			if !same {
				return false
			}
			moved = moved || others
		}
		start = run.end
	}
	if moved {
		s.findRuns()
	}
	return true
}

// refreshRun looks at the flow slots of a run. It reports whether the Snapshot still has the same slots, and whether one has
// gone over to another communicator.
func (f *File) refreshRun(s *Snapshot, run flowRun, start uint32) (same, moved bool) {
	c, w := &s.cache.flows, &f.scratch.flow
	for slot := start; slot < run.end; slot++ {
		if atomic.LoadUint64((*uint64)(f.flows.slot(slot))) == c.slots[slot] {
			continue
		}
		position := c.position[slot]
		if !readSlot(f.flows, slot, w) || (w.InUse != 0) != (position >= 0) {
			return false, false
		}
		c.slots[slot] = *(*uint64)(unsafe.Pointer(w))
		if position >= 0 {
			setFlow(&s.Flows[position], slot, w)
			moved = moved || w.CommIndex != run.comm
			c.changed = append(c.changed, position)
		}
	}
	return true, moved
}

// findRuns brings the runs in line with the flows.
func (s *Snapshot) findRuns() {
	s.cache.runs = s.cache.runs[:0]
	for i, position := range s.cache.flows.position {
		comm := noComm
		if position >= 0 {
			comm = s.Flows[position].CommIndex
		}
		if n := len(s.cache.runs); n == 0 || s.cache.runs[n-1].comm != comm {
			s.cache.runs = append(s.cache.runs, flowRun{comm: comm})
		}
		s.cache.runs[len(s.cache.runs)-1].end = uint32(i) + 1 //nolint:gosec // Slots are few.
	}
}

func (f *File) copyFlows(s *Snapshot, high uint32) {
	c, w := &s.cache.flows, &f.scratch.flow
	c.reset(high)
	s.Flows = s.Flows[:0]
	for i := range high {
		switch {
		case !readSlot(f.flows, i, w):
			s.Status.TornSlots++
			c.add(tornWord, -1)
		case w.InUse == 0:
			c.add(*(*uint64)(unsafe.Pointer(w)), -1)
		default:
			position := len(s.Flows)
			s.Flows = append(s.Flows, Flow{})
			setFlow(&s.Flows[position], i, w)
			c.add(*(*uint64)(unsafe.Pointer(w)), int32(position))
		}
	}
	s.findRuns()
}

func setFlow(f *Flow, index uint32, w *wire.Flow) {
	f.Index = index
	f.Generation = w.Generation
	f.CommIndex = w.CommIndex
	f.CommGeneration = w.CommGeneration
	f.Channel = w.Channel
	f.IsSend = w.IsSend != 0
	f.State = FlowState(w.State)
	f.Peer = w.Peer
	f.OpIndex = w.OpIndex
	f.OpGeneration = w.OpGeneration
	f.Queued = w.Queued
	f.OpNumber = w.OpNumber
	f.OpSeq = w.OpSeq
	f.Func = Func(w.Func)
	f.StepsTotal = w.StepsTotal
	f.Posted = w.Posted
	f.Ready = w.Ready
	f.Transmitted = w.Transmitted
	f.Done = w.Done
	f.PeerPolls = w.PeerPolls
	f.Epochs = w.Epochs
	f.OpStartedNS = w.OpStartedNS
	f.FirstStepNS = w.FirstStepNS
	f.StateSinceNS = w.StateSinceNS
	f.LastProgressNS = w.LastProgressNS
	f.Bytes = w.Bytes
	f.WaitNS = w.WaitNS
	f.ActiveNS = w.ActiveNS
	f.LargestGapNS = w.LargestGapNS
	f.TotalOps = w.TotalOps
	f.TotalPosted = w.TotalPosted
	f.TotalReady = w.TotalReady
	f.TotalTransmitted = w.TotalTransmitted
	f.TotalDone = w.TotalDone
	f.TotalBytes = w.TotalBytes
	f.TotalWaitNS = w.TotalWaitNS
	f.TotalActiveNS = w.TotalActiveNS
	f.TotalEpochs = w.TotalEpochs
}
