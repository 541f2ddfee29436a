// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import "github.com/culprit-project/culprit/analyzer/rca"

// flaw is a row of the table below: something that a rank's flows, kernels or calls show of the rank itself.
type flaw struct {
	what   flawKind
	class  rca.Class
	cause  rca.Cause
	weight float64 // How far it is believed, 0 to 1.
	strong bool    // Nobody else's waiting explains it, so it stands by itself. Others count where nothing strong explains a rank that waits.
	needs  record
	link   bool // Either end of the link may be at fault.
}

// record is what must not have been lost of a rank's record for a flaw to count in full: some are the absence of something that would
// explain them, which may be what was lost.
type record uint8

const (
	anyRecord   record = iota // It is something seen.
	allInFlight               // All operations in flight are shown.
	allFlows                  // And all flows of the channel.
	nothingLost
)

// The flaws. Weights of strong ones begin at 0.7 and differ by how many other explanations a second fault would give; from 0.5 on one is
// named when nothing rivals it (Options.NameConfidence); below, it makes a suspect.
var (
	// A send, from what the receiver has (Mycroft section 5.2, CheckMinData).

	// The receiver has posted a buffer and waits.
	undelivered = flaw{flawUndelivered, rca.Fault, rca.CauseNetworkSend, 0.93, true, anyRecord, false}
	// The same, and whether the receiver's process lives is not known.
	undeliveredPerhaps = flaw{flawUndelivered, rca.Fault, rca.CauseNetworkSend, 0.75, true, anyRecord, false}
	// It has arrived, and the sender does not learn of it.
	unacknowledged = flaw{flawUnacked, rca.Fault, rca.CauseNetworkSend, 0.5, false, anyRecord, true}
	// The sender says delivered, the receiver says no: one of the two is wrong.
	lostOnWire = flaw{flawLostOnWire, rca.Fault, rca.CauseNetworkSend, 0.5, false, anyRecord, true}
	// The receiver is in the operation, and shows no such flow.
	linkUnproven = flaw{flawLinkUnproven, rca.Fault, rca.CauseNetworkSend, 0.5, false, anyRecord, true}
	// The receiver was not seen.
	receiverUnseen = flaw{flawLinkUnproven, rca.Fault, rca.CauseNetworkSend, 0.35, false, anyRecord, true}
	// One end has finished, and a send may have ended before its data arrived.
	peerLeft = flaw{flawPeerLeft, rca.Fault, rca.CauseNetworkSend, 0.4, false, anyRecord, true}
	// The same of a single send whose record is complete: only the wire is left.
	peerLeftSending = flaw{flawPeerLeft, rca.Fault, rca.CauseNetworkSend, 0.6, false, anyRecord, true}
	// Data is ready and a buffer posted for it, and it is not sent.
	untransmitted = flaw{flawUntransmit, rca.Fault, rca.CauseNetworkSend, 0.75, true, anyRecord, false}
	// And the proxy does not even ask whether the receiver is ready (SendPeerWait, from ABI v4 on).
	proxyStopped = flaw{flawProxy, rca.Fault, rca.CauseProxy, 0.7, true, anyRecord, false}
	// No buffer of a send is posted: what is in front of it on its connection has not left or is not taken.
	sendNotBegun = flaw{flawNotBegun, rca.Fault, rca.CauseNetworkSend, hiddenWeight, false, anyRecord, true}

	// A receive.

	// Data that arrived is not given to the GPU.
	notFlushed = flaw{flawFlush, rca.Fault, rca.CausePCIe, 0.85, true, anyRecord, false}
	// Nothing is posted for data that the sender has ready.
	noBuffers = flaw{flawNoBuffers, rca.Fault, rca.CauseReceiver, 0.82, true, nothingLost, false}
	// The same where the sender is seen to have sent all it could (1=2=3).
	noBuffersPerhaps = flaw{flawNoBuffers, rca.Fault, rca.CauseReceiver, 0.5, false, nothingLost, false}
	// Nothing is posted, and whether anything is wanted is not seen.
	nothingPosted = flaw{flawNoBuffers, rca.Fault, rca.CauseReceiver, 0.45, false, nothingLost, false}
	// Nothing ever was.
	neverPosted = flaw{flawNoBuffers, rca.Fault, rca.CauseProxy, 0.3, false, nothingLost, false}

	// A GPU, between what it has and what it gives.

	// It has data and room, and nothing else is still to come to it.
	gpuStopped = flaw{flawGPU, rca.Fault, rca.CauseGPU, 0.92, true, allFlows, false}
	// The same, but for what may come over NVLink or shared memory, where nothing is seen.
	gpuStoppedPerhaps = flaw{flawGPU, rca.Fault, rca.CauseGPU, 0.6, false, allFlows, false}
	// Nothing shows that it has come to the operation, and what is in front of that stands, too.
	gpuStoppedUnseen = flaw{flawGPU, rca.Fault, rca.CauseGPU, 0.3, false, allFlows, false}
	// It has never given anything, and waits for nobody there.
	gpuGivesNothing = flaw{flawGPUStart, rca.Fault, rca.CauseGPU, 0.85, true, allFlows, false}
	// It starves, and a ring's first send needs nothing from others.
	gpuOwesFirst = flaw{flawGPUStart, rca.Fault, rca.CauseGPU, 0.6, false, allFlows, false}
	// It gives nothing, and may wait inside its host, for members that were not seen, or still compute.
	gpuGivesNothingPerhaps = flaw{flawGPUStart, rca.Fault, rca.CauseGPU, 0.5, false, allFlows, false}
	// Nothing shows that it has come to the operation, and its neighbours may hold it.
	gpuGivesNothingUnseen = flaw{flawGPUStart, rca.Fault, rca.CauseGPU, 0.3, false, allFlows, false}
	// Most members' GPUs are known to be in the operation, and this one has given nothing.
	gpuNotCome = flaw{flawNotCome, rca.Fault, rca.CauseGPU, 0.5, false, allFlows, false}
	// All its data has moved, and its kernel does not end.
	kernelStays = flaw{flawGPUIdle, rca.Fault, rca.CauseGPU, 0.4, false, nothingLost, false}
	// All others have finished what none of them can without its part.
	alone = flaw{flawAlone, rca.Fault, rca.CauseGPU, 0.85, true, nothingLost, false}
	// The same of several, or of an operation that others may finish before it.
	alonePerhaps = flaw{flawAlone, rca.Fault, rca.CauseGPU, 0.55, false, nothingLost, false}

	// The way to the GPU.

	// Launched long ago, and the kernel does not start.
	kernelNotStarted = flaw{flawKernel, rca.NotEntered, rca.CauseKernelNotRunning, 0.85, true, allInFlight, false}
	// Not so long, or in a job that has only begun, or behind something whose end is not seen.
	kernelNotStartedYet = flaw{flawKernel, rca.NotEntered, rca.CauseKernelNotRunning, 0.4, false, allInFlight, false}
	// Inside a call out of which others have come.
	insideCall = flaw{flawCall, rca.NotEntered, rca.CauseCPU, 0.85, true, allInFlight, false}
	// The same of several, or without the group's own record.
	insideCallPerhaps = flaw{flawCall, rca.NotEntered, rca.CauseCPU, 0.6, false, allInFlight, false}
	// Inside a call that makes connections: it is as late as the slowest peer.
	connecting        = flaw{flawCall, rca.NotEntered, rca.CauseNotCalled, 0.85, true, allInFlight, false}
	connectingPerhaps = flaw{flawCall, rca.NotEntered, rca.CauseNotCalled, 0.6, false, allInFlight, false}
)

// own is a flaw that a rank shows: a leaf of the graph, whomever else it also waits for.
type own struct {
	flaw
	node    int32
	peer    int32 // Other end of a link, -1 none.
	inst    int32
	channel int16
	// doubted: the rank says that it gets on there, and is not believed.
	doubted bool
}

// own notes a flaw.
func (b *builder) own(n, peer, inst int32, ch int, f flaw) {
	if b.moving {
		return // Its counters change: what they show now is a moment of healthy work.
	}
	if b.doubted {
		f.weight, f.strong = doubtWeight*f.weight, false
	}
	if !b.kept(n, f.needs) {
		f.weight, f.strong = doubtWeight*f.weight, false
	}
	b.owns = append(b.owns, own{flaw: f, node: n, peer: peer, inst: inst, channel: int16(ch), doubted: b.doubted}) //nolint:gosec // Channels are few.
}

// kept says that all is there of a rank's record that a flaw needs.
func (b *builder) kept(n int32, what record) bool {
	r := b.x.Nodes[n].Rank
	if r == nil || r.Lost == 0 {
		return true
	}
	switch what {
	case allInFlight:
		return showsAll(r)
	case allFlows:
		return b.whole && showsAll(r)
	case nothingLost:
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
