// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import "slices"

const (
	// maxOpenCalls bounds the calls that a process is in, maxReturnedCalls those remembered that have come back: no honest
	// process comes near the one, and the other is what ranks that are late by a few communicators still want to know.
	maxOpenCalls     = 64
	maxReturnedCalls = 16
)

// groupEnd is the call that blocks for all that was called inside a group, and is noted once for each.
const groupEnd = "ncclGroupEnd"

// Call is a call of NCCL's API that can block: one that makes or ends a communicator, or the end of a group of such. Times are
// nanoseconds of CLOCK_MONOTONIC.
type Call struct {
	Name string `json:"name"` // "ncclCommInitRank".
	// ID is the same on all ranks that must make this call; 0 unknown. Of a call that ends a communicator it is the
	// communicator's.
	ID   CommID `json:"id,omitempty"`
	Size uint32 `json:"size,omitempty"` // How many ranks those are; 0 unknown.
	// Comm and CommRanks are the communicator that it is called on, as in the table of communicators; 0 none or unknown.
	Comm       CommID `json:"comm,omitempty"`
	CommRanks  int32  `json:"comm_ranks,omitempty"`
	Thread     uint32 `json:"tid"`
	SinceNS    uint64 `json:"since_ns"`
	ReturnedNS uint64 `json:"returned_ns,omitempty"` // 0: it has not come back.
	Result     int32  `json:"result,omitempty"`      // ncclResult_t: 0 success, 7 in progress.
}

// Makes says whether the call makes a communicator.
func (c *Call) Makes() bool {
	switch c.Name {
	case "ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort":
		return false
	}
	return true
}

// Calls follows a process's calls through its lifecycle events. The zero value has seen none.
type Calls struct {
	Seen     bool // A call was seen: the hooks are there, and what is not listed was not called.
	open     []Call
	returned []Call // Making calls with an ID, oldest first.
}

// Absorb takes in events, in their order. comms is the process's table of communicators.
func (c *Calls) Absorb(events []LifecycleEvent, comms []Comm) {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case LifeCallBegin:
			c.begin(e, comms)
		case LifeCallEnd:
			c.end(e)
		}
	}
}

func (c *Calls) begin(e *LifecycleEvent, comms []Comm) {
	c.Seen = true
	call := Call{Name: e.Text, ID: e.CommID, Size: uint32(e.Arg0 >> 32), Thread: uint32(e.Arg0), SinceNS: e.AtNS} // Two halves.
	for i := range comms {
		if k := &comms[i]; e.CommIndex >= 0 && int64(k.Index) == e.CommIndex {
			call.Comm, call.CommRanks = k.ID, k.NRanks
		}
	}
	// A thread is in one call at a time, but for what a group makes at its end: the end of an older one was lost.
	c.open = slices.DeleteFunc(c.open, func(old Call) bool {
		return old.Thread == call.Thread && (old.Name != call.Name || old.Name != groupEnd)
	})
	if len(c.open) < maxOpenCalls {
		c.open = append(c.open, call)
	}
}

// end closes the thread's calls of that name: a group has several, which come back together.
func (c *Calls) end(e *LifecycleEvent) {
	c.Seen = true
	thread := uint32(e.Arg0 >> 32) // The upper half.
	c.open = slices.DeleteFunc(c.open, func(call Call) bool {
		if call.Thread != thread {
			return false
		}
		if call.ID != 0 && call.Makes() {
			call.ReturnedNS, call.Result = e.AtNS, int32(uint32(e.Arg0)) // The lower half, signed.
			c.returned = append(c.returned, call)
			c.returned = c.returned[max(0, len(c.returned)-maxReturnedCalls):]
		}
		return true
	})
}

// List gives the calls that the process is in, however young: it has called them. Then those that have come back, oldest first.
func (c *Calls) List() []Call { return slices.Concat(c.open, c.returned) }
