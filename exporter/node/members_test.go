// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestSeveralRanksOfAProcess: the second of two processes, which drives three GPUs, is three ranks. Each is a process of its own to
// everybody who asks, with its GPU and its work alone, and they die together.
func TestSeveralRanksOfAProcess(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4001, StartTicks: 50})
	id := identity(1)
	id.WorldSize = 2
	w := r.file("a.trace", id)
	world := func(index uint32, device int32) {
		w.PutComm(trace.Comm{Index: index, Generation: 1, ID: 9, NRanks: 6, Rank: 3 + device, Device: device, OpsCalled: uint64(device)})
		w.PutOp(trace.Op{Index: index, Generation: 1, CommIndex: index, CommGeneration: 1, Number: uint64(device)})
		w.Complete(trace.Completion{CommIndex: index, CommGeneration: 1, Number: 100 + uint64(device), LeftNS: r.clock})
	}
	ranks := func() []nodeapi.Process {
		list := r.processes()
		slices.SortFunc(list, func(a, b nodeapi.Process) int { return cmp.Compare(a.Rank, b.Rank) })
		return list
	}
	world(0, 1)
	r.after(time.Second)
	if got := ranks(); len(got) != 1 || got[0].Rank != 1 || got[0].File != "a.trace" {
		t.Fatalf("with one communicator: %+v", got)
	}
	world(1, 0)
	r.after(time.Second)
	world(2, 2) // Late.
	r.after(time.Second)
	r.after(time.Second)
	check := func() {
		t.Helper()
		got := ranks()
		if len(got) != 3 {
			t.Fatalf("%d ranks", len(got))
		}
		for device, p := range got {
			file := []string{"a.trace#0", "a.trace", "a.trace#2"}[device]
			if p.Rank != int32(3+device) || p.Identity.WorldSize != 6 || p.File != file || p.GPU != string(rune('0'+device)) {
				t.Errorf("GPU %d: rank %d of %d, file %s, GPU %s", device, p.Rank, p.Identity.WorldSize, p.File, p.GPU)
			}
			if len(p.Comms) != 1 || len(p.Ops) != 1 || p.Ops[0].Number != uint64(device) {
				t.Errorf("GPU %d: %+v %+v", device, p.Comms, p.Ops)
			}
			if len(p.Completions) != 1 || p.Completions[0].Number != 100+uint64(device) {
				t.Errorf("GPU %d: %+v", device, p.Completions)
			}
			if p.Kernel.HostPID != 4001 || !p.Kernel.Verified {
				t.Errorf("GPU %d: %+v", device, p.Kernel)
			}
		}
	}
	check()
	if live, dead, unreadable := r.sampler.Files(); live != 1 || dead+unreadable != 0 {
		t.Errorf("files: %d live, %d dead, %d unreadable", live, dead, unreadable)
	}
	r.procs.Remove(4001)
	r.after(time.Second)
	gone := func(list []nodeapi.Process) {
		t.Helper()
		if len(list) != 3 {
			t.Fatalf("%d ranks", len(list))
		}
		for _, p := range list {
			if p.Kernel.State != nodeapi.ProcessGone || len(p.Completions) != 1 {
				t.Errorf("rank %d is %s after its process died, finished work %+v", p.Rank, p.Kernel.State, p.Completions)
			}
		}
	}
	gone(ranks())
	late := newRig(t, func(o *node.Options) { o.Dirs, o.ProcFS = []string{r.dir}, r.procs.Root })
	late.now, late.clock = r.now, r.clock
	late.after(0)
	gone(late.processes())
}

// TestNumbersWithoutALauncher: the sixth of eight processes with two GPUs each, whose communicators alone tell which it is: one inside
// the process, and one for each GPU across all processes.
func TestNumbersWithoutALauncher(t *testing.T) {
	r := newRig(t, nil)
	r.procs.Put(proctest.Process{PID: 4001, StartTicks: 50})
	id := identity(-1)
	id.WorldSize = -1
	w := r.file("a.trace", id)
	for device := range int32(2) {
		w.PutComm(trace.Comm{Index: uint32(device), Generation: 1, ID: 7, NRanks: 2, Rank: device, Device: device})
		w.PutComm(trace.Comm{Index: 2 + uint32(device), Generation: 1, ID: trace.CommID(8 + device), NRanks: 8, Rank: 5, Device: device})
	}
	r.after(time.Second)
	r.after(time.Second)
	for _, p := range r.processes() {
		if want := 10 + p.Comms[0].Device; p.Rank != want || p.Identity.WorldSize != 16 {
			t.Errorf("GPU %s: rank %d of %d, want %d of 16", p.GPU, p.Rank, p.Identity.WorldSize, want)
		}
	}
	if n := len(r.processes()); n != 2 {
		t.Errorf("%d ranks", n)
	}
}
