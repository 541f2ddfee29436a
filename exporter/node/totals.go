// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/culprit-project/culprit/trace"
)

// Totals are sums over a process's whole life. They never fall, although the slots of ended communicators and flows
// are given to others.
type Totals struct {
	Func [trace.NumFunc]FuncTotals
	Send DirectionTotals
	Recv DirectionTotals
}

// FuncTotals sum up one kind of operation.
type FuncTotals struct {
	Ops, Bytes uint64
	KernelNS   uint64 // From the kernel's entering to its leaving, where both were seen.
}

// DirectionTotals sum up the flows of one direction. Stages are those of trace.Flow; waits are, for sending, gpu, peer
// and network, and for receiving network, flush and gpu.
type DirectionTotals struct {
	Posted, Ready, Transmitted, Done uint64
	WaitNS                           [3]uint64
	ActiveNS                         uint64
	Epochs                           uint64 // trace.EpochNS each, with a transfer in flight.
	Bytes                            uint64
}

// ledger remembers what each slot showed last, to add up differences.
type ledger struct {
	comms []commEntry // By slot, as flows.
	flows []flowEntry
}

type commEntry struct {
	generation uint32
	nodes      int32
	functions  [trace.NumFunc]FuncTotals
}

type flowEntry struct {
	generation uint32
	totals     DirectionTotals
}

// account adds to the totals what has happened since the last snapshot.
func (p *Process) account() {
	for _, i := range p.Snap.ChangedComms() {
		p.accountComm(&p.Snap.Comms[i])
	}
	for _, i := range p.Snap.ChangedFlows() {
		p.accountFlow(&p.Snap.Flows[i])
	}
}

func (p *Process) accountComm(c *trace.Comm) {
	for int(c.Index) >= len(p.ledger.comms) {
		p.ledger.comms = append(p.ledger.comms, commEntry{})
	}
	last := &p.ledger.comms[c.Index]
	if last.generation != c.Generation {
		*last = commEntry{generation: c.Generation, nodes: c.NNodes}
	}
	for f := range last.functions {
		seen, total := &last.functions[f], &p.Totals.Func[f]
		advance(&total.Ops, &seen.Ops, c.FuncCompleted[f])
		advance(&total.Bytes, &seen.Bytes, c.FuncBytes[f])
	}
}

func (p *Process) accountFlow(f *trace.Flow) {
	for int(f.Index) >= len(p.ledger.flows) {
		p.ledger.flows = append(p.ledger.flows, flowEntry{})
	}
	seen := &p.ledger.flows[f.Index]
	if seen.generation != f.Generation {
		*seen = flowEntry{generation: f.Generation}
	}
	total := &p.Totals.Recv
	if f.IsSend {
		total = &p.Totals.Send
	}
	advance(&total.Posted, &seen.totals.Posted, f.TotalPosted)
	advance(&total.Ready, &seen.totals.Ready, f.TotalReady)
	advance(&total.Transmitted, &seen.totals.Transmitted, f.TotalTransmitted)
	advance(&total.Done, &seen.totals.Done, f.TotalDone)
	for i := range total.WaitNS {
		advance(&total.WaitNS[i], &seen.totals.WaitNS[i], f.TotalWaitNS[i])
	}
	advance(&total.ActiveNS, &seen.totals.ActiveNS, f.TotalActiveNS)
	advance(&total.Epochs, &seen.totals.Epochs, f.TotalEpochs)
	advance(&total.Bytes, &seen.totals.Bytes, f.TotalBytes)
}

// AddKernel adds the time that a finished operation's kernel ran.
func (t *Totals) AddKernel(c *trace.Completion) {
	if int(c.Func) < len(t.Func) && c.EnteredNS > 0 && c.LeftNS > c.EnteredNS && c.Flags&trace.OpKernelUntrusted == 0 {
		t.Func[c.Func].KernelNS += c.LeftNS - c.EnteredNS
	}
}

// advance adds to total by how much a counter has grown. One that fell is a lie or a race: it counts for nothing.
func advance(total, seen *uint64, now uint64) {
	if now > *seen {
		*total += now - *seen
		*seen = now
	}
}
