// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/binary"
	"fmt"

	"github.com/culprit-project/culprit/trace"
)

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
		base.atNS += uint64(delta) // Wraps both ways.
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
		Ticket: f[0], AtNS: base.atNS, Kind: trace.LifecycleKind(f[1]), CommIndex: int64(f[2]) - 1, CommID: trace.CommID(f[3]),
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
		if b, err = body(uint32(index), b); err != nil {
			return nil, nil, err
		}
		slots = append(slots, uint32(index))
	}
	return slots, b, nil
}
