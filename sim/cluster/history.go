// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// finished is an operation that a rank has left.
type finished struct {
	o  *op
	m  int32
	at Time // When its stream went on: groups of sends and receives end together.
}

const historyChunk = 256

// history is a rank's newest finished operations in order of time. It grows by pieces, as ten thousand ranks have one.
type history struct {
	chunks  []*[historyChunk]finished
	skip    int // Forgotten ones at the start of the first piece.
	n       int
	dropped int64 // Forgotten ones in all.
}

// at is the i-th oldest.
func (h *history) at(i int) *finished {
	i += h.skip
	return &h.chunks[i/historyChunk][i%historyChunk]
}

// ticket numbers the i-th oldest among all that ever were, from 1.
func (h *history) ticket(i int) uint64 { return uint64(h.dropped) + uint64(i) + 1 }

// add takes in an operation and forgets the oldest beyond the given number. Streams are not followed in order of time:
// the operation goes before those of other streams that ended later.
func (h *history) add(f finished, keep int) {
	if (h.skip+h.n)/historyChunk == len(h.chunks) {
		h.chunks = append(h.chunks, new([historyChunk]finished))
	}
	h.n++
	i := h.n - 1
	for ; i > 0; i-- {
		before := h.at(i - 1)
		if before.at < f.at || before.at == f.at && before.o.comm.slot <= f.o.comm.slot {
			break
		}
		*h.at(i) = *before
	}
	*h.at(i) = f
	if h.n <= keep {
		return
	}
	*h.at(0) = finished{}
	h.skip, h.n, h.dropped = h.skip+1, h.n-1, h.dropped+1
	if h.skip == historyChunk {
		h.chunks, h.skip = h.chunks[1:], 0
	}
}
