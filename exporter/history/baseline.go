// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"

	"github.com/culprit-project/culprit/trace"
)

// baseline is what records in a block are differences from. Writer and reader build the same one as they go, so a
// block can be read by itself.
type baseline struct {
	atNS        uint64
	completions map[uint32][]uint64 // By communicator slot.
	status      []uint64
	ops         map[uint32]*opState
	flows       flowStates
}

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
	s.places[slot] = int32(len(s.words) / flowWords)
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
			list = append(list, uint32(slot))
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

func (b *baseline) completion(comm uint32) []uint64 {
	comm %= maxBaselines
	list := b.completions[comm]
	if list == nil {
		list = make([]uint64, completionWords)
		b.completions[comm] = list
	}
	return list
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
