// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// TestRefreshFollowsChanges compares a refreshed Snapshot with a fresh one through every kind of change that the writer's
// rule allows: flows change while their communicator has an operation in the table or counts.
func TestRefreshFollowsChanges(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	f := open(t, w.Path())
	comm := func(index uint32, done uint64) trace.Comm {
		c := trace.Comm{Index: index, Generation: 1, ID: 7, OpsCalled: done, OpsStarted: done, OpsCompleted: done, Name: "dp"}
		c.FuncCompleted[trace.AllReduce] = done
		return c
	}
	flow := func(index, comm, done uint32) trace.Flow {
		return trace.Flow{Index: index, Generation: 1, CommIndex: comm, CommGeneration: 1, Done: done}
	}
	var refreshed trace.Snapshot
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"nothing", func() {}},
		{"communicators", func() { w.PutComm(comm(0, 1)); w.PutComm(comm(1, 1)) }},
		{"flows", func() { w.PutFlow(flow(0, 0, 1)); w.PutFlow(flow(1, 1, 1)) }},
		{"at rest", func() {}},
		{"an operation begins", func() {
			w.PutOp(trace.Op{Index: 0, Generation: 1, CommIndex: 1, CommGeneration: 1})
			w.PutFlow(flow(1, 1, 2))
		}},
		{"it goes on", func() { w.PutFlow(flow(1, 1, 3)) }},
		{"it ends", func() { w.FreeOp(0); w.PutComm(comm(1, 2)); w.PutFlow(flow(1, 1, 4)) }},
		{"another one is over before anybody looked", func() { w.PutComm(comm(0, 2)); w.PutFlow(flow(0, 0, 5)) }},
		{"only the tables by function", func() {
			c := comm(0, 2)
			c.FuncCompleted[trace.AllReduce] = 9
			w.PutComm(c)
		}},
		{"a new communicator in the slot", func() {
			c := comm(0, 2)
			c.Generation = 2
			w.PutComm(c)
		}},
		{"a flow comes", func() { w.PutFlow(flow(5, 1, 1)) }},
		{"a flow goes", func() { w.FreeFlow(1); w.PutComm(comm(1, 3)) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.change()
			if err := f.Refresh(&refreshed); err != nil {
				t.Fatal(err)
			}
			var fresh trace.Snapshot
			if err := f.Snapshot(&fresh); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fresh, refreshed, ignoreCache, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-fresh +refreshed):\n%s", diff)
			}
		})
	}
	// What changes against the rule is found by the next Snapshot at the latest.
	if err := f.Refresh(&refreshed); err != nil {
		t.Fatal(err)
	}
	w.PutFlow(flow(0, 0, 50))
	if err := f.Refresh(&refreshed); err != nil || refreshed.Flows[0].Done == 50 {
		t.Errorf("a communicator at rest was looked at: %+v, %v", refreshed.Flows, err)
	}
	if err := f.Snapshot(&refreshed); err != nil || refreshed.Flows[0].Done != 50 {
		t.Errorf("flows %+v, %v", refreshed.Flows, err)
	}
}
