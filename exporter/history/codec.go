// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/culprit-project/culprit/trace"
)

// words moves a record's fields to or from a flat list of numbers: the same walk over the fields serves both ways.
type words struct {
	list    []uint64
	reading bool
	next    int
}

// num is one field. Signed numbers keep their sign through the conversion to 64 bits and back.
func num[N ~int32 | ~uint8 | ~uint16 | ~uint32 | ~uint64](w *words, p *N) {
	if w.reading {
		*p = N(w.list[w.next])
		w.next++
		return
	}
	w.list = append(w.list, uint64(int64(*p))) //nolint:gosec // Round trip.
}

func boolean(w *words, p *bool) {
	var v uint8
	if *p {
		v = 1
	}
	num(w, &v)
	*p = v != 0
}

// op moves all but the slot's index and the data type's name, which are kept beside.
func (w *words) op(o *trace.Op) {
	num(w, &o.Generation)
	num(w, &o.Flags)
	num(w, &o.CommIndex)
	num(w, &o.CommGeneration)
	num(w, &o.Number)
	num(w, &o.Seq)
	num(w, &o.Func)
	num(w, &o.Algo)
	num(w, &o.Proto)
	num(w, &o.DatatypeBytes)
	num(w, &o.Count)
	num(w, &o.Bytes)
	num(w, &o.Peer)
	num(w, &o.Root)
	num(w, &o.Channels)
	num(w, &o.State)
	num(w, &o.CalledNS)
	num(w, &o.EnqueuedNS)
	num(w, &o.EnteredNS)
	num(w, &o.FirstStepNS)
	num(w, &o.LastProgressNS)
	num(w, &o.LeftNS)
	num(w, &o.KernelStarted)
	num(w, &o.KernelStopped)
	num(w, &o.ProxyStarted)
	num(w, &o.ProxyStopped)
	num(w, &o.UserTID)
	num(w, &o.GroupOrdinal)
	num(w, &o.GPUReadyNS)
}

// flow moves what belongs to the current operation. The totals over the flow's life are in the completions.
func (w *words) flow(f *trace.Flow) {
	num(w, &f.Generation)
	num(w, &f.CommIndex)
	num(w, &f.CommGeneration)
	num(w, &f.Channel)
	boolean(w, &f.IsSend)
	num(w, &f.State)
	num(w, &f.Peer)
	num(w, &f.OpIndex)
	num(w, &f.OpGeneration)
	num(w, &f.Queued)
	num(w, &f.OpNumber)
	num(w, &f.OpSeq)
	num(w, &f.Func)
	num(w, &f.StepsTotal)
	num(w, &f.Posted)
	num(w, &f.Ready)
	num(w, &f.Transmitted)
	num(w, &f.Done)
	num(w, &f.PeerPolls)
	num(w, &f.Epochs)
	num(w, &f.OpStartedNS)
	num(w, &f.FirstStepNS)
	num(w, &f.StateSinceNS)
	num(w, &f.LastProgressNS)
	num(w, &f.Bytes)
	for i := range f.WaitNS {
		num(w, &f.WaitNS[i])
	}
	num(w, &f.ActiveNS)
	num(w, &f.LargestGapNS)
}

func (w *words) status(s *trace.Status) {
	num(w, &s.EventMask)
	num(w, &s.HeartbeatNS)
	num(w, &s.RealMinusMonoNS)
	num(w, &s.ClosedNS)
	num(w, &s.GroupOpenSinceNS)
	num(w, &s.GroupCount)
	num(w, &s.CompletionsHead)
	num(w, &s.LifecycleHead)
	num(w, &s.TransfersHead)
	num(w, &s.DroppedComms)
	num(w, &s.DroppedOps)
	num(w, &s.DroppedFlows)
	num(w, &s.ContendedEvents)
	num(w, &s.ForeignEvents)
	num(w, &s.StaleEvents)
	num(w, &s.RepeatedEvents)
	num(w, &s.Callbacks)
}

// appendDelta appends list as its difference from before and makes before equal to list. A bit map says which numbers
// differ; most do not.
func appendDelta(b []byte, list []uint64, before []uint64) []byte {
	before = before[:len(list)]
	for at := 0; at < len(list); at += 8 {
		var mask byte
		for i := at; i < min(at+8, len(list)); i++ {
			if list[i] != before[i] {
				mask |= 1 << (i - at)
			}
		}
		b = appendDifferences(b, mask, list[at:], before[at:])
	}
	return b
}

// appendDifferences appends the bit map of up to eight numbers and those that it names.
func appendDifferences(b []byte, mask byte, list, before []uint64) []byte {
	b = append(b, mask)
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros8(mask)
		b = binary.AppendVarint(b, int64(list[i]-before[i])) //nolint:gosec // Wraps both ways.
		before[i] = list[i]
	}
	return b
}

// flowList is what words.flow writes, in the same order: it is by far the most frequent record.
type flowList [flowFields]uint64

// Places among a flow's words.
const (
	flowOpIndex      = 7
	flowOpGeneration = 8
	flowPeerPolls    = 18
)

// flowFields is the number of a flow's words, as an array needs it.
const flowFields = 30

func (l *flowList) set(f *trace.Flow) {
	isSend := uint64(0)
	if f.IsSend {
		isSend = 1
	}
	*l = flowList{
		uint64(f.Generation), uint64(f.CommIndex), uint64(f.CommGeneration), uint64(f.Channel), isSend, uint64(f.State),
		uint64(int64(f.Peer)), uint64(f.OpIndex), uint64(f.OpGeneration), uint64(f.Queued), f.OpNumber, f.OpSeq, uint64(f.Func), //nolint:gosec // Round trip.
		uint64(f.StepsTotal), uint64(f.Posted), uint64(f.Ready), uint64(f.Transmitted), uint64(f.Done), uint64(f.PeerPolls),
		uint64(f.Epochs), f.OpStartedNS, f.FirstStepNS, f.StateSinceNS, f.LastProgressNS, f.Bytes,
		f.WaitNS[0], f.WaitNS[1], f.WaitNS[2], f.ActiveNS, f.LargestGapNS,
	}
}

// differences says which words of l differ from before.
func (l *flowList) differences(before []uint64) uint64 {
	before = before[:flowFields]
	var mask uint64
	for i, v := range l {
		if v != before[i] {
			mask |= 1 << i
		}
	}
	return mask
}

// appendDelta is the function appendDelta for words that differ as mask says.
func (l *flowList) appendDelta(b []byte, mask uint64, before []uint64) []byte {
	for at := 0; at < flowFields; at += 8 {
		b = appendDifferences(b, byte(mask>>at), l[at:], before[at:])
	}
	return b
}

// completionList is what words.completion writes, as flowList.
type completionList [completionFields]uint64

// completionFields is the number of a completion's words, as an array needs it.
const completionFields = 54

func (l *completionList) set(c *trace.Completion) {
	s, r := &c.Send, &c.Recv
	*l = completionList{
		c.Ticket, uint64(c.CommID), uint64(c.CommIndex), uint64(c.CommGeneration), uint64(int64(c.NRanks)), uint64(int64(c.Rank)), //nolint:gosec // Round trip.
		c.Number, c.Seq, uint64(c.Func), uint64(c.Algo), uint64(c.Proto), uint64(c.DatatypeBytes), c.Count, c.Bytes,
		uint64(int64(c.Peer)), uint64(int64(c.Root)), uint64(c.Channels), uint64(c.Flags), //nolint:gosec // Round trip.
		c.CalledNS, c.EnqueuedNS, c.EnteredNS, c.LeftNS, c.GPUNS,
		uint64(s.Flows), uint64(s.Steps), s.Bytes, s.WaitNS[0], s.WaitNS[1], s.WaitNS[2], s.ActiveNS, s.LargestGapNS, s.FirstStepNS,
		s.LastStepNS, uint64(s.SlowestChannel), uint64(int64(s.SlowestPeer)), s.SlowestNS, s.FastestNS, //nolint:gosec // Round trip.
		uint64(r.Flows), uint64(r.Steps), r.Bytes, r.WaitNS[0], r.WaitNS[1], r.WaitNS[2], r.ActiveNS, r.LargestGapNS, r.FirstStepNS,
		r.LastStepNS, uint64(r.SlowestChannel), uint64(int64(r.SlowestPeer)), r.SlowestNS, r.FastestNS, //nolint:gosec // Round trip.
		c.GPUReadyNS, uint64(c.SendProbes), uint64(c.RecvProbes),
	}
}

var errCorrupt = errors.New("history block is corrupt")

// readDelta undoes appendDelta: it changes list, which holds the numbers before, and gives what follows in b.
func readDelta(b []byte, list []uint64) ([]byte, error) {
	for at := 0; at < len(list); at += 8 {
		if len(b) == 0 {
			return nil, errCorrupt
		}
		mask := b[0]
		b = b[1:]
		for ; mask != 0; mask &= mask - 1 {
			i := at + bits.TrailingZeros8(mask)
			v, n := binary.Varint(b)
			if n <= 0 || i >= len(list) {
				return nil, errCorrupt
			}
			list[i] += uint64(v) //nolint:gosec // Wraps both ways.
			b = b[n:]
		}
	}
	return b, nil
}

func readUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errCorrupt
	}
	return v, b[n:], nil
}
