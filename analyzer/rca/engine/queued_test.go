// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// Without kernel events (NCCL 2.27 and older), the network side of an operation queued behind another shows arriving data that
// its GPU does not take. That follows from the stream's order and is no fault of that GPU.
func TestQueuedWithoutKernelEvents(t *testing.T) {
	j := newHungJob(4).comm("dp", 0, 1, 2).comm("world", 0, 1, 2, 3)
	for r := range 4 {
		j.rank(r).Caps &^= rca.SeesKernels
	}
	unseen := func(_ int, o *rca.Op) { o.KernelStarted, o.KernelStopped = -1, -1 }
	later := func(_ int, o *rca.Op) { o.Age -= time.Millisecond }
	j.in("dp", "AllReduce", []int{0, 1}, unseen, flows(map[int][]rca.Flow{
		0: {send(1, 6, 2, 2, 2), recv(2, 4, 0, 0, 0)},
		1: {send(2, 4, 1, 0, 0), recv(0, 6, 2, 2, 2)},
	}))
	j.in("world", "AllReduce", []int{0, 1, 3}, unseen, later, flows(map[int][]rca.Flow{
		0: {send(1, 4, 0, 0, 0), recv(3, 4, 2, 2, 0)},
		1: {send(2, 4, 0, 0, 0), recv(0, 4, 0, 0, 0)},
		3: {send(0, 6, 2, 2, 2), recv(2, 4, 0, 0, 0)},
	}))
	v := j.verdict()
	if v.Class != rca.NotEntered || !slices.Equal(rcatest.CulpritRanks(v), []int{2}) {
		t.Errorf("%s/%s %v: %s", v.Class, v.Cause, rcatest.CulpritRanks(v), v.Summary)
	}
}
