// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// take gives the next n bytes of the input.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.data)-m.pos) {
		m.pos = len(m.data)
		return nil, fmt.Errorf("%w after %d bytes", ErrTruncated, len(m.data))
	}
	b := m.data[m.pos : m.pos+int(n)] // n fits: it is at most len(data).
	m.pos += int(n)
	return b, nil
}

// uint reads an unsigned little-endian number of 1, 2, 4 or 8 bytes.
func (m *machine) uint(size uint64) (uint64, error) {
	b, err := m.take(size)
	if err != nil {
		return 0, err
	}
	switch size {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.LittleEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.LittleEndian.Uint32(b)), nil
	default:
		return binary.LittleEndian.Uint64(b), nil
	}
}

// counted reads a length of the given size and so many bytes.
func (m *machine) counted(size uint64) ([]byte, error) {
	n, err := m.uint(size)
	if err != nil {
		return nil, err
	}
	return m.take(n)
}

// line reads up to and without the next newline.
func (m *machine) line() (string, error) {
	i := bytes.IndexByte(m.data[m.pos:], '\n')
	if i < 0 {
		m.pos = len(m.data)
		return "", fmt.Errorf("%w after %d bytes", ErrTruncated, len(m.data))
	}
	s := string(m.data[m.pos : m.pos+i])
	m.pos += i + 1
	return strings.TrimSuffix(s, "\r"), nil
}

// textInt reads INT and LONG of protocol 0; INT also spells booleans as 00 and 01.
func (m *machine) textInt(long bool) (any, error) {
	s, err := m.line()
	if err != nil {
		return nil, err
	}
	switch {
	case long:
		s = strings.TrimSuffix(s, "L")
	case s == "00":
		return false, nil
	case s == "01":
		return true, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if len(s) > maxLongSize || !ok {
		return nil, m.fail("%q is no integer", clip(s))
	}
	return bigOrInt(n), nil
}

// binLong reads LONG1 and LONG4: two's complement, little-endian.
func (m *machine) binLong(size uint64) (any, error) {
	b, err := m.counted(size)
	if err != nil {
		return nil, err
	}
	if len(b) > maxLongSize {
		return nil, m.fail("integer of %d bytes", len(b))
	}
	be := slices.Clone(b)
	slices.Reverse(be)
	n := new(big.Int).SetBytes(be)
	if len(be) > 0 && be[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(be))))
	}
	return bigOrInt(n), nil
}

// quoted reads STRING of protocol 0: a Python literal in quotes.
func (m *machine) quoted() (any, error) {
	s, err := m.line()
	if err != nil {
		return nil, err
	}
	s = strings.TrimSpace(s)
	if len(s) < 2 || s[0] != s[len(s)-1] || (s[0] != '\'' && s[0] != '"') {
		return nil, m.fail("string %q lacks quotes", clip(s))
	}
	return unescape(s[1:len(s)-1], simpleEscapes, reprDigits), nil
}

// rawUnicode reads UNICODE of protocol 0: Latin-1 with \u and \U for the rest (Python's raw-unicode-escape).
func (m *machine) rawUnicode() (any, error) {
	s, err := m.line()
	if err != nil {
		return nil, err
	}
	var latin strings.Builder
	for i := range len(s) {
		latin.WriteRune(rune(s[i]))
	}
	return unescape(latin.String(), nil, rawDigits), nil
}

// Escapes by the character after the backslash: what it stands for, or how many hexadecimal digits follow.
var (
	simpleEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}
	reprDigits    = map[byte]int{'x': 2, 'u': 4, 'U': 8}
	rawDigits     = map[byte]int{'u': 4, 'U': 8}
)

// unescape undoes the given escapes; anything else stays as it is.
func unescape(s string, simple map[byte]byte, digits map[byte]int) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		c := s[i+1]
		if b, ok := simple[c]; ok {
			out.WriteByte(b)
			i++
			continue
		}
		if n := digits[c]; n > 0 && i+2+n <= len(s) {
			if v, err := strconv.ParseUint(s[i+2:i+2+n], 16, 32); err == nil {
				out.WriteRune(rune(v)) // Invalid code points become U+FFFD.
				i += 1 + n
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
