// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import _ "embed"

//go:embed bpf/calls_x86.o
var object []byte

// afterCall tells whether the last instruction of some calls: E8 with a displacement, or FF /2 with one of its forms of operand.
func afterCall(b [8]byte) bool {
	const isCall = 2 // In the middle three bits of the operand's byte.
	indirect := func(at int) bool { return b[at] == 0xff && b[at+1]>>3&7 == isCall }
	return b[3] == 0xe8 || indirect(6) || indirect(5) || indirect(4) || indirect(2) || indirect(1)
}
