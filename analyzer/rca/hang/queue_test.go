// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestQueue: which operations of one communicator on one rank may run now.
func TestQueue(t *testing.T) {
	p2p := func(fn string, number, ordinal int64, peer int, age time.Duration, flow ...rca.Flow) rca.Op {
		return rca.Op{Func: fn, Number: number, GroupOrdinal: ordinal, Peer: peer, Age: age, Channels: 1, Flows: flow}
	}
	// Steps of a flow of two: what the GPU has given or taken, and what the network has carried.
	send := func(ready, done int64) rca.Flow {
		return rca.Flow{Send: true, Total: 2, Posted: 2, Ready: ready, Transmitted: ready, Done: done}
	}
	recv := func(done int64) rca.Flow {
		return rca.Flow{Total: 2, Posted: 2, Ready: done, Transmitted: done, Done: done}
	}
	const second, us = time.Second, time.Microsecond
	for _, tc := range []struct {
		name string
		ops  []rca.Op
		want []bool
	}{
		{
			"a posted send of the next group is queued behind a receive that waits",
			[]rca.Op{p2p("Recv", 3, 2, 1, second, recv(0)), p2p("Send", 4, 1, 1, second-us, send(0, 0))},
			[]bool{true, false},
		},
		{
			"one group runs side by side, far apart in time",
			[]rca.Op{p2p("Recv", 3, 1, 1, 2*second, recv(0)), p2p("Send", 4, 2, 1, second, send(0, 0))},
			[]bool{true, true},
		},
		{
			"a GPU that has given all goes on, though the network has not",
			[]rca.Op{p2p("Send", 2, 1, 1, second, send(2, 0)), p2p("Recv", 4, 2, 1, second, recv(0))},
			[]bool{true, true},
		},
		{
			"and no further than the first group that holds it",
			[]rca.Op{p2p("Send", 2, 1, 1, second, send(2, 0)), p2p("Recv", 4, 2, 1, second, recv(0)), p2p("Recv", 6, 2, 1, second, recv(0))},
			[]bool{true, true, false},
		},
		{
			"groups untold: a second send to one peer comes after the first",
			[]rca.Op{p2p("Send", 2, 0, 1, second, send(0, 0)), p2p("Recv", 3, 0, 1, second, recv(0)), p2p("Send", 4, 0, 1, second, send(0, 0))},
			[]bool{true, true, false},
		},
		{
			"groups untold: what is called a second later is of another",
			[]rca.Op{p2p("Send", 2, 0, 1, 2*second, send(0, 0)), p2p("Send", 3, 0, 2, second, send(0, 0))},
			[]bool{true, false},
		},
		{
			"behind a collective whose flows are all done, which may have work inside the host",
			[]rca.Op{p2p("AllReduce", 2, 1, -1, second, send(2, 2)), p2p("Send", 3, 1, 1, second, send(0, 0))},
			[]bool{true, false},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var q queue
			var got []bool
			for i := range tc.ops {
				got = append(got, q.front(&tc.ops[i]))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("may run: %v, want %v", got, tc.want)
			}
		})
	}
}
