// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/binary"
	"slices"

	"github.com/culprit-project/culprit/trace"
)

// Kinds of record in a block.
const (
	recordCompletion = 1 + iota
	recordLifecycle
	recordSample
	recordLoss
)

// Numbers of words of each kind of record.
var (
	completionWords = lengthOf(func(w *words) { w.completion(new(trace.Completion)) })
	opWords         = lengthOf(func(w *words) { w.op(new(trace.Op)) })
	flowWords       = lengthOf(func(w *words) { w.flow(new(trace.Flow)) })
	statusWords     = lengthOf(func(w *words) { w.status(new(trace.Status)) })
)

func lengthOf(walk func(*words)) int {
	var w words
	walk(&w)
	return len(w.list)
}

// maxSlots bounds the slots' indexes; a trace file's are checked when it is read.
const maxSlots = 1 << 16

// maxBaselines bounds the communicators whose completions are told apart.
const maxBaselines = 64

// block is a run of records of one process, in the order they were read.
type block struct {
	data    []byte
	minNS   uint64
	maxNS   uint64
	base    *baseline // While it is written.
	scratch words
	// Flows that the next sample will have, encoded.
	pending      []byte
	pendingFlows uint64

	spilled bool // data lies in the history file, at place.
	place   place
	gone    bool // Dropped to make room.
}

func newBlock() *block { return &block{base: newBaseline(), minNS: ^uint64(0)} }

// sealed gives the block as it is kept, in memory of its own, and empties b to begin the next one in the same memory.
func (b *block) sealed() *block {
	kept := &block{data: slices.Clip(slices.Clone(b.data)), minNS: b.minNS, maxNS: b.maxNS}
	b.data, b.minNS, b.maxNS = b.data[:0], ^uint64(0), 0
	b.base.reset()
	return kept
}

func (b *block) begin(kind byte, atNS uint64) {
	b.minNS, b.maxNS = min(b.minNS, atNS), max(b.maxNS, atNS)
	b.data = append(b.data, kind)
	b.data = binary.AppendVarint(b.data, int64(atNS-b.base.atNS)) // Wraps both ways.
	b.base.atNS = atNS
}

// timeOf is when a completion belongs into the history.
func timeOf(c *trace.Completion) uint64 {
	return max(c.LeftNS, c.EnqueuedNS, c.CalledNS)
}

func (b *block) addCompletion(c *trace.Completion) {
	b.begin(recordCompletion, timeOf(c))
	b.data = binary.AppendUvarint(b.data, uint64(c.CommIndex))
	var now completionList
	now.set(c)
	b.data = appendDelta(b.data, now[:], b.base.completion(c.CommIndex))
}

func (b *block) addLifecycle(e *trace.LifecycleEvent) {
	b.begin(recordLifecycle, e.AtNS)
	for _, v := range []uint64{e.Ticket, uint64(e.Kind), uint64(e.CommIndex + 1), uint64(e.CommID), e.Arg0, uint64(len(e.Text))} {
		b.data = binary.AppendUvarint(b.data, v)
	}
	b.data = append(b.data, e.Text...)
}

func (b *block) addLoss(atNS, count uint64) {
	b.begin(recordLoss, atNS)
	b.data = binary.AppendUvarint(b.data, count)
}

// end takes operations that were in the last sample and are over out of what the next one is a difference from. They are
// to be passed to addSample, before which only addFlow may be called.
func (b *block) end(ended []uint32) {
	for _, index := range ended {
		b.base.end(index)
	}
}

// addFlow puts a flow into the next sample if it differs from the last. A mere count of polls is no difference: it grows
// all the time.
func (b *block) addFlow(f *trace.Flow) bool {
	before := b.base.flows.get(f.Index)
	known := before != nil
	if !known {
		before = b.base.flows.take(f.Index)
	}
	var now flowList
	now.set(f)
	mask := now.differences(before)
	if known && mask&^(1<<flowPeerPolls) == 0 {
		return false
	}
	b.pending = binary.AppendUvarint(b.pending, uint64(f.Index))
	b.pending = now.appendDelta(b.pending, mask, before)
	b.pendingFlows++
	return true
}

// addSample appends what has changed of the operations given and the flows added since the block's last sample. ended are the
// slots of operations that were in that sample and are over.
func (b *block) addSample(atNS uint64, st *trace.Status, ops []*trace.Op, ended []uint32) {
	b.begin(recordSample, atNS)
	w := &b.scratch
	w.list = w.list[:0]
	w.status(st)
	b.data = appendDelta(b.data, w.list, b.base.status)

	b.data = binary.AppendUvarint(b.data, uint64(len(ended)))
	for _, index := range ended {
		b.data = binary.AppendUvarint(b.data, uint64(index))
	}
	b.data = binary.AppendUvarint(b.data, uint64(len(ops)))
	for _, o := range ops {
		b.data = binary.AppendUvarint(b.data, uint64(o.Index))
		s := b.base.op(o.Index)
		text := ""
		if s.datatype != o.Datatype {
			text, s.datatype = o.Datatype, o.Datatype
		}
		b.data = binary.AppendUvarint(b.data, uint64(len(text)))
		b.data = append(b.data, text...)
		w.list = w.list[:0]
		w.op(o)
		b.data = appendDelta(b.data, w.list, s.list)
	}
	b.data = binary.AppendUvarint(b.data, b.pendingFlows)
	b.data = append(b.data, b.pending...)
	b.pending, b.pendingFlows = b.pending[:0], 0
}
