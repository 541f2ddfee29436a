// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// Kind is a kind of fault.
type Kind uint8

// Kinds of faults.
const (
	Absent    Kind = iota // The program runs its own code and makes no more calls.
	Stopped               // The process is stopped: it makes no calls, and its proxy moves nothing.
	Gone                  // The process has died.
	GPU                   // The GPU neither gives nor takes data, or never starts a kernel.
	Proxy                 // The proxy thread moves nothing; the program goes on.
	NIC                   // Nothing arrives over the network from the ranks of a NIC, nor to them.
	Wire                  // Nothing arrives on the way from A to B.
	OtherCall             // It calls something else than the others.
	Lost                  // A host does not answer because it takes part in nothing; A is one of its ranks.
	Unseen                // Any of these, at any rank that A's source would have shown.
	Ahead                 // It called an operation that no other member calls; B is the operation's place in Job.Operations.
	Crossed               // It called two operations in the other order than the rest; B is the pair's place in Job.Orders.
	Saving                // As Absent, and busy with storage: nothing is wrong.
	Starting              // As GPU, in the first step: it may load or compute, and nothing may be wrong.
	Liar                  // What a host's exporter reports is false; A is one of its ranks. Nothing waits for that.
	kinds
)

// does says what somebody with a fault does.
var does = [kinds]string{
	"makes no more calls", "has a stopped process", "has lost its process", "has a stopped GPU", "has a stopped proxy thread", "has a NIC that delivers nothing",
	"has a link that delivers nothing", "made another call than the others", "is lost", "has a fault that was not recorded", "called what no other member calls", "called in another order than others",
	"is busy with storage", "has a GPU that is busy in the first step", "reports what is false",
}

func (k Kind) String() string { return does[k] }

// Fault is one thing that is wrong, at a node or on the way from node A to node B.
type Fault struct {
	Kind Kind
	A, B int32
}

// kindSet has a bit for each kind.
type kindSet uint32

// What kinds of fault have in common.
const (
	stopsCalls kindSet = 1<<Absent | 1<<Stopped | 1<<Gone | 1<<Lost | 1<<Saving // The rank makes no more calls.
	stopsGPU   kindSet = 1<<GPU | 1<<Starting                                   // Its GPU does nothing.
	stopsFlows kindSet = stopsProxy | 1<<NIC | 1<<Wire                          // Data does not pass.
	stopsProxy kindSet = 1<<Stopped | 1<<Gone | 1<<Proxy | 1<<Lost              // Its proxy moves nothing.
)

// plan is what all worlds of a job share.
type plan struct {
	*observe.Job
	self   []int32           // All nodes.
	back   [][]int32         // By part: parts with a flow to it, to which it has none.
	ports  map[int32][]int32 // Nodes of each NIC.
	silent map[int32][]int32 // Nodes of each source that does not answer.
	idle   []bool            // By part: nothing of its rank depends on whether it ends, since the rank has not called it.
	sole   []int32           // By operation: the one rank that has called it where several seen ones have not; -1 none.
	known  []int32           // Nodes whose process's state is known,
	ended  []int32           // and those of which it does not run. Of the others no fault that ends it is a candidate.
	odd    [][]int32         // Of each operation whose members called different things, those whose call differs.
}

func newPlan(j *observe.Job) *plan {
	d := &plan{Job: j, back: make([][]int32, len(j.Parts)), ports: map[int32][]int32{}, silent: map[int32][]int32{}}
	for p := range j.Parts {
		n := j.Parts[p].Node
		d.idle = append(d.idle, j.Parts[p].Seen == observe.NotCalled && !j.Silent[n] && !slices.ContainsFunc(j.Of[n], func(q int32) bool { return j.Parts[q].Hidden }))
		for _, f := range j.Parts[p].Flows {
			if q := f.Peer; q >= 0 && !slices.ContainsFunc(j.Parts[q].Flows, func(f observe.Flow) bool { return f.Peer == int32(p) }) {
				d.back[q] = append(d.back[q], int32(p))
			}
		}
	}
	for n := range j.Of {
		d.self = append(d.self, int32(n))
		if r := j.Index.Nodes[n].Rank; r != nil && r.State != rca.ProcessUnknown && j.Weight[n] > 0 {
			if d.known = append(d.known, int32(n)); r.State != rca.ProcessRunning {
				d.ended = append(d.ended, int32(n))
			}
		}
		if j.Silent[n] {
			d.silent[j.Group[n]] = append(d.silent[j.Group[n]], int32(n))
		}
		d.ports[j.Port[n]] = append(d.ports[j.Port[n]], int32(n))
	}
	for i := range j.Operations {
		d.sole = append(d.sole, soleCaller(j, &j.Operations[i]))
		var odd []int32
		for _, p := range j.Operations[i].Parts {
			if j.Parts[p].Odd {
				odd = append(odd, j.Parts[p].Node)
			}
		}
		if len(odd) > 0 && j.Judged(&j.Operations[i]) {
			d.odd = append(d.odd, odd)
		}
	}
	return d
}

// soleCaller gives the one rank that has called an operation where several seen ones have not; -1 none.
func soleCaller(j *observe.Job, in *observe.Operation) int32 {
	at, missing := int32(-1), int32(0)
	for _, p := range in.Parts {
		switch part := &j.Parts[p]; {
		case part.Seen == observe.NotCalled:
			missing += j.Weight[part.Node]
		case part.Op == nil || at >= 0:
			return -1
		default:
			at = part.Node
		}
	}
	if missing < 2 {
		return -1
	}
	return at
}

// at gives the nodes that a fault is at.
func (d *plan) at(f Fault) []int32 {
	switch f.Kind {
	case Lost, Unseen:
		return d.silent[d.Group[f.A]]
	case NIC:
		return d.ports[d.Port[f.A]]
	case Liar:
		if host := d.Index.Host(f.A); host != "" {
			return d.Index.Mates[host]
		}
	}
	return d.self[f.A : f.A+1]
}

// has reports whether one of the kinds of fault holds at a node.
func (w *World) has(n int32, of kindSet) bool { return w.kinds[n]&of != 0 }

// describe says what a fault is and where.
func describe(j *observe.Job, f Fault) string {
	who := j.Index.RankName(f.A)
	switch {
	case f.Kind == Unseen && j.Index.Nodes[f.A].ID < 0:
		who = "a rank that was not seen"
	case f.Kind == Unseen:
		who += " or another of its source"
	case f.Kind == Liar:
		who = "host " + j.Index.Host(f.A)
	case f.Kind == Lost:
		who = "host " + j.Sources[j.Group[f.A]].Name
	}
	s := who + " " + f.Kind.String()
	if f.Kind == Wire {
		s += " to " + j.Index.RankName(f.B)
	}
	return s
}
