// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import "github.com/culprit-project/culprit/analyzer/rca"

// own is a fault that a rank shows in itself: a leaf of the graph, whomever else it also waits for.
type own struct {
	node    int32
	peer    int32 // Other end of a link, -1 none.
	inst    int32
	channel int16
	weight  float64
	strong  bool // Explained by nobody else's waiting.
	cause   rca.Cause
	what    flawKind
	// doubted: the rank says that it gets on there, and is not believed.
	doubted bool
}

// flawKind is what was seen, for the words of the verdict.
type flawKind uint8

const (
	flawUndelivered  flawKind = iota // Sent, not acknowledged, receiver waits.
	flawUnacked                      // Arrived, not acknowledged.
	flawUntransmit                   // Receiver has buffers posted, sender does not send.
	flawProxy                        // As before, and the proxy thread does not even poll.
	flawGPU                          // The kernel has data and room and does nothing.
	flawGPUStart                     // The kernel never produced its first part.
	flawNotCome                      // The GPU has given nothing, and whether it has come to the operation is not seen.
	flawGPUIdle                      // All data has moved, the kernel does not end.
	flawKernel                       // The kernel never started.
	flawFlush                        // Data arrived and is not given to the GPU.
	flawNoBuffers                    // Receiver posts no buffers.
	flawLostOnWire                   // Sender says delivered, receiver says no.
	flawPeerLeft                     // Peer has finished, data is missing.
	flawLinkUnproven                 // Sent, not acknowledged, receiver unseen.
	flawReceiving                    // Sent, not acknowledged; the receiver's node shows why.
	flawGPUError                     // The node shows an error of the GPU.
	flawNICDown                      // The node shows that the NIC is down.
	flawCall                         // The CPU does not come out of the call.
	flawAlone                        // The others have finished the operation.
	flawNotBegun                     // The proxy has not begun to send: something is in front of it.
)

// builder makes the wait-for graph out of the index.
type builder struct {
	x     *standstill
	edges []edge
	owns  []own
	// moving: the operation being looked at makes progress on the rank being looked at.
	moving bool
	// doubted: it says so, and the other hosts say that the operation stands.
	doubted bool
	// whole: all flows of the channel being looked at are there.
	whole bool
	lies  map[int32]int32
	// trees are the edges seen of each tree; nil before one is asked for.
	trees map[treeChannel]map[[2]int32]bool
	// weak: that a member lacks the operation being looked at holds nobody for sure.
	weak bool
}

func (b *builder) edge(from, to, inst int32, ch int, kind edgeKind, sure bool) {
	b.edges = append(b.edges, edge{from: from, to: to, inst: inst, channel: int16(ch), kind: kind, sure: sure})
}

// rests says that all is there that a rank's flaw rests on. Some flaws are the absence of something else that would explain them,
// which may be what was lost.
func (b *builder) rests(n int32, what flawKind) bool {
	r := b.x.Nodes[n].Rank
	if r == nil || r.Lost == 0 {
		return true
	}
	switch what {
	case flawKernel, flawCall:
		return showsAll(r)
	case flawGPU, flawGPUStart, flawNotCome:
		return b.whole && showsAll(r)
	case flawGPUIdle, flawNoBuffers, flawAlone:
		return false
	}
	return true
}

// showsAll says that none of a rank's operations in flight is among the records that were lost: it shows as many as it has called
// and not finished.
func showsAll(r *rca.Rank) bool {
	for i := range r.Memberships {
		m := &r.Memberships[i]
		if m.Called < 0 || m.Completed < 0 || m.Called-m.Completed != int64(len(m.InFlight)) {
			return false
		}
	}
	return true
}

func (b *builder) own(n, peer, inst int32, ch int, weight float64, strong bool, cause rca.Cause, what flawKind) {
	if b.moving {
		return // Its counters change: what they show now is a moment of healthy work.
	}
	if b.doubted {
		weight, strong = 0.6*weight, false
	}
	if !b.rests(n, what) {
		weight, strong = 0.6*weight, false
	}
	b.owns = append(b.owns, own{node: n, peer: peer, inst: inst, channel: int16(ch), weight: weight, strong: strong, cause: cause, what: what, doubted: b.doubted})
}
