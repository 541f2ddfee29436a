// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package mycroft is the reference implementation of what Mycroft does with plain numbers: its triggers on a sample of the
// ranks (M6), the state table of a flow with local and remote causes (M8), the principles of chunks and flows (M9), and how
// slowness of several groups comes down to one rank (M10). The rules that run in Prometheus and the wait-for graph do the
// same with more evidence; these functions say what Mycroft alone would.
package mycroft

import (
	"slices"
	"time"
)

// maxSampled bounds the ranks that are watched, however large the job.
const maxSampled = 10

// Sample chooses the ranks to watch: one of each data-parallel group, ten at most, evenly over the groups. Without groups
// it is some of all ranks: trouble spreads, so any will show it.
func Sample(groups [][]int, all []int) []int {
	var first []int
	for _, g := range groups {
		if len(g) > 0 && !slices.Contains(first, slices.Min(g)) {
			first = append(first, slices.Min(g))
		}
	}
	if len(first) == 0 {
		first = slices.Clone(all)
	}
	slices.Sort(first)
	if len(first) <= maxSampled {
		return first
	}
	out := make([]int, maxSampled)
	for i := range out {
		out[i] = first[i*len(first)/maxSampled]
	}
	return out
}

// Window is what the logs of one rank hold of the last window (10 s).
type Window struct {
	Rank       int
	InProgress bool // A real-time state log: an operation is under way.
	Completed  int  // Completion logs.
	Throughput float64
	Interval   time.Duration // Between operations.
}

// Kind is what a trigger tells of.
type Kind int

// Kinds.
const (
	None Kind = iota
	Failure
	Straggler
)

// Trigger is algorithm 1 for one rank. The zero value has seen no healthy window.
type Trigger struct {
	// Drop and Rise are the factors from which throughput and interval are out of the ordinary; 0 means half and twice.
	Drop, Rise float64

	throughput float64
	interval   time.Duration
}

// Observe judges a window. The baseline moves with healthy windows only, so that what lasts does not become the norm.
func (t *Trigger) Observe(w Window) Kind {
	drop, rise := t.Drop, t.Rise
	if drop == 0 {
		drop = 0.5
	}
	if rise == 0 {
		rise = 2
	}
	switch {
	case w.Completed == 0 && w.InProgress:
		return Failure
	case w.Completed == 0:
		return None // Nothing began: not its communication.
	case t.throughput > 0 && w.Throughput < drop*t.throughput,
		t.interval > 0 && float64(w.Interval) > rise*float64(t.interval):
		return Straggler
	}
	t.throughput, t.interval = w.Throughput, w.Interval
	return None
}
