// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// standstill is the job at one moment: what every rank is in.
type standstill struct {
	*job.Index
	acts   [][]active // Heads by node.
	insts  []instance
	instAt map[instKey]int32
	least  []int64 // Operations that all members of a communicator have called, -1 unknown.
	left   []int64 // Operations that some member of a communicator has left, -1 none.
	// launchedFor is by communicator how long ago a member launched something that is in flight, or got on in it; of those that were asked for.
	launchedFor map[int32]time.Duration
}

func newStandstill(x *job.Index) *standstill {
	s := &standstill{Index: x, least: leastCalled(x), left: leftBy(x), launchedFor: map[int32]time.Duration{}}
	s.buildInstances()
	return s
}
