// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// step executes one instruction.
func (m *machine) step(op byte) error {
	if done, err := m.scalar(op); done || err != nil {
		return err
	}
	if done, err := m.text(op); done || err != nil {
		return err
	}
	if done, err := m.container(op); done || err != nil {
		return err
	}
	if done, err := m.memory(op); done || err != nil {
		return err
	}
	return m.foreign(op)
}

// scalar executes the instructions that push numbers, None and booleans.
func (m *machine) scalar(op byte) (bool, error) {
	var v any
	var err error
	var n uint64
	switch op {
	case opNone:
	case opNewtrue:
		v = true
	case opNewfalse:
		v = false
	case opBinint1:
		n, err = m.uint(1)
		v = int64(n)
	case opBinint2:
		n, err = m.uint(2)
		v = int64(n)
	case opBinint:
		n, err = m.uint(4)
		v = int64(int32(uint32(n)))
	case opLong1:
		v, err = m.binLong(1)
	case opLong4:
		v, err = m.binLong(4)
	case opInt, opLong:
		v, err = m.textInt(op == opLong)
	case opBinfloat:
		var b []byte
		if b, err = m.take(8); err == nil {
			v = math.Float64frombits(binary.BigEndian.Uint64(b))
		}
	case opFloat:
		var s string
		if s, err = m.line(); err == nil {
			f, bad := strconv.ParseFloat(s, 64)
			if bad != nil && !math.IsInf(f, 0) {
				return false, m.fail("%q is no number", clip(s))
			}
			v = f
		}
	default:
		return false, nil
	}
	if err == nil {
		m.push(v)
	}
	return true, err
}

// text executes the instructions that push strings and bytes.
func (m *machine) text(op byte) (bool, error) {
	var size uint64
	isBytes := false
	switch op {
	case opShortBinunicode, opShortBinstring:
		size = 1
	case opBinunicode, opBinstring:
		size = 4
	case opBinunicode8:
		size = 8
	case opShortBinbytes:
		size, isBytes = 1, true
	case opBinbytes:
		size, isBytes = 4, true
	case opBinbytes8, opBytearray8:
		size, isBytes = 8, true
	case opString:
		v, err := m.quoted()
		if err == nil {
			m.push(v)
		}
		return true, err
	case opUnicode:
		v, err := m.rawUnicode()
		if err == nil {
			m.push(v)
		}
		return true, err
	default:
		return false, nil
	}
	b, err := m.counted(size)
	if err != nil {
		return true, err
	}
	if isBytes {
		m.push(slices.Clone(b))
	} else {
		m.push(string(b))
	}
	return true, nil
}

// container executes the instructions that make and fill tuples, lists, dicts and sets.
func (m *machine) container(op byte) (bool, error) {
	switch op {
	case opMark:
		m.marks = append(m.marks, len(m.stack))
	case opEmptyList:
		m.push(&List{})
	case opEmptyDict:
		m.push(&Dict{})
	case opEmptySet:
		m.push(&Set{})
	case opEmptyTuple:
		m.push(Tuple(nil))
	case opTuple1, opTuple2, opTuple3:
		n := int(op-opTuple1) + 1
		if len(m.stack)-m.floor() < n {
			return true, m.fail("stack is empty")
		}
		t := Tuple(slices.Clone(m.stack[len(m.stack)-n:]))
		m.stack = m.stack[:len(m.stack)-n]
		m.push(t)
	case opTuple, opList, opDict, opFrozenset:
		items, err := m.popMark()
		if err != nil {
			return true, err
		}
		switch op {
		case opTuple:
			m.push(Tuple(slices.Clone(items)))
		case opList:
			m.push(&List{Items: slices.Clone(items)})
		case opFrozenset:
			m.push(&Set{Items: slices.Clone(items)})
		default:
			if len(items)%2 != 0 {
				return true, m.fail("dict with an odd number of items")
			}
			d := &Dict{}
			d.set(items)
			m.push(d)
		}
	case opAppend:
		v, err := m.pop()
		if err != nil {
			return true, err
		}
		return true, m.fill([]any{v}, op)
	case opSetitem:
		if len(m.stack)-m.floor() < 3 {
			return true, m.fail("stack is empty")
		}
		pair := slices.Clone(m.stack[len(m.stack)-2:])
		m.stack = m.stack[:len(m.stack)-2]
		return true, m.fill(pair, op)
	case opAppends, opSetitems, opAdditems:
		items, err := m.popMark()
		if err != nil {
			return true, err
		}
		return true, m.fill(items, op)
	default:
		return false, nil
	}
	return true, nil
}

// fill adds items to the container on top of the stack. Items for something opaque are dropped.
func (m *machine) fill(items []any, op byte) error {
	c, err := m.top()
	if err != nil {
		return err
	}
	switch c := c.(type) {
	case *Opaque:
		return nil
	case *List:
		if op == opAppend || op == opAppends {
			c.Items = append(c.Items, items...)
			return nil
		}
	case *Set:
		if op == opAdditems {
			c.Items = append(c.Items, items...)
			return nil
		}
	case *Dict:
		if op == opSetitem || op == opSetitems {
			if len(items)%2 != 0 {
				return m.fail("dict with an odd number of items")
			}
			c.set(items)
			return nil
		}
	}
	return m.fail("%T cannot take items", c)
}

// memory executes the instructions on stack and memo.
func (m *machine) memory(op byte) (bool, error) {
	var err error
	var v any
	var n uint64
	var s string
	switch op {
	case opPop:
		if len(m.marks) > 0 && len(m.stack) == m.floor() {
			m.marks = m.marks[:len(m.marks)-1] // Popping a mark is allowed.
			return true, nil
		}
		_, err = m.pop()
	case opPopMark:
		_, err = m.popMark()
	case opDup:
		if v, err = m.top(); err == nil {
			m.push(v)
		}
	case opMemoize:
		if v, err = m.top(); err == nil {
			m.remember(uint64(len(m.memo)), v)
		}
	case opBinput, opLongBinput:
		if n, err = m.uint(operand(op == opBinput)); err == nil {
			if v, err = m.top(); err == nil {
				m.remember(n, v)
			}
		}
	case opBinget, opLongBinget:
		if n, err = m.uint(operand(op == opBinget)); err == nil {
			err = m.recall(n)
		}
	case opPut, opGet:
		if s, err = m.line(); err != nil {
			return true, err
		}
		if n, err = strconv.ParseUint(s, 10, 32); err != nil {
			return true, m.fail("memo index %q", clip(s))
		}
		if op == opGet {
			return true, m.recall(n)
		}
		if v, err = m.top(); err == nil {
			m.remember(n, v)
		}
	default:
		return false, nil
	}
	return true, err
}

func operand(short bool) uint64 {
	if short {
		return 1
	}
	return 4
}
