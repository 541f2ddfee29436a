// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// Condition is Mycroft's state of a flow (M8, table 4), from its counters: of a sender, 1 = Ready (GPU_ready), 2 = Transmitted
// (RDMA_transmitted), 3 = Done (RDMA_done); of a receiver, received, given and consumed.
type Condition uint8

// Conditions. Several may hold at once.
const (
	NotStarted     Condition = 1 << iota // 1=2=3=0.
	NotTransmitted                       // 1>2.
	NotDelivered                         // 2>3.
	GPUNotReady                          // 1=2=3>0.
)

// Conditions gives the conditions that hold for an unfinished flow; 0 for a finished one.
func (f *Flow) Conditions() Condition {
	if f.Finished() {
		return 0
	}
	var c Condition
	if f.Ready > f.Transmitted {
		c |= NotTransmitted
	}
	if f.Transmitted > f.Done {
		c |= NotDelivered
	}
	if c == 0 && f.Ready <= 0 {
		return NotStarted
	}
	if c == 0 {
		return GPUNotReady
	}
	return c
}

// Finished reports whether all steps are done.
func (f *Flow) Finished() bool { return f.Total > 0 && f.Done >= f.Total }

// Starved reports whether a receiver waits for the sender: its buffers are posted and all its data is consumed.
func (f *Flow) Starved() bool {
	return !f.Send && !f.Finished() && f.Posted > f.Ready && f.Ready <= f.Transmitted && f.Transmitted <= f.Done
}

// NoCredit reports whether a sender's kernel has filled every buffer it was given and waits for the network or the receiver.
// Behind a step that its receiver does not take, NCCL shows only that step, although all buffers may be full.
func (f *Flow) NoCredit() bool {
	return f.Send && !f.Finished() && f.Ready > f.Done && (f.Posted <= f.Ready || f.Ready > f.Transmitted)
}
