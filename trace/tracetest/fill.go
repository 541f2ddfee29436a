// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tracetest

import "github.com/culprit-project/culprit/trace"

// Shape describes a rank to fill a file with.
type Shape struct {
	Comms, Channels int
	NRanks          int32
	Rank            int32
	NowNS           uint64
	// Stuck is for how long nothing has moved on the first communicator; 0: nothing is in flight anywhere.
	StuckNS uint64
	// Ops is how many operations each communicator has finished.
	Ops uint64
}

// Fill writes the state of a rank in a ring on every communicator: one send and one receive flow a channel, and when
// Shape.StuckNS is set an AllReduce on the first communicator whose receiver on channel 0 is not ready.
func Fill(w *Writer, s Shape) {
	if s.NRanks == 0 {
		s.NRanks = 8
	}
	for i := range uint32(s.Comms) {
		stuck := i == 0 && s.StuckNS > 0
		c := trace.Comm{
			Index: i, Generation: 1, Flags: trace.CommHasProxy, ID: CommID(int(i)), NRanks: s.NRanks, Rank: s.Rank, NNodes: s.NRanks,
			ProxyTID: 1000 + i, UserTID: 1000, CreatedNS: 1, OpsCalled: s.Ops, OpsStarted: s.Ops, OpsCompleted: s.Ops,
			LastCalledNS: s.NowNS - s.StuckNS, LastProgressNS: s.NowNS - s.StuckNS, LastCompletedNS: s.NowNS - s.StuckNS,
		}
		f := trace.AllReduce
		c.SeqStarted[f], c.FuncCompleted[f], c.FuncBytes[f], c.FuncNS[f] = s.Ops, s.Ops, s.Ops<<20, s.Ops*1e6
		if stuck {
			c.OpsCalled++
			c.OpsStarted++
			c.OpsInFlight = 1
			c.SeqStarted[f]++
			w.PutOp(trace.Op{
				Index: 0, Generation: 1, CommIndex: i, CommGeneration: 1, Number: s.Ops, Seq: s.Ops, Func: f,
				Algo: trace.AlgoRing, Proto: trace.ProtoSimple, DatatypeBytes: 4, Datatype: "ncclFloat32", Count: 1 << 18,
				Bytes: 1 << 20, Peer: -1, Root: -1, Channels: uint32(s.Channels), State: trace.OpMoving,
				CalledNS: c.LastCalledNS, EnqueuedNS: c.LastCalledNS, FirstStepNS: c.LastCalledNS,
				LastProgressNS: c.LastProgressNS, ProxyStarted: uint32(2 * s.Channels), UserTID: 1000,
			})
		}
		w.PutComm(c)
		for ch := range uint32(s.Channels) {
			for dir := range uint32(2) {
				w.PutFlow(ringFlow(s, i, ch, dir, stuck))
			}
		}
	}
}

// CommID is the id of communicator i in a filled file.
func CommID(i int) trace.CommID { return trace.CommID(0xc0ffee0000000000 + uint64(i)) }

func ringFlow(s Shape, comm, channel, dir uint32, stuck bool) trace.Flow {
	f := trace.Flow{
		Index: (comm*uint32(s.Channels)+channel)*2 + dir, Generation: 1, CommIndex: comm, CommGeneration: 1,
		Channel: uint16(channel), IsSend: dir == 0, Peer: (s.Rank + 1) % s.NRanks, Func: trace.AllReduce,
		TotalOps: s.Ops, TotalPosted: 16 * s.Ops, TotalReady: 16 * s.Ops, TotalTransmitted: 16 * s.Ops, TotalDone: 16 * s.Ops,
		TotalBytes: s.Ops << 16, TotalWaitNS: [3]uint64{1e5 * s.Ops, 2e5 * s.Ops, 3e5 * s.Ops}, TotalActiveNS: 4e5 * s.Ops,
		TotalEpochs: 13 * s.Ops, State: trace.FlowIdle, LastProgressNS: s.NowNS - s.StuckNS,
	}
	if dir == 1 {
		f.Peer = (s.Rank + s.NRanks - 1) % s.NRanks
	}
	if !stuck {
		return f
	}
	f.OpGeneration, f.OpNumber, f.OpSeq, f.StepsTotal = 1, s.Ops, s.Ops, 16
	f.Posted, f.Ready, f.Transmitted, f.Done = 12, 8, 8, 8
	f.StateSinceNS, f.OpStartedNS, f.FirstStepNS = f.LastProgressNS, f.LastProgressNS, f.LastProgressNS
	f.State = trace.FlowRecvNet
	if f.IsSend {
		f.State = trace.FlowSendGPU
		if channel == 0 {
			f.State, f.Ready, f.PeerPolls = trace.FlowSendPeer, 9, 1e6
		}
	}
	return f
}
