// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// hidden reports whether the source tells an operation's call and no end (Broadcast from NCCL 2.29 on), and its members need
// not leave it together: who has called it may be in it, or out of it and anywhere.
func hidden(o *rca.Op) bool { return o.NoCompletion && o.State != rca.OpLeft && oneSided(o.Func) }

// elsewhere is how much later than an operation one of another communicator must have been called for its end to tell of the other's:
// most programs have got on by then, whatever their streams.
const elsewhere = time.Second

// hiddenBefore gives the youngest operation without a recorded end that a rank may be inside, nil none: nothing that it called
// later has ended, and it called it before the operation next, if one is given.
func (x *standstill) hiddenBefore(r *rca.Rank, next *rca.Op) *rca.Op {
	var found *rca.Op
	for i := range r.Memberships {
		m := &r.Memberships[i]
		for k := range m.InFlight {
			o := &m.InFlight[k]
			if !o.NoCompletion || next != nil && o.Age < next.Age || passed(r, m, o) {
				continue
			}
			// Calls run ahead of kernels: what others have called since is no sign that a kernel in front of the next has ended.
			if (found == nil || o.Age < found.Age) && (next != nil && o.State != rca.OpLeft && !job.IsP2P(o) || x.mayHold(r, m, o)) {
				found = o
			}
		}
	}
	return found
}

// heldUnseen reports whether a rank may still be inside a send or receive without a recorded end that it called before the operation next. The
// latest alone are kept, and none of those that no longer are is known to have ended. What a rank sends to itself holds nobody.
func heldUnseen(r *rca.Rank, next *rca.Op) bool {
	return slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool {
		return slices.ContainsFunc(slices.Concat(m.InFlight, m.Recent), func(o rca.Op) bool {
			return o.NoCompletion && job.IsP2P(&o) && o.Peer >= 0 && o.Peer != m.CommRank && (int64(len(m.InFlight)+len(m.Recent)) < m.Called || o.Age >= next.Age && !passed(r, &m, &o))
		})
	})
}

// passed reports whether a rank has gone past an operation: one that it called later has ended, and a communicator's operations run one
// after the other.
func passed(r *rca.Rank, m *rca.Membership, o *rca.Op) bool {
	return slices.ContainsFunc(r.Memberships, func(of rca.Membership) bool {
		return slices.ContainsFunc(of.Recent, func(later rca.Op) bool {
			if later.NoCompletion {
				return false
			}
			if of.Comm == m.Comm {
				return later.Number > o.Number
			}
			return later.Age >= 0 && later.Age+elsewhere < o.Age
		})
	})
}

// mayHold reports whether a rank may still be inside an operation without a recorded end. Members leave most collectives together, and
// run one program: where another one has called anything since, it has left, or calls ahead as this one would. That holds while
// all of them run: one whose process ended or stopped in the operation leaves some of them inside, and one that is seen to stand in
// it may hold those behind it in a tree. Several that have called nothing since are likelier held by it than outside, each by itself. An operation that they need not leave together holds a rank no longer either when a later one
// of the communicator does not.
func (x *standstill) mayHold(r *rca.Rank, m *rca.Membership, o *rca.Op) bool {
	if o.State == rca.OpLeft || job.IsP2P(o) {
		return false
	}
	if hidden(o) {
		return !slices.ContainsFunc(m.InFlight, func(later rca.Op) bool {
			return later.Number > o.Number && !oneSided(later.Func) && !job.IsP2P(&later) && !x.mayHold(r, m, &later)
		})
	}
	gone, ahead, alike := false, false, false
	for _, other := range x.Comms[x.CommOf[m.Comm]].Members {
		if other.Membership == nil || other.Membership == m {
			continue
		}
		switch r := x.Nodes[other.Node].Rank; {
		case r.State == rca.ProcessGone || r.State == rca.ProcessStopped:
			gone = true // It may have passed on to some and not to this one, or have called ahead of its data.
		case x.standsIn(other.Membership, o):
			gone = true
		case x.calledAfter(r, other.Membership, o):
			ahead = true
		case x.partIn(other.Membership, o) >= 0:
			alike = true
		}
	}
	return gone || alike || !ahead
}

// calledAfter reports whether a member has called an operation, and something else after it.
func (x *standstill) calledAfter(r *rca.Rank, m *rca.Membership, o *rca.Op) bool {
	if !x.Comms[x.CommOf[m.Comm]].P2P && m.Called > o.Number+1 {
		return true
	}
	at := x.partIn(m, o)
	if at < 0 || m.InFlight[at].Age < 0 {
		return false
	}
	since := func(d time.Duration) bool { return d > 0 && d < m.InFlight[at].Age }
	return slices.ContainsFunc(r.Memberships, func(other rca.Membership) bool { return other.Comm != m.Comm && since(other.SinceCalled) }) ||
		slices.ContainsFunc(r.Calls, func(c rca.Call) bool { return since(c.Since) })
}

// partIn gives where a member has an operation among those that it has in flight; -1 nowhere. Where there are sends and receives, too,
// members have different numbers for one operation.
func (x *standstill) partIn(m *rca.Membership, o *rca.Op) int {
	p2p := x.Comms[x.CommOf[m.Comm]].P2P
	return slices.IndexFunc(m.InFlight, func(i rca.Op) bool {
		return i.Func == o.Func && (p2p && i.Seq == o.Seq || !p2p && i.Number == o.Number)
	})
}

// standsIn reports whether a member is seen to be inside an operation and does not get on in it.
func (x *standstill) standsIn(m *rca.Membership, o *rca.Op) bool {
	at := x.partIn(m, o)
	return at >= 0 && !m.InFlight[at].NoCompletion && m.InFlight[at].Stuck >= x.Opt.HangAfter
}

// mostCalled reports whether more members have called a collective than not, and more than one: where only its root has, that may be
// out of it and have nothing to wait for.
func (x *standstill) mostCalled(in *instance) bool {
	called, not := 0, 0
	for i := range x.Comms[in.key.comm].Members {
		mem := &x.Comms[in.key.comm].Members[i]
		switch p, _ := x.presenceOf(in, mem); {
		case in.has(mem) || p == leftIt:
			called++
		default:
			not++
		}
	}
	return called > 1 && called > not
}

func (w *waitFor) hiddenAction(n int32, o *rca.Op) string {
	s := fmt.Sprintf(words.DumpStackOf, w.Nodes[n].ID)
	if o.Func == "Broadcast" {
		s += words.RecordBroadcasts
	}
	return s
}
