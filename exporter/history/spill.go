// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"os"
)

// spill is a file that holds the blocks for which there is no room in memory: a ring of fixed size, whose name is removed
// at once, so that nothing stays behind whatever happens to the process.
type spill struct {
	file   *os.File
	size   int64
	next   int64
	blocks []sealedBlock // In the file, oldest first.
}

// newSpill makes a spill file in dir.
func newSpill(dir string, size int64) (*spill, error) {
	file, err := os.CreateTemp(dir, "culprit-history-")
	if err != nil {
		return nil, fmt.Errorf("making the history file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, fmt.Errorf("making the history file: %w", err)
	}
	return &spill{file: file, size: size}, nil
}

// place is where a block lies in the file.
type place struct{ at, length int64 }

func (p place) overlaps(q place) bool { return p.at < q.at+q.length && q.at < p.at+p.length }

// take moves a block's bytes into the file. It gives the blocks that had to make room, or an error, after which the
// block is as it was.
func (s *spill) take(b sealedBlock) (dropped []sealedBlock, err error) {
	length := int64(len(b.block.data))
	if length > s.size {
		return []sealedBlock{b}, nil
	}
	if s.next+length > s.size {
		s.next = 0
	}
	p := place{s.next, length}
	for len(s.blocks) > 0 && s.blocks[0].block.place.overlaps(p) {
		dropped = append(dropped, s.blocks[0])
		s.blocks = s.blocks[1:]
	}
	if _, err := s.file.WriteAt(b.block.data, p.at); err != nil {
		return dropped, fmt.Errorf("writing the history file: %w", err)
	}
	b.block.place, b.block.data, b.block.spilled = p, nil, true
	s.next += length
	s.blocks = append(s.blocks, b)
	return dropped, nil
}

// read gives a spilled block's bytes.
func (s *spill) read(b *block) ([]byte, error) {
	data := make([]byte, b.place.length)
	if _, err := s.file.ReadAt(data, b.place.at); err != nil {
		return nil, fmt.Errorf("reading the history file: %w", err)
	}
	return data, nil
}
