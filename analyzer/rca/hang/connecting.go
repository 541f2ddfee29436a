// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"math"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// A communicator's first operation, and the first between two ranks, connect inside the call, from both ends (ncclTransportP2pSetup,
// ncclTransportRingConnect): it returns once the peers have come into theirs. Who is in such a call waits for those who are not. Of sends and
// receives the source does not tell the peers before the group is closed: only a communicator of two ranks shows who they are.

// arrival is how a member stands to the call that another member is in.
type arrival uint8

const (
	arrived arrival = iota // It has launched its part.
	inCall                 // It is inside the call, too.
	justIn                 // The same, and it came a moment ago.
	notIn                  // It has not called.
)

// arrivalOf tells how a peer stands to the call in which a rank's oldest operation of a communicator is.
func (x *standstill) arrivalOf(c *job.Comm, m *rca.Membership, oldest *rca.Op, peer *rca.Membership) arrival {
	since := time.Duration(-1)
	for i := range peer.InFlight {
		if peer.InFlight[i].State >= rca.OpEnqueued {
			return arrived
		}
		since = max(since, peer.InFlight[i].Age)
	}
	switch {
	case since >= 0:
		return pick(since < x.Opt.HangAfter && oldest.Age >= x.Opt.HangAfter, justIn, inCall)
	case peer.Called > 0 && peer.SinceCalled >= 0 && peer.SinceCalled < oldest.Age || c.Size == 2 && ahead(peer, m):
		return arrived
	}
	return notIn
}

// ahead reports whether a peer has launched more sends or receives than a rank has launched of their counterparts.
func ahead(peer, m *rca.Membership) bool {
	return peer.FuncCalled["Send"] > m.FuncCalled["Recv"] || peer.FuncCalled["Recv"] > m.FuncCalled["Send"]
}

// lacksCall reports whether a member has not called a collective.
func (x *standstill) lacksCall(in *instance) bool {
	c := &x.Comms[in.key.comm]
	return slices.ContainsFunc(c.Members, func(mem job.Member) bool {
		if in.has(&mem) {
			return false
		}
		p, sure := x.presenceOf(in, &mem)
		return p == notCalled && sure
	})
}

// connectingFor is how long a rank is known to get nowhere in a call that makes connections: from when the last member came out of it, not
// from when this one went in.
func (x *standstill) connectingFor(comm int32, since time.Duration) time.Duration {
	out, ok := x.launchedFor[comm]
	if !ok {
		out = math.MaxInt64
		for _, mem := range x.Comms[comm].Members {
			for i := 0; mem.Membership != nil && i < len(mem.Membership.InFlight); i++ {
				if o := &mem.Membership.InFlight[i]; o.State >= rca.OpEnqueued && o.Stuck >= 0 {
					out = min(out, o.Stuck)
				}
			}
		}
		x.launchedFor[comm] = out
	}
	return min(since, out)
}

// connects reports whether a rank makes connections in the call of an operation now, as far as is known.
func connects(o *rca.Op) bool {
	return o.State == rca.OpCalled && (makesConnections(o) || job.IsP2P(o) && o.Peer < 0)
}

// awaitsPeer reports whether a rank inside an open group may wait there for a member that has not launched its part.
func (x *standstill) awaitsPeer(in *instance, j *join) bool {
	c := &x.Comms[in.key.comm]
	mem := c.Find(j.node)
	return mem != nil && slices.ContainsFunc(c.Members, func(peer job.Member) bool {
		return peer.Node != j.node && peer.Membership != nil && !job.Dead(x.Nodes[peer.Node].Rank) && x.arrivalOf(c, mem.Membership, j.op, peer.Membership) != arrived
	})
}

// connecting adds the edge from an open group to the one rank that can be its peer.
func (b *builder) connecting(v, i int32, in *instance) {
	c := &b.x.Comms[in.key.comm]
	if c.Size != 2 || len(c.Members) != 2 {
		return
	}
	for k := range in.joins {
		j := &in.joins[k]
		mem, peer := c.Find(j.node), &c.Members[0]
		if peer.Node == j.node {
			peer = &c.Members[1]
		}
		if !j.active || peer.Membership == nil {
			continue
		}
		if how := b.x.arrivalOf(c, mem.Membership, j.op, peer.Membership); how == notIn || how == justIn {
			kind := pick(how == notIn, edgeNotCalled, edgeJustCalled)
			b.edge(v, peer.Node, i, -1, pick(job.Dead(b.x.Nodes[peer.Node].Rank), edgeDead, kind), true)
			in.gap = true
		}
	}
}

// makesConnections reports whether an operation makes its connections inside the call, which takes as long as the slowest peer and the machine
// let it: the first on a communicator, or between two ranks. Who is in it may come out by itself.
func makesConnections(o *rca.Op) bool {
	return o.Number == 0 || job.IsP2P(o) && o.Peer >= 0 && o.Seq == 0
}
