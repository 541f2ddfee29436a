// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// commMagic begins and ends every struct ncclComm (NCCL_MAGIC).
	commMagic = 0x0280028002800280
	// commAlign is what malloc aligns to.
	commAlign = 16
	pageBytes = 4096
	// piece is how much is read at a time, and maxSearch how much of a process's memory is, in bytes.
	piece     = 1 << 20
	maxSearch = 64 << 30
	// maxRanks is more than any communicator has members.
	maxRanks = 1 << 20
)

// memory reads another process's.
type memory struct {
	file *os.File
	dir  string
}

func openMemory(procFS string, pid int) (*memory, error) {
	dir := filepath.Join(procFS, strconv.Itoa(pid))
	f, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return nil, fmt.Errorf("opening the memory of process %d: %w", pid, err)
	}
	return &memory{f, dir}, nil
}

func (m *memory) close() { m.file.Close() }

// found is a communicator in a process's memory.
type found struct {
	address uint64
	identity
	called   [len(counted)]uint64
	children int32
}

// identity is what NCCL knows a communicator by.
type identity struct {
	Hash                 uint64
	Rank, NRanks, Device int32
	Unused               int32
}

func (i identity) plausible() bool {
	return i.Hash != 0 && i.NRanks > 0 && i.NRanks <= maxRanks && i.Rank >= 0 && i.Rank < i.NRanks
}

// communicators finds those that NCCL has made so far: each begins and ends with a number that it never changes. Only pages that
// are there are read, so that the search makes the process no larger.
func (m *memory) communicators(layout *communicator) ([]found, error) {
	areas, err := m.writable()
	if err != nil {
		return nil, err
	}
	pagemap, err := os.Open(filepath.Join(m.dir, "pagemap"))
	if err != nil {
		return nil, fmt.Errorf("reading which pages are there: %w", err)
	}
	defer pagemap.Close()
	var out []found
	buf := make([]byte, piece)
	present := make([]byte, piece/pageBytes*8)
	var searched uint64
	for _, a := range areas {
		for at := a.start; at < a.end && searched < maxSearch; at += piece {
			n := min(piece, a.end-at)
			pages := present[:n/pageBytes*8]
			if _, err := pagemap.ReadAt(pages, int64(at/pageBytes*8)); err != nil {
				break // Unmapped meanwhile.
			}
			for _, r := range runs(pages) {
				b := buf[:(r[1]-r[0])*pageBytes]
				start := at + uint64(r[0])*pageBytes
				if _, err := m.file.ReadAt(b, int64(start)); err != nil {
					continue
				}
				searched += uint64(len(b))
				for o := 0; o+8 <= len(b); o += commAlign {
					if binary.LittleEndian.Uint64(b[o:]) != commMagic {
						continue
					}
					if f, ok := m.communicator(start+uint64(o), layout); ok {
						out = append(out, f)
					}
				}
			}
		}
	}
	return out, nil
}

// runs gives the first page and the page behind the last of each run of pages that are in memory.
func runs(pagemap []byte) [][2]int {
	const isPresent = 1 << 63
	var out [][2]int
	begun := -1
	pages := len(pagemap) / 8
	for i := 0; i <= pages; i++ {
		here := i < pages && binary.LittleEndian.Uint64(pagemap[i*8:])&isPresent != 0
		switch {
		case here && begun < 0:
			begun = i
		case !here && begun >= 0:
			out = append(out, [2]int{begun, i})
			begun = -1
		}
	}
	return out
}

func (m *memory) communicator(address uint64, layout *communicator) (found, bool) {
	f := found{address: address}
	var end uint64
	for _, part := range []struct {
		offset uint64
		to     any
	}{{layout.endMagic, &end}, {layout.identity, &f.identity}, {layout.called, &f.called}, {layout.children, &f.children}} {
		r := io.NewSectionReader(m.file, int64(address+part.offset), 64)
		if err := binary.Read(r, binary.LittleEndian, part.to); err != nil {
			return found{}, false
		}
	}
	return f, end == commMagic && f.plausible()
}

// writable lists the private memory that malloc takes from the kernel.
func (m *memory) writable() ([]mapping, error) {
	f, err := os.Open(filepath.Join(m.dir, "maps"))
	if err != nil {
		return nil, fmt.Errorf("reading mappings: %w", err)
	}
	defer f.Close()
	var out []mapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 5 || columns[1] != "rw-p" || len(columns) > 5 && columns[5] != "[heap]" {
			continue
		}
		var a mapping
		if n, err := fmt.Sscanf(columns[0], "%x-%x", &a.start, &a.end); err == nil && n == 2 {
			out = append(out, a)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading mappings: %w", err)
	}
	return out, nil
}

// maxStack is how much of a thread's stack is looked at, in bytes. The frames of a call of NCCL lie at the stack's end, where the
// thread is now.
const maxStack = 64 << 10

// inside finds the function of NCCL that a thread is in: the outermost return address on its stack that lies in one and follows a
// call. A thread that runs cannot be looked at. What an older call left on the stack can be mistaken for a newer one.
func (m *memory) inside(tid int, l *library, mapped []mapping) (kind int, ok bool) {
	b, err := os.ReadFile(filepath.Join(m.dir, "task", strconv.Itoa(tid), "syscall"))
	if err != nil {
		return 0, false
	}
	stack, err := parseStackPointer(string(b))
	if err != nil {
		return 0, false
	}
	words := make([]byte, maxStack)
	n, _ := m.file.ReadAt(words, int64(stack)) // The stack may end before.
	for at := 0; at+8 <= n; at += 8 {
		address := binary.LittleEndian.Uint64(words[at:])
		if k, is := l.at(address, mapped); is && m.followsCall(address) {
			kind, ok = k, true
		}
	}
	return kind, ok
}

var errRuns = errors.New("the thread is not in a system call")

// parseStackPointer takes it from /proc/PID/task/TID/syscall: the last word but one of a thread that sleeps.
func parseStackPointer(line string) (uint64, error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return 0, errRuns
	}
	return strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-2], "0x"), 16, 64)
}

// at tells which function an address of the process lies in.
func (l *library) at(address uint64, mapped []mapping) (kind int, ok bool) {
	for _, m := range mapped {
		if address < m.start || address >= m.end || !strings.HasSuffix(l.path, m.path) {
			continue
		}
		offset := address - m.start + m.offset
		for _, p := range l.functions {
			if offset > p.offset && offset-p.offset < p.size {
				return p.kind, true
			}
		}
	}
	return 0, false
}

// followsCall tells whether the instruction before an address calls: only then it is a return address.
func (m *memory) followsCall(address uint64) bool {
	var b [8]byte
	if _, err := m.file.ReadAt(b[:], int64(address-8)); err != nil {
		return false
	}
	return afterCall(b)
}
