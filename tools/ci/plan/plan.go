// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which tasks a run has and in which order, and runs them.
package plan

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Lane says beside what a step runs.
type Lane int

// The lanes: a step that mostly waits and one that mostly computes run side by side, the latter at low priority. What measures, or
// keeps all processors busy while it waits for alerts, runs when nothing else does.
const (
	Computes Lane = iota
	Waits
	Alone
)

// Step is one command of a plan.
type Step struct {
	Name   string
	Script string // Bash, at the root of the repository.
	Lane   Lane
	// Time is how long it takes on two quiet cores.
	Time time.Duration
	// Always says that it runs whatever the budget is.
	Always bool
	// Prepare brings about what it needs; nil: that is there.
	Prepare func(ctx context.Context) error
}

// ErrCannot is what Prepare returns on a machine that cannot have what a step needs: that is no failure of the step.
var ErrCannot = errors.New("not possible here")

// FailedFirst puts steps that failed last time before the others of their lane.
func FailedFirst(steps []Step, state State) []Step {
	out := slices.Clone(steps)
	slices.SortStableFunc(out, func(a, b Step) int {
		switch fa, fb := state.failed(a.Name), state.failed(b.Name); {
		case fa && !fb:
			return -1
		case fb && !fa:
			return 1
		}
		return 0
	})
	return out
}
