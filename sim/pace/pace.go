// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package pace tells how much slower the machine is than the one on which the tests' limits were set, so that a limit that is
// generous there is not too short on a machine that shares its cores with others.
package pace

import (
	"slices"
	"sync"
	"time"
)

const (
	// rounds of mixing that a core of the machine on which the limits were set makes in reference.
	rounds    = 20_000_000
	reference = 40 * time.Millisecond
	// samples are measured, and the median counts: one that another process disturbed does not.
	samples = 5
)

// Factor is how many times longer work takes here than on the reference machine, at least 1. It is measured once.
var Factor = sync.OnceValue(func() float64 {
	took := make([]time.Duration, samples)
	for i := range took {
		began := time.Now()
		mix(rounds)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return max(1, float64(took[samples/2])/float64(reference))
})

// Stretch gives a limit of the reference machine as one of this machine.
func Stretch(limit time.Duration) time.Duration {
	return time.Duration(float64(limit) * Factor())
}

var sink uint64 // Keeps the compiler from leaving the work out.

// mix is work that needs the core alone: a chain of xorshifts, each of which waits for the one before it.
func mix(rounds int) {
	x := sink | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink = x
}
