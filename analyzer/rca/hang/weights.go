// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

// What is believed of the ends of waiting that are no flaw of flaws.go, 0 to 1. From Options.NameConfidence (0.5) on somebody is named;
// what a person is told as confidence is fitted on simulated jobs (calibration.json).
const (
	// A rank that waits for nobody.

	deadWeight        = 0.97 // The kernel says that its process is stopped or gone.
	exitedWeight      = 0.85 // It ended in good order, and the others did not: a program may do that.
	jobEndWeight      = 0.9  // At least half of the job did, too.
	outsideWeight     = 0.93 // It lives and has not called what the others wait in.
	checkpointWeight  = 0.92 // The same, and it writes to storage.
	storageWeight     = 0.88 // It is blocked in storage, or nothing moves where its stack writes.
	seenOutsideWeight = 0.75 // The least of one whose stack stands outside NCCL.
	launchWeight      = 0.7  // It is inside a group's launch: it may wait there for others.
	beginsBusyWeight  = 0.9  // The job has hardly begun, and the rank computes or reads.
	beginsWeight      = 0.65 // And it does neither.

	// What may be otherwise than it looks makes suspects.

	callsUnseenWeight = 0.5  // Its source does not tell of calls, or nobody waits for it for sure.
	hiddenWeight      = 0.45 // It may be inside an operation whose end nobody sees.
	unseenWaitWeight  = 0.4  // Its stack stands where it may wait for another.
	justActiveWeight  = 0.3  // It called or finished something a moment ago.
	deniedWeight      = 0.25 // Its data arrived where it says that it has not called.

	// Calls that cannot meet.

	otherOpWeight         = 0.94 // One called something else than all others.
	otherOpTieWeight      = 0.8  // One against one: both are named.
	rivalWeight           = 0.75 // Only the caller's neighbours show it; who else is in it was not seen.
	deadlockWeight        = 0.9  // Operations entered in different orders, all of them seen.
	deadlockPerhapsWeight = 0.7  // Some of them not.

	// What the node shows settles between those whom the flows suspect.

	nodeShowsWeight = 0.9 // An error of the one GPU, or of one end's NIC.
	nicDownWeight   = 0.8 // One NIC is down, in a group that shows nothing else.

	// Silence. That a host is lost, or that a culprit on it hides behind its silent exporter, names the same host; what is left is a second
	// fault that nobody shows. A rank whose file is not there may have lost it on the way, and the others may wait in what it rightly
	// did not call.

	silentHostWeight = 0.8
	silentRankWeight = 0.7
	noAnswerWeight   = 0.6

	// Groups and what is undecided.

	hostGroupWeight = 0.5 // GPUs of one host, one of which holds the others.
	undecidedWeight = 0.4 // Two stories that explain as much.
	groupWeight     = 0.3 // All members are inside and alike.
	suspectFrom     = 0.3 // From which a flaw counts as one when silence is weighed.
	faintWeight     = 0.2 // Members that nobody could name, or a rank that moves.
	nobodyWeight    = 0.1
)

// Factors of what speaks against a verdict as a whole.
const (
	doubtWeight        = 0.6  // The record that it rests on is incomplete, or contradicts the rank's own word.
	stateUnknownFactor = 0.95 // Whether the process lives is not known.
	severalFactor      = 0.95 // For each culprit beside the first: one fault is likelier than two.
	bothWaysFactor     = 0.7  // Both directions between two ranks stand: either may be the end that fails.
	silentRivalsFactor = 0.5  // Several silent ones, each of which would explain as much.
)

// explained is what a weight is multiplied by for the ranks that stand still and whose waiting the culprits do not explain.
func (d *decision) explained() float64 { return 0.5 + 0.5*d.covered }
