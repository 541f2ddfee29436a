// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package layout reads from the debug information of a libnccl.so.2 where the members of the structs lie that NCCL's host side
// shares with its kernels.
package layout

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Version is of the text format. Its first line is "nccl-layout 1", then a line for each struct and each member:
// name, bit offset, bits, bytes of an element.
const Version = 1

// Structs are named here by what they are; the library's names change between versions.
var structs = map[string]string{
	"ncclDevComm":               "comm", // until 2.27; then another struct's name
	"ncclKernelComm":            "comm",
	"ncclDevCommAndChannels":    "commch",
	"ncclKernelCommAndChannels": "commch",
	"ncclDevKernelArgs":         "args",
	"ncclDevWorkBatch":          "batch",
	"ncclDevChannel":            "channel",
	"ncclRing":                  "ring",
	"ncclTree":                  "tree",
	"ncclDevChannelPeer":        "peer",
	"ncclConnInfo":              "conn",
	"ncclConnFifo":              "fifo",
	"ncclDevWorkColl":           "coll",
	"ncclDevWorkCollReg":        "collreg",
	"ncclDevWorkP2p":            "p2p",
	"ncclDevWorkBcast":          "bcast",
}

// optional structs are not in every version.
var optional = map[string]bool{"bcast": true}

// Place says where a member lies.
type Place struct {
	Name         string // struct.member, or the struct's alone
	Offset       int64  // bits
	Bits         int64
	ElementBytes int64 // of an array; of the member otherwise
}

// Layout holds the places of one library, struct by struct.
type Layout []Place

// Read takes the layout from the library at path.
func Read(path string) (Layout, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open library: %w", err)
	}
	defer file.Close()
	data, err := file.DWARF()
	if err != nil {
		return nil, fmt.Errorf("read debug information of %s: %w", path, err)
	}
	found, err := find(data)
	if err != nil {
		return nil, fmt.Errorf("read debug information of %s: %w", path, err)
	}
	for _, name := range slices.Sorted(maps.Values(structs)) {
		if found[name] == nil && !optional[name] {
			return nil, fmt.Errorf("the debug information of %s has no struct %s", path, libraryNames(name))
		}
	}
	var l Layout
	for _, name := range slices.Sorted(maps.Keys(found)) {
		l = append(l, Place{name, 0, found[name].ByteSize * 8, 0})
		l = l.members(name, 0, found[name])
	}
	return l, nil
}

func libraryNames(name string) []string {
	var names []string
	for library, own := range structs {
		if own == name {
			names = append(names, library)
		}
	}
	slices.Sort(names)
	return names
}

// find returns the structs by the names they get here.
func find(data *dwarf.Data) (map[string]*dwarf.StructType, error) {
	found := map[string]*dwarf.StructType{}
	for r := data.Reader(); ; {
		entry, err := r.Next()
		if err != nil {
			return nil, err
		}
		if entry == nil {
			return found, nil
		}
		if entry.Tag != dwarf.TagStructType {
			continue
		}
		libraryName, _ := entry.Val(dwarf.AttrName).(string)
		name := structs[libraryName]
		if _, defined := entry.Val(dwarf.AttrByteSize).(int64); name == "" || found[name] != nil || !defined {
			continue
		}
		t, err := data.Type(entry.Offset)
		if err != nil {
			return nil, err
		}
		s, ok := t.(*dwarf.StructType)
		if !ok || name == "comm" && !slices.ContainsFunc(s.Field, func(f *dwarf.StructField) bool { return f.Name == "channels" }) {
			continue
		}
		found[name] = s
	}
}

func underlying(t dwarf.Type) dwarf.Type {
	for {
		td, ok := t.(*dwarf.TypedefType)
		if !ok {
			return t
		}
		t = td.Type
	}
}

// members appends those of s, which begins base bytes into the named struct.
func (l Layout) members(name string, base int64, s *dwarf.StructType) Layout {
	for _, f := range s.Field {
		under := underlying(f.Type)
		if inner, ok := under.(*dwarf.StructType); ok && (f.Name == "" || inner.StructName == "") {
			l = l.members(name, base+f.ByteOffset, inner) // members of an unnamed struct are the outer struct's
			continue
		}
		l = append(l, place(name, base, f, under))
	}
	return l
}

func place(name string, base int64, f *dwarf.StructField, under dwarf.Type) Place {
	p := Place{name + "." + f.Name, (base + f.ByteOffset) * 8, f.Type.Size() * 8, f.Type.Size()}
	if a, ok := under.(*dwarf.ArrayType); ok {
		p.ElementBytes = a.Type.Size()
	}
	if f.BitSize == 0 {
		return p
	}
	p.Bits = f.BitSize
	switch {
	case f.DataBitOffset > 0:
		p.Offset = base*8 + f.DataBitOffset
	case f.ByteSize > 0: // DWARF 2 counts from the storage unit's most significant bit
		p.Offset += f.ByteSize*8 - f.BitOffset - f.BitSize
	}
	return p
}

// Write prints the layout.
func (l Layout) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "nccl-layout %d\n", Version); err != nil {
		return err
	}
	for _, p := range l {
		if _, err := fmt.Fprintf(w, "%s %d %d %d\n", p.Name, p.Offset, p.Bits, p.ElementBytes); err != nil {
			return err
		}
	}
	return nil
}
