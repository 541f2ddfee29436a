// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import "github.com/culprit-project/culprit/analyzer/rca"

// Letter is how far a rank has come with an operation, or a flow with its data. All sources share one alphabet.
type Letter uint8

// Letters.
const (
	Unknown   Letter = iota // No source shows it.
	NotCalled               // Other members are in it; this rank has not called it.
	Called                  // Called; no source shows whether its kernel runs.
	Queued                  // Called; its kernel is seen not to run.
	Inside                  // Its kernel runs.
	Left                    // It has ended on this rank.

	Mute        // Send: the GPU has given nothing at all.
	Unsent      // Send: everything the GPU has given was delivered; the GPU owes the next step.
	Full        // Send: the GPU has given data that was not sent.
	Undelivered // Send: sent and not acknowledged.

	Starved    // Receive: buffers are posted and nothing comes.
	Unflushed  // Receive: data came and did not reach the GPU.
	Unconsumed // Receive: data reached the GPU, which does not take it.

	Unposted // Either: the proxy has done nothing for it.
	Passed   // Either: finished.
)

var letterNames = [...]string{
	"unknown", "not called", "called", "queued", "inside", "left", "mute", "unsent", "full", "undelivered", "starved", "unflushed", "unconsumed",
	"unposted", "passed",
}

func (l Letter) String() string { return letterNames[l] }

// flowLetter reads the counters of one flow as Mycroft does (M8), the step nearest to its end first.
func flowLetter(f *rca.Flow) Letter {
	switch {
	case f.Finished():
		return Passed
	case f.Posted <= 0 && f.Ready <= 0:
		return Unposted
	case f.Send && f.Transmitted > f.Done:
		return Undelivered
	case f.Send && f.Ready > f.Transmitted:
		return Full
	case f.Send && f.Ready <= 0:
		return Mute
	case f.Send:
		return Unsent
	case f.Transmitted > f.Done:
		return Unconsumed
	case f.Ready > f.Transmitted:
		return Unflushed
	}
	return Starved
}

// telling orders the letters of channels between the same two ranks, from the one that says least about where data stays.
var telling = [...]Letter{Unknown, Unposted, Passed, Mute, Starved, Unsent, Full, Unflushed, Unconsumed, Undelivered}

// moreTelling gives the letter of two channels that says more about where data stays.
func moreTelling(a, b Letter) Letter {
	for i := len(telling) - 1; i >= 0; i-- {
		if telling[i] == a || telling[i] == b {
			return telling[i]
		}
	}
	return a
}

// kernelLetter gives the letter of an operation in flight.
func kernelLetter(r *rca.Rank, m *rca.Membership, o *rca.Op) Letter {
	if o.KernelStarted > 0 && !m.KernelUntrusted {
		return Inside
	}
	for i := range o.Flows { // Only a kernel fills send buffers and empties those of receivers.
		if f := &o.Flows[i]; f.Send && f.Ready > 0 || !f.Send && f.Done > 0 {
			return Inside
		}
	}
	if r.Caps&rca.SeesKernels != 0 && !m.KernelUntrusted && o.KernelStarted == 0 && o.State >= rca.OpEnqueued {
		return Queued
	}
	if o.State == rca.OpEntered || o.State > rca.OpEntered && len(o.Flows) == 0 {
		return Inside
	}
	return Called
}
