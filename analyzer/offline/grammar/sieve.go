// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

const (
	sieveHead  = 1 << 20  // Kept whatever it says: labels and the job's size stand there.
	sieveKeep  = 64 << 20 // Kept at most.
	sieveChunk = 1 << 20
	following  = 80        // Lines after one of use.
	sieveTail  = 256 << 10 // Of the end, kept whatever it says: how a job ended stands there.
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
			s.kept = append(s.kept, s.tail...)
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
	tail []byte // The newest of what was not kept.
}

// telling are the anchors of all messages but those that help only beside others.
var telling = newWordSet(tellingWords())

func tellingWords() [][]byte {
	var out [][]byte
	for i, w := range anchors.words {
		if slices.ContainsFunc(anchorRows[i], func(r int) bool { return table[r].Kind != World && table[r].Kind != Launched }) {
			out = append(out, w)
		}
	}
	return out
}

// first gives where the first word of use begins; -1 for none.
func first(b []byte) int {
	at, _ := telling.next(b, 0)
	return at
}

func (s *sieve) chunk(b []byte) {
	for len(b) > 0 && s.left > 0 {
		b = s.line(b)
	}
	if telling.none(b) {
		s.passed(b)
		return
	}
	for len(b) > 0 {
		at := first(b)
		if at < 0 {
			s.passed(b)
			return
		}
		b = b[bytes.LastIndexByte(b[:at], '\n')+1:]
		s.left = 1
		for len(b) > 0 && s.left > 0 {
			b = s.line(b)
		}
	}
}

// passed remembers the end of what is of no use.
func (s *sieve) passed(b []byte) {
	if len(b) < sieveTail {
		s.tail = append(s.tail[max(0, len(s.tail)+len(b)-sieveTail):], b...)
		return
	}
	b = b[len(b)-sieveTail:]
	s.tail = append(s.tail[:0], b[bytes.IndexByte(b, '\n')+1:]...)
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
	s.tail = s.tail[:0]
	if len(s.kept)+end > sieveKeep {
		s.cut = true
	} else {
		s.kept = append(s.kept, b[:end]...)
	}
	return b[end:]
}
