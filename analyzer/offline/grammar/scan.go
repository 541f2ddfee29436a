// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
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
	words  [][]byte
	window int
	shift  [1 << 16]uint8
	ends   map[uint16][]int // Words by the last three bytes of their part in the window.
}

const block = 3

func blockHash(b []byte) uint16 {
	return uint16((uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) * 0x9e3779b1 >> 16)
}

func newWordSet(list [][]byte) *wordSet {
	s := &wordSet{words: list, window: 255, ends: map[uint16][]int{}}
	for _, w := range list {
		s.window = min(s.window, len(w))
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
		s.ends[h] = append(s.ends[h], i)
	}
	return s
}

// next gives where the first word at or after an offset begins, and which words begin there; -1 for none.
func (s *wordSet) next(b []byte, from int) (at int, which []int) {
	for end := from + s.window; end <= len(b); {
		h := blockHash(b[end-block : end])
		if n := s.shift[h]; n > 0 {
			end += int(n)
			continue
		}
		start := end - s.window
		var found []int
		for _, i := range s.ends[h] {
			if bytes.HasPrefix(b[start:], s.words[i]) {
				found = append(found, i)
			}
		}
		if found != nil {
			return start, found
		}
		end++
	}
	return -1, nil
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
