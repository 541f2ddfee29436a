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
	// known is what the communicators' slots held, of other ranks, too.
	known  []commOwner
	places []place
	// runs are the flows' slots one behind the other that have the same communicator: looking into the flows themselves
	// would cost as much as looking at them anew.
	runs []flowRun
}

// commOwner tells a communicator from the next one in its slot, and from itself before NCCL has told its id.
type commOwner struct {
	generation uint32
	id         uint64
}

func ownerOf(w *wire.Comm) commOwner { return commOwner{w.Generation, w.CommID} }

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
		if f.device != wholeProcess {
			s.Identity = f.ranks.identity(s.Identity, f.device)
			s.Status.DroppedComms += f.ranks.homeless
			s.Status.GroupOpenSinceNS = 0 // Any rank's thread may be inside.
		}
		f.readOps(s, min(high.ops, f.ops.count, maxRead))
		f.readFlows(s, min(high.flows, f.flows.count, maxRead), whole)
		f.readQPs(s, min(high.qps, f.qps.count, maxRead))
		return nil
	})
}

// Slots is how many operations and flows the next snapshot copies at most.
func (f *File) Slots() int {
	n := 0
	err := f.guarded(func() error {
		var h wire.Header
		n = int(min(loadWord(f, unsafe.Offsetof(h.OpsHigh)), f.ops.count, maxRead)) +
			int(min(loadWord(f, unsafe.Offsetof(h.FlowsHigh)), f.flows.count, maxRead))
		return nil
	})
	if err != nil {
		return 0 // The snapshot meets the same fault and reports it.
	}
	return n
}

func loadWord(f *File, offset uintptr) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(&f.data[0]), offset)))
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

// resized gives list with n elements of any content.
func resized[E any](list []E, n uint32) []E { return slices.Grow(list[:0], int(n))[:n] }

// internLimit bounds the datatype names remembered per file; NCCL has about a dozen.
const internLimit = 64
