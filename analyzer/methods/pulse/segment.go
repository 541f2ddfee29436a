// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pulse

import "time"

// Epoch is the traffic of one flow in one measuring interval; intervals without traffic are left out.
type Epoch struct {
	At    time.Duration // Start of the interval.
	Bytes int64
}

// Operation is one operation cut out of a flow's traffic.
type Operation struct {
	Start, End time.Duration
	Volume     int64         // Bytes.
	Active     time.Duration // Time with traffic: gaps are left out.
}

// Segment cuts a flow's traffic into operations (algorithm 1, P4): an operation ends where at least expected bytes have passed
// and a gap of at least delta follows. The volume alone would end it early, because real transfers exceed the expected volume
// (headers, retransmissions). The gap alone would cut at pauses inside an operation.
func Segment(epochs []Epoch, length time.Duration, expected int64, delta time.Duration) []Operation {
	var out []Operation
	var now Operation
	var last time.Duration
	open := false
	for _, e := range epochs {
		if open && e.At-last >= delta && now.Volume >= expected {
			out = append(out, now)
			open = false
		}
		if !open {
			now, open = Operation{Start: e.At}, true
		}
		last = e.At
		now.End = e.At + length
		now.Volume += e.Bytes
		if e.Bytes > 0 {
			now.Active += length
		}
	}
	if open {
		out = append(out, now)
	}
	return out
}

// Complete reports whether the last operation has moved its expected volume. If not, it is still under way, or stopped (P6).
func (o *Operation) Complete(expected int64) bool { return o.Volume >= expected }
