// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

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

// World is a job in which these faults are wrong and nothing else.
type World struct {
	job    *observe.Job
	Faults []Fault
}

// has reports whether one of the kinds of fault holds at a node.
func (w *World) has(n int32, ks ...Kind) bool {
	return slices.ContainsFunc(w.Faults, func(f Fault) bool { return slices.Contains(ks, f.Kind) && w.at(f, n) })
}

// at reports whether a fault is at a node.
func (w *World) at(f Fault, n int32) bool {
	j := w.job
	switch f.Kind {
	case Lost, Unseen:
		return j.Silent[n] && j.Group[f.A] == j.Group[n]
	case NIC:
		return j.Port[f.A] == j.Port[n]
	case Liar:
		return f.A == n || j.Index.Host(n) != "" && j.Index.Host(f.A) == j.Index.Host(n)
	}
	return f.A == n
}

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
