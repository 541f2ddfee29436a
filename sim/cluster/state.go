// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// quietAfter is for how long an operation has done nothing before a scrape looks at its flows.
const quietAfter = Time(time.Second)

// recentKept is how many finished operations of a communicator a node's state carries.
const recentKept = 8

// Hosts gives the number of hosts.
func (r *Recording) Hosts() int { return len(r.s.hosts) }

// World gives the number of ranks.
func (r *Recording) World() int { return len(r.s.ranks) }

// HostOf gives the host index of a rank.
func (r *Recording) HostOf(rank int) int { return int(r.s.hw[rank].host) }

// HostName gives a host's name.
func (r *Recording) HostName(host int) string { return r.s.hosts[host].name }

// Member gives the rank in the job of a communicator's member; false where there is none.
func (r *Recording) Member(comm string, rank int) (int, bool) {
	for _, c := range r.s.comms {
		if c.name == comm && rank < len(c.members) {
			return int(c.members[rank]), true
		}
	}
	return -1, false
}

// RanksOf gives the ranks of a host.
func (r *Recording) RanksOf(host int) []int {
	out := make([]int, 0, len(r.s.hosts[host].ranks))
	for _, q := range r.s.hosts[host].ranks {
		out = append(out, int(q))
	}
	return out
}

// Clock reads a host's monotonic clock at the end of the run, nanoseconds.
func (r *Recording) Clock(host int) uint64 { return r.s.hosts[host].clock(r.s.horizon) }

// Now is the moment that the recording shows, after the job's start.
func (r *Recording) Now() time.Duration { return r.s.horizon.Duration() }

// File gives the name of a rank's trace file.
func (r *Recording) File(rank int) string { return fileOf(r.s.ranks[rank].id) }

// JobID gives the job's name.
func (r *Recording) JobID() string { return r.s.cfg.Job.ID }

// Answers tells whether the host's exporter answers at the end of the run.
func (r *Recording) Answers(host int) bool {
	s := r.s
	if s.hosts[host].lostAt <= s.horizon {
		return false
	}
	return !slices.Contains(s.cfg.SilentHosts, host)
}

// State is what the host's exporter answers to GET /api/v1/state at the end of the run. It is an error to ask a host
// that does not answer.
func (r *Recording) State(h int) (*nodeapi.State, error) {
	s := r.s
	if !r.Answers(h) {
		return nil, fmt.Errorf("asking %s: no answer", s.hosts[h].name)
	}
	host := &s.hosts[h]
	st := &nodeapi.State{
		Version: nodeapi.Version, Exporter: "sim", Node: host.name,
		AtUnixNS: host.wallClock(s.horizon), NowNS: host.clock(s.horizon),
		Facts: s.facts(int32(h), s.horizon),
	}
	for _, q := range host.ranks {
		st.Processes = append(st.Processes, s.process(&s.ranks[q], allFlows))
	}
	return st, nil
}

// Process is one rank's part of State, without finished operations. Flows that have moved within the last second, and so need nobody's attention, are
// left out: computing them costs most. It is an error to ask for a rank of a host that does not answer.
func (r *Recording) Process(rank int) (nodeapi.Process, error) {
	if h := r.HostOf(rank); !r.Answers(h) {
		return nodeapi.Process{}, fmt.Errorf("asking %s: no answer", r.HostName(h))
	}
	return r.s.process(&r.s.ranks[rank], quietFlows), nil
}

// detail says which operations' flows are wanted.
type detail int

const (
	allFlows   detail = iota
	quietFlows        // Of operations in which this rank has not done anything for a while.
)

// process is one rank's trace file and what the kernel says.
func (s *sim) process(r *rank, want detail) nodeapi.Process {
	host := &s.hosts[s.hw[r.id].host]
	p := nodeapi.Process{
		File: fileOf(r.id), JobID: s.cfg.Job.ID, Rank: r.id, Host: host.name,
		GPU:    fmt.Sprint(s.hw[r.id].local),
		Kernel: s.kernel(r, s.horizon),
	}
	p.Identity = s.identity(r)
	b := snapshotter{s: s, r: r, host: host, p: &p, want: want, flowAt: map[flowKey]int{}, shown: map[int]bool{}}
	b.comms()
	b.ops()
	if want == allFlows {
		b.completions()
	}
	p.Status = s.status(r, &b)
	return p
}

// busOf is the PCI address of a GPU.
func busOf(local int32) string { return fmt.Sprintf("0000:%02x:00.0", 0x1b+0x10*local) }

func fileOf(rank int32) string { return fmt.Sprintf("rank%05d.trace", rank) }

func (s *sim) identity(r *rank) trace.Identity {
	host := &s.hosts[s.hw[r.id].host]
	hw := &s.hw[r.id]
	return trace.Identity{
		PID: uint32(pidOf(r.id)), PIDNamespace: 4026531836, StartTicks: host.clock(0) / 1e7,
		Rank: r.id, WorldSize: int32(len(s.ranks)), LocalRank: hw.local, NodeRank: hw.host, GPUIndex: hw.local,
		CreatedNS: host.clock(1), CreatedRealNS: uint64(host.wallClock(1)),
		BootID: fmt.Sprintf("%08x-0000-4000-8000-%012x", hw.host, hw.host), Hostname: host.name,
		ProcessName: "python3", JobID: s.cfg.Job.ID,
		GPUUUID: gpuUUID(s.cfg.Seed, r.id), GPUPCIBusID: "0000" + busOf(hw.local),
		ShimVersion: "sim", WriterABI: 6, Capabilities: s.cfg.Level.capabilities(),
	}
}

func (s *sim) status(r *rank, b *snapshotter) trace.Status {
	host := b.host
	real := host.wallClock(s.horizon) - int64(host.clock(s.horizon))
	return trace.Status{
		EventMask: 0x77e, HeartbeatNS: host.clock(b.last), RealMinusMonoNS: uint64(real), // As the shim writes it.
		CompletionsHead: r.history.ticket(r.history.n) - 1, Callbacks: 40 * (r.history.ticket(r.history.n) - 1),
	}
}

type flowKey struct {
	comm    uint32
	channel uint16
	send    bool
	peer    int32
}

// snapshotter fills in one rank's part of its trace file.
type snapshotter struct {
	s      *sim
	r      *rank
	host   *host
	p      *nodeapi.Process
	want   detail
	index  [numSlots]uint32 // Slot in the file.
	flowAt map[flowKey]int
	shown  map[int]bool // Finished operations without an end, by their place in the history, that are shown as in flight.
	last   Time         // Last change of anything.
}

func (b *snapshotter) clock(t Time) uint64 {
	if t == unset || t > b.s.horizon {
		return 0
	}
	b.last = max(b.last, t)
	return b.host.clock(t)
}

func (b *snapshotter) comms() {
	for sl := range numSlots {
		at := b.r.comms[sl]
		if at.comm < 0 {
			continue
		}
		c := b.s.comms[at.comm]
		n := &b.r.count[sl]
		b.index[sl] = uint32(len(b.p.Comms))
		tc := trace.Comm{
			Index: b.index[sl], Generation: 1, Flags: trace.CommHasAPI, ID: c.id,
			NRanks: int32(len(c.members)), Rank: at.rank, NNodes: int32(c.hosts),
			ProxyTID: uint32(pidOf(b.r.id) + 7), UserTID: uint32(pidOf(b.r.id)), Name: c.name,
			CreatedNS: b.clock(Time(50 * time.Millisecond)),
			OpsCalled: uint64(n.called), OpsStarted: uint64(n.started), OpsCompleted: uint64(n.completed),
		}
		if !b.s.cfg.Level.calls() {
			tc.OpsCalled = tc.OpsStarted
		}
		if b.s.allEndless(c) {
			tc.OpsCompleted = tc.OpsStarted - min(tc.OpsStarted, endlessKept)
		}
		if c.hosts > 1 && b.s.cfg.Level.steps() {
			tc.Flags |= trace.CommHasProxy
		}
		if b.s.cfg.Level.kernels() {
			tc.Flags |= trace.CommHasKernelCh
			if c.toSelf && n.called > 0 {
				tc.Flags |= trace.CommKernelUntrusted
			}
		}
		if n.called > 0 {
			tc.LastCalledNS = b.clock(n.lastCalled)
		}
		if n.completed > 0 && !b.s.allEndless(c) {
			tc.LastCompletedNS = b.clock(n.lastLeft)
			tc.LastProgressNS = tc.LastCompletedNS
		}
		for f, seq := range b.r.seqs[sl] {
			tc.SeqStarted[f] = uint64(seq)
		}
		b.p.Comms = append(b.p.Comms, tc)
	}
}

// ops writes the operations in flight and their flows.
func (b *snapshotter) ops() {
	var busy [numSlots]bool
	var launched [numSlots]int
	b.r.inFlight(func(sl slot, o *op, m int32) {
		mb := &o.mem[m]
		to := trace.Op{
			Index: uint32(len(b.p.Ops)), Generation: 1, CommIndex: b.index[sl], CommGeneration: 1,
			Number: uint64(mb.number), Seq: uint64(mb.seq), Channels: uint32(len(o.comm.rings)), Root: -1, Peer: -1,
			CalledNS: b.clock(mb.called), EnqueuedNS: b.clock(mb.enq), State: trace.OpCalled,
			UserTID: uint32(pidOf(b.r.id)), GroupOrdinal: uint32(mb.ordinal),
		}
		b.describe(&to, o, m)
		if !b.s.cfg.Level.calls() && to.EnqueuedNS == 0 {
			b.p.Comms[b.index[sl]].SeqStarted[to.Func]-- // Not launched, so the source has not heard of it.
			return
		}
		if to.EnqueuedNS != 0 {
			to.State = trace.OpEnqueued
		}
		if !b.s.cfg.Level.calls() {
			to.CalledNS = to.EnqueuedNS
		}
		entered := mb.entered != unset && mb.entered <= b.s.horizon
		if b.s.cfg.Level.kernels() && o.comm.toSelf {
			to.Flags |= trace.OpKernelUntrusted
		}
		if entered && b.s.kernelsSeen(o.comm) {
			to.State, to.EnteredNS = trace.OpEntered, b.clock(mb.entered)
			to.KernelStarted = 1<<to.Channels - 1
		}
		c := &b.p.Comms[b.index[sl]]
		if b.s.endless(o) {
			to.Flags |= trace.OpNoCompletion
			if to.EnqueuedNS != 0 {
				launched[sl]++
			}
		} else {
			c.OpsInFlight++
		}
		first := !busy[sl]
		if !o.p2p {
			busy[sl] = true
		}
		to.LastProgressNS = to.EnteredNS
		quiet := b.s.horizon-max(mb.enq, mb.entered) > quietAfter
		if o.comm.hosts > 1 && b.s.cfg.Level.steps() && to.EnqueuedNS != 0 && (b.want == allFlows || quiet) {
			b.flows(sl, o, m, &to, first)
		}
		c.LastProgressNS = max(c.LastProgressNS, to.LastProgressNS)
		b.p.Ops = append(b.p.Ops, to)
	})
	if b.want == allFlows {
		b.ended(&launched)
	}
}

// ended writes operations that have ended and of which nobody knows it.
func (b *snapshotter) ended(launched *[numSlots]int) {
	var left [numSlots]int // Of each communicator, how many more.
	missing := 0
	for sl := range numSlots {
		if at := b.r.comms[sl]; at.comm >= 0 && !b.s.kernelsSeen(b.s.comms[at.comm]) {
			left[sl] = max(0, endlessKept-launched[sl])
			missing += left[sl]
		}
	}
	for i := b.r.history.n - 1; i >= 0 && missing > 0; i-- {
		h := b.r.history.at(i)
		sl := h.o.comm.slot
		if left[sl] == 0 {
			continue
		}
		left[sl]--
		missing--
		if !b.s.endless(h.o) {
			continue
		}
		b.shown[i] = true
		if !b.s.allEndless(h.o.comm) {
			b.p.Comms[b.index[sl]].OpsCompleted--
		}
		mb := &h.o.mem[h.m]
		to := trace.Op{
			Index: uint32(len(b.p.Ops)), Generation: 1, CommIndex: b.index[sl], CommGeneration: 1,
			Number: uint64(mb.number), Seq: uint64(mb.seq), Channels: uint32(len(h.o.comm.rings)), Root: -1, Peer: -1,
			CalledNS: b.clock(mb.called), EnqueuedNS: b.clock(mb.enq), State: trace.OpEnqueued, Flags: trace.OpNoCompletion,
			UserTID: uint32(pidOf(b.r.id)), GroupOrdinal: uint32(mb.ordinal),
		}
		if !b.s.cfg.Level.calls() {
			to.CalledNS = to.EnqueuedNS
		}
		b.describe(&to, h.o, h.m)
		b.p.Ops = append(b.p.Ops, to)
	}
}

// describe fills in what the call said.
func (b *snapshotter) describe(to *trace.Op, o *op, m int32) {
	in := o.mem[m].in
	size := in.dtype.size()
	to.DatatypeBytes, to.Datatype = uint16(size), in.dtype.String()
	if o.p2p {
		to.Flags |= trace.OpP2P
		to.Func, to.Peer = trace.Send, o.dst
		if m == 1 {
			to.Func, to.Peer = trace.Recv, o.src
		}
		to.Channels = p2pChannels
		to.Count, to.Bytes = uint64(o.size/size), uint64(o.size)
		return
	}
	to.Func, to.Proto, to.Algo = in.fn, protoOf(b.s.cfg.Job.Proto), trace.AlgoRing
	e := evaluation{sim: b.s, comm: o.comm, op: o}
	if in.fn == trace.AllReduce && e.treeUsed() {
		to.Algo = trace.AlgoTree
	}
	if in.fn == trace.AllReduce && in.bytes <= 4 {
		to.Flags |= trace.OpBarrier
	}
	to.Count, to.Bytes = uint64(in.bytes/size), uint64(in.bytes)
}

func protoOf(name string) trace.Proto {
	switch name {
	case "ll":
		return trace.ProtoLL
	case "ll128":
		return trace.ProtoLL128
	}
	return trace.ProtoSimple
}

// flows writes the flows of an operation in flight; an operation behind another on the same flows only counts as queued.
func (b *snapshotter) flows(sl slot, o *op, m int32, to *trace.Op, first bool) {
	me := m
	if o.p2p {
		me = [2]int32{o.src, o.dst}[m]
	} else if !first {
		for i := range b.p.Flows {
			if f := &b.p.Flows[i]; f.CommIndex == b.index[sl] {
				f.Queued++
			}
		}
		return
	}
	for _, l := range b.s.snapshotLinks(o) {
		if !l.net {
			continue
		}
		if l.peerSrc == me {
			b.flow(sl, o, m, to, l, &l.send, true, l.peerDst)
		}
		if l.peerDst == me {
			b.flow(sl, o, m, to, l, &l.recv, false, l.peerSrc)
		}
	}
}

// snapshotLinks gives an operation's links as they are at the horizon.
func (s *sim) snapshotLinks(o *op) []*link {
	if o.flows == nil || o.flows.at != s.horizon {
		o.flows = &flowsAt{s.horizon, s.evaluate(o, s.horizon, true, false).links}
	}
	return o.flows.links
}

func (b *snapshotter) flow(sl slot, o *op, m int32, to *trace.Op, l *link, s *side, send bool, peer int32) {
	key := flowKey{b.index[sl], l.channel, send, peer}
	if at, taken := b.flowAt[key]; taken {
		b.p.Flows[at].Queued++
		return
	}
	mb := &o.mem[m]
	f := trace.Flow{
		Index: uint32(len(b.p.Flows)), Generation: 1, CommIndex: b.index[sl], CommGeneration: 1,
		Channel: l.channel, IsSend: send, State: s.head, Peer: peer, OpIndex: to.Index, OpGeneration: 1,
		OpNumber: to.Number, OpSeq: to.Seq, Func: to.Func, StepsTotal: uint32(l.total),
		Posted: uint32(s.posted), Ready: uint32(s.ready), Transmitted: uint32(s.transmitted), Done: uint32(s.done),
		OpStartedNS: b.clock(mb.enq + proxyWork), Bytes: uint64(s.done) * uint64(l.chunk),
		ActiveNS: uint64(s.active), LargestGapNS: uint64(s.gap),
		FirstStepNS: b.clock(max(0, s.first)), StateSinceNS: b.clock(s.since), LastProgressNS: b.clock(s.last),
		Epochs: uint32(s.active / 32768),
	}
	if s.first == 0 {
		f.FirstStepNS, f.LastProgressNS = 0, 0
	}
	for i := range s.wait {
		f.WaitNS[i] = uint64(s.wait[i])
	}
	if s.head == trace.FlowSendPeer {
		f.PeerPolls = b.polls(l, s)
	}
	f.TotalPosted, f.TotalReady, f.TotalTransmitted, f.TotalDone = uint64(f.Posted), uint64(f.Ready), uint64(f.Transmitted), uint64(f.Done)
	f.TotalBytes, f.TotalWaitNS, f.TotalActiveNS = f.Bytes, f.WaitNS, f.ActiveNS
	b.flowAt[key] = len(b.p.Flows)
	b.p.Flows = append(b.p.Flows, f)
	if s.first > 0 {
		if to.FirstStepNS == 0 || f.FirstStepNS < to.FirstStepNS {
			to.FirstStepNS = f.FirstStepNS
		}
		to.State = trace.OpMoving
	}
	to.LastProgressNS = max(to.LastProgressNS, f.LastProgressNS)
	to.ProxyStarted++
	if s.done == l.total {
		to.ProxyStopped++
	}
}

// polls is how often a live proxy has asked for a receiver's buffer in vain.
func (b *snapshotter) polls(l *link, s *side) uint32 {
	end := b.s.horizon
	if p := b.s.hw[l.src].proxy; !p.empty() {
		for t := s.since; ; {
			f, until := p.at(t)
			if f == 0 {
				end = t
				break
			}
			if until >= end {
				break
			}
			t = until
		}
	}
	return uint32(min(1<<32-1, max(0, end-s.since)/pollTime))
}
