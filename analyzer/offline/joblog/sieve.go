// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Words of which a line must have one to be of use, and so many lines after it that belong to it.
var telling = [][]byte{
	[]byte("Traceback (most"), []byte("atchdog"), []byte(timedOut), []byte("dump signal"), []byte("lagging ranks"), []byte("latest states"),
	[]byte("monitoredBarrier"), []byte("CollectiveFingerPrint"), []byte("keys: "), []byte("waiting for key"), []byte("ncclUniqueId"), []byte("terminate called"),
	[]byte("Failures:"), []byte("Root Cause (first"), []byte(srunError), []byte("exit with status"), []byte(warns), []byte(" - Init "), []byte("[Gloo] Rank"),
	[]byte("Worker exit detail: "), []byte("The actor died unexpectedly"), []byte("has been marked dead because"), []byte(") world_rank="),
	[]byte("RankMonServer"), []byte("[workload:"), []byte("STRAGGLER DETECTION"), []byte("onnection closed by"),
}

const (
	sieveHead  = 1 << 20  // Kept whatever it says: labels and the job's size stand there.
	sieveKeep  = 64 << 20 // Kept at most.
	sieveChunk = 1 << 20
	following  = 80 // Lines after one of use.
)

// Sieve reads a log of any length and gives the lines of use with those around them. cut says that there were more.
func Sieve(r io.Reader) (kept []byte, cut bool, err error) {
	br := bufio.NewReaderSize(r, sieveChunk)
	head := make([]byte, sieveHead)
	n, err := io.ReadFull(br, head)
	kept = append(kept, head[:n]...)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		return kept, false, err
	}
	if line, err := br.ReadBytes('\n'); err == nil || len(line) > 0 {
		kept = append(kept, line...)
	}
	s := sieve{kept: kept}
	buf := make([]byte, sieveChunk)
	rest := 0 // Of a line whose end is in the next chunk.
	for {
		n, err := io.ReadFull(br, buf[rest:])
		n += rest
		whole := n
		if err == nil {
			if whole = bytes.LastIndexByte(buf[:n], '\n') + 1; whole == 0 {
				whole = n
			}
		}
		s.chunk(buf[:whole])
		rest = copy(buf, buf[whole:n])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return s.kept, s.cut, nil
		case err != nil:
			return s.kept, s.cut, err
		}
	}
}

type sieve struct {
	kept []byte
	left int // Lines that still belong to one of use.
	cut  bool
}

func (s *sieve) chunk(b []byte) {
	for len(b) > 0 && s.left > 0 {
		b = s.line(b)
	}
	for len(b) > 0 {
		at := first(b)
		if at < 0 {
			return
		}
		b = b[bytes.LastIndexByte(b[:at], '\n')+1:]
		s.left = 1
		for len(b) > 0 && s.left > 0 {
			b = s.line(b)
		}
	}
}

// line keeps a line and gives what follows.
func (s *sieve) line(b []byte) []byte {
	end := bytes.IndexByte(b, '\n') + 1
	if end == 0 {
		end = len(b)
	}
	if s.left--; first(b[:end]) >= 0 {
		s.left = following
	}
	if len(s.kept)+end > sieveKeep {
		s.cut = true
	} else {
		s.kept = append(s.kept, b[:end]...)
	}
	return b[end:]
}

// words finds the telling words in one pass (Wu and Manber): the shortest word's length is a window, and its last two bytes say
// how far it can move without skipping a word's beginning.
var words = newWordSet(telling)

type wordSet struct {
	window int
	shift  [1 << 16]uint8
	ends   map[uint16][][]byte // Words by the last two bytes of their part in the window.
}

func newWordSet(list [][]byte) *wordSet {
	s := &wordSet{window: len(list[0]), ends: map[uint16][][]byte{}}
	for _, w := range list {
		s.window = min(s.window, len(w))
	}
	for i := range s.shift {
		s.shift[i] = uint8(s.window - 1)
	}
	for _, w := range list {
		for end := 1; end < s.window; end++ {
			pair := uint16(w[end-1])<<8 | uint16(w[end])
			s.shift[pair] = min(s.shift[pair], uint8(s.window-1-end))
		}
		last := uint16(w[s.window-2])<<8 | uint16(w[s.window-1])
		s.ends[last] = append(s.ends[last], w)
	}
	return s
}

// first gives where the first word of use begins; -1 for none.
func first(b []byte) int {
	for end := words.window - 1; end < len(b); {
		pair := uint16(b[end-1])<<8 | uint16(b[end])
		if n := words.shift[pair]; n > 0 {
			end += int(n)
			continue
		}
		start := end - words.window + 1
		for _, w := range words.ends[pair] {
			if bytes.HasPrefix(b[start:], w) {
				return start
			}
		}
		end++
	}
	return -1
}
