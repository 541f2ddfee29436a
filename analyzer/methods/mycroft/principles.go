// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package mycroft

import (
	"slices"
	"time"
)

// Principle is a row of table 3 that a flow breaks.
type Principle int

// Principles.
const (
	UnequalAmount Principle = iota // Each rank should transmit the same amount of data.
	SlowComponent                  // Each component should finish within its expected time.
	Blocking                       // Each component should not block those downstream.
	Incomplete                     // Each flow should complete.
	SlowFlow                       // Each flow should take similar time.
	Apart                          // Each flow should start and end at similar time.
)

// String gives the rule that is broken.
func (p Principle) String() string {
	return [...]string{
		"each rank should transmit the same amount of data", "each component should finish within its expected time",
		"each component should not block those downstream", "each flow should complete", "each flow should take similar time",
		"each flow should start and end at similar time",
	}[p]
}

// Flow is one channel of one rank in one operation, with the time that each component took for it.
type Flow struct {
	Rank, Channel int
	Start, End    time.Duration // End 0: not complete.
	Chunks, Total int64
	// GPU, Network and Receiver are how long each component kept the flow waiting.
	GPU, Network, Receiver time.Duration
}

// Violation is a principle that a flow breaks.
type Violation struct {
	Principle     Principle
	Rank, Channel int
	Component     string // "gpu" or "network"; only for the component principles.
}

// Limits up to which flows are alike.
const (
	similar = 1.5         // Times the median.
	apart   = time.Second // Mycroft's own bound for late starts and ends.
)

// Check compares the flows of one operation with table 3, in the table's order. A failure shows in amounts and completion. The
// times of flows are compared only where all flows are complete.
func Check(flows []Flow) []Violation {
	var out []Violation
	if len(flows) == 0 {
		return nil
	}
	if slices.ContainsFunc(flows, func(f Flow) bool { return f.End == 0 }) {
		return failure(flows)
	}
	v := make([]time.Duration, len(flows))
	mid := func(of func(Flow) time.Duration) time.Duration {
		for i, f := range flows {
			v[i] = of(f)
		}
		slices.Sort(v)
		return v[(len(v)-1)/2]
	}
	length := mid(func(f Flow) time.Duration { return f.End - f.Start })
	start, end := mid(func(f Flow) time.Duration { return f.Start }), mid(func(f Flow) time.Duration { return f.End })
	gpu, network := mid(func(f Flow) time.Duration { return f.GPU }), mid(func(f Flow) time.Duration { return f.Network })
	for _, f := range flows {
		excess := f.End - f.Start - length
		add := func(p Principle, component string) {
			out = append(out, Violation{Principle: p, Rank: f.Rank, Channel: f.Channel, Component: component})
		}
		// A component is slow when it explains why the flow took longer.
		for _, c := range []struct {
			name      string
			took, mid time.Duration
		}{{"gpu", f.GPU, gpu}, {"network", f.Network, network}} {
			if long(c.took, c.mid) && 2*(c.took-c.mid) >= excess && excess > 0 {
				add(SlowComponent, c.name)
				add(Blocking, c.name)
			}
		}
		if long(f.End-f.Start, length) {
			add(SlowFlow, "")
		}
		if f.Start-start >= apart || f.End-end >= apart {
			add(Apart, "")
		}
	}
	slices.SortStableFunc(out, func(a, b Violation) int { return int(a.Principle) - int(b.Principle) })
	return out
}

func long(took, mid time.Duration) bool { return float64(took) > similar*float64(mid) }

// failure gives the flows that moved least and those that are not complete.
func failure(flows []Flow) []Violation {
	least, most := flows[0].Chunks, flows[0].Chunks
	for _, f := range flows {
		least, most = min(least, f.Chunks), max(most, f.Chunks)
	}
	var out []Violation
	for _, f := range flows {
		if f.Chunks == least && least < most {
			out = append(out, Violation{Principle: UnequalAmount, Rank: f.Rank, Channel: f.Channel})
		}
	}
	for _, f := range flows {
		if f.End == 0 {
			out = append(out, Violation{Principle: Incomplete, Rank: f.Rank, Channel: f.Channel})
		}
	}
	return out
}
