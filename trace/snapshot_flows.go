// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"sync/atomic"
	"unsafe"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

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
		look := f.device == wholeProcess // Free slots, which to a File of one rank those of others are, too.
		if int(run.comm) < len(busy) {
			look = busy[run.comm]
		}
		if whole || look {
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
		if !readSlot(f.flows, slot, w) || (w.InUse != 0 && !f.theirs(w.CommIndex)) != (position >= 0) {
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
		s.cache.runs[len(s.cache.runs)-1].end = uint32(i) + 1
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
		case w.InUse == 0 || f.theirs(w.CommIndex):
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
