// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestMovedBetweenTwoLooks: by a host's jumping clock, its flows have made no progress for an hour. Flows whose counters changed
// have.
func TestMovedBetweenTwoLooks(t *testing.T) {
	const second = uint64(time.Second)
	state := func(nowNS uint64, done ...uint32) *nodeapi.State {
		p := nodeapi.Process{Rank: 3}
		p.Identity.PID = 77
		for i, d := range done {
			number := uint64(i)
			p.Ops = append(p.Ops, trace.Op{Index: uint32(i), Number: number, LastProgressNS: second})
			p.Flows = append(p.Flows, trace.Flow{OpIndex: uint32(i), OpNumber: number, IsSend: true, Peer: 1, Posted: 8 + d, Ready: d, Transmitted: d, Done: d, LastProgressNS: second})
		}
		return &nodeapi.State{NowNS: nowNS, Processes: []nodeapi.Process{p}}
	}
	first := state(3600*second, 5, 9)
	again := state(3601*second, 5, 10, 4)
	noteMoves(first, again)
	for i, want := range []uint64{second, again.NowNS, second} {
		p := &again.Processes[0]
		if got, of := p.Flows[i].LastProgressNS, p.Ops[i].LastProgressNS; got != want || of != want {
			t.Errorf("operation %d: flow moved at %d, operation at %d; want %d", i, got, of, want)
		}
	}
	noteMoves(nil, again)
	noteMoves(first, nil)
}
