// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/binary"
	"fmt"
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

// baseline is what records in a block are differences from. Writer and reader build the same one as they go, so a
// block can be read by itself.
type baseline struct {
	atNS        uint64
	completions map[uint32][]uint64 // By communicator slot.
	status      []uint64
	ops         map[uint32]*opState
	flows       flowStates
}

// maxSlots bounds the slots' indexes; a trace file's are checked when it is read.
const maxSlots = 1 << 16

// flowStates hold the words of each flow slot that was logged. They lie in one piece: there may be many thousands.
type flowStates struct {
	places []int32 // By slot: 1 + place in words; 0 none.
	words  []uint64
	free   []int32
}

// get gives a slot's words, nil when it has none.
func (s *flowStates) get(slot uint32) []uint64 {
	if int(slot) >= len(s.places) || s.places[slot] == 0 {
		return nil
	}
	at := int(s.places[slot]-1) * flowWords
	return s.words[at : at+flowWords : at+flowWords]
}

// take gives a slot's words and makes them, all zero, when it has none.
func (s *flowStates) take(slot uint32) []uint64 {
	if list := s.get(slot); list != nil {
		return list
	}
	for int(slot) >= len(s.places) {
		s.places = append(s.places, 0)
	}
	if n := len(s.free); n > 0 {
		s.places[slot] = s.free[n-1]
		s.free = s.free[:n-1]
		list := s.get(slot)
		clear(list)
		return list
	}
	n := len(s.words)
	s.words = slices.Grow(s.words, flowWords)[:n+flowWords]
	clear(s.words[n:])
	s.places[slot] = int32(len(s.words) / flowWords) //nolint:gosec // Slots are few.
	return s.get(slot)
}

func (s *flowStates) drop(slot uint32) {
	s.free = append(s.free, s.places[slot])
	s.places[slot] = 0
}

// slots lists the slots that have words, in order.
func (s *flowStates) slots() []uint32 {
	var list []uint32
	for slot, place := range s.places {
		if place != 0 {
			list = append(list, uint32(slot)) //nolint:gosec // Slots are few.
		}
	}
	return list
}

type opState struct {
	list     []uint64
	datatype string
}

func newBaseline() *baseline {
	return &baseline{
		completions: map[uint32][]uint64{}, status: make([]uint64, statusWords), ops: map[uint32]*opState{},
	}
}

// reset empties the baseline and keeps its memory.
func (b *baseline) reset() {
	b.atNS = 0
	for _, list := range b.completions {
		clear(list)
	}
	clear(b.status)
	clear(b.ops)
	clear(b.flows.places)
	b.flows.words, b.flows.free = b.flows.words[:0], b.flows.free[:0]
}

// maxBaselines bounds the communicators whose completions are told apart.
const maxBaselines = 64

func (b *baseline) completion(comm uint32) []uint64 {
	comm %= maxBaselines
	list := b.completions[comm]
	if list == nil {
		list = make([]uint64, completionWords)
		b.completions[comm] = list
	}
	return list
}

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
	b.data = binary.AppendVarint(b.data, int64(atNS-b.base.atNS)) //nolint:gosec // Wraps both ways.
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
	for _, v := range []uint64{e.Ticket, uint64(e.Kind), uint64(e.CommIndex + 1), uint64(e.CommID), e.Arg0, uint64(len(e.Text))} { //nolint:gosec // -1 and up.
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

func (b *baseline) op(index uint32) *opState {
	s := b.ops[index]
	if s == nil {
		s = &opState{list: make([]uint64, opWords)}
		b.ops[index] = s
	}
	return s
}

// end forgets an operation and the flows that were carrying it.
func (b *baseline) end(index uint32) {
	s := b.ops[index]
	if s == nil {
		return
	}
	var op trace.Op
	(&words{list: s.list, reading: true}).op(&op)
	delete(b.ops, index)
	for _, slot := range b.flows.slots() {
		list := b.flows.get(slot)
		if list[flowOpIndex] == uint64(index) && list[flowOpGeneration] == uint64(op.Generation) {
			b.flows.drop(slot)
		}
	}
}

// sample is one record of the state log as it is read: the slots of the operations and flows that changed, and of the
// operations that ended. The baseline has the state of all.
type sample struct {
	atNS              uint64
	status            trace.Status
	ops, flows, ended []uint32
	base              *baseline
}

// visitor receives the records of a block.
type visitor struct {
	completion func(*trace.Completion)
	lifecycle  func(*trace.LifecycleEvent)
	sample     func(sample)
	loss       func(atNS, count uint64)
}

// decode walks through a block's bytes.
func decode(b []byte, v visitor) error {
	base := newBaseline()
	for len(b) > 0 {
		kind := b[0]
		delta, n := binary.Varint(b[1:])
		if n <= 0 {
			return errCorrupt
		}
		b = b[1+n:]
		base.atNS += uint64(delta) //nolint:gosec // Wraps both ways.
		var err error
		switch kind {
		case recordCompletion:
			b, err = decodeCompletion(b, base, v)
		case recordLifecycle:
			b, err = decodeLifecycle(b, base, v)
		case recordSample:
			b, err = decodeSample(b, base, v)
		case recordLoss:
			var count uint64
			if count, b, err = readUvarint(b); err == nil {
				v.loss(base.atNS, count)
			}
		default:
			err = fmt.Errorf("%w: record of kind %d", errCorrupt, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeCompletion(b []byte, base *baseline, v visitor) ([]byte, error) {
	comm, b, err := readUvarint(b)
	if err != nil {
		return nil, err
	}
	list := base.completion(uint32(comm))
	if b, err = readDelta(b, list); err != nil {
		return nil, err
	}
	var c trace.Completion
	(&words{list: list, reading: true}).completion(&c)
	v.completion(&c)
	return b, nil
}

func decodeLifecycle(b []byte, base *baseline, v visitor) ([]byte, error) {
	var f [6]uint64
	var err error
	for i := range f {
		if f[i], b, err = readUvarint(b); err != nil {
			return nil, err
		}
	}
	if f[5] > uint64(len(b)) {
		return nil, errCorrupt
	}
	v.lifecycle(&trace.LifecycleEvent{
		Ticket: f[0], AtNS: base.atNS, Kind: trace.LifecycleKind(f[1]), CommIndex: int64(f[2]) - 1, CommID: trace.CommID(f[3]), //nolint:gosec // As written.
		Arg0: f[4], Text: string(b[:f[5]]),
	})
	return b[f[5]:], nil
}

func decodeSample(b []byte, base *baseline, v visitor) ([]byte, error) {
	b, err := readDelta(b, base.status)
	if err != nil {
		return nil, err
	}
	rec := sample{atNS: base.atNS, base: base}
	(&words{list: base.status, reading: true}).status(&rec.status)
	rec.ended, b, err = decodeSlots(b, func(index uint32, b []byte) ([]byte, error) {
		base.end(index)
		return b, nil
	})
	if err != nil {
		return nil, err
	}
	rec.ops, b, err = decodeSlots(b, func(index uint32, b []byte) ([]byte, error) {
		s := base.op(index)
		length, b, err := readUvarint(b)
		if err != nil {
			return nil, err
		}
		if length > uint64(len(b)) {
			return nil, errCorrupt
		}
		if length > 0 {
			s.datatype = string(b[:length])
		}
		return readDelta(b[length:], s.list)
	})
	if err != nil {
		return nil, err
	}
	rec.flows, b, err = decodeSlots(b, func(index uint32, b []byte) ([]byte, error) {
		return readDelta(b, base.flows.take(index))
	})
	if err != nil {
		return nil, err
	}
	v.sample(rec)
	return b, nil
}

// decodeSlots reads a count, then for each a slot's index and what body reads.
func decodeSlots(b []byte, body func(index uint32, b []byte) ([]byte, error)) ([]uint32, []byte, error) {
	count, b, err := readUvarint(b)
	if err != nil {
		return nil, nil, err
	}
	var slots []uint32
	for range count {
		var index uint64
		if index, b, err = readUvarint(b); err != nil {
			return nil, nil, err
		}
		if index >= maxSlots {
			return nil, nil, errCorrupt
		}
		if b, err = body(uint32(index), b); err != nil { //nolint:gosec // As written.
			return nil, nil, err
		}
		slots = append(slots, uint32(index)) //nolint:gosec // As written.
	}
	return slots, b, nil
}
