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
	w.list = append(w.list, uint64(int64(*p))) // Round trip.
}

func boolean(w *words, p *bool) {
	v := one(*p)
	num(w, &v)
	*p = v != 0
}

// one is a truth as a number.
func one(truth bool) uint64 {
	if truth {
		return 1
	}
	return 0
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
		b = binary.AppendVarint(b, int64(list[i]-before[i])) // Wraps both ways.
		before[i] = list[i]
	}
	return b
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
			list[i] += uint64(v) // Wraps both ways.
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
