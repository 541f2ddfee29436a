// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

// What is believed at most of a row of flaws.go where something speaks against it, 0 to 1, and from what on something counts.
const (
	seenOutsideWeight = 0.75 // The least of one whose stack stands outside NCCL.
	callsUnseenWeight = 0.5  // Its source does not tell of calls, or nobody waits for it for sure.
	hiddenWeight      = 0.45 // It may be inside an operation whose end nobody sees.
	unseenWaitWeight  = 0.4  // Its stack stands where it may wait for another.
	undecidedWeight   = 0.4  // Two stories that explain as much.
	justActiveWeight  = 0.3  // It called or finished something a moment ago.
	groupWeight       = 0.3  // All are alike.
	suspectFrom       = 0.3  // From which a flaw counts as one when missing answers are weighed.
	deniedWeight      = 0.25 // Its data arrived where it says that it has not called.
	faintWeight       = 0.2  // Members that nobody could name, or a rank that moves.
	nobodyWeight      = 0.1
)

// benignCost is what a benign reason costs that was seen: more than a fault, which costs nothing, and less than anything weak, of which
// at most deadlockPerhaps (0.7) or seenOutsideWeight is believed.
const benignCost = 0.1

// Factors of what speaks against a verdict as a whole.
const (
	doubtWeight        = 0.6  // The record that it rests on is incomplete, or contradicts the rank's own word.
	stateUnknownFactor = 0.95 // Whether the process lives is not known.
	severalFactor      = 0.95 // For each culprit beside the first: one fault is likelier than two.
	bothWaysFactor     = 0.7  // Both directions between two ranks stand: either may be the end that fails.
	unseenRivalsFactor = 0.5  // Several unseen ones, each of which would explain as much.
)

// explained is what a weight is multiplied by for the ranks that stand still and whose waiting the culprits do not explain.
func (d *decision) explained() float64 { return 0.5 + 0.5*d.covered }
