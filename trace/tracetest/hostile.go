// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tracetest

import (
	"slices"
	"unsafe"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/internal/wire"
	"github.com/culprit-project/culprit/trace/tracefile"
)

// Valid gives a small valid trace file's bytes.
func Valid() []byte {
	return tracefile.Empty(trace.Identity{PID: 1, Rank: 0, WorldSize: 2, JobID: "j", Hostname: "h"}, Size{Comms: 4, Ops: 4, Flows: 4, Completions: 4, Lifecycle: 4, QPs: 4, Transfers: 4})
}

// Broken gives files that a reader must refuse or survive, by what is wrong with them.
func Broken() map[string][]byte {
	with := func(change func(*wire.Header)) []byte {
		b := Valid()
		change((*wire.Header)(unsafe.Pointer(&b[0])))
		return b
	}
	valid := Valid()
	return map[string][]byte{
		"empty":              {},
		"short":              valid[:100],
		"header only":        valid[:wire.HeaderBytes],
		"cut in a section":   valid[:len(valid)-4096],
		"no magic yet":       with(func(h *wire.Header) { h.Magic = [8]byte{} }),
		"wrong magic":        with(func(h *wire.Header) { h.Magic[0] = 'x' }),
		"next major version": with(func(h *wire.Header) { h.VersionMajor++ }),
		"huge header":        with(func(h *wire.Header) { h.HeaderBytes = 1 << 31 }),
		"file size beyond":   with(func(h *wire.Header) { h.FileBytes++ }),
		"huge file size":     with(func(h *wire.Header) { h.FileBytes = ^uint64(0) }),
		"too many sections":  with(func(h *wire.Header) { h.SectionCount = 17 }),
		"all sections":       with(func(h *wire.Header) { h.SectionCount = ^uint32(0) }),
		"offset beyond":      with(func(h *wire.Header) { h.Sections[0].Offset = 1 << 40 }),
		"offset wraps":       with(func(h *wire.Header) { h.Sections[0].Offset = ^uint64(0) &^ 4095 }),
		"offset in header":   with(func(h *wire.Header) { h.Sections[0].Offset = 0 }),
		"offset unaligned":   with(func(h *wire.Header) { h.Sections[0].Offset += 8 }),
		"huge count":         with(func(h *wire.Header) { h.Sections[2].Count = ^uint32(0) }),
		"count beyond":       with(func(h *wire.Header) { h.Sections[4].Count = 1 << 12 }),
		"product wraps":      with(func(h *wire.Header) { h.Sections[3].Count, h.Sections[3].EntryBytes = 1<<20, 1<<14 }),
		"entry zero":         with(func(h *wire.Header) { h.Sections[0].EntryBytes = 0 }),
		"entry short":        with(func(h *wire.Header) { h.Sections[0].EntryBytes = 8 }),
		"entry unaligned":    with(func(h *wire.Header) { h.Sections[0].EntryBytes++ }),
		"entry huge":         with(func(h *wire.Header) { h.Sections[0].EntryBytes = ^uint32(7) }),
		"section twice":      with(func(h *wire.Header) { h.Sections[1].Kind = h.Sections[0].Kind }),
	}
}

// Lying gives files that are laid out well and claim nonsense: readable, and harmless.
func Lying() map[string][]byte {
	with := func(change func(*wire.Header, []byte)) []byte {
		b := Valid()
		change((*wire.Header)(unsafe.Pointer(&b[0])), b)
		return b
	}
	noise := func(b []byte) {
		x := uint32(2463534242)
		for i := wire.HeaderBytes; i < len(b); i++ {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			b[i] = byte(x)
		}
	}
	return map[string][]byte{
		"high marks beyond": with(func(h *wire.Header, _ []byte) {
			h.CommsHigh, h.OpsHigh, h.FlowsHigh, h.QPsHigh = ^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)
		}),
		"heads at the end": with(func(h *wire.Header, _ []byte) {
			h.CompletionsHead, h.LifecycleHead, h.TransfersHead = ^uint64(0), ^uint64(0), ^uint64(0)
		}),
		"noise in slots": with(func(h *wire.Header, b []byte) {
			noise(b)
			h.CommsHigh, h.OpsHigh, h.FlowsHigh, h.CompletionsHead, h.LifecycleHead = 4, 4, 4, 4, 4
			h.QPsHigh, h.TransfersHead = 4, 4
		}),
		"noise in names": with(func(h *wire.Header, _ []byte) {
			for _, s := range [][]byte{h.JobID[:], h.Hostname[:], h.PodName[:], h.GPUUUID[:]} {
				for i := range s {
					s[i] = byte(0x80 + i)
				}
			}
		}),
		"terminal escapes": with(func(h *wire.Header, _ []byte) {
			h.JobID = [64]byte{}
			copy(h.JobID[:], "\x1b[31mred\x1b[0m\n{job=\"x\"}")
		}),
		"negative numbers": with(func(h *wire.Header, _ []byte) {
			h.Rank, h.WorldSize, h.LocalRank, h.GPUIndex = -1<<31, -1<<31, -1<<31, -1<<31
		}),
		"random after the frame": randomTail(Valid()),
		"no sections":            with(func(h *wire.Header, _ []byte) { h.SectionCount = 0 }),
		"unknown sections": with(func(h *wire.Header, _ []byte) {
			for i := range h.Sections {
				h.Sections[i].Kind = 1000 + uint32(i)
				h.Sections[i].Offset = ^uint64(0)
			}
			h.SectionCount = wire.MaxSections
		}),
	}
}

func randomTail(valid []byte) []byte {
	b := slices.Clone(valid)
	x := uint32(1)
	for i := 32; i < wire.HeaderBytes; i++ {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}
