// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"unsafe"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

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
		if !readHead(f.comms, slot, w, commHead) || ownerOf(w) != s.cache.known[i] {
			return false
		}
		if position < 0 {
			continue
		}
		comm := &s.Comms[position]
		counted := comm.OpsCompleted != w.OpsCompleted || comm.OpsStarted != w.OpsStarted ||
			comm.LastCompletedNS != w.LastCompletedNS
		s.cache.busy[i] = counted || comm.OpsCalled != w.OpsCalled || comm.LastProgressNS != w.LastProgressNS
		if !counted && s.cache.settled[i] {
			setCommHead(comm, slot, w)
			continue
		}
		if !readSlot(f.comms, slot, w) || ownerOf(w) != s.cache.known[i] {
			return false
		}
		setComm(comm, slot, w)
		c.slots[i], s.cache.settled[i] = *(*uint64)(unsafe.Pointer(w)), !counted
		c.changed = append(c.changed, position)
	}
	return true
}

func (f *File) copyComms(s *Snapshot, high uint32) {
	c := &s.cache.comms
	c.reset(high)
	s.cache.settled, s.cache.busy = resized(s.cache.settled, high), resized(s.cache.busy, high)
	s.cache.known, f.own = resized(s.cache.known, high), resized(f.own, high)
	s.Comms = s.Comms[:0]
	places, changed := s.cache.places[:0], false
	for i := range high {
		w := &f.scratch.comm
		torn := !readSlot(f.comms, i, w)
		taken := !torn && w.Generation != 0
		f.own[i] = taken && (f.device == wholeProcess || w.Device == f.device)
		s.cache.settled[i], s.cache.busy[i] = false, !taken || f.own[i]
		owner := commOwner{}
		if taken {
			owner = ownerOf(w)
			places = append(places, place{
				slot: i, key: CommKey{CommID(w.CommID), w.NRanks}, rank: w.Rank, device: max(w.Device, -1),
				thread: w.UserTID, calls: w.OpsCalled, named: w.Name[0] != 0,
			})
		}
		changed = changed || s.cache.known[i] != owner
		s.cache.known[i] = owner
		switch {
		case torn:
			s.Status.TornSlots++
			c.add(tornWord, -1)
		case !f.own[i]:
			c.add(*(*uint64)(unsafe.Pointer(w)), -1)
		default:
			position := len(s.Comms)
			s.Comms = append(s.Comms, Comm{})
			setComm(&s.Comms[position], i, w)
			c.add(*(*uint64)(unsafe.Pointer(w)), int32(position))
		}
	}
	s.cache.places = places
	// Which threads call is seen later than the communicators.
	apart := !f.ranks.several && f.ranks.threadForEach(places)
	if changed || len(places) != f.looked || apart {
		f.ranks.several = f.ranks.several || apart
		f.looked = len(places)
		f.look(places)
	}
}

func setComm(c *Comm, index uint32, w *wire.Comm) {
	setCommHead(c, index, w)
	c.SeqStarted = w.SeqStarted
	c.FuncCompleted = w.FuncCompleted
	c.FuncBytes = w.FuncBytes
	c.FuncNS = w.FuncNS
	c.OpsUnseen = w.OpsUnseen
	c.Device = max(w.Device, -1)
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
		if w.InUse == 0 || f.theirs(w.CommIndex) {
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
			GroupOrdinal:   w.GroupOrdinal,
			GPUReadyNS:     w.GPUReadyNS,
		})
	}
}

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
