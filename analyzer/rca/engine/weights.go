// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// What is believed of verdicts that rest on less than operations in flight or finished work, 0 to 1. From Options.NameConfidence (0.5) on
// somebody is named.
const (
	// Counts of launches, as NCCL's RAS has them.

	saidDeadWeight     = 0.9  // RAS calls the process dead.
	ownErrorWeight     = 0.75 // The rank reports an error that is no other's.
	notAnsweringWeight = 0.7  // It does not answer RAS.
	twoReportsWeight   = 0.9  // It is behind, and its count did not change between two reports.
	oneReportWeight    = 0.7  // It is behind or called something else, in one report.
	splitWeight        = 0.4  // Half of the ranks called something else.
	transitionWeight   = 0.7  // Communicators are being made or taken apart.
	launchesGoOnWeight = 0.6  // Nobody is behind by more than in running jobs.

	// Stacks alone.

	blockedWeight = 0.7 // It stands where only its own host holds it.
	outsideWeight = 0.6 // It is in code of its own.
	alikeWeight   = 0.5 // The others stand at one place, and are not seen to communicate.

	// What a node shows, where nothing else tells one rank from another: an error of half an hour ago may have nothing to do with it.
	faultyWeight = 0.7

	// Nobody.

	healthyWeight       = 0.9 // Nobody stands still.
	endedTogetherWeight = 0.6 // All processes ended at once.
	unknownWeight       = 0.3
	partlySeenWeight    = 0.2 // And what was not seen may be why.
	blindWeight         = 0.1 // The sources would not show it.
)
