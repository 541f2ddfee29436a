// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

// Weights, 0 to 1, of verdicts that rest on less than operations in flight or finished work. From Options.NameConfidence (0.5)
// on, a rank is named.
const (
	// Counts of launches, from NCCL's RAS.

	saidDeadWeight     = 0.9  // RAS reports the process as dead.
	ownErrorWeight     = 0.75 // The rank reports an error of its own.
	notAnsweringWeight = 0.7  // The process does not answer RAS.
	twoReportsWeight   = 0.9  // The rank is behind, and its count did not change between two reports.
	oneReportWeight    = 0.7  // The rank is behind or called something else, in one report.
	splitWeight        = 0.4  // Half of the ranks called something else.
	transitionWeight   = 0.7  // Communicators are being made or taken apart.
	launchesGoOnWeight = 0.6  // No rank is behind by more than in running jobs.

	// Stacks alone.

	blockedWeight = 0.7 // The rank stands where only its own host can hold it up.
	outsideWeight = 0.6 // The rank is in the program's own code.
	alikeWeight   = 0.5 // The other ranks stand at one place, and it is not known that they communicate.

	// What a host reports, where nothing else tells one rank from another. An error that is half an hour old may be unrelated.
	faultyWeight = 0.7

	// No culprit.

	healthyWeight       = 0.9 // No rank stands still.
	endedTogetherWeight = 0.6 // All processes ended at once.
	unknownWeight       = 0.3
	partlySeenWeight    = 0.2 // The reason may lie in what was not seen.
	blindWeight         = 0.1 // The sources would not show a standstill.
)
