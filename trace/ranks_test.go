// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// process writes the trace file of a process and gives it, read once.
func process(t *testing.T, id trace.Identity, comms ...trace.Comm) (*tracetest.Writer, *trace.File) {
	t.Helper()
	w, err := tracetest.Create(filepath.Join(t.TempDir(), "1-1-a.trace"), id, tracetest.Size{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for i, c := range comms {
		c.Index, c.Generation = uint32(i), 1
		w.PutComm(c)
	}
	f := open(t, w.Path())
	snapshot(t, f)
	return w, f
}

func snapshot(t *testing.T, f *trace.File) *trace.Snapshot {
	t.Helper()
	var s trace.Snapshot
	if err := f.Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestSeveralRanksInAProcess: the second of two processes with two GPUs each. Each GPU's rank has its own communicators, operations,
// flows, queue pairs and finished work, and none of the other's.
func TestSeveralRanksInAProcess(t *testing.T) {
	w, whole := process(t, trace.Identity{Rank: 1, WorldSize: 2, GPUIndex: 7},
		trace.Comm{ID: 1, NRanks: 4, Rank: 2, Device: 0},
		trace.Comm{ID: 1, NRanks: 4, Rank: 3, Device: 1},
		trace.Comm{ID: 2, NRanks: 2, Rank: 1, Device: 0}, // A group with one member in each process.
		trace.Comm{ID: 3, NRanks: 2, Rank: 1, Device: 1},
	)
	for i := range uint32(4) {
		w.PutOp(trace.Op{Index: i, Generation: 1, CommIndex: i, CommGeneration: 1, Number: uint64(i)})
		w.PutFlow(trace.Flow{Index: i, Generation: 1, CommIndex: i, CommGeneration: 1, OpIndex: i, Done: 10})
		w.PutQP(trace.QP{Index: i, Generation: 1, CommIndex: int64(i), QPNum: i})
		w.Complete(trace.Completion{CommIndex: i, CommGeneration: 1, Number: 100 + uint64(i)})
		w.Live(trace.LifecycleEvent{Kind: trace.LifeCommCreated, CommIndex: int64(i)})
	}
	w.Live(trace.LifecycleEvent{Kind: trace.LifeProcessStart, CommIndex: -1})
	if got := whole.Devices(); !slices.Equal(got, []int32{0, 1}) {
		t.Fatalf("devices %v", got)
	}
	for device, rank := range map[int32]int32{0: 2, 1: 3} {
		f := whole.Rank(device)
		t.Cleanup(func() { f.Close() })
		s := snapshot(t, f)
		if id := s.Identity; id.Rank != rank || id.WorldSize != 4 || id.GPUIndex != device || id.GPUUUID == "" {
			t.Errorf("device %d: %+v", device, id)
		}
		own := []uint32{uint32(device), uint32(device) + 2}
		check := func(when string) {
			t.Helper()
			var comms, ops, flows, qps []uint32
			for _, c := range s.Comms {
				comms = append(comms, c.Index)
			}
			for _, o := range s.Ops {
				ops = append(ops, o.CommIndex)
			}
			for _, f := range s.Flows {
				flows = append(flows, f.CommIndex)
			}
			for _, q := range s.QPs {
				qps = append(qps, uint32(q.CommIndex))
			}
			if !slices.Equal(comms, own) || !slices.Equal(ops, own) || !slices.Equal(flows, own) || !slices.Equal(qps, own) {
				t.Errorf("device %d, %s: communicators %v, operations %v, flows %v, queue pairs %v", device, when, comms, ops, flows, qps)
			}
		}
		check("at first")
		for i := range uint32(4) {
			w.PutFlow(trace.Flow{Index: i, Generation: 1, CommIndex: i, CommGeneration: 1, OpIndex: i, Done: 20 + uint32(device)})
		}
		if err := f.Refresh(s); err != nil {
			t.Fatal(err)
		}
		check("refreshed")
		if changed := s.ChangedFlows(); len(changed) != 2 || s.Flows[0].Done != 20+uint32(device) {
			t.Errorf("device %d: changed flows %v, %+v", device, changed, s.Flows[0])
		}
		done, _, err := f.Completions(0, nil)
		if err != nil || len(done) != 2 || done[0].Number != 100+uint64(device) {
			t.Errorf("device %d: completions %+v %v", device, done, err)
		}
		events, _, err := f.Lifecycle(0, nil)
		if err != nil || len(events) != 3 {
			t.Errorf("device %d: events %+v %v", device, events, err)
		}
	}
	// Whoever closes first takes nothing from the others.
	first := whole.Rank(0)
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, first); len(s.Comms) != 2 {
		t.Errorf("%d communicators after another File was closed", len(s.Comms))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRankReadIntoAFormerSnapshot: the File of one rank, read into a Snapshot that held the whole process, has the rank's number at
// once, and not only when the process makes another communicator.
func TestRankReadIntoAFormerSnapshot(t *testing.T) {
	_, whole := process(t, trace.Identity{Rank: 1, WorldSize: 2},
		trace.Comm{ID: 1, NRanks: 4, Rank: 2, Device: 0},
		trace.Comm{ID: 1, NRanks: 4, Rank: 3, Device: 1},
	)
	s := snapshot(t, whole)
	f := whole.Rank(0)
	t.Cleanup(func() { whole.Close(); f.Close() })
	for _, read := range []func(*trace.Snapshot) error{f.Snapshot, f.Refresh} {
		if err := read(s); err != nil {
			t.Fatal(err)
		}
		if id := s.Identity; id.Rank != 2 || id.WorldSize != 4 {
			t.Errorf("rank %d of %d, want 2 of 4", id.Rank, id.WorldSize)
		}
	}
}

// TestRankNumbers: what RANK and WORLD_SIZE, which count processes, make of the ranks of a process.
func TestRankNumbers(t *testing.T) {
	for _, tt := range []struct {
		name        string
		id          trace.Identity
		comms       []trace.Comm
		rank, world int32 // Of device 1.
	}{
		{
			"a communicator spans all processes",
			trace.Identity{Rank: 1, WorldSize: 2},
			[]trace.Comm{{ID: 1, NRanks: 4, Rank: 3, Device: 0}, {ID: 1, NRanks: 4, Rank: 2, Device: 1}},
			2, 4,
		},
		{
			"communicators inside the process alone",
			trace.Identity{Rank: 3, WorldSize: 4},
			[]trace.Comm{{ID: 1, NRanks: 2, Rank: 0, Device: 0}, {ID: 1, NRanks: 2, Rank: 1, Device: 1}},
			7, 8,
		},
		{
			"one process, which no launcher numbers",
			trace.Identity{Rank: -1, WorldSize: -1},
			[]trace.Comm{{ID: 1, NRanks: 2, Rank: 0, Device: 0}, {ID: 1, NRanks: 2, Rank: 1, Device: 1}},
			1, 2,
		},
		{
			"one communicator for each GPU across the processes, and one inside",
			trace.Identity{Rank: 1, WorldSize: 2},
			[]trace.Comm{{ID: 1, NRanks: 2, Rank: 1, Device: 0}, {ID: 2, NRanks: 2, Rank: 1, Device: 1}, {ID: 3, NRanks: 2, Rank: 0, Device: 0}, {ID: 3, NRanks: 2, Rank: 1, Device: 1}},
			3, 4,
		},
		{
			"as that, and no launcher numbers the processes",
			trace.Identity{Rank: -1, WorldSize: -1},
			[]trace.Comm{{ID: 1, NRanks: 8, Rank: 5, Device: 0}, {ID: 2, NRanks: 8, Rank: 5, Device: 1}, {ID: 3, NRanks: 2, Rank: 0, Device: 0}, {ID: 3, NRanks: 2, Rank: 1, Device: 1}},
			11, 16,
		},
		{
			"no launcher, and the processes are neighbours in two ways",
			trace.Identity{Rank: -1, WorldSize: -1},
			[]trace.Comm{
				{ID: 1, NRanks: 2, Rank: 1, Device: 0},
				{ID: 2, NRanks: 2, Rank: 1, Device: 1},
				{ID: 3, NRanks: 2, Rank: 0, Device: 0},
				{ID: 3, NRanks: 2, Rank: 1, Device: 1},
				{ID: 4, NRanks: 2, Rank: 0, Device: 0},
				{ID: 5, NRanks: 2, Rank: 0, Device: 1},
			},
			-1, -1,
		},
		{
			"no launcher, and a communicator spans all processes",
			trace.Identity{Rank: -1, WorldSize: -1},
			[]trace.Comm{{ID: 1, NRanks: 2, Rank: 1, Device: 0}, {ID: 2, NRanks: 2, Rank: 1, Device: 1}, {ID: 3, NRanks: 4, Rank: 2, Device: 0}, {ID: 3, NRanks: 4, Rank: 3, Device: 1}},
			3, 4,
		},
		{
			"a claim beyond reason",
			trace.Identity{Rank: 1 << 30, WorldSize: 1 << 30},
			[]trace.Comm{{ID: 1, NRanks: 2, Rank: 0, Device: 0}, {ID: 1, NRanks: 2, Rank: 1, Device: 1}},
			-1, -1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, whole := process(t, tt.id, tt.comms...)
			f := whole.Rank(1)
			t.Cleanup(func() { f.Close() })
			if id := snapshot(t, f).Identity; id.Rank != tt.rank || id.WorldSize != tt.world {
				t.Errorf("rank %d of %d, want %d of %d", id.Rank, id.WorldSize, tt.rank, tt.world)
			}
		})
	}
}

// TestThreadForEachGPU: a process without two members of any communicator is several ranks if a thread for each GPU calls there, from
// the first operation on.
func TestThreadForEachGPU(t *testing.T) {
	comm := func(index, device int32, thread uint32, calls uint64) trace.Comm {
		return trace.Comm{
			Index: uint32(index), Generation: 1, ID: trace.CommID(1 + index), NRanks: 2, Rank: 1, Device: device, UserTID: thread, OpsCalled: calls,
		}
	}
	named := comm(1, 1, 11, 9)
	named.Name = "default_pg"
	for _, tt := range []struct {
		name    string
		looks   [][]trace.Comm
		several bool
	}{
		{"a thread each", [][]trace.Comm{{comm(0, 0, 10, 9), comm(1, 1, 11, 9)}}, true},
		{"a thread each, from the second look on", [][]trace.Comm{{comm(0, 0, 10, 9), comm(1, 1, 0, 0)}, {comm(0, 0, 10, 9), comm(1, 1, 11, 9)}}, true},
		{"one thread", [][]trace.Comm{{comm(0, 0, 10, 9), comm(1, 1, 10, 9)}}, false},
		{"two threads, one of which calls on both", [][]trace.Comm{{comm(0, 0, 10, 9), comm(1, 1, 0, 0)}, {comm(0, 0, 11, 9), comm(1, 1, 10, 9)}}, false},
		{"in the first operation", [][]trace.Comm{{comm(0, 0, 10, 1), comm(1, 1, 11, 1), comm(2, 2, 0, 0)}}, true},
		{"only one has called", [][]trace.Comm{{comm(0, 0, 10, 9), comm(1, 1, 0, 0)}}, false},
		{"one thread called on one GPU before, and calls on another now", [][]trace.Comm{{comm(0, 0, 11, 1)}, {comm(0, 0, 10, 9), comm(1, 1, 11, 1)}}, false},
		{"with names", [][]trace.Comm{{comm(0, 0, 10, 9), named}}, false},
		{"one GPU", [][]trace.Comm{{comm(0, 0, 10, 9), comm(1, 0, 11, 9)}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, f := process(t, trace.Identity{Rank: 1, WorldSize: 2})
			for _, comms := range tt.looks {
				for _, c := range comms {
					w.PutComm(c)
				}
				snapshot(t, f)
			}
			if several := len(f.Devices()) > 0; several != tt.several {
				t.Fatalf("devices %v", f.Devices())
			}
			if !tt.several {
				return
			}
			rank := f.Rank(1)
			t.Cleanup(func() { rank.Close() })
			if id := snapshot(t, rank).Identity; id.Rank != int32(len(f.Devices()))+1 || id.WorldSize != 2*int32(len(f.Devices())) || id.GPUIndex != 1 {
				t.Errorf("rank %d of %d on GPU %d, devices %v", id.Rank, id.WorldSize, id.GPUIndex, f.Devices())
			}
		})
	}
}

// TestOneRankStaysOne: communicators on two GPUs are one rank's unless one communicator has two members in the process.
func TestOneRankStaysOne(t *testing.T) {
	for name, comms := range map[string][]trace.Comm{
		"a second communicator on another GPU":  {{ID: 1, NRanks: 8, Rank: 3, Device: 3}, {ID: 2, NRanks: 8, Rank: 3, Device: 0}},
		"a writer that does not tell the GPU":   {{ID: 1, NRanks: 2, Rank: 0, Device: -1}, {ID: 1, NRanks: 2, Rank: 1, Device: -1}},
		"a writer of before version 1.3":        {{ID: 1, NRanks: 2, Rank: 0}, {ID: 1, NRanks: 2, Rank: 1}},
		"two communicators not identified yet":  {{NRanks: -1, Rank: 0, Device: 0}, {NRanks: -1, Rank: 1, Device: 1}},
		"two with the same id by chance, alike": {{ID: 1, NRanks: 8, Rank: 3, Device: 3}, {ID: 1, NRanks: 8, Rank: 3, Device: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, f := process(t, trace.Identity{Rank: 3}, comms...); len(f.Devices()) > 0 {
				t.Errorf("devices %v", f.Devices())
			}
		})
	}
	t.Run("more GPUs than a machine has", func(t *testing.T) {
		var comms []trace.Comm
		for i := range int32(32) {
			comms = append(comms, trace.Comm{ID: 1, NRanks: 1 << 20, Rank: i, Device: 3 * i})
		}
		w, f := process(t, trace.Identity{Rank: 3}, comms...)
		if len(f.Devices()) != 32 {
			t.Fatalf("%d devices", len(f.Devices()))
		}
		for generation := range uint32(8) {
			for i := range uint32(32) {
				w.PutComm(trace.Comm{Index: i, Generation: generation + 2, ID: 2, NRanks: 1 << 20, Rank: int32(i), Device: int32(generation*1000 + i)})
			}
			if snapshot(t, f); len(f.Devices()) > 64 {
				t.Fatalf("%d devices", len(f.Devices()))
			}
		}
	})
}
