// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// Of a job that stands, every node sees it. The ranks' hashes give an order that all nodes know without speaking: the nodes of the first
// few ranks post at once, those of the next few a little later, in case the first are down or do not wait; nobody else does. Within
// every standing job there are some of them: three times three ranks all silent are the whole job or next to it, and then the rules fire.
const (
	perTurn  = 3
	turns    = 3
	turnTime = 500 * time.Millisecond
)

// turn says how long a node with these ranks of a job waits before it posts, and whether it posts at all. A job whose size nobody tells is
// small.
func turn(j job, ranks []int32, world int32) (time.Duration, bool) {
	if world <= 0 {
		return 0, true
	}
	best := ^uint64(0)
	for _, r := range ranks {
		best = min(best, place(j, r))
	}
	before := 0
	for r := range world {
		if place(j, r) < best {
			before++
		}
		if before >= perTurn*turns {
			return 0, false
		}
	}
	return time.Duration(before/perTurn) * turnTime, true
}

// place is a rank's in the order.
func place(j job, rank int32) uint64 {
	h := fnv.New64a()
	h.Write([]byte(j.id))
	h.Write([]byte{0})
	h.Write([]byte(j.owner))
	var number [4]byte
	binary.BigEndian.PutUint32(number[:], uint32(rank))
	h.Write(number[:])
	// FNV's last bytes move its high bits little: mixed, neighbouring ranks are far apart.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
