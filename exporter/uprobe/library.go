// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"bufio"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// library is a file that has NCCL's API: NCCL or RCCL themselves, or a library that has them linked in and still names them.
type library struct {
	path      string           // Through the process's own root.
	functions []libraryPlace   // In the order of their offsets.
	comm      *communicator    // nil: the file does not tell where a communicator keeps what.
	segments  []elf.ProgHeader // Executable ones.
}

// libraryPlace is where a function of the list lies.
type libraryPlace struct {
	kind         int
	offset, size uint64 // In the file; bytes.
}

// communicator tells where NCCL's struct ncclComm keeps what, in bytes.
type communicator struct {
	size, endMagic             uint64
	identity, called, children uint64 // commHash with rank, nRanks and cudaDev behind it; seqNumber; childCount or splitCount (0: neither).
}

// libraryNames begin the names of files that may have NCCL's API.
var libraryNames = []string{"libnccl.so", "librccl.so", "libtorch_cuda", "libtorch_hip"}

// maxSymbols bounds how many symbols of a file are looked at.
const maxSymbols = 1 << 20

var errNoFunctions = errors.New("it has none of NCCL's functions")

// mapping is where a process has a file.
type mapping struct {
	start, end, offset uint64
	path               string
}

// executables lists what a process has mapped of files to be executed.
func executables(procFS string, pid int) ([]mapping, error) {
	f, err := os.Open(filepath.Join(procFS, strconv.Itoa(pid), "maps"))
	if err != nil {
		return nil, fmt.Errorf("reading the mappings of process %d: %w", pid, err)
	}
	defer f.Close()
	return parseExecutables(f)
}

func parseExecutables(r io.Reader) ([]mapping, error) {
	var out []mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "/", 2)
		columns := strings.Fields(fields[0])
		if len(fields) != 2 || len(columns) != 5 || !strings.Contains(columns[1], "x") {
			continue
		}
		m := mapping{path: "/" + fields[1]}
		if n, err := fmt.Sscanf(columns[0]+" "+columns[2], "%x-%x %x", &m.start, &m.end, &m.offset); err != nil || n != 3 {
			continue
		}
		out = append(out, m)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading mappings: %w", err)
	}
	return out, nil
}

// libraries finds the paths among mappings whose names may be NCCL's.
func libraries(mapped []mapping) []string {
	var out []string
	for _, m := range mapped {
		base := filepath.Base(m.path)
		if slices.ContainsFunc(libraryNames, func(p string) bool { return strings.HasPrefix(base, p) }) && !slices.Contains(out, m.path) {
			out = append(out, m.path)
		}
	}
	return out
}

// openLibrary reads where a file has NCCL's functions, and what it tells of communicators.
func openLibrary(path string) (*library, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening library: %w", err)
	}
	defer file.Close()
	l := &library{path: path}
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			l.segments = append(l.segments, p.ProgHeader)
		}
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("reading symbols of %s: %w", path, err)
	}
	l.place(symbols[:min(len(symbols), maxSymbols)])
	if len(l.functions) == 0 {
		return nil, fmt.Errorf("%s: %w", path, errNoFunctions)
	}
	l.comm = communicatorOf(file)
	return l, nil
}

// place finds the functions among symbols. Two names of one function are one place.
func (l *library) place(symbols []elf.Symbol) {
	for _, s := range symbols {
		kind := slices.IndexFunc(functions, func(f function) bool { return f.name == s.Name })
		if kind < 0 || s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		offset, ok := l.fileOffset(s.Value)
		if !ok || slices.ContainsFunc(l.functions, func(p libraryPlace) bool { return p.offset == offset }) {
			continue
		}
		l.functions = append(l.functions, libraryPlace{kind: kind, offset: offset, size: s.Size})
	}
	slices.SortFunc(l.functions, func(a, b libraryPlace) int { return int(int64(a.offset) - int64(b.offset)) })
}

func (l *library) fileOffset(address uint64) (uint64, bool) {
	for _, s := range l.segments {
		if address >= s.Vaddr && address-s.Vaddr < s.Filesz {
			return address - s.Vaddr + s.Off, true
		}
	}
	return 0, false
}

// communicatorOf reads the layout of struct ncclComm from the debug information that NCCL's releases carry; nil where there is none,
// or where the struct is not as expected.
func communicatorOf(file *elf.File) *communicator {
	data, err := file.DWARF()
	if err != nil {
		return nil
	}
	for r := data.Reader(); ; {
		entry, err := r.Next()
		if err != nil || entry == nil {
			return nil
		}
		name, _ := entry.Val(dwarf.AttrName).(string)
		if _, defined := entry.Val(dwarf.AttrByteSize).(int64); entry.Tag != dwarf.TagStructType || name != "ncclComm" || !defined {
			continue
		}
		t, err := data.Type(entry.Offset)
		if err != nil {
			return nil
		}
		s, ok := t.(*dwarf.StructType)
		if !ok {
			return nil
		}
		return layoutOf(s)
	}
}

// maxCommunicator is more than struct ncclComm has in any release, in bytes.
const maxCommunicator = 16 << 20

func layoutOf(s *dwarf.StructType) *communicator {
	at := map[string]*dwarf.StructField{}
	for _, f := range s.Field {
		at[f.Name] = f
	}
	for _, name := range []string{"startMagic", "endMagic", "commHash", "rank", "nRanks", "cudaDev", "seqNumber"} {
		if at[name] == nil {
			return nil
		}
	}
	hash := at["commHash"].ByteOffset
	c := &communicator{
		size: uint64(s.ByteSize), endMagic: uint64(at["endMagic"].ByteOffset),
		identity: uint64(hash), called: uint64(at["seqNumber"].ByteOffset),
	}
	for _, name := range []string{"childCount", "splitCount"} {
		if f := at[name]; f != nil && c.children == 0 && f.Type.Size() == 4 {
			c.children = uint64(f.ByteOffset)
		}
	}
	// The kernel's half reads the identity and the counts in one piece each.
	whole := at["startMagic"].ByteOffset == 0 && at["rank"].ByteOffset == hash+8 && at["nRanks"].ByteOffset == hash+12 && at["cudaDev"].ByteOffset == hash+16 &&
		at["seqNumber"].Type.Size() == int64(8*len(counted))
	if !whole || s.ByteSize > maxCommunicator {
		return nil
	}
	return c
}
