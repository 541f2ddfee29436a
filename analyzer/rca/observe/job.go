// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package observe turns the evidence of a job into letters: what each rank shows in each operation, and what each flow shows of its
// data. It is the only reader of counters that package model needs, and it concludes nothing.
package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// Flow is what a part exchanges with one peer in one direction. All channels together are one flow, because they are no independent
// witnesses.
type Flow struct {
	Send bool
	Peer int32 // Part at the other end; -1 not in the evidence.
	Seen Letter
	// Onward: the receiver hands the data on inside its host. A jam there shows only by backing up to this flow.
	Onward bool
}

// Part is one rank in one operation.
type Part struct {
	Node      int32   // Rank, as a node of the index.
	Operation int32   // Place in Job.Operations.
	Op        *rca.Op // nil: not called, left, or the rank was not seen.
	Seen      Letter
	Still     bool          // It has not moved for longer than a healthy operation takes.
	Moving    bool          // It is seen to move. Neither: it waits for its turn at a rank that makes progress.
	Midway    bool          // It moved since it was called: it was seen in the middle of the operation.
	Blank     bool          // Its source does not show its end, so that being in flight means nothing.
	Hidden    bool          // Nobody sees whether the rank is in it. It stands for any operation of a communicator that shows no end, or its record is lost.
	Odd       bool          // Its call differs from what most members called.
	Age       time.Duration // Since it was called; -1 unknown.
	Flows     []Flow
}

// Operation is one operation on all its ranks.
type Operation struct {
	Name  string  // For people.
	Comm  int32   // Communicator, by its place in the index.
	Parts []int32 // Places in Job.Parts.
	P2P   bool    // A send or a receive.
	Size  int     // Ranks that are in it or could be.
	Root  int32   // Part of the root that all data comes from; -1 none.
	Ring  bool    // Each member gives its first step without having received any.
	Still bool    // One of its parts is.
	// Differ: its members called different things. They cannot get on in it, whether an end of it is seen or not.
	Differ bool
}

// Job is the evidence as letters. It is not written after Read returns.
type Job struct {
	Index      *job.Index
	Parts      []Part
	Operations []Operation
	Of         [][]int32 // By node: its parts, in the order of its calls.
	Weight     []int32   // By node: how many it stands for, itself included; 0: another stands for it, and it has no parts.
	Silent     []bool    // By node: no source shows it.
	Group      []int32   // By node: the source that would have shown it, a place in Sources; -1 none is known.
	Sources    []Source  // That do not answer and would have shown a rank.
	Port       []int32   // By node: the first node that shares its NIC.
	Awaited    []int32   // By node: the stalled operations that it has not called.
	Moving     []int32   // By node: the parts in stalled operations that move by the clock of its host.
	Facts      []Fact
	Orders     []Order
	crowd      []int32   // By node: the crowd that it is of, -1 none.
	crowds     [][]int32 // Nodes that nothing tells apart. The second stands for all but the first.
}

// HostFault is a kind of hardware fault that hosts report.
type HostFault uint8

// Hardware faults that stop a rank.
const (
	DeadGPU HostFault = iota
	DeadPort
)

// Fact is a hardware fault that a host reports of one of these nodes.
type Fact struct {
	Kind  HostFault
	Nodes []int32
}

// Source is a source that does not answer.
type Source struct {
	Name  string  // Its host, or its address.
	Nodes []int32 // That it would have shown.
	Fell  Tri     // Whether it stopped answering with the job.
}

// Reports reports whether a host reports a fault that may be at a node.
func (j *Job) Reports(n int32, kind HostFault) bool {
	return slices.ContainsFunc(j.Facts, func(f Fact) bool { return f.Kind == kind && slices.Contains(f.Nodes, n) })
}

// Order is two operations that some ranks called in the other order than the rest.
type Order struct {
	X, Y      int32
	Odd, Rest []int32 // Nodes; Odd has no more of them than Rest.
	Tie       bool    // Nothing tells which of the two orders is wrong.
}

// Read turns evidence into letters. It writes nothing that the evidence holds.
func Read(ev rca.Evidence, opt rca.Options) *Job {
	x := job.NewIndex(&ev, opt.WithDefaults())
	n := len(x.Nodes)
	j := &Job{
		Index: x, Of: make([][]int32, n), Silent: make([]bool, n), Group: make([]int32, n), Port: make([]int32, n), Awaited: make([]int32, n),
		Moving: make([]int32, n), Weight: make([]int32, n), crowd: make([]int32, n),
	}
	j.addOperations()
	j.addHidden()
	j.readSources()
	j.trustBlanks()
	for p := range j.Parts {
		part := &j.Parts[p]
		if part.Seen == NotCalled && j.Operations[part.Operation].Still {
			j.Awaited[part.Node]++
		}
		j.Of[part.Node] = append(j.Of[part.Node], int32(p))
	}
	for p := range j.Parts {
		j.addFlows(int32(p))
	}
	for n := range j.Of {
		slices.SortStableFunc(j.Of[n], j.byCall)
	}
	j.countMoving()
	j.findOrders()
	j.gather()
	return j
}

// countMoving counts the moving parts in stalled operations, host by host.
func (j *Job) countMoving() {
	hosts := map[string]int32{}
	for p := range j.Parts {
		if part := &j.Parts[p]; part.Moving && j.Operations[part.Operation].Still {
			hosts[j.Index.Host(part.Node)]++
		}
	}
	for n := range j.Moving {
		j.Moving[n] = hosts[j.Index.Host(int32(n))]
	}
}

// Still reports whether any operation stands still.
func (j *Job) Still() bool {
	return slices.ContainsFunc(j.Operations, func(in Operation) bool { return in.Still })
}

// Disagrees reports whether ranks called different operations at one place, or two in opposite orders.
func (j *Job) Disagrees() bool {
	return len(j.Orders) > 0 || slices.ContainsFunc(j.Operations, func(in Operation) bool { return in.Differ && j.blank(&in) })
}

// blank reports whether no source shows the end of an operation on any rank that is in it.
func (j *Job) blank(in *Operation) bool {
	return !slices.ContainsFunc(in.Parts, func(p int32) bool { return j.Parts[p].Op != nil && !j.Parts[p].Blank })
}

// Judged reports whether what members called in an operation counts: it stands still, or nothing shows that it has ended.
func (j *Job) Judged(in *Operation) bool { return in.Still || in.Differ && j.blank(in) }

// Blind reports whether ranks are in operations of which no source shows the end, and none has called one lately: whether they make progress
// is not seen.
func (j *Job) Blind() bool {
	blank := false
	for p := range j.Parts {
		part := &j.Parts[p]
		if part.Op != nil && part.Age >= 0 && part.Age < j.Index.Opt.HangAfter {
			return false
		}
		blank = blank || part.Op != nil && part.Blank
	}
	return blank
}

// partOf gives the part of a node in an operation; -1 none.
func (j *Job) partOf(node, operation int32) int32 {
	if node >= 0 {
		for _, p := range j.Of[node] {
			if j.Parts[p].Operation == operation {
				return p
			}
		}
	}
	return -1
}

// byCall orders a rank's parts: hidden ones, those in flight by number and age, those that it has not called.
func (j *Job) byCall(a, b int32) int {
	p, q := &j.Parts[a], &j.Parts[b]
	switch {
	case p.Hidden != q.Hidden:
		return before(p.Hidden)
	case (p.Op == nil) != (q.Op == nil):
		return before(p.Op != nil)
	case p.Op == nil:
		return 0
	case j.Operations[p.Operation].Comm == j.Operations[q.Operation].Comm && p.Op.Number >= 0:
		return cmp.Compare(p.Op.Number, q.Op.Number)
	}
	return cmp.Compare(q.Age, p.Age)
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}
