// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// mostAhead bounds the operations of one rank on one communicator that are read, unless they have flows. What waits far behind others on
// its stream shows no more than they do; of those whose end is not seen, the last ones show how far the rank has come.
const mostAhead = 8

// midway: an operation makes progress if it moved within this part of its age. Times of any scale then mean the same.
const midway = 10

// identity is what the parts of one operation share.
type identity struct {
	comm     int32
	src, dst int32 // Of a send and its receive; -1.
	fn       int32 // Where the communicator numbers operations by function; -1.
	number   int64
}

// addOperations adds what is in flight, and for each operation the members that are not in it.
func (j *Job) addOperations() {
	x, at := j.Index, map[identity]int32{}
	for c := range x.Comms {
		for k := range x.Comms[c].Members {
			if m := &x.Comms[c].Members[k]; m.Membership != nil {
				j.addInFlight(int32(c), m, at)
			}
		}
	}
	for i := range j.Operations {
		in := &j.Operations[i]
		j.addAbsent(int32(i))
		if in.Root = j.root(in); !in.P2P {
			j.unblank(in)
			j.markOdd(in)
		}
	}
}

// identify reports false for what no other rank can be matched with: a copy to itself, or an operation without a number.
func (j *Job) identify(c int32, m *job.Member, o *rca.Op) (identity, bool) {
	id := identity{comm: c, src: -1, dst: -1, fn: -1, number: o.Number}
	switch {
	case job.IsP2P(o):
		if o.Peer < 0 || m.CommRank < 0 || int32(o.Peer) == m.CommRank {
			return id, false
		}
		id.src, id.dst, id.number = m.CommRank, int32(o.Peer), o.Seq
		if o.Func == "Recv" {
			id.src, id.dst = id.dst, id.src
		}
	case j.Index.Comms[c].P2P:
		id.fn, id.number = j.Index.FuncNumber(o.Func), o.Seq
	}
	return id, id.number >= 0
}

func (j *Job) addInFlight(c int32, m *job.Member, at map[identity]int32) {
	r, after := j.Index.Nodes[m.Node].Rank, j.Index.Opt.HangAfter
	progress := endedLately(r, after)
	for k := range m.Membership.InFlight {
		o := &m.Membership.InFlight[k]
		id, ok := j.identify(c, m, o)
		blank := endUnseen(r, m.Membership, o)
		place := k
		if blank {
			place = min(k, len(m.Membership.InFlight)-1-k)
		}
		if !ok || o.State == rca.OpLeft || place >= mostAhead && len(o.Flows) == 0 {
			continue
		}
		i, ok := at[id]
		if !ok {
			i = int32(len(j.Operations))
			at[id] = i
			name := fmt.Sprintf("%s on %s", job.OpLabel(o), j.Index.Comms[c].Name)
			j.Operations = append(j.Operations, Operation{Comm: c, P2P: job.IsP2P(o), Root: -1, Ring: true, Name: name})
		}
		in := &j.Operations[i]
		in.Ring = in.Ring && ringLike(o)
		since := o.Stuck
		if since < 0 {
			since = o.Age
		}
		p := Part{Node: m.Node, Operation: i, Op: o, Age: o.Age, Seen: kernelLetter(r, m.Membership, o), Blank: blank}
		p.Still = !p.Blank && !progress && (since < 0 || since >= after)
		p.Moving = !p.Blank && since >= 0 && since < after
		p.Midway = p.Moving && p.Seen == Inside && since < o.Age/midway
		in.Still = in.Still || p.Still
		in.Parts = append(in.Parts, int32(len(j.Parts)))
		j.Parts = append(j.Parts, p)
	}
}

// ringLike reports whether each member has data to give from the start.
func ringLike(o *rca.Op) bool {
	return (o.Algo == "ring" || o.Algo == "Ring" || o.Algo == "RING") && (o.Func == "AllReduce" || o.Func == "ReduceScatter" || o.Func == "AllGather")
}

// endedLately reports whether the rank has just ended an operation. Its other calls wait for their turn, however old they are.
func endedLately(r *rca.Rank, after time.Duration) bool {
	return slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool {
		return m.Completed > 0 && m.SinceCompleted >= 0 && m.SinceCompleted < after
	})
}

// endUnseen reports whether no source shows the end of an operation: it records none, or the operation has neither flows nor a kernel that
// is seen.
func endUnseen(r *rca.Rank, m *rca.Membership, o *rca.Op) bool {
	if o.NoCompletion {
		return true
	}
	if len(o.Flows) > 0 || o.KernelStarted > 0 || o.State > rca.OpEnqueued {
		return false
	}
	return m.KernelUntrusted || r.Caps&(rca.SeesKernels|rca.SeesSteps) == rca.SeesSteps
}

// root gives the part that all data of an operation comes from; -1 none.
func (j *Job) root(in *Operation) int32 {
	o, at := j.Parts[in.Parts[0]].Op, j.Index.Comms[in.Comm].At
	if in.P2P || o.Func != "Broadcast" && o.Func != "Scatter" || o.Root < 0 || o.Root >= len(at) {
		return -1
	}
	if i := slices.IndexFunc(in.Parts, func(p int32) bool { return j.Parts[p].Node == at[o.Root] }); i >= 0 {
		return in.Parts[i]
	}
	return -1
}

// unblank: an operation that a member has not called cannot have ended anywhere, whether its end is seen or not.
func (j *Job) unblank(in *Operation) {
	if !slices.ContainsFunc(in.Parts, func(p int32) bool { return j.Parts[p].Seen == NotCalled }) {
		return
	}
	for _, p := range in.Parts {
		if part := &j.Parts[p]; part.Blank {
			part.Blank, part.Still = false, part.Age < 0 || part.Age >= j.Index.Opt.HangAfter
			in.Still = in.Still || part.Still
		}
	}
}

// addHidden adds an operation that every member may be in, before all others, for each communicator whose operations show no end.
func (j *Job) addHidden() {
	done := map[int32]bool{}
	for p := range j.Parts {
		if o := j.Parts[p].Op; o != nil && len(o.Flows) > 0 {
			done[j.Operations[j.Parts[p].Operation].Comm] = true
		}
	}
	for p := range j.Parts {
		c := j.Operations[j.Parts[p].Operation].Comm
		if !j.Parts[p].Blank || done[c] {
			continue
		}
		done[c] = true
		in := Operation{Comm: c, Root: -1, Name: "an unrecorded operation on " + j.Index.Comms[c].Name}
		for k := range j.Index.Comms[c].Members {
			in.Parts = append(in.Parts, int32(len(j.Parts)))
			j.Parts = append(j.Parts, Part{Node: j.Index.Comms[c].Members[k].Node, Operation: int32(len(j.Operations)), Age: -1, Blank: true, Hidden: true})
		}
		j.Operations = append(j.Operations, in)
	}
}

// trustBlanks: where no end is seen of anything, no rank has called anything for long, and a host reports a fault or has fallen silent, being
// in flight is what there is to go by.
func (j *Job) trustBlanks() {
	if len(j.Facts) == 0 && !slices.ContainsFunc(j.Sources, func(s Source) bool { return s.Fell == Yes }) {
		return
	}
	for p := range j.Parts {
		part := &j.Parts[p]
		if part.Still || part.Moving || part.Op != nil && part.Age < j.Index.Opt.HangAfter {
			return
		}
	}
	for p := range j.Parts {
		if part := &j.Parts[p]; part.Blank && !part.Hidden {
			part.Blank, part.Still, j.Operations[part.Operation].Still = false, true, true
		}
	}
}
