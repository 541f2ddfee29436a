// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace"
)

// TestCalls follows a process whose two threads make communicators: one call comes back, a group of two does not.
func TestCalls(t *testing.T) {
	begin := func(at uint64, thread, size uint64, id trace.CommID, on int64, name string) trace.LifecycleEvent {
		return trace.LifecycleEvent{AtNS: at, Kind: trace.LifeCallBegin, CommIndex: on, CommID: id, Arg0: size<<32 | thread, Text: name}
	}
	end := func(at uint64, thread, result uint64, name string) trace.LifecycleEvent {
		return trace.LifecycleEvent{AtNS: at, Kind: trace.LifeCallEnd, CommIndex: -1, Arg0: thread<<32 | result, Text: name}
	}
	var c trace.Calls
	if c.Seen || c.List() != nil {
		t.Error("calls before the first")
	}
	comms := []trace.Comm{{Index: 3, ID: 0xaa, NRanks: 8}}
	c.Absorb([]trace.LifecycleEvent{
		end(1, 9, 0, "ncclCommInitRank"), // Its beginning was overwritten.
		begin(2, 9, 4, 0x10, -1, "ncclCommInitRank"),
		begin(3, 8, 8, 0x20, 3, "ncclGroupEnd"),
		begin(3, 8, 8, 0x21, 3, "ncclGroupEnd"),
		{Kind: trace.LifeCommCreated, CommIndex: 3, CommID: 0xbb},
		end(4, 9, 7, "ncclCommInitRank"),
		begin(5, 9, 8, 0xaa, 3, "ncclCommDestroy"),
		end(6, 9, 0, "ncclCommDestroy"), // What ends a communicator is not remembered.
		begin(7, 9, 0, 0, -1, "ncclCommInitAll"),
	}, comms)
	returned := trace.Call{Name: "ncclCommInitRank", ID: 0x10, Size: 4, Thread: 9, SinceNS: 2, ReturnedNS: 4, Result: 7}
	group := trace.Call{Name: "ncclGroupEnd", ID: 0x20, Size: 8, Comm: 0xaa, CommRanks: 8, Thread: 8, SinceNS: 3}
	all := trace.Call{Name: "ncclCommInitAll", Thread: 9, SinceNS: 7}
	other := group
	other.ID = 0x21
	if diff := cmp.Diff([]trace.Call{group, other, all, returned}, c.List()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	c.Absorb([]trace.LifecycleEvent{end(7, 8, 0, "ncclGroupEnd")}, comms)
	if got := c.List(); len(got) != 4 || got[0].Name != "ncclCommInitAll" || got[3].ID != 0x21 {
		t.Errorf("after the group's end: %+v", got)
	}
	// However many there are, few are kept.
	for i := range uint64(1000) {
		c.Absorb([]trace.LifecycleEvent{begin(i, 100+i, 2, trace.CommID(i+1), -1, "ncclCommInitRank")}, nil)
	}
	for i := range uint64(1000) {
		c.Absorb([]trace.LifecycleEvent{end(i, 100+i, 0, "ncclCommInitRank")}, nil)
	}
	if n := len(c.List()); n > 1+16 {
		t.Errorf("%d calls are kept", n)
	}
}
