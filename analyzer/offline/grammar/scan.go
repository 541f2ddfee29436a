// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

const (
	// window is how much of the text after an anchor belongs to its message at most, and lead how much of its line before it.
	window = 700
	lead   = 1024
	// mostOfKind events of one row are given: of a log that says one thing millions of times the first tell it.
	mostOfKind = 1 << 17
	// shortestAnchor keeps the pass over the text fast: it moves on by about as many bytes.
	shortestAnchor = 8
)

// Scan gives the messages in a text, in its order. The text is what Plain gives.
func Scan(text []byte) []Event {
	var out []Event
	counts := make([]int, len(table))
	last := make([]int, len(table)) // Where the row's last message ends.
	for at := 0; ; {
		hit, ids := anchors.next(text, at)
		if hit < 0 {
			return out
		}
		for _, id := range ids {
			for _, r := range anchorRows[id] {
				if counts[r] >= mostOfKind || hit < last[r] {
					continue
				}
				e, end, ok := match(text, hit, anchors.words[id], &table[r])
				if ok {
					counts[r]++
					last[r] = end
					out = append(out, e)
				}
			}
		}
		at = hit + 1
	}
}

// Any reports whether a text holds a message that says something by itself.
func Any(text []byte) bool {
	for at := 0; ; {
		hit, ids := anchors.next(text, at)
		if hit < 0 {
			return false
		}
		for _, id := range ids {
			for _, r := range anchorRows[id] {
				if table[r].Kind.aside() {
					continue
				}
				if _, _, ok := match(text, hit, anchors.words[id], &table[r]); ok {
					return true
				}
			}
		}
		at = hit + 1
	}
}

// match applies a row around its anchor.
func match(text []byte, at int, anchor []byte, row *Row) (e Event, end int, ok bool) {
	start := max(0, at-lead)
	if i := bytes.LastIndexByte(text[start:at], '\n'); i >= 0 {
		start += i + 1
	}
	e = Event{Row: row, At: at, Start: start}
	if row.Pattern == nil {
		return e, at + len(anchor), true
	}
	region := text[start:min(len(text), at+len(anchor)+window)]
	from, to := at-start, at-start+len(anchor)
	if !row.Flat {
		end, ok = e.apply(region, from, to)
		return e, at + max(len(anchor), end-from), ok
	}
	before, after := flat(region[:from]), flat(region[from:])
	if before != "" && (isSpace(region[from-1]) || isSpace(region[from])) {
		before += " "
	}
	end, ok = e.apply([]byte(before+after), len(before), len(before)+min(len(after), len(flat(anchor))))
	from = len(before)
	if !ok { // Perhaps it is broken inside words.
		end, ok = e.apply(bytes.ReplaceAll(region, []byte{'\n'}, nil), at-start, to)
		from = at - start
	}
	return e, at + max(len(anchor), end-from), ok
}

// apply looks for the row's pattern in a region, where it must overlap the anchor, and gives where the message ends.
func (e *Event) apply(region []byte, from, to int) (end int, ok bool) {
	for off := 0; off < to; {
		m := e.Pattern.FindSubmatchIndex(region[off:])
		if m == nil || off+m[0] >= to {
			return 0, false
		}
		if off+m[1] <= from { // A message of the same kind before it on the line.
			off += max(m[1], 1)
			continue
		}
		for i := 0; i < len(m); i += 2 {
			s := ""
			if m[i] >= 0 {
				s = strings.ToValidUTF8(string(region[off+m[i]:off+m[i+1]]), "")
			}
			e.caps = append(e.caps, s)
		}
		return off + m[1], true
	}
	return 0, false
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// flat makes one line of a message that was broken into several.
func flat(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }

// wordSet finds words in one pass (Wu and Manber): the shortest word's length is a window, and its last three bytes say how far
// it can move without skipping a word's beginning.
type wordSet struct {
	words   [][]byte
	window  int
	longest int
	shift   [1 << 16]uint8
	ends    [1 << 16]uint16 // Which of alike there is by the last three bytes of a word's part in the window; 0: none.
	alike   [][]int         // Words that have these alike.
	begin   []uint64        // Of each of alike, how its words begin: a bit for each beginning.
}

const block = 3

func hash(b uint32) uint16 { return uint16(b * 0x9e3779b1 >> 16) }

// beginning is one of 64 bits for a word's first two bytes.
func beginning(b []byte) uint64 { return 1 << ((b[0] ^ b[1]<<2) & 63) }

func blockHash(b []byte) uint16 { return hash(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) }

func newWordSet(list [][]byte) *wordSet {
	s := &wordSet{words: list, window: 255, alike: [][]int{nil}, begin: []uint64{0}}
	for _, w := range list {
		s.window, s.longest = min(s.window, len(w)), max(s.longest, len(w))
	}
	far := s.window - block + 1
	for i := range s.shift {
		s.shift[i] = byte(far)
	}
	for i, w := range list {
		for end := block; end < s.window; end++ {
			h := blockHash(w[end-block:])
			s.shift[h] = min(s.shift[h], byte(s.window-end))
		}
		h := blockHash(w[s.window-block:])
		s.shift[h] = 0
		if s.ends[h] == 0 {
			s.ends[h] = uint16(len(s.alike))
			s.alike, s.begin = append(s.alike, nil), append(s.begin, 0)
		}
		s.alike[s.ends[h]] = append(s.alike[s.ends[h]], i)
		s.begin[s.ends[h]] |= beginning(w)
	}
	return s
}

// next gives where the first word at or after an offset begins, and which words begin there; -1 for none.
func (s *wordSet) next(b []byte, from int) (at int, which []int) {
	for end := from + s.window; end <= len(b); {
		h := hashBefore(b, end)
		if n := s.shift[h]; n > 0 {
			end += int(n)
			continue
		}
		if found := s.found(b, end, h); found != nil {
			return end - s.window, found
		}
		end++
	}
	return -1, nil
}

// none reports whether no word is in a text. It looks at both halves at once, as a processor waits for what it loads.
func (s *wordSet) none(b []byte) bool {
	half := len(b) / 2
	one, two := s.window, half+s.window // Words that begin in each half.
	for one < half+s.window && two <= len(b) {
		h, k := hashBefore(b, one), hashBefore(b, two)
		n, m := s.shift[h], s.shift[k]
		if n == 0 {
			if s.found(b, one, h) != nil {
				return false
			}
			n = 1
		}
		if m == 0 {
			if s.found(b, two, k) != nil {
				return false
			}
			m = 1
		}
		one, two = one+int(n), two+int(m)
	}
	at, _ := s.next(b[:min(len(b), half+s.window-1+s.longest)], one-s.window)
	if at < 0 {
		at, _ = s.next(b, two-s.window)
	}
	return at < 0
}

// found gives the words of which the window ends at an offset, where the bytes before it have that hash.
func (s *wordSet) found(b []byte, end int, h uint16) (which []int) {
	start, id := end-s.window, s.ends[h]
	if s.begin[id]&beginning(b[start:]) == 0 {
		return nil
	}
	for _, i := range s.alike[id] {
		if bytes.HasPrefix(b[start:], s.words[i]) {
			which = append(which, i)
		}
	}
	return which
}

// hashBefore is that of the block which ends at an offset.
func hashBefore(b []byte, end int) uint16 {
	const load = 4 // Bytes that are loaded at once, of which the first does not count.
	if end < load {
		return blockHash(b[end-block:])
	}
	return hash(binary.LittleEndian.Uint32(b[end-load:]) >> 8)
}

// table is all rows; anchors their anchors, anchorRows the rows of each.
var (
	table               = slices.Concat(watchdogRows, startRows, endRows, launcherRows, storeRows, hardwareRows, programRows, libraryRows, schedulerRows)
	anchors, anchorRows = index(table)
)

func index(rows []Row) (*wordSet, [][]int) {
	var list [][]byte
	var of [][]int
	at := map[string]int{}
	for r := range rows {
		for _, a := range rows[r].Anchors {
			i, ok := at[a]
			if !ok {
				i = len(list)
				at[a] = i
				list = append(list, []byte(a))
				of = append(of, nil)
			}
			of[i] = append(of[i], r)
		}
	}
	return newWordSet(list), of
}
