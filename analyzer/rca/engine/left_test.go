// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// left ends an operation for some of its ranks: their kernels are done, while their proxies may still be at it.
func (j *hungJob) left(comm string, ranks ...int) *hungJob {
	for _, r := range ranks {
		m := j.on(r, comm)
		last := len(m.InFlight) - 1
		o := m.InFlight[last]
		o.State = rca.OpLeft
		m.Recent, m.InFlight = append(m.Recent, o), m.InFlight[:last]
		m.Completed++
	}
	return j
}

// TestSenderHasLeft: a kernel has finished an operation when its last data is in the buffers from which the proxy sends. The
// proxy's counters of that operation still show where the data is.
func TestSenderHasLeft(t *testing.T) {
	of := func(total int64, f rca.Flow) rca.Flow {
		f.Total = total
		return f
	}
	ring := func(sent rca.Flow) func(int, *rca.Op) {
		return flows(map[int][]rca.Flow{
			0: {of(4, send(1, 4, 4, 4, 4)), of(4, recv(1, 4, 2, 2, 2))},
			1: {of(4, sent), of(4, recv(0, 4, 4, 4, 4))},
		})
	}
	for _, c := range []struct {
		name  string
		job   *hungJob
		cause rca.Cause
	}{
		{
			"not delivered",
			newHungJob(4).comm("dp", 0, 1).in("dp", "AllReduce", []int{0, 1}, ring(send(0, 4, 4, 4, 2))).left("dp", 1),
			rca.CauseNetworkSend,
		},
		{
			"not delivered, and what it sends next neither, for which the other has not come",
			newHungJob(4).comm("dp", 0, 1).comm("world", 0, 1, 2, 3).
				in("dp", "AllReduce", []int{0, 1}, ring(send(0, 4, 4, 4, 2))).left("dp", 1).
				in("world", "AllReduce", []int{1, 2, 3}, flows(map[int][]rca.Flow{
					1: {of(1, send(0, 1, 1, 1, 0)), of(1, recv(2, 1, 0, 0, 0))}, 2: {of(1, recv(1, 1, 0, 0, 0))}, 3: {of(1, recv(2, 1, 0, 0, 0))},
				})),
			rca.CauseNetworkSend,
		},
		{
			"not handed to the network",
			newHungJob(4).comm("dp", 0, 1).in("dp", "AllReduce", []int{0, 1}, ring(send(0, 4, 4, 2, 2))).left("dp", 1),
			rca.CauseNetworkSend,
		},
		{
			"a message that fits into the buffers",
			newHungJob(4).comm("pp", 0, 1).
				in("pp", "Send", []int{1}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 7 }, flows(map[int][]rca.Flow{1: {of(2, send(0, 2, 2, 2, 0))}})).left("pp", 1).
				in("pp", "Recv", []int{0}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 1, 7 }, flows(map[int][]rca.Flow{0: {of(2, recv(1, 2, 0, 0, 0))}})),
			rca.CauseNetworkSend,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.job.verdict()
			if !slices.Equal(rcatest.Accused(v), []int{1}) || v.Cause != c.cause {
				t.Errorf("%s/%s (%g) accuses %v, want rank 1, %s: %s", v.Class, v.Cause, v.Confidence, rcatest.Accused(v), c.cause, v.Summary)
			}
		})
	}
}
