// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire declares the trace file's binary layout, version 1, as Go structs, which go generate makes from
// ncclshim/culprit_trace.h. A test of package trace compiles the header and compares every offset, size and constant. All fields
// are fixed-size little-endian numbers, so a struct may be copied from and to a file's bytes as it is on a little-endian machine.
package wire

//go:generate go run ./generate

// Constants of the file's frame.
const (
	Magic        = "culprit\x00"
	Major        = 1
	Minor        = 7
	Suffix       = ".trace"
	HeaderBytes  = 4096
	MaxSections  = 16
	MaxChannels  = 64
	NumFunc      = 16
	EpochNS      = 32768
	ProbeNS      = 1 << 20
	SectionAlign = 4096
)

// Kinds of section (enum culprit_section_kind).
const (
	SectionComms = 1 + iota
	SectionOps
	SectionFlows
	SectionCompletions
	SectionLifecycle
	SectionQPs
	SectionTransfers
)

// None is the index of something that is not there: the communicator of a lifecycle event that concerns none, the flow
// of a queue pair that nobody was seen to use.
const None = ^uint32(0)
