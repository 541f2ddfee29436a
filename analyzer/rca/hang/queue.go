// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// queue follows one communicator's operations on one rank in call order. NCCL runs the kernels of a communicator one after the other,
// whatever streams they were called on, and the operations of one group in one kernel. A proxy may post buffers for a later kernel
// long before that begins, so posted buffers are no sign of it.
type queue struct {
	group []*rca.Op // The last group of calls so far.
	held  bool      // The GPU is not known to be done with a group before the last.
}

// front adds the next operation and reports whether its kernel may run: the GPU may be done with all earlier groups.
func (q *queue) front(o *rca.Op) bool {
	if len(q.group) > 0 && !q.takes(o) {
		q.held = q.held || !gpuDone(q.group)
		q.group = q.group[:0]
	}
	q.group = append(q.group, o)
	return !q.held
}

// takes reports whether an operation is of the last group. Where the source does not tell groups apart, a second send to one peer is of
// another: it runs after the first in any case.
func (q *queue) takes(o *rca.Op) bool {
	last := q.group[len(q.group)-1]
	if !sameGroup(last, o) {
		return false
	}
	if last.GroupOrdinal > 0 && o.GroupOrdinal > 0 {
		return true
	}
	for _, g := range q.group {
		if g.Func == o.Func && g.Peer == o.Peer {
			return false
		}
	}
	return true
}

// sameGroup reports whether two operations of a communicator were called in one group, so that one kernel runs both. Where the source does
// not tell, sends and receives called within a millisecond are taken to be.
func sameGroup(a, b *rca.Op) bool {
	if a.GroupOrdinal > 0 && b.GroupOrdinal > 0 {
		return inGroup(a, b)
	}
	if !job.IsP2P(a) || !job.IsP2P(b) {
		return false
	}
	if a.Age < 0 || b.Age < 0 {
		return true
	}
	return (a.Age - b.Age).Abs() < time.Millisecond
}

// inGroup reports whether the source says that two operations of a communicator were called in one group.
func inGroup(a, b *rca.Op) bool {
	return a.GroupOrdinal > 0 && b.GroupOrdinal > 0 && a.Number-a.GroupOrdinal == b.Number-b.GroupOrdinal
}

// gpuDone reports whether the GPU is known to be done with a group of sends and receives: it has given all data that they send and taken all
// that they receive. The network may still be at it. A collective may have work inside the host that no flow shows.
func gpuDone(group []*rca.Op) bool {
	for _, o := range group {
		if !job.IsP2P(o) || len(o.Flows) == 0 || len(o.Flows) < o.Channels {
			return false
		}
		for i := range o.Flows {
			f := &o.Flows[i]
			if f.Send && f.Ready < f.Total || !f.Send && f.Done < f.Total {
				return false
			}
		}
	}
	return true
}
