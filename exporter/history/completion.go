// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from ncclshim/culprit_trace.h by go generate. DO NOT EDIT.

package history

import "github.com/culprit-project/culprit/trace"

func (w *words) direction(r *trace.Direction) {
	num(w, &r.Flows)
	num(w, &r.Steps)
	num(w, &r.Bytes)
	for i := range r.WaitNS {
		num(w, &r.WaitNS[i])
	}
	num(w, &r.ActiveNS)
	num(w, &r.LargestGapNS)
	num(w, &r.FirstStepNS)
	num(w, &r.LastStepNS)
	num(w, &r.SlowestChannel)
	num(w, &r.SlowestPeer)
	num(w, &r.SlowestNS)
	num(w, &r.FastestNS)
}

func (w *words) completion(r *trace.Completion) {
	num(w, &r.Ticket)
	num(w, &r.CommID)
	num(w, &r.CommIndex)
	num(w, &r.CommGeneration)
	num(w, &r.NRanks)
	num(w, &r.Rank)
	num(w, &r.Number)
	num(w, &r.Seq)
	num(w, &r.Func)
	num(w, &r.Algo)
	num(w, &r.Proto)
	num(w, &r.DatatypeBytes)
	num(w, &r.Count)
	num(w, &r.Bytes)
	num(w, &r.Peer)
	num(w, &r.Root)
	num(w, &r.Channels)
	num(w, &r.Flags)
	num(w, &r.CalledNS)
	num(w, &r.EnqueuedNS)
	num(w, &r.EnteredNS)
	num(w, &r.LeftNS)
	num(w, &r.GPUNS)
	w.direction(&r.Send)
	w.direction(&r.Recv)
	num(w, &r.GPUReadyNS)
	num(w, &r.SendProbes)
	num(w, &r.RecvProbes)
}
