// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/pulse"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// pulseVote is what Pulse says of a job that stands still: of the collective inst, who has not begun it, else who has sent least (P5, P7);
// where there is none (inst -1), the rank at an end of most transfers that are not complete (P6). ok is false where it has nothing to
// look at.
func (w *waitFor) pulseVote(inst int32) (v rca.Vote, ok bool) {
	v = rca.Vote{Method: "pulse", Class: rca.Unknown, Ranks: []int{}}
	if inst < 0 {
		return w.unfinishedVote(v)
	}
	in := &w.insts[inst]
	c := &w.Comms[in.key.comm]
	samples := make([]pulse.Sample, 0, len(c.Members))
	volumes, number := true, in.op().Number
	for i := range c.Members {
		m := &c.Members[i]
		if m.Membership == nil || m.Node < 0 {
			continue
		}
		s := pulse.Sample{Rank: w.Nodes[m.Node].ID, Started: number >= 0 && m.Membership.Called > number}
		if j := w.part(in, m.Node); j != nil {
			s.Started, s.Volume = true, sent(j.op)
			volumes = volumes && len(j.op.Flows) > 0
		}
		samples = append(samples, s)
	}
	switch rank, kind := pulse.Locate(samples, 0); {
	case kind == pulse.StopCompute:
		v.Class, v.Ranks, v.Note = rca.NotEntered, []int{rank}, words.MethodNotBegun
	case kind == pulse.StopNetwork && volumes && uneven(samples):
		v.Class, v.Ranks, v.Note = rca.Fault, []int{rank}, words.MethodSentLeast
	default:
		v.Note = words.MethodNoVolumes
	}
	return v, true
}

// sent is how many chunks a rank has sent in an operation.
func sent(o *rca.Op) int64 {
	sum := int64(0)
	for i := range o.Flows {
		if f := &o.Flows[i]; f.Send {
			sum += f.Done
		}
	}
	return sum
}

func uneven(samples []pulse.Sample) bool {
	return slices.ContainsFunc(samples, func(s pulse.Sample) bool { return s.Volume != samples[0].Volume })
}

// unfinishedVote names the rank that takes part in most transfers that are not complete.
func (w *waitFor) unfinishedVote(v rca.Vote) (rca.Vote, bool) {
	var transfers []pulse.Transfer
	for i := range w.insts {
		in := &w.insts[i]
		if !in.stuck || !in.key.p2p() {
			continue
		}
		src, known := w.rankAt(in, in.key.src)
		if dst, both := w.rankAt(in, in.key.dst); known && both {
			transfers = append(transfers, pulse.Transfer{Rank: src, Peer: dst, Expected: 1}) // It stands, so it is not complete.
		}
	}
	if len(transfers) == 0 {
		return v, false
	}
	v.Note = fmt.Sprintf(words.MethodTransfers, len(transfers))
	if rank := pulse.Unfinished(transfers); rank >= 0 {
		v.Class, v.Ranks = rca.Fault, []int{rank}
	}
	return v, true
}

// rankAt gives the rank in the job of a rank of the operation's communicator.
func (w *waitFor) rankAt(in *instance, commRank int32) (int, bool) {
	at := w.Comms[in.key.comm].At
	if commRank < 0 || int(commRank) >= len(at) || at[commRank] < 0 {
		return -1, false
	}
	id := w.Nodes[at[commRank]].ID
	return id, id >= 0
}
