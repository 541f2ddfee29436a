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
	num(w, &r.GroupOrdinal)
	num(w, &r.SendQP)
}

// completionList is what words.completion writes, in the same order.
type completionList [completionFields]uint64

const (
	completionFields = 56
)

func (l *completionList) set(r *trace.Completion) {
	*l = completionList{
		uint64(r.Ticket),
		uint64(r.CommID),
		uint64(r.CommIndex),
		uint64(r.CommGeneration),
		uint64(int64(r.NRanks)),
		uint64(int64(r.Rank)),
		uint64(r.Number),
		uint64(r.Seq),
		uint64(r.Func),
		uint64(r.Algo),
		uint64(r.Proto),
		uint64(r.DatatypeBytes),
		uint64(r.Count),
		uint64(r.Bytes),
		uint64(int64(r.Peer)),
		uint64(int64(r.Root)),
		uint64(r.Channels),
		uint64(r.Flags),
		uint64(r.CalledNS),
		uint64(r.EnqueuedNS),
		uint64(r.EnteredNS),
		uint64(r.LeftNS),
		uint64(r.GPUNS),
		uint64(r.Send.Flows),
		uint64(r.Send.Steps),
		uint64(r.Send.Bytes),
		uint64(r.Send.WaitNS[0]),
		uint64(r.Send.WaitNS[1]),
		uint64(r.Send.WaitNS[2]),
		uint64(r.Send.ActiveNS),
		uint64(r.Send.LargestGapNS),
		uint64(r.Send.FirstStepNS),
		uint64(r.Send.LastStepNS),
		uint64(r.Send.SlowestChannel),
		uint64(int64(r.Send.SlowestPeer)),
		uint64(r.Send.SlowestNS),
		uint64(r.Send.FastestNS),
		uint64(r.Recv.Flows),
		uint64(r.Recv.Steps),
		uint64(r.Recv.Bytes),
		uint64(r.Recv.WaitNS[0]),
		uint64(r.Recv.WaitNS[1]),
		uint64(r.Recv.WaitNS[2]),
		uint64(r.Recv.ActiveNS),
		uint64(r.Recv.LargestGapNS),
		uint64(r.Recv.FirstStepNS),
		uint64(r.Recv.LastStepNS),
		uint64(r.Recv.SlowestChannel),
		uint64(int64(r.Recv.SlowestPeer)),
		uint64(r.Recv.SlowestNS),
		uint64(r.Recv.FastestNS),
		uint64(r.GPUReadyNS),
		uint64(r.SendProbes),
		uint64(r.RecvProbes),
		uint64(r.GroupOrdinal),
		uint64(r.SendQP),
	}
}

func (w *words) op(r *trace.Op) {
	num(w, &r.Generation)
	num(w, &r.Flags)
	num(w, &r.CommIndex)
	num(w, &r.CommGeneration)
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
	num(w, &r.State)
	num(w, &r.CalledNS)
	num(w, &r.EnqueuedNS)
	num(w, &r.EnteredNS)
	num(w, &r.FirstStepNS)
	num(w, &r.LastProgressNS)
	num(w, &r.LeftNS)
	num(w, &r.KernelStarted)
	num(w, &r.KernelStopped)
	num(w, &r.ProxyStarted)
	num(w, &r.ProxyStopped)
	num(w, &r.UserTID)
	num(w, &r.GroupOrdinal)
	num(w, &r.GPUReadyNS)
}

func (w *words) flow(r *trace.Flow) {
	num(w, &r.Generation)
	num(w, &r.CommIndex)
	num(w, &r.CommGeneration)
	num(w, &r.Channel)
	boolean(w, &r.IsSend)
	num(w, &r.State)
	num(w, &r.Peer)
	num(w, &r.OpIndex)
	num(w, &r.OpGeneration)
	num(w, &r.Queued)
	num(w, &r.OpNumber)
	num(w, &r.OpSeq)
	num(w, &r.Func)
	num(w, &r.StepsTotal)
	num(w, &r.Posted)
	num(w, &r.Ready)
	num(w, &r.Transmitted)
	num(w, &r.Done)
	num(w, &r.PeerPolls)
	num(w, &r.Epochs)
	num(w, &r.OpStartedNS)
	num(w, &r.FirstStepNS)
	num(w, &r.StateSinceNS)
	num(w, &r.LastProgressNS)
	num(w, &r.Bytes)
	for i := range r.WaitNS {
		num(w, &r.WaitNS[i])
	}
	num(w, &r.ActiveNS)
	num(w, &r.LargestGapNS)
}

// flowList is what words.flow writes, in the same order.
type flowList [flowFields]uint64

const (
	flowFields       = 30
	flowOpIndex      = 7
	flowOpGeneration = 8
	flowPeerPolls    = 18
)

func (l *flowList) set(r *trace.Flow) {
	*l = flowList{
		uint64(r.Generation),
		uint64(r.CommIndex),
		uint64(r.CommGeneration),
		uint64(r.Channel),
		one(r.IsSend),
		uint64(r.State),
		uint64(int64(r.Peer)),
		uint64(r.OpIndex),
		uint64(r.OpGeneration),
		uint64(r.Queued),
		uint64(r.OpNumber),
		uint64(r.OpSeq),
		uint64(r.Func),
		uint64(r.StepsTotal),
		uint64(r.Posted),
		uint64(r.Ready),
		uint64(r.Transmitted),
		uint64(r.Done),
		uint64(r.PeerPolls),
		uint64(r.Epochs),
		uint64(r.OpStartedNS),
		uint64(r.FirstStepNS),
		uint64(r.StateSinceNS),
		uint64(r.LastProgressNS),
		uint64(r.Bytes),
		uint64(r.WaitNS[0]),
		uint64(r.WaitNS[1]),
		uint64(r.WaitNS[2]),
		uint64(r.ActiveNS),
		uint64(r.LargestGapNS),
	}
}
