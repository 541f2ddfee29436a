// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package pickle decodes Python pickles of plain data, protocols 0 to 5, without ever running what they ask for.
//
// A pickle is a program for a small stack machine, and some of its instructions call Python functions. This decoder
// executes only the instructions that build builtin containers and scalars. Whatever else a pickle names becomes an
// Opaque value; a handful of constructors of plain containers (collections.OrderedDict, torch's typed lists) are
// understood by what they would have returned. Memory is bounded by the input's size times a small constant.
package pickle

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
)

// Errors that Decode wraps.
var (
	// ErrTruncated is met at the input's end before the STOP instruction.
	ErrTruncated = errors.New("pickle is truncated")
	// ErrInvalid is met where the input is no pickle.
	ErrInvalid = errors.New("invalid pickle")
)

// Values are nil (None), bool, int64, *big.Int, float64, string, []byte, Tuple, *List, *Dict, *Set and *Opaque.
type (
	// Tuple is a Python tuple.
	Tuple []any
	// List is a Python list. It may contain itself.
	List struct{ Items []any }
	// Set is a Python set or frozenset.
	Set struct{ Items []any }
	// Opaque stands for something that only running code could make: a class, or a call's result.
	Opaque struct {
		Name string // Module and name, "os.system".
		Call bool   // The pickle wanted it called.
	}
)

// Dict is a Python dict in order of insertion.
type Dict struct {
	Keys   []any
	Values []any
}

// Get gives the value of a string key, the last one written; nil when there is none.
func (d *Dict) Get(key string) any {
	for i, v := range slices.Backward(d.Keys) {
		if s, ok := v.(string); ok && s == key {
			return d.Values[i]
		}
	}
	return nil
}

// Len is the number of pairs.
func (d *Dict) Len() int { return len(d.Keys) }

// Result is what a pickle holds.
type Result struct {
	Value any
	// Refused names the classes and functions that the pickle wanted and did not get, each once, at most maxRefused.
	Refused []string
	// Size is the number of bytes up to and including STOP.
	Size int
}

const (
	maxRefused  = 16
	maxLongSize = 1 << 10 // Bytes or digits of an integer.
	maxValues   = 1 << 23 // Values that a pickle may make: one byte of input can make one of sixteen bytes.
	highestProt = 5
)

// Decode reads one pickle from the start of data. With an error wrapping ErrTruncated the result holds what was
// complete before the end: containers may lack their last items.
func Decode(data []byte) (Result, error) {
	m := machine{data: data}
	err := m.run()
	if errors.Is(err, ErrTruncated) {
		m.salvage()
	} else if err != nil {
		return Result{Refused: m.refused}, err
	}
	r := Result{Refused: m.refused, Size: m.pos}
	if len(m.stack) > 0 {
		r.Value = m.stack[len(m.stack)-1]
	}
	return r, err
}

// Sniff says whether data starts like a pickle of protocol 2 or newer, or like one of the text protocol's containers.
func Sniff(data []byte) bool {
	if len(data) < 2 {
		return false
	}
	if data[0] == opProto {
		return data[1] >= 2 && data[1] <= highestProt
	}
	return inText.Match(data) || (data[0] == opEmptyDict && (data[1] == opBinput || data[1] == opMark || data[1] == opStop))
}

// inText is how protocol 0, which is text, begins a collection: a word in brackets, such as a process's label in a log, begins alike.
var inText = regexp.MustCompile(`^\([dlt](?:p\d+\n|\.|\(|S['"]|V\w+\n)`)

// machine is pickle's stack machine without its dangerous half.
type machine struct {
	data    []byte
	pos     int
	stack   []any
	marks   []int
	memo    []any
	far     map[uint64]any // Memo slots far beyond the dense part.
	refused []string
	made    int
}

func (m *machine) fail(format string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d", ErrInvalid, fmt.Sprintf(format, args...), m.pos)
}

func (m *machine) run() error {
	for {
		if m.pos >= len(m.data) {
			return fmt.Errorf("%w after %d bytes", ErrTruncated, len(m.data))
		}
		op := m.data[m.pos]
		m.pos++
		if op == opStop {
			if len(m.stack) == 0 {
				return m.fail("nothing left at STOP")
			}
			return nil
		}
		if err := m.step(op); err != nil {
			return err
		}
		if m.made > maxValues {
			return m.fail("more than %d values", maxValues)
		}
	}
}

func (m *machine) push(v any) {
	m.made++
	m.stack = append(m.stack, v)
}

// floor is the lowest stack index that instructions may touch: nothing below the innermost mark.
func (m *machine) floor() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

func (m *machine) pop() (any, error) {
	if len(m.stack) <= m.floor() {
		return nil, m.fail("stack is empty")
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

func (m *machine) top() (any, error) {
	if len(m.stack) <= m.floor() {
		return nil, m.fail("stack is empty")
	}
	return m.stack[len(m.stack)-1], nil
}

// popMark takes everything above the innermost mark. The slice is only valid until the next push.
func (m *machine) popMark() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, m.fail("no mark")
	}
	at := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	items := m.stack[at:]
	m.stack = m.stack[:at]
	return items, nil
}

func (m *machine) remember(index uint64, v any) {
	switch n := uint64(len(m.memo)); {
	case index < n:
		m.memo[index] = v
	case index == n:
		m.memo = append(m.memo, v)
	case index < n+1024:
		m.memo = append(m.memo, make([]any, index-n+1)...)
		m.memo[index] = v
	default:
		if m.far == nil {
			m.far = map[uint64]any{}
		}
		m.far[index] = v
	}
}

func (m *machine) recall(index uint64) error {
	if index < uint64(len(m.memo)) {
		m.push(m.memo[index])
		return nil
	}
	v, ok := m.far[index]
	if !ok {
		return m.fail("memo %d was never written", index)
	}
	m.push(v)
	return nil
}

func (m *machine) refuse(name string) {
	if slices.Contains(m.refused, name) {
		return
	}
	if len(m.refused) < maxRefused {
		m.refused = append(m.refused, name)
	}
}

// salvage closes the containers that were open when the input ended. The innermost keep what they had: a dict at the
// end of a list may lack keys, and the last value in a dict may be a part of what it would have become.
func (m *machine) salvage() {
	for len(m.marks) > 0 {
		items, err := m.popMark()
		if err != nil || len(m.stack) == 0 {
			continue
		}
		switch c := m.stack[len(m.stack)-1].(type) {
		case *List:
			c.Items = append(c.Items, items...)
		case *Dict:
			c.set(items[:len(items)&^1])
		}
	}
	if len(m.stack) > 1 {
		m.stack = m.stack[:1]
	}
}

func (d *Dict) set(pairs []any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Keys = append(d.Keys, pairs[i])
		d.Values = append(d.Values, pairs[i+1])
	}
}

func bigOrInt(n *big.Int) any {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}
