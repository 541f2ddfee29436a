// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// recentOps is how many finished operations of a communicator are kept to compare types and sizes.
const recentOps = 8

// CommID gives the engine's name of a communicator. It contains the size, because identifiers alone can collide.
func CommID(key trace.CommKey) rca.CommID {
	return rca.CommID(key.ID.String() + "/" + strconv.Itoa(int(key.NRanks)))
}

// Rank converts one process. nowNS is the host's monotonic clock at the time the state was read.
func Rank(p *nodeapi.Process, nowNS uint64) rca.Rank {
	r := rca.Rank{
		ID:               int(p.Rank),
		Host:             p.Host,
		GPU:              p.GPU,
		NIC:              nicOf(p),
		PID:              int(p.Identity.PID),
		Pod:              p.Pod, // As the kubelet names it: the identity is the process's own claim.
		State:            processState(p),
		World:            int(max(0, p.Identity.WorldSize)),
		Began:            trace.Since(nowNS, p.Identity.CreatedNS),
		Caps:             capabilities(p),
		Lost:             lost(&p.Status),
		ReadBytesPerSec:  -1,
		WriteBytesPerSec: -1,
		CPUCores:         -1,
		ProxyRunDelay:    -1,
		GroupOpen:        trace.Since(nowNS, p.Status.GroupOpenSinceNS),
	}
	if p.Kernel != nil {
		r.Ended, r.SeenAlive = seconds(p.Kernel.GoneForSeconds), seconds(p.Kernel.SeenAliveSecondsAgo)
	}
	if k := p.Kernel; k != nil && alive(k.State) {
		r.ReadBytesPerSec, r.WriteBytesPerSec, r.CPUCores = k.ReadBytesPerSec, k.WriteBytesPerSec, k.CPUCores
		for _, t := range k.Threads {
			if t.Role == "proxy" {
				r.ProxyRunDelay = max(r.ProxyRunDelay, t.RunDelayFrac)
			}
		}
		if k.HostPID > 0 {
			r.PID = k.HostPID
		}
	}
	x := newIndex(p)
	for i := range p.Comms {
		if c := &p.Comms[i]; !c.Ended && c.DestroyedNS == 0 {
			r.Memberships = append(r.Memberships, x.membership(c, nowNS, r.Caps))
		}
	}
	if p.CallsSeen {
		r.Caps |= rca.SeesInit
	}
	for i := range p.Calls[:min(len(p.Calls), maxCalls)] {
		r.Calls = append(r.Calls, call(&p.Calls[i], nowNS))
	}
	return r
}

// nicOf gives the NIC that all queue pairs of a process are on; empty where none is seen (the verbs interposer shows them) or they are on
// several: what ails one of them does not ail all that the rank sends.
func nicOf(p *nodeapi.Process) string {
	name := ""
	for i := range p.QPs {
		switch d := p.QPs[i].Device; {
		case d == "", d == name:
		case name != "":
			return ""
		default:
			name = d
		}
	}
	return name
}

// Untold reports whether a process drives several ranks that its trace does not tell apart: two of them are members of one
// communicator. What the trace shows of one rank must not be attributed to another.
func Untold(p *nodeapi.Process) bool {
	ranks := map[trace.CommKey]int32{}
	for i := range p.Comms {
		c := &p.Comms[i]
		if c.Ended || c.ID == 0 {
			continue
		}
		if other, twice := ranks[c.Key()]; twice && other != c.Rank {
			return true
		}
		ranks[c.Key()] = c.Rank
	}
	return false
}

// WhyUntold is the reason given for such a process.
const WhyUntold = "its process drives several GPUs, and its trace does not tell which communicator runs on which"

// maxCalls bounds how many calls of a process are read: as many as an honest exporter reports.
const maxCalls = 96

func call(c *trace.Call, nowNS uint64) rca.Call {
	out := rca.Call{Name: c.Name, Size: int(c.Size), Since: trace.Since(nowNS, c.SinceNS), Returned: c.ReturnedNS != 0, Makes: c.Makes()}
	if c.ID != 0 {
		out.ID = c.ID.String()
	}
	if c.Comm != 0 {
		out.On = CommID(trace.CommKey{ID: c.Comm, NRanks: c.CommRanks})
	}
	out.Done = out.Returned && c.Result == 0
	return out
}

func alive(s nodeapi.ProcessState) bool {
	switch s {
	case nodeapi.ProcessRunning, nodeapi.ProcessSleep, nodeapi.ProcessDisk, nodeapi.ProcessStopped:
		return true
	default:
		return false
	}
}

func processState(p *nodeapi.Process) rca.ProcessState {
	if p.Status.ClosedNS != 0 {
		return rca.ProcessExited
	}
	if p.Kernel == nil {
		return rca.ProcessUnknown
	}
	switch p.Kernel.State {
	case nodeapi.ProcessRunning, nodeapi.ProcessSleep:
		return rca.ProcessRunning
	case nodeapi.ProcessDisk:
		return rca.ProcessDisk
	case nodeapi.ProcessStopped:
		return rca.ProcessStopped
	case nodeapi.ProcessZombie, nodeapi.ProcessGone:
		return rca.ProcessGone
	case nodeapi.ProcessExited:
		return rca.ProcessExited
	default:
		return rca.ProcessUnknown
	}
}

func capabilities(p *nodeapi.Process) rca.Capability {
	has := p.Identity.Capabilities
	var out rca.Capability
	for _, c := range []struct {
		trace uint64
		rca   rca.Capability
	}{
		// Every profiler version that tells communicators apart has operation events. API events only add the time of the call.
		{trace.CapCommIdentity | trace.CapAPIEvents, rca.SeesCalls},
		{trace.CapAPIEvents, rca.SeesCallTimes},
		{trace.CapProxySteps, rca.SeesSteps},
		{trace.CapPeerWait, rca.SeesPeerWait},
		{trace.CapKernelCh, rca.SeesKernels},
		{trace.CapCompletion, rca.SeesCompletion},
	} {
		if has&c.trace != 0 {
			out |= c.rca
		}
	}
	if p.Kernel != nil && p.Kernel.State != nodeapi.ProcessUnknown {
		out |= rca.SeesProcess
	}
	return out
}

// slot names an entry of one of a trace file's tables.
type slot struct{ index, generation uint32 }

// index finds the records of a communicator and of an operation. Records are removed when they are found, so a hostile process
// that names one slot a thousand times does not get its contents a thousand times.
type index struct {
	done  map[slot][]*trace.Completion
	ops   map[slot][]*trace.Op
	flows map[slot][]*trace.Flow
	made  []uint64 // Times at which communicators were made, in order.
}

func newIndex(p *nodeapi.Process) *index {
	x := &index{done: map[slot][]*trace.Completion{}, ops: map[slot][]*trace.Op{}, flows: map[slot][]*trace.Flow{}}
	for i := range p.Comms {
		x.made = append(x.made, p.Comms[i].CreatedNS)
	}
	slices.Sort(x.made)
	for i := range p.Completions {
		c := &p.Completions[i]
		at := slot{c.CommIndex, c.CommGeneration}
		x.done[at] = append(x.done[at], c)
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		at := slot{o.CommIndex, o.CommGeneration}
		x.ops[at] = append(x.ops[at], o)
	}
	for i := range p.Flows {
		f := &p.Flows[i]
		at := slot{f.OpIndex, f.OpGeneration}
		x.flows[at] = append(x.flows[at], f)
	}
	return x
}

func (x *index) membership(c *trace.Comm, nowNS uint64, caps rca.Capability) rca.Membership {
	m := rca.Membership{
		Comm:            CommID(c.Key()),
		CommRank:        int(c.Rank),
		Called:          signed(c.OpsCalled),
		Started:         signed(c.OpsStarted),
		Completed:       signed(c.OpsCompleted),
		SinceCompleted:  since(nowNS, c.LastCompletedNS),
		SinceCalled:     since(nowNS, c.LastCalledNS),
		Nodes:           max(0, int(c.NNodes)),
		KernelUntrusted: c.Flags&trace.CommKernelUntrusted != 0,
	}
	if c.OpsUnseen > 0 && c.OpsUnseen == c.OpsCompleted {
		m.SinceCompleted = -1 // Nothing shows an end: each is given up when a later one needs its place.
	}
	before, _ := slices.BinarySearch(x.made, c.CreatedNS)
	m.Order = before + 1
	for f, n := range c.SeqStarted {
		if n == 0 {
			continue
		}
		if m.FuncCalled == nil {
			m.FuncCalled = map[string]int64{}
		}
		m.FuncCalled[trace.Func(f).String()] = signed(n)
	}
	kernels := caps&rca.SeesKernels != 0 && !m.KernelUntrusted
	at := slot{c.Index, c.Generation}
	for _, o := range x.ops[at] {
		op := inFlight(o, nowNS, kernels)
		op.Flows = x.flowsOf(o, nowNS)
		if o.State == trace.OpLeft {
			m.Recent = append(m.Recent, op) // Its proxy may still be at it.
		} else {
			m.InFlight = append(m.InFlight, op)
		}
	}
	for _, done := range x.done[at] {
		m.Recent = append(m.Recent, completed(done, nowNS))
	}
	delete(x.done, at)
	delete(x.ops, at)
	byNumber := func(a, b rca.Op) int { return cmp.Compare(a.Number, b.Number) }
	slices.SortFunc(m.InFlight, byNumber)
	slices.SortStableFunc(m.Recent, byNumber)
	m.Recent = slices.CompactFunc(m.Recent, func(a, b rca.Op) bool { return a.Number == b.Number })
	m.Recent = m.Recent[max(0, len(m.Recent)-recentOps):]
	return m
}

// lost counts losses that weaken conclusions from absence: operations, communicators and flows for which the shim had no room.
// The next step makes up for a step that was left out because another thread held the slot. Many such steps are not made up for.
func lost(s *trace.Status) uint64 {
	const tolerated = 1000 // One contended event per this many callbacks.
	n := s.DroppedComms + s.DroppedOps + s.DroppedFlows
	if s.ContendedEvents > s.Callbacks/tolerated {
		n += s.ContendedEvents
	}
	return n
}

func inFlight(o *trace.Op, nowNS uint64, kernels bool) rca.Op {
	op := rca.Op{
		Number:          signed(o.Number),
		Seq:             signed(o.Seq),
		Func:            o.Func.String(),
		Peer:            -1,
		Root:            int(o.Root),
		Count:           signed(o.Count),
		Bytes:           signed(o.Bytes),
		Datatype:        o.Datatype,
		Algo:            known(o.Algo.String()),
		Proto:           known(o.Proto.String()),
		State:           opState(o.State),
		Age:             -1,
		Stuck:           -1,
		Channels:        int(o.Channels),
		KernelStarted:   -1,
		KernelStopped:   -1,
		Barrier:         o.Flags&trace.OpBarrier != 0,
		NoCompletion:    o.Flags&trace.OpNoCompletion != 0,
		ProxyUnreliable: o.Flags&trace.OpProxyUnreliable != 0,
		GroupOrdinal:    int64(o.GroupOrdinal),
	}
	if o.Flags&trace.OpP2P != 0 {
		op.Peer = int(o.Peer)
	}
	if op.NoCompletion && o.State == trace.OpCalled && o.EnqueuedNS == 0 {
		op.Seq = -1 // NCCL gives per-function numbers to operations that it launches with events. This one was not.
	}
	if kernels && o.Flags&trace.OpKernelUntrusted == 0 {
		op.KernelStarted, op.KernelStopped = bits.OnesCount64(o.KernelStarted), bits.OnesCount64(o.KernelStopped)
	}
	if first := firstOf(o.CalledNS, o.EnqueuedNS, o.EnteredNS, o.FirstStepNS); first != 0 {
		op.Age = trace.Since(nowNS, first)
	}
	if last := max(o.CalledNS, o.EnqueuedNS, o.EnteredNS, o.FirstStepNS, o.LastProgressNS); last != 0 {
		op.Stuck = trace.Since(nowNS, last)
	}
	return op
}

func completed(c *trace.Completion, nowNS uint64) rca.Op {
	op := rca.Op{
		Number:        signed(c.Number),
		Seq:           signed(c.Seq),
		Func:          c.Func.String(),
		Peer:          -1,
		Root:          int(c.Root),
		Count:         signed(c.Count),
		Bytes:         signed(c.Bytes),
		Algo:          known(c.Algo.String()),
		Proto:         known(c.Proto.String()),
		State:         rca.OpLeft,
		Age:           -1,
		Stuck:         -1,
		Channels:      int(c.Channels),
		KernelStarted: -1,
		KernelStopped: -1,
		Barrier:       c.Flags&trace.OpBarrier != 0,
		NoCompletion:  c.Flags&trace.OpNoCompletion != 0,
	}
	if c.Flags&trace.OpP2P != 0 {
		op.Peer = int(c.Peer)
	}
	if first := firstOf(c.CalledNS, c.EnqueuedNS, c.EnteredNS); first != 0 {
		op.Age = trace.Since(nowNS, first)
	}
	return op
}

func (x *index) flowsOf(o *trace.Op, nowNS uint64) []rca.Flow {
	at := slot{o.Index, o.Generation}
	defer delete(x.flows, at)
	var out []rca.Flow
	for _, f := range x.flows[at] {
		if f.State == trace.FlowIdle {
			continue
		}
		flow := rca.Flow{
			Channel:     int(f.Channel),
			Send:        f.IsSend,
			Peer:        int(f.Peer),
			Total:       int64(f.StepsTotal),
			Posted:      int64(f.Posted),
			Ready:       int64(f.Ready),
			Transmitted: int64(f.Transmitted),
			Done:        int64(f.Done),
			Bytes:       signed(f.Bytes),
			Stuck:       -1,
			PeerPolls:   int64(f.PeerPolls),
			Active:      nanoseconds(f.ActiveNS),
		}
		if last := max(f.OpStartedNS, f.FirstStepNS, f.LastProgressNS); last != 0 {
			flow.Stuck = trace.Since(nowNS, last)
		}
		for n, wait := range f.WaitNS {
			flow.Wait[n] = nanoseconds(wait)
		}
		out = append(out, flow)
	}
	slices.SortFunc(out, func(a, b rca.Flow) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), compareBool(b.Send, a.Send), cmp.Compare(a.Peer, b.Peer))
	})
	return out
}

// Facts converts what a host reports of its devices. host is its name among the ranks.
func Facts(facts []nodeapi.Fact, host string) []rca.Fact {
	out := make([]rca.Fact, 0, len(facts))
	for _, f := range facts {
		text := f.Text
		if text == "" {
			text = factText(&f)
		}
		out = append(out, rca.Fact{
			Host: host, Rank: int(f.Rank), Component: f.Component, Device: f.Device, Kind: f.Kind, Value: f.Value,
			Expected: f.Expected, Age: seconds(f.AgeSeconds), Text: text,
		})
	}
	return out
}

func factText(f *nodeapi.Fact) string {
	out := fmt.Sprintf("%s %s: %s %g", f.Component, f.Device, f.Kind, f.Value)
	if f.Unit != "" {
		out += " " + f.Unit
	}
	if f.Expected != 0 {
		out += fmt.Sprintf(" (expected %g)", f.Expected)
	}
	return out
}

func opState(s trace.OpState) rca.OpState {
	switch s {
	case trace.OpCalled:
		return rca.OpCalled
	case trace.OpEnqueued:
		return rca.OpEnqueued
	case trace.OpEntered:
		return rca.OpEntered
	case trace.OpMoving:
		return rca.OpMoving
	case trace.OpLeft:
		return rca.OpLeft
	default:
		return rca.OpUnknown
	}
}

// known returns an empty name for one that means unknown.
func known(name string) string {
	if name == "unknown" {
		return ""
	}
	return name
}

// since is trace.Since with -1 for never.
func since(nowNS, atNS uint64) time.Duration {
	if atNS == 0 {
		return -1
	}
	return trace.Since(nowNS, atNS)
}

func firstOf(stamps ...uint64) uint64 {
	for _, s := range stamps {
		if s != 0 {
			return s
		}
	}
	return 0
}

// signed converts a counter. A hostile file may contain any value; one that does not fit is unknown.
func signed(n uint64) int64 {
	if v := int64(n); v >= 0 {
		return v
	}
	return -1
}

func nanoseconds(n uint64) time.Duration { return time.Duration(max(0, signed(n))) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
