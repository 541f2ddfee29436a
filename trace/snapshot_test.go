// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/internal/wire"
	"github.com/culprit-project/culprit/trace/tracetest"
)

var ignoreCache = cmpopts.IgnoreUnexported(trace.Snapshot{})

func fullSnapshot() trace.Snapshot {
	comm := trace.Comm{
		Index: 1, Generation: 3, Flags: trace.CommHasProxy, ID: 0xa1b2c3d4e5f60718, NRanks: 16, Rank: 5, NNodes: 2,
		ProxyTID: 11, UserTID: 12, OpsInFlight: 1, Name: "dp", CreatedNS: 1, OpsCalled: 9, OpsStarted: 8, OpsCompleted: 7,
		LastCalledNS: 2, LastProgressNS: 3, LastCompletedNS: 4, OpsUnseen: 5,
	}
	ended := trace.Comm{Index: 0, Generation: 1, Ended: true, Flags: trace.CommFinalized, ID: 7, NRanks: 2, CreatedNS: 1, DestroyedNS: 2}
	for i := range trace.NumFunc {
		n := uint64(i)
		comm.SeqStarted[i], comm.FuncCompleted[i], comm.FuncBytes[i], comm.FuncNS[i] = n, n+100, n+200, n+300
	}
	return trace.Snapshot{
		Identity: trace.Identity{PID: 1, Rank: 5, WorldSize: 16, JobID: "j", Capabilities: trace.CapPeerWait},
		Status: trace.Status{
			EventMask: 1, HeartbeatNS: 2, RealMinusMonoNS: 3, ClosedNS: 4, GroupOpenSinceNS: 5, GroupCount: 6,
			DroppedComms: 7, DroppedOps: 8, DroppedFlows: 9, ContendedEvents: 10, ForeignEvents: 11, StaleEvents: 12,
			RepeatedEvents: 13, Callbacks: 14,
		},
		Comms: []trace.Comm{ended, comm},
		Ops: []trace.Op{{
			Index: 2, Generation: 4, Flags: trace.OpBarrier, CommIndex: 1, CommGeneration: 3, Number: 8, Seq: 6,
			Func: trace.AllReduce, Algo: trace.AlgoRing, Proto: trace.ProtoSimple, DatatypeBytes: 4, Datatype: "ncclFloat32",
			Count: 256, Bytes: 1024, Peer: -1, Root: -1, Channels: 2, State: trace.OpMoving, CalledNS: 1, EnqueuedNS: 2,
			EnteredNS: 3, FirstStepNS: 4, LastProgressNS: 5, LeftNS: 6, KernelStarted: 3, KernelStopped: 1, ProxyStarted: 4,
			ProxyStopped: 2, UserTID: 12,
		}},
		Flows: []trace.Flow{{
			Index: 3, Generation: 5, CommIndex: 1, CommGeneration: 3, Channel: 1, IsSend: true, State: trace.FlowSendPeer,
			Peer: 6, OpIndex: 2, OpGeneration: 4, Queued: 1, OpNumber: 8, OpSeq: 6, Func: trace.AllReduce, StepsTotal: 32,
			Posted: 8, Ready: 7, Transmitted: 6, Done: 5, PeerPolls: 1000, Epochs: 12, OpStartedNS: 1, FirstStepNS: 2,
			StateSinceNS: 3, LastProgressNS: 4, Bytes: 5, WaitNS: [3]uint64{6, 7, 8}, ActiveNS: 9, LargestGapNS: 10,
			TotalOps: 11, TotalPosted: 12, TotalReady: 13, TotalTransmitted: 14, TotalDone: 15, TotalBytes: 16,
			TotalWaitNS: [3]uint64{17, 18, 19}, TotalActiveNS: 20, TotalEpochs: 21,
		}},
		QPs: []trace.QP{
			{
				Index: 1, Generation: 2, QPNum: 100, DestQPNum: 200, CommIndex: 1, CommGeneration: 3, FlowIndex: 3, FlowGeneration: 5, Peer: 6,
				Port: 1, DestLID: 2, GIDIndex: 3, State: 3, Device: "mlx5_0", Remote: "10.0.0.7", CreatedNS: 1, ConnectedNS: 2, LastPostNS: 3,
				LastCompletionNS: 4, SendsPosted: 5, SendsCompleted: 6, SendBytes: 7, ReceivesPosted: 8, ReceivesCompleted: 9, Errors: 10,
				LastError: 12, Epochs: 13, ActiveNS: 14,
			},
			{Index: 5, Generation: 1, CommIndex: -1, FlowIndex: -1, Peer: -1, Remote: "fe80::1"},
		},
	}
}

func put(w *tracetest.Writer, s trace.Snapshot) {
	w.SetStatus(s.Status)
	for _, c := range s.Comms {
		w.PutComm(c)
	}
	for _, op := range s.Ops {
		w.PutOp(op)
	}
	for _, f := range s.Flows {
		w.PutFlow(f)
	}
	for _, q := range s.QPs {
		w.PutQP(q)
	}
}

func TestSnapshotReadsWhatWasWritten(t *testing.T) {
	want := fullSnapshot()
	w := create(t, want.Identity, tracetest.Size{})
	put(w, want)
	f := open(t, w.Path())
	var got trace.Snapshot
	if err := f.Snapshot(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignoreCache); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	clone := got.Clone()
	got.Comms[1].Name, got.Flows[0].Done = "changed", 99
	if diff := cmp.Diff(want, clone, ignoreCache); diff != "" {
		t.Errorf("clone shares memory (-want +got):\n%s", diff)
	}
	b, err := json.Marshal(clone)
	if err != nil {
		t.Fatal(err)
	}
	var back trace.Snapshot
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back, ignoreCache); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}

// TestSnapshotFollowsChanges compares a reused Snapshot with a fresh one through every kind of change to the flows.
func TestSnapshotFollowsChanges(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	f := open(t, w.Path())
	var reused trace.Snapshot
	steps := []struct {
		name   string
		change func()
	}{
		{"nothing", func() {}},
		{"first flows", func() { w.PutFlow(trace.Flow{Index: 0, Done: 1}); w.PutFlow(trace.Flow{Index: 2, Done: 2}) }},
		{"no change", func() {}},
		{"one changes", func() { w.PutFlow(trace.Flow{Index: 2, Done: 3}) }},
		{"a hole is filled", func() { w.PutFlow(trace.Flow{Index: 1, Done: 4}) }},
		{"one is freed", func() { w.FreeFlow(0) }},
		{"one is held", func() { w.HoldFlow(2) }},
		{"it is written again", func() { w.PutFlow(trace.Flow{Index: 2, Done: 5}) }},
		{"a new generation", func() { w.PutFlow(trace.Flow{Index: 1, Generation: 2, Done: 6}) }},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.change()
			if err := f.Snapshot(&reused); err != nil {
				t.Fatal(err)
			}
			var fresh trace.Snapshot
			if err := f.Snapshot(&fresh); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fresh, reused, ignoreCache, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-fresh +reused):\n%s", diff)
			}
		})
	}
	// The same memory with another file must not keep the first one's flows.
	other := create(t, trace.Identity{}, tracetest.Size{})
	other.PutFlow(trace.Flow{Index: 2, Done: 77})
	if err := open(t, other.Path()).Snapshot(&reused); err != nil {
		t.Fatal(err)
	}
	if len(reused.Flows) != 1 || reused.Flows[0].Done != 77 {
		t.Errorf("flows of another file: %+v", reused.Flows)
	}
}

func TestTornSlotIsCountedAndLeftOut(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	w.PutFlow(trace.Flow{Index: 0, Channel: 1})
	w.PutFlow(trace.Flow{Index: 1, Channel: 2})
	w.HoldFlow(0)
	var s trace.Snapshot
	if err := open(t, w.Path()).Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	if s.Status.TornSlots != 1 || len(s.Flows) != 1 || s.Flows[0].Channel != 2 {
		t.Errorf("torn %d, flows %+v", s.Status.TornSlots, s.Flows)
	}
}

// TestNoTornReads writes flows whose fields are all equal while reading them: any mixture of two writes shows.
func TestNoTornReads(t *testing.T) {
	const flows = 8
	w := create(t, trace.Identity{}, tracetest.Size{})
	for i := range uint32(flows) {
		w.PutFlow(trace.Flow{Index: i})
	}
	f := open(t, w.Path())
	var stop atomic.Bool
	finished := make(chan uint64)
	go func() {
		n := uint64(0)
		for ; !stop.Load(); n++ {
			w.PutFlow(trace.Flow{
				Index: uint32(n % flows), Posted: uint32(n), Done: uint32(n), Bytes: n, WaitNS: [3]uint64{n, n, n}, TotalOps: n,
				TotalWaitNS: [3]uint64{n, n, n}, TotalEpochs: n,
			})
			w.Complete(trace.Completion{Number: n, CalledNS: n, LeftNS: n, Recv: trace.Direction{FastestNS: n}})
		}
		finished <- n
	}()
	var s trace.Snapshot
	var done []trace.Completion
	var read, lost, since uint64
	for range 1000 {
		if err := f.Snapshot(&s); err != nil {
			t.Fatal(err)
		}
		for _, fl := range s.Flows {
			n := fl.Bytes
			if uint64(fl.Posted) != n&0xffffffff || fl.TotalEpochs != n || fl.WaitNS != [3]uint64{n, n, n} || fl.TotalWaitNS != fl.WaitNS {
				t.Fatalf("torn flow %+v", fl)
			}
		}
		var span trace.Span
		var err error
		if done, span, err = f.Completions(since, done[:0]); err != nil {
			t.Fatal(err)
		}
		for _, c := range done {
			if n := c.Number; c.Ticket != n+1 || c.CalledNS != n || c.LeftNS != n || c.Recv.FastestNS != n {
				t.Fatalf("torn completion %+v", c)
			}
		}
		read, lost, since = read+uint64(len(done)), lost+span.Lost, span.Next
	}
	stop.Store(true)
	written := <-finished
	done, span, err := f.LastCompletions(since, done[:0])
	if err != nil {
		t.Fatal(err)
	}
	if total := read + lost + uint64(len(done)) + span.Lost; total != written {
		t.Errorf("read %d + lost %d + last %d = %d of %d written", read, lost, len(done), total, written)
	}
}

func TestCompletionLoss(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{Completions: 4})
	f := open(t, w.Path())
	complete := func(n int) {
		for range n {
			w.Complete(trace.Completion{})
		}
	}
	since := uint64(0)
	for i, step := range []struct {
		change           func()
		records          int
		lost, next, last uint64
	}{
		{func() {}, 0, 0, 0, 0},
		{func() { complete(3) }, 3, 0, 3, 3},
		{func() { complete(4) }, 4, 0, 7, 7},
		{func() { complete(10) }, 4, 6, 17, 17},
		{func() { complete(1); w.BeginCompletion(); complete(1) }, 1, 0, 18, 18},
		{func() {}, 0, 0, 18, 0},
		{func() { complete(4) }, 4, 2, 24, 24}, // The unfinished one was overwritten meanwhile.
	} {
		step.change()
		got, span, err := f.Completions(since, nil)
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		if len(got) > 0 {
			last = got[len(got)-1].Ticket
		}
		if len(got) != step.records || span.Lost != step.lost || span.Next != step.next || last != step.last {
			t.Errorf("step %d: %d records, span %+v, last %d; want %+v", i, len(got), span, last, step)
		}
		since = span.Next
	}
	w.BeginCompletion()
	complete(1)
	if got, span, err := f.LastCompletions(since, nil); err != nil || len(got) != 1 || span.Lost != 1 || span.Next != 26 {
		t.Errorf("of a dead writer: %d records, %+v, %v", len(got), span, err)
	}
}

func TestLifecycle(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	want := []trace.LifecycleEvent{
		{Ticket: 1, AtNS: 10, Kind: trace.LifeProcessStart, CommIndex: -1},
		{Ticket: 2, AtNS: 20, Kind: trace.LifeDistrust, CommIndex: 3, CommID: 0xab, Arg0: 1, Text: "self send"},
	}
	for _, ev := range want {
		w.Live(ev)
	}
	f := open(t, w.Path())
	got, span, err := f.Lifecycle(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || span.Next != 2 {
		t.Errorf("next %d (-want +got):\n%s", span.Next, diff)
	}
}

func TestTransfers(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{Transfers: 4})
	want := trace.Transfer{FlowIndex: 1, FlowGeneration: 2, OpNumber: 3, Step: 4, Bytes: 5, StartedNS: 6, EndedNS: 7}
	for range 6 {
		want.Ticket = w.Transferred(want)
	}
	got, span, err := open(t, w.Path()).Transfers(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || span.Lost != 2 || span.Next != 6 {
		t.Fatalf("%d transfers, %+v", len(got), span)
	}
	if diff := cmp.Diff(want, got[3]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzSnapshot(f *testing.F) {
	for _, b := range tracetest.Broken() {
		f.Add(b)
	}
	for _, b := range tracetest.Lying() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := trace.Open(writeFile(t, b))
		if err != nil {
			return
		}
		defer file.Close()
		read(t, file)
	})
}

// BenchmarkSnapshot reads one rank of 16 communicators with 32 channels in two directions, of which some change.
func BenchmarkSnapshot(b *testing.B) {
	for _, changing := range []int{0, 64, 1024} {
		b.Run(fmt.Sprintf("changing=%d", changing), func(b *testing.B) {
			w := create(b, trace.Identity{}, tracetest.Size{})
			tracetest.Fill(w, tracetest.Shape{Comms: 16, Channels: 32, NowNS: 1e9})
			f := open(b, w.Path())
			var s trace.Snapshot
			if err := f.Snapshot(&s); err != nil {
				b.Fatal(err)
			}
			flows := append([]trace.Flow(nil), s.Flows...)
			b.ReportAllocs()
			var reading time.Duration
			for b.Loop() {
				for _, fl := range flows[:changing] {
					w.PutFlow(fl)
				}
				start := time.Now()
				if err := f.Snapshot(&s); err != nil {
					b.Fatal(err)
				}
				reading += time.Since(start)
			}
			b.ReportMetric(float64(reading.Nanoseconds())/float64(b.N), "read-ns/op")
		})
	}
}

// TestProbes: what probes found of an operation's counts, and its queue pair (M1), are read as they were written, and are 0 where the writer's records end before it.
func TestProbes(t *testing.T) {
	w := create(t, trace.Identity{}, tracetest.Size{})
	want := trace.Completion{Ticket: 1, Number: 3, LeftNS: 4, GPUReadyNS: 5, SendProbes: 7, RecvProbes: 2, SendQP: 1001}
	w.Complete(want)
	read := func() trace.Completion {
		t.Helper()
		done, _, err := open(t, w.Path()).Completions(0, nil)
		if err != nil || len(done) != 1 {
			t.Fatalf("%d records, %v", len(done), err)
		}
		return done[0]
	}
	if got := read(); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	file, err := os.OpenFile(w.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	header := make([]byte, unsafe.Sizeof(wire.Header{}))
	if _, err := file.ReadAt(header, 0); err != nil {
		t.Fatal(err)
	}
	sections := (*wire.Header)(unsafe.Pointer(&header[0])).Sections[:]
	i := slices.IndexFunc(sections, func(s wire.Section) bool { return s.Kind == wire.SectionCompletions })
	sections[i].EntryBytes = uint32(unsafe.Offsetof(wire.Completion{}.SendProbes)) // As long as version 1.4 had it.
	if _, err := file.WriteAt(header, 0); err != nil {
		t.Fatal(err)
	}
	want.SendProbes, want.RecvProbes, want.SendQP = 0, 0, 0
	if got := read(); got != want {
		t.Errorf("of version 1.4 read %+v, want %+v", got, want)
	}
}

// A ring that is read piece by piece gives the same records.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.trace")
	w, err := tracetest.Create(path, trace.Identity{}, tracetest.Size{Completions: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range uint64(100) {
		w.Complete(trace.Completion{Number: i})
	}
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Bound(30)
	var sizes []int
	var all []trace.Completion
	for since := uint64(0); since < 100; {
		done, span, err := f.Completions(since, nil)
		if err != nil || span.Lost != 0 || span.Next != since+uint64(len(done)) {
			t.Fatalf("%d records, span %+v, %v", len(done), span, err)
		}
		since, all, sizes = span.Next, append(all, done...), append(sizes, len(done))
	}
	if !slices.Equal(sizes, []int{30, 30, 30, 10}) || all[99].Number != 99 {
		t.Errorf("read %v records", sizes)
	}
}

// TestNamesThatLookAlike: a process that calls itself by another's name and a character that leaves no trace is shown with a mark in its place.
func TestNamesThatLookAlike(t *testing.T) {
	for name, want := range map[string]string{"llm": "llm", "llm\u3164": "llm\ufffd", "llm\u200b": "llm\ufffd", "l\u2800lm": "l\ufffdlm", "llm\ufe0f": "llm\ufffd", "日本": "日本"} {
		path := filepath.Join(t.TempDir(), "a"+trace.Suffix)
		w, err := tracetest.Create(path, trace.Identity{JobID: name}, tracetest.Size{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		f, err := trace.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var snap trace.Snapshot
		if err := f.Snapshot(&snap); err != nil || snap.Identity.JobID != want {
			t.Errorf("%q is %q, %v", name, snap.Identity.JobID, err)
		}
	}
}
