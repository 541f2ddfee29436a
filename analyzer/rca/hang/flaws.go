// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// row is a row of the table below: something that is seen of a rank, a link or a group, and what it says of them. A verdict carries
// the names of the rows that it rests on.
type row struct {
	name     string
	kind     kind
	class    rca.Class
	cause    rca.Cause
	weight   float64 // How far it is believed, 0 to 1.
	strength strength
	needs    record
	text     string // What it is, for people: of a flaw a predicate of the rank, with verbs (flawText).
}

// kind is what sort of explanation a row is: where it comes from, and what is written of it.
type kind uint8

const (
	kindFlaw     kind = iota // A fault that a rank shows in itself.
	kindLink                 // Two ends of a link, not told apart.
	kindGroup                // Several ranks, not told apart.
	kindDead                 // A process that cannot take part.
	kindOutside              // A living rank outside every operation.
	kindOdd                  // It called something else.
	kindDeadlock             // Operations entered in different orders.
	kindAhead                // It is in an operation that most members have not called, or something holds all of those.
	kindUnseen               // Nothing is known of it.
	kindMoving               // It makes progress: not hung.
)

// strength is what it takes to believe a row.
type strength uint8

const (
	weak      strength = iota // Others' waiting may explain it: it counts where nothing strong explains a rank that waits.
	eitherEnd                 // The same, and either end of the link may be at fault.
	strong                    // Nobody else's waiting explains it, so it stands by itself.
)

// record is what must not have been lost of a rank's record for a row to count in full: some are the absence of something that would
// explain them, which may be what was lost.
type record uint8

const (
	anyRecord   record = iota // It is something seen.
	allInFlight               // All operations in flight are shown.
	allFlows                  // And all flows of the channel.
	nothingLost
)

// How far a row is believed, 0 to 1; what a person is told is fitted on simulated jobs (calibration.json). From Options.NameConfidence on
// somebody is named when nothing rivals it; below, it makes a suspect.
const (
	sure   = 0.85 // Little else explains it.
	likely = 0.5  // Something that is not seen may explain it, and would be rarer.
	slight = 0.35 // As much speaks for another explanation.
)

var (
	// A send, from what the receiver has (Mycroft section 5.2, CheckMinData).

	// The receiver has posted a buffer and waits.
	undelivered = row{"undelivered", kindFlaw, rca.Fault, rca.CauseNetworkSend, sure, strong, anyRecord, words.Undelivered}
	// The same, and the state of the receiver's process is unknown.
	undeliveredPerhaps = undelivered.at(likely)
	// It has arrived, and the sender does not learn of it.
	unacknowledged = row{"unacknowledged", kindFlaw, rca.Fault, rca.CauseNetworkSend, likely, eitherEnd, anyRecord, words.Unacknowledged}
	// The sender says delivered, the receiver says no: one of the two is wrong.
	lostOnWire = row{"lost_on_wire", kindFlaw, rca.Fault, rca.CauseNetworkSend, likely, eitherEnd, anyRecord, words.LostOnWire}
	// The receiver is in the operation, and shows no such flow.
	linkUnproven = row{"link_unproven", kindFlaw, rca.Fault, rca.CauseNetworkSend, likely, eitherEnd, anyRecord, words.LinkUnproven}
	// The receiver was not seen.
	receiverUnseen = linkUnproven.at(slight)
	// One end has finished, and a send may have ended before its data arrived.
	peerLeft = row{"peer_left", kindFlaw, rca.Fault, rca.CauseNetworkSend, slight, eitherEnd, anyRecord, words.PeerLeft}
	// The same of a single send whose record is complete: only the wire is left.
	peerLeftSending = peerLeft.at(likely)
	// Data is ready and a buffer posted for it, and it is not sent.
	untransmitted = row{"untransmitted", kindFlaw, rca.Fault, rca.CauseNetworkSend, likely, strong, anyRecord, words.Untransmitted}
	// And the proxy does not even ask whether the receiver is ready (SendPeerWait, from ABI v4 on).
	proxyStopped = row{"proxy_stopped", kindFlaw, rca.Fault, rca.CauseProxy, likely, strong, anyRecord, words.ProxyStopped}
	// No buffer of a send is posted: what is in front of it on its connection has not left or is not taken.
	sendNotBegun = row{"send_not_begun", kindFlaw, rca.Fault, rca.CauseNetworkSend, slight, eitherEnd, anyRecord, words.SendNotBegun}

	// A receive.

	// Data that arrived is not given to the GPU.
	notFlushed = row{"not_flushed", kindFlaw, rca.Fault, rca.CausePCIe, sure, strong, anyRecord, words.NotFlushed}
	// Nothing is posted for data that the sender has ready.
	noBuffers = row{"no_buffers", kindFlaw, rca.Fault, rca.CauseReceiver, sure, strong, nothingLost, words.NoBuffers}
	// The same where the sender is seen to have sent all it could (1=2=3).
	noBuffersPerhaps = noBuffers.perhaps(likely)
	// Nothing is posted, and whether anything is wanted is not seen.
	nothingPosted = noBuffers.perhaps(slight)
	// Nothing ever was.
	neverPosted = row{"never_posted", kindFlaw, rca.Fault, rca.CauseProxy, slight, weak, nothingLost, words.NoBuffers}

	// A GPU, between what it has and what it gives.

	// It has data and room, and nothing else is still to come to it.
	gpuStopped = row{"gpu_stopped", kindFlaw, rca.Fault, rca.CauseGPU, sure, strong, allFlows, words.GPUStopped}
	// The same, but for what may come over NVLink or shared memory, where nothing is seen.
	gpuStoppedPerhaps = gpuStopped.perhaps(sure)
	// Nothing shows that it has come to the operation, and what is in front of that stands, too.
	gpuStoppedUnseen = gpuStopped.perhaps(slight)
	// It has never given anything, and waits for nobody there.
	gpuGivesNothing = row{"gpu_gives_nothing", kindFlaw, rca.Fault, rca.CauseGPU, sure, strong, allFlows, words.GPUGivesNothing}
	// It gives nothing, and may wait inside its host, for unseen members, or compute. Or it starves, and a ring's first send needs nobody.
	gpuGivesNothingPerhaps = gpuGivesNothing.perhaps(likely)
	// Nothing shows that it has come to the operation, and its neighbours may hold it.
	gpuGivesNothingUnseen = gpuGivesNothing.perhaps(slight)
	// Most members' GPUs are known to be in the operation, and this one has given nothing.
	gpuNotCome = row{"gpu_not_come", kindFlaw, rca.Fault, rca.CauseGPU, likely, weak, allFlows, words.GPUNotCome}
	// All its data has moved, and its kernel does not end.
	kernelStays = row{"kernel_stays", kindFlaw, rca.Fault, rca.CauseGPU, slight, weak, nothingLost, words.KernelStays}
	// All others have finished what none of them can without its part.
	alone = row{"alone", kindFlaw, rca.Fault, rca.CauseGPU, sure, strong, nothingLost, words.GPUAlone}
	// The same of several, or of an operation that others may finish before it.
	alonePerhaps = alone.perhaps(likely)

	// The way to the GPU.

	// Launched long ago, and the kernel does not start.
	kernelNotStarted = row{"kernel_not_started", kindFlaw, rca.NotEntered, rca.CauseKernelNotRunning, sure, strong, allInFlight, words.KernelNotStarted}
	// Not so long, or in a job that has only begun, or behind something whose end is not seen.
	kernelNotStartedYet = kernelNotStarted.perhaps(slight)
	// Inside a call out of which others have come.
	insideCall = row{"inside_call", kindFlaw, rca.NotEntered, rca.CauseCPU, sure, strong, allInFlight, words.InsideCall}
	// The same of several, or without the group's own record.
	insideCallPerhaps = insideCall.perhaps(likely)
	// Inside a call that makes connections: it is as late as the slowest peer.
	connecting        = row{"connecting", kindFlaw, rca.NotEntered, rca.CauseNotCalled, sure, strong, allInFlight, words.InsideCall}
	connectingPerhaps = connecting.perhaps(likely)
	// Inside a call that makes or ends a communicator, out of which others have come.
	insideSetup        = row{"inside_setup", kindFlaw, rca.NotEntered, rca.CauseCPU, sure, strong, allInFlight, words.InsideSetup}
	insideSetupPerhaps = insideSetup.perhaps(likely)

	// What the node shows settles between those whom the flows suspect.

	// An error of the NIC at the sending or at the receiving end.
	senderAils   = row{"sender_ails", kindFlaw, rca.Fault, rca.CauseNetworkSend, sure, strong, anyRecord, words.Undelivered}
	receiverAils = row{"receiver_ails", kindFlaw, rca.Fault, rca.CauseNetworkSend, sure, strong, anyRecord, words.NotReceived}
	// The one GPU of a group that shows an error.
	gpuError = row{"gpu_error", kindFlaw, rca.Fault, rca.CauseGPU, sure, strong, anyRecord, words.GPUFaulty}
	// The one NIC that is down, in a group that shows nothing else.
	nicDown = row{"nic_down", kindFlaw, rca.Fault, rca.CauseNetworkSend, sure, strong, anyRecord, words.NICDown}
	// A NIC of its host, nobody knows whose.
	nicDownSomewhere = nicDown.perhaps(slight)

	// A process that cannot take part. One that was inside the operation is a fault.

	// The kernel says that it is stopped, or gone.
	processStopped = row{"process_stopped", kindDead, rca.NotEntered, rca.CauseProcessStopped, sure, strong, anyRecord, words.StoppedBySignal}
	processGone    = row{"process_gone", kindDead, rca.NotEntered, rca.CauseProcessGone, sure, strong, anyRecord, words.ProcessDied}
	// Its last words are an exception that nothing caught.
	processRaised = row{"process_raised", kindDead, rca.Fault, rca.CauseException, sure, strong, anyRecord, ""}
	// It ended in good order, and the others did not: a program may do that.
	processExited = row{"process_exited", kindDead, rca.NotEntered, rca.CauseProcessGone, sure, strong, anyRecord, words.ExitedEarly}
	// At least half of the job did, too.
	jobEnds = row{"job_ends", kindDead, rca.Benign, rca.CauseJobEnd, sure, strong, anyRecord, words.JobEnding}

	// A living rank that waits for nobody, while others wait for it.

	// It has not called what the others wait in.
	notCalledIt = row{"not_called", kindOutside, rca.NotEntered, rca.CauseNotCalled, sure, strong, allInFlight, words.RunsOutside}
	// The same, and it writes to storage.
	checkpoint = row{"checkpoint", kindOutside, rca.Benign, rca.CauseCheckpoint, sure, strong, allInFlight, words.WritesCheckpoint}
	// It is blocked in storage, or nothing moves where its stack writes.
	storageBlocked = row{"storage_blocked", kindOutside, rca.NotEntered, rca.CauseStorage, sure, strong, allInFlight, words.StuckInStorage}
	// It is inside a group's launch: it may wait there for others.
	insideLaunch = row{"inside_launch", kindOutside, rca.NotEntered, rca.CauseCPU, likely, strong, allInFlight, words.InsideLaunch}
	// The job has hardly begun, and the rank computes or reads; or does neither.
	firstStepBusy = row{"first_step", kindOutside, rca.Benign, rca.CauseFirstStep, sure, strong, allInFlight, words.HardlyBegun}
	firstStepIdle = firstStepBusy.at(likely)

	// Calls that cannot meet.

	// Some called something else than all others.
	otherCall = row{"other_call", kindOdd, rca.Inconsistent, rca.CauseOtherOp, sure, strong, anyRecord, ""}
	// Operations entered in different orders, all of them seen; or some of them not.
	deadlockSeen    = row{"deadlock", kindDeadlock, rca.Inconsistent, rca.CauseDeadlock, sure, strong, anyRecord, ""}
	deadlockPerhaps = deadlockSeen.perhaps(likely)
	// Most have not called what a few are in.
	aheadOfMost = row{"ahead_of_most", kindAhead, rca.Unknown, rca.CauseUnknown, undecidedWeight, weak, anyRecord, ""}

	// Ranks that are not told apart.

	// GPUs of one host, one of which holds the others: nothing else can.
	oneHostStands = row{"one_host_stands", kindGroup, rca.Fault, rca.CauseGPU, likely, weak, anyRecord, ""}
	// All members are inside and alike.
	allAlike = row{"all_alike", kindGroup, rca.Unknown, rca.CauseUnknown, groupWeight, weak, anyRecord, ""}
	// Nobody shows anything.
	unexplained = row{"unexplained", kindGroup, rca.Unknown, rca.CauseUnknown, nobodyWeight, weak, anyRecord, words.Unexplained}
	// It makes progress.
	stillMoves = row{"still_moves", kindMoving, rca.Unknown, rca.CauseUnknown, faintWeight, weak, anyRecord, ""}

	// Ranks without a record (job.Visibility).

	// Its source was asked and did not answer.
	noAnswer = row{"no_answer", kindUnseen, rca.Unknown, rca.CauseUnknown, likely, weak, anyRecord, words.NoAnswer}
	// It was not asked, or no source has a record of it.
	notSeen = row{"not_seen", kindUnseen, rca.Unknown, rca.CauseUnknown, slight, weak, anyRecord, words.NoAnswer}
	// Members of a communicator that nobody could name.
	unnamed = row{"unnamed_members", kindUnseen, rca.Unknown, rca.CauseUnknown, faintWeight, weak, anyRecord, words.NoAnswer}

	// Where all waiting ends at them. That a host is lost, or that a culprit on it hides behind its exporter, which does not answer, names the same host;
	// what is left is a second fault that nobody shows. A rank whose file is not there may have lost it on the way, and the others may
	// wait in what it rightly did not call.

	// One source has not answered since the job stopped, and all wait for its ranks.
	hostLost = row{"host_lost", kindUnseen, rca.Fault, rca.CauseHostLost, sure, strong, anyRecord, words.DoesNotAnswer}
	// The same, of a host that takes connections: it may be the exporter alone, and the ranks may write a checkpoint.
	hostHangs = row{"host_hangs", kindUnseen, rca.Fault, rca.CauseHostLost, sure, strong, anyRecord, words.DoesNotAnswer}
	// One rank's record is not there, and all wait for it.
	recordLost = row{"record_lost", kindUnseen, rca.NotEntered, rca.CauseUnknown, sure, strong, anyRecord, words.NotSeenBecause}
	// One source does not answer for another reason than that its host is lost: what its ranks do, a checkpoint or nothing, nobody saw.
	hostUnobserved = row{"host_unobserved", kindUnseen, rca.Unknown, rca.CauseUnknown, undecidedWeight, weak, anyRecord, words.NoExporterThere}
	// The only rank without a record.
	oneUnseen = row{"one_unseen", kindUnseen, rca.Unknown, rca.CauseUnknown, 1, weak, anyRecord, words.AllWaitForUnseen}
	// Some are inside a call that makes or ends a communicator, and nobody can say who the others are.
	restNotCalled = row{"rest_not_called", kindUnseen, rca.Unknown, rca.CauseUnknown, 1, weak, anyRecord, words.HaveNotCalled}
	// Several, each of which would explain as much.
	severalUnseen = row{"several_unseen", kindUnseen, rca.Unknown, rca.CauseUnknown, 1, weak, anyRecord, words.NobodySeen}
	// One that was seen called, or entered, something else than its neighbours: who else is in it was not seen.
	calledElsewhere  = row{"called_elsewhere", kindOdd, rca.Inconsistent, rca.CauseOtherOp, likely, strong, anyRecord, words.CalledElsewhere}
	enteredElsewhere = row{"entered_elsewhere", kindOdd, rca.Inconsistent, rca.CauseDeadlock, likely, strong, anyRecord, words.EnteredElsewhere}
	// Ranks that were seen stand where their neighbours have got on, and may hold the unseen, or these them.
	unseenOrRival = row{"unseen_or_rival", kindUnseen, rca.Unknown, rca.CauseUnknown, undecidedWeight, weak, anyRecord, words.OneOfTwo}
)

// at is the same row, believed more or less: the same is shown, and more or less speaks for it.
func (r row) at(weight float64) row {
	r.weight = weight
	return r
}

// perhaps is the same row where something that is not seen may explain what is shown. Its weight says how likely that is not so.
func (r row) perhaps(weight float64) row {
	r.strength = weak
	return r.at(weight)
}

// is reports whether it is one of some rows, however far it is believed here.
func (r *row) is(rows ...*row) bool {
	for _, o := range rows {
		if r.name == o.name {
			return true
		}
	}
	return false
}

// own is a flaw that a rank shows: a leaf of the graph, whomever else it also waits for.
type own struct {
	*row
	weight   float64 // Of the row, or less.
	strength strength
	node     int32
	peer     int32 // Other end of a link, -1 none.
	inst     int32
	channel  int16
	// doubted: the rank claims progress there, and the other hosts deny it.
	doubted bool
}

// own notes a flaw.
func (b *builder) own(n, peer, inst int32, ch int, r *row) {
	if b.moving || b.x.Opt.Without == r.name {
		return // Its counters change: what they show now is a moment of healthy work.
	}
	o := own{row: r, weight: r.weight, strength: r.strength, node: n, peer: peer, inst: inst, channel: int16(ch), doubted: b.doubted}
	if b.doubted {
		o.doubt()
	}
	if !b.x.kept(n, r.needs, b.whole) {
		o.doubt()
	}
	if peer >= 0 && b.x.Nodes[peer].Undated {
		o.weight = min(o.weight, undecidedWeight) // All wait there, for one end or the other (allLinks).
	}
	b.owns = append(b.owns, o)
}

func (o *own) doubt() {
	o.weight *= doubtWeight
	if o.strength == strong {
		o.strength = weak
	}
}

// kept reports whether all is there of a rank's record that a row needs. whole: all flows of its channel are there.
func (x *standstill) kept(n int32, what record, whole bool) bool {
	r := x.Nodes[n].Rank
	if r == nil || r.Lost == 0 {
		return true
	}
	switch what {
	case allInFlight:
		return showsAll(r)
	case allFlows:
		return whole && showsAll(r)
	case nothingLost:
		return false
	}
	return true
}

// showsAll reports whether none of a rank's operations in flight is among the records that were lost: it shows as many as it has called
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

// mayBeInsideHost are flaws of a GPU that anything over NVLink may explain, where nothing is seen: any GPU on the host may hold it.
func (r *row) mayBeInsideHost() bool { return r.is(&gpuStopped, &gpuGivesNothing) }

// inCall reports whether a rank's CPU is inside a call that launches operations.
func (r *row) inCall() bool { return r.is(&insideCall, &connecting) }
