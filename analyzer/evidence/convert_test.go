// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	second = uint64(time.Second)
	nowNS  = 1000 * second
)

// process is rank 1 of 4, inside its operation 41.
func process1() *nodeapi.Process {
	p := &nodeapi.Process{
		File: "a.trace", JobID: "job", Rank: 1, Host: "node-0", GPU: "3", Pod: "trainer-0",
		Kernel: &nodeapi.Kernel{
			State: nodeapi.ProcessSleep, Verified: true, HostPID: 4711, CPUCores: 1.5, ReadBytesPerSec: 10, WriteBytesPerSec: 20,
			Threads: []nodeapi.Thread{
				{Role: "user", RunDelayFrac: 0.9}, {Role: "proxy", RunDelayFrac: 0.1}, {Role: "proxy", RunDelayFrac: 0.3},
			},
		},
	}
	p.Identity = trace.Identity{
		PID: 17, PodName: "another's",
		Capabilities: trace.CapCommIdentity | trace.CapProxySteps | trace.CapPeerWait | trace.CapKernelCh | trace.CapCompletion,
	}
	p.Status = trace.Status{DroppedOps: 2, ContendedEvents: 3, StaleEvents: 99, GroupOpenSinceNS: nowNS - 4*second}
	p.Comms = []trace.Comm{
		{
			Index: 2, Generation: 5, ID: 0xbeef, NRanks: 4, Rank: 1, Name: "dp", OpsCalled: 42, OpsStarted: 42, OpsCompleted: 41,
			LastCalledNS: nowNS - 3*second, LastCompletedNS: nowNS - 9*second,
		},
		{Index: 3, Generation: 1, ID: 0xdead, NRanks: 2, Ended: true},
		{Index: 4, Generation: 1, ID: 0xfeed, NRanks: 2, DestroyedNS: 5},
	}
	p.Comms[0].SeqStarted[trace.AllReduce] = 42
	p.Ops = []trace.Op{
		{
			Index: 9, Generation: 3, CommIndex: 2, CommGeneration: 5, Number: 41, Seq: 40, Func: trace.AllReduce, Algo: trace.AlgoRing,
			Proto: trace.ProtoLL128, Datatype: "bfloat16", Count: 8, Bytes: 16, Peer: -1, Root: -1, Channels: 2, State: trace.OpMoving,
			CalledNS: nowNS - 4*second, EnqueuedNS: nowNS - 3*second, LastProgressNS: nowNS - 2*second, KernelStarted: 3, KernelStopped: 1,
		},
		{Index: 8, Generation: 3, CommIndex: 2, CommGeneration: 5, Number: 40, Func: trace.AllGather, State: trace.OpLeft, Flags: trace.OpBarrier},
		{Index: 7, Generation: 3, CommIndex: 2, CommGeneration: 4, Number: 12, State: trace.OpMoving}, // Of the slot's former owner.
	}
	p.Flows = []trace.Flow{
		{
			CommIndex: 2, CommGeneration: 5, Channel: 1, State: trace.FlowRecvNet, Peer: 0, OpIndex: 9, OpGeneration: 3, StepsTotal: 8, Posted: 6, Ready: 4,
			Transmitted: 3, Done: 2, Bytes: 100, LastProgressNS: nowNS - 2*second, WaitNS: [3]uint64{1, 2, 3}, ActiveNS: 7,
		},
		{
			CommIndex: 2, CommGeneration: 5, Channel: 1, IsSend: true, State: trace.FlowSendPeer, Peer: 2, OpIndex: 9, OpGeneration: 3, StepsTotal: 8, Posted: 6,
			Ready: 5, Transmitted: 4, Done: 4, PeerPolls: 12, OpStartedNS: nowNS - 3*second,
		},
		{
			CommIndex: 2, CommGeneration: 5, Channel: 0, IsSend: true, State: trace.FlowSendNet, Peer: 2, OpIndex: 8, OpGeneration: 3, StepsTotal: 4, Posted: 4,
			Ready: 4, Transmitted: 4, Done: 3, LastProgressNS: nowNS - 2*second,
		},
		{Channel: 0, State: trace.FlowIdle, OpIndex: 9, OpGeneration: 3},
		{Channel: 0, State: trace.FlowSendNet, OpIndex: 9, OpGeneration: 2}, // Of an earlier operation.
	}
	p.Completions = []trace.Completion{
		{CommIndex: 2, CommGeneration: 5, Number: 39, Seq: 39, Func: trace.Send, Flags: trace.OpP2P, Peer: 3, Root: -1, EnqueuedNS: nowNS - 10*second},
		{CommIndex: 2, CommGeneration: 5, Number: 40, Func: trace.AllGather},
		{CommIndex: 3, CommGeneration: 1, Number: 7},
	}
	return p
}

func TestRank(t *testing.T) {
	got := Rank(process1(), nowNS)
	want := rca.Rank{
		ID: 1, Host: "node-0", GPU: "3", PID: 4711, Pod: "trainer-0", State: rca.ProcessRunning,
		Caps: rca.SeesCalls | rca.SeesSteps | rca.SeesPeerWait | rca.SeesKernels | rca.SeesCompletion | rca.SeesProcess,
		Lost: 5, ReadBytesPerSec: 10, WriteBytesPerSec: 20, CPUCores: 1.5, ProxyRunDelay: 0.3, GroupOpen: 4 * time.Second,
		Memberships: []rca.Membership{{
			Comm: "beef/4", CommRank: 1, Order: 1, Called: 42, Started: 42, Completed: 41, FuncCalled: map[string]int64{"AllReduce": 42},
			SinceCalled: 3 * time.Second, SinceCompleted: 9 * time.Second,
			InFlight: []rca.Op{{
				Number: 41, Seq: 40, Func: "AllReduce", Peer: -1, Root: -1, Count: 8, Bytes: 16, Datatype: "bfloat16", Algo: "ring", Proto: "ll128",
				State: rca.OpMoving, Age: 4 * time.Second, Stuck: 2 * time.Second, Channels: 2, KernelStarted: 2, KernelStopped: 1,
				Flows: []rca.Flow{
					{Channel: 1, Send: true, Peer: 2, Total: 8, Posted: 6, Ready: 5, Transmitted: 4, Done: 4, PeerPolls: 12, Stuck: 3 * time.Second},
					{
						Channel: 1, Peer: 0, Total: 8, Posted: 6, Ready: 4, Transmitted: 3, Done: 2, Bytes: 100, Stuck: 2 * time.Second,
						Wait: [3]time.Duration{1, 2, 3}, Active: 7,
					},
				},
			}},
			Recent: []rca.Op{
				{
					Number: 39, Seq: 39, Func: "Send", Peer: 3, Root: -1, State: rca.OpLeft, Age: 10 * time.Second, Stuck: -1, KernelStarted: -1,
					KernelStopped: -1,
				},
				{
					Number: 40, Func: "AllGather", Peer: -1, State: rca.OpLeft, Age: -1, Stuck: -1, Barrier: true,
					Flows: []rca.Flow{{Send: true, Peer: 2, Total: 4, Posted: 4, Ready: 4, Transmitted: 4, Done: 3, Stuck: 2 * time.Second}},
				},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rank (-want +got):\n%s", diff)
	}
}

// TestEndsThatNobodySaw: operations that are given up when a later one needs their place do not say when the last one ended.
func TestEndsThatNobodySaw(t *testing.T) {
	for _, c := range []struct {
		unseen uint64
		want   time.Duration
	}{{0, 9 * time.Second}, {40, 9 * time.Second}, {41, -1}} {
		p := process1()
		p.Comms[0].OpsUnseen = c.unseen
		if got := Rank(p, nowNS).Memberships[0].SinceCompleted; got != c.want {
			t.Errorf("of 41 operations %d ended unseen, and the last %v ago, want %v", c.unseen, got, c.want)
		}
	}
}

func TestProcessState(t *testing.T) {
	for state, want := range map[nodeapi.ProcessState]rca.ProcessState{
		nodeapi.ProcessRunning: rca.ProcessRunning, nodeapi.ProcessSleep: rca.ProcessRunning, nodeapi.ProcessDisk: rca.ProcessDisk,
		nodeapi.ProcessStopped: rca.ProcessStopped, nodeapi.ProcessZombie: rca.ProcessGone, nodeapi.ProcessGone: rca.ProcessGone,
		nodeapi.ProcessExited: rca.ProcessExited, nodeapi.ProcessUnknown: rca.ProcessUnknown, "newer": rca.ProcessUnknown,
	} {
		p := &nodeapi.Process{Kernel: &nodeapi.Kernel{State: state, CPUCores: 1}}
		r := Rank(p, nowNS)
		if r.State != want {
			t.Errorf("%s is %q, want %q", state, r.State, want)
		}
		if lives := r.CPUCores == 1; lives != (want == rca.ProcessRunning || want == rca.ProcessDisk || want == rca.ProcessStopped) {
			t.Errorf("%s has CPU use %v", state, r.CPUCores)
		}
	}
	closed := &nodeapi.Process{Kernel: &nodeapi.Kernel{State: nodeapi.ProcessGone}}
	closed.Status.ClosedNS = 1
	if got := Rank(closed, nowNS).State; got != rca.ProcessExited {
		t.Errorf("an orderly end is %q", got)
	}
	unseen := Rank(&nodeapi.Process{}, nowNS)
	if unseen.State != rca.ProcessUnknown || unseen.CPUCores != -1 || unseen.ProxyRunDelay != -1 || unseen.Caps != 0 {
		t.Errorf("without the kernel's view: %+v", unseen)
	}
}

func TestKernelsOnlyWhereTrusted(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*nodeapi.Process)
	}{
		{"communicator", func(p *nodeapi.Process) { p.Comms[0].Flags |= trace.CommKernelUntrusted }},
		{"operation", func(p *nodeapi.Process) { p.Ops[0].Flags |= trace.OpKernelUntrusted }},
		{"capability", func(p *nodeapi.Process) { p.Identity.Capabilities &^= trace.CapKernelCh }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := process1()
			tc.change(p)
			if o := Rank(p, nowNS).Memberships[0].InFlight[0]; o.KernelStarted != -1 || o.KernelStopped != -1 {
				t.Errorf("kernels are %d and %d", o.KernelStarted, o.KernelStopped)
			}
		})
	}
}

// A broken file's claims become unknown, never a negative age or a wrapped number.
func TestHostileNumbers(t *testing.T) {
	p := process1()
	p.Comms[0].OpsCalled = math.MaxUint64
	p.Comms[0].LastCalledNS = math.MaxUint64
	p.Ops[0].Number = math.MaxUint64
	p.Ops[0].LastProgressNS = math.MaxUint64
	p.Flows[0].WaitNS[0] = math.MaxUint64
	p.Flows[0].Bytes = math.MaxUint64
	m := Rank(p, nowNS).Memberships[0]
	o := m.InFlight[0]
	if m.Called != -1 || m.SinceCalled != 0 || o.Number != -1 || o.Stuck != 0 || o.Flows[1].Wait[0] != 0 || o.Flows[1].Bytes != -1 {
		t.Errorf("membership is %+v", m)
	}
}

func TestRecentIsBounded(t *testing.T) {
	p := process1()
	p.Ops = nil
	p.Completions = nil
	for n := range 30 {
		p.Completions = append(p.Completions, trace.Completion{CommIndex: 2, CommGeneration: 5, Number: uint64(n)})
	}
	recent := Rank(p, nowNS).Memberships[0].Recent
	if len(recent) != recentOps || recent[0].Number != 22 || recent[recentOps-1].Number != 29 {
		t.Errorf("recent is %+v", recent)
	}
}

func TestFacts(t *testing.T) {
	got := Facts([]nodeapi.Fact{
		{Component: "pcie", Device: "0000:17:00.0", Kind: "link_width_reduced", Value: 4, Expected: 16, Unit: "lanes", Rank: 1, AgeSeconds: 1.5},
		{Component: "gpu", Kind: "xid", Value: 79, Rank: -1, Text: "fell off the bus"},
	}, "node-0")
	want := []rca.Fact{
		{
			Host: "node-0", Rank: 1, Component: "pcie", Device: "0000:17:00.0", Kind: "link_width_reduced", Value: 4, Expected: 16, Age: 1500 * time.Millisecond,
			Text: "pcie 0000:17:00.0: link_width_reduced 4 lanes (expected 16)",
		},
		{Host: "node-0", Rank: -1, Component: "gpu", Kind: "xid", Value: 79, Text: "fell off the bus"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestSegment(t *testing.T) {
	c := &trace.Completion{
		CommID: 0xbeef, NRanks: 4, Number: 5, Seq: 3, Func: trace.ReduceScatter, Bytes: 64, CalledNS: 90, EnqueuedNS: 100, LeftNS: 500,
		Send: trace.Direction{Flows: 2, Steps: 4, Bytes: 48, ActiveNS: 30, WaitNS: [3]uint64{1, 2, 3}, FirstStepNS: 120, SlowestChannel: 1, SlowestPeer: 2, SlowestNS: 50, FastestNS: 10},
		Recv: trace.Direction{Flows: 1, Steps: 5, Bytes: 32, ActiveNS: 40, WaitNS: [3]uint64{4, 5, 6}, FirstStepNS: 110, SlowestChannel: 3, SlowestPeer: 0, SlowestNS: 70, FastestNS: 20},
	}
	got, ok := segment(c, "beef/4")
	want := rca.Segment{
		Rank: -1, Kind: rca.SegmentOp, Iteration: -1, Comm: "beef/4", Number: 5, Seq: 3, SendFlows: 2, RecvFlows: 1, SendBytes: 48, RecvBytes: 32, SendActive: 30, RecvActive: 40, SendPeer: 2, Func: "ReduceScatter", Peer: -1, Bytes: 64, Start: 100, End: 500,
		Active: 40, SendWait: [3]time.Duration{1, 2, 3}, RecvWait: [3]time.Duration{4, 5, 6}, Steps: 9, SlowestChannel: 3, SlowestPeer: 0,
		SlowestTime: 70, FastestTime: 20, Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1,
	}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("segment, %v (-want +got):\n%s", ok, diff)
	}
	for algo, want := range map[trace.Algo]int{trace.AlgoRing: 7, trace.AlgoTree: 7, trace.AlgoUnknown: 0} {
		probed := *c
		probed.Algo, probed.SendProbes, probed.RecvProbes = algo, 7, 7
		if got, _ := segment(&probed, "beef/4"); got.SendProbes != want || got.RecvProbes != want {
			t.Errorf("%s: %d and %d probes, want %d", algo, got.SendProbes, got.RecvProbes, want)
		}
	}
	c.EnteredNS = 105
	if got, _ := segment(c, "beef/4"); got.Entered != 105 {
		t.Errorf("entered at %d", got.Entered)
	}
	for name, bad := range map[string]trace.Completion{
		"no start": {LeftNS: 5}, "never left": {EnqueuedNS: 5}, "left before": {EnqueuedNS: 5, LeftNS: 4}, "absurd": {EnqueuedNS: 5, LeftNS: math.MaxUint64},
	} {
		if _, ok := segment(&bad, "beef/4"); ok {
			t.Errorf("%s became a segment", name)
		}
	}
}

// TestEntered: where kernels are not seen, the first data that a GPU offers tells when it arrived, if it is its own.
func TestEntered(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fn      trace.Func
		algo    trace.Algo
		kernel  uint64
		ready   uint64
		entered int64
	}{
		{"a ring's first send", trace.AllReduce, trace.AlgoRing, 0, 140, 140},
		{"a send", trace.Send, trace.AlgoUnknown, 0, 140, 140},
		{"the kernel is seen", trace.AllReduce, trace.AlgoRing, 130, 140, 130},
		{"nothing sent over the network", trace.AllReduce, trace.AlgoRing, 0, 0, 0},
		{"a tree passes on", trace.AllReduce, trace.AlgoTree, 0, 140, 0},
		{"a ring from a root passes on", trace.Broadcast, trace.AlgoRing, 0, 140, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, ok := segment(&trace.Completion{
				Func: tt.fn, Algo: tt.algo, EnqueuedNS: 100, EnteredNS: tt.kernel, LeftNS: 500, GPUReadyNS: tt.ready, Recv: trace.Direction{FirstStepNS: 110},
			}, "c")
			if !ok || s.Entered != tt.entered {
				t.Errorf("entered at %d, want %d", s.Entered, tt.entered)
			}
		})
	}
}

// TestUntoldRanks: where a process has two members of one communicator, it is not known which of them shows what.
func TestUntoldRanks(t *testing.T) {
	p := process1()
	if Untold(p) {
		t.Error("an ordinary process is not taken for one rank")
	}
	again := p.Comms[0]
	p.Comms = append(p.Comms, again)
	if Untold(p) {
		t.Error("a communicator that is there twice is not taken for one rank's")
	}
	again.Rank++
	p.Comms = append(p.Comms, again)
	if !Untold(p) {
		t.Error("two members of a communicator are taken for one rank")
	}
	a := assembly{seen: map[int]seen{}, apart: map[int]bool{}, comms: map[rca.CommID]*membership{}}
	a.node(&Node{Ranks: []int{int(p.Rank)}, state: &nodeapi.State{NowNS: nowNS, Processes: []nodeapi.Process{*p}}}, &Session{job: identity.Job{ID: p.JobID}})
	if len(a.seen) > 0 || len(a.ev.Missing) != 1 || a.ev.Missing[0].Why != WhyUntold {
		t.Errorf("seen %+v, missing %+v", a.seen, a.ev.Missing)
	}
}

// TestCalls converts a process's calls: one on a communicator, one that has returned, and one that ends a communicator.
func TestCalls(t *testing.T) {
	p := process1()
	p.CallsSeen = true
	p.Calls = []trace.Call{
		{Name: "ncclCommSplit", ID: 0x10, Size: 4, Comm: 0xbeef, CommRanks: 4, Thread: 17, SinceNS: nowNS - 3*second},
		{Name: "ncclCommDestroy", ID: 0x20, Size: 2, SinceNS: nowNS + second},
		{Name: "ncclCommInitRank", ID: 0x30, Size: 8, SinceNS: nowNS - 9*second, ReturnedNS: nowNS - 8*second},
		{Name: "ncclCommInitRankConfig", ID: 0x40, Size: 8, SinceNS: nowNS - 9*second, ReturnedNS: nowNS - 8*second, Result: 7},
		{Name: "ncclCommInitAll", SinceNS: nowNS - second},
	}
	got := Rank(p, nowNS)
	if got.Caps&rca.SeesInit == 0 {
		t.Error("the hooks are not seen")
	}
	want := []rca.Call{
		{Name: "ncclCommSplit", ID: "10", Size: 4, On: "beef/4", Since: 3 * time.Second, Makes: true},
		{Name: "ncclCommDestroy", ID: "20", Size: 2},
		{Name: "ncclCommInitRank", ID: "30", Size: 8, Since: 9 * time.Second, Makes: true, Returned: true, Done: true},
		{Name: "ncclCommInitRankConfig", ID: "40", Size: 8, Since: 9 * time.Second, Makes: true, Returned: true},
		{Name: "ncclCommInitAll", Since: time.Second, Makes: true},
	}
	for i := range want {
		if want[i].ID != "" {
			want[i].ID = p.Calls[i].ID.String()
		}
	}
	want[0].On = CommID(trace.CommKey{ID: 0xbeef, NRanks: 4})
	if diff := cmp.Diff(want, got.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	p.Calls = make([]trace.Call, 1000)
	if n := len(Rank(p, nowNS).Calls); n != maxCalls {
		t.Errorf("%d calls of 1000 are taken", n)
	}
}
