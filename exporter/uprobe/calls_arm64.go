// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	_ "embed"
	"encoding/binary"
)

//go:embed bpf/calls_arm64.o
var object []byte

// afterCall tells whether the last instruction of some calls: BL or BLR.
func afterCall(b [8]byte) bool {
	i := binary.LittleEndian.Uint32(b[4:])
	return i>>26 == 0x25 || i&0xfffffc1f == 0xd63f0000
}
