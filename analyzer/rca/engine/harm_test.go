// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// accusesNobody fails the test where the verdict names a rank as guilty.
func accusesNobody(t *testing.T, v rca.Verdict) {
	t.Helper()
	switch v.Class {
	case rca.Healthy, rca.Benign, rca.Unknown, rca.Imbalance, rca.GlobalSlow:
		if v.Page {
			t.Errorf("pages: %s/%s (%g)\n%s", v.Class, v.Cause, v.Confidence, v.Summary)
		}
	default:
		t.Errorf("accuses %v: %s/%s (%g)\n%s", v.Culprits, v.Class, v.Cause, v.Confidence, v.Summary)
	}
}

// grid is a job of tensor-parallel pairs, each on a host of its own, and data-parallel groups across them.
func grid(hosts int) *hungJob {
	j := newHungJob(2 * hosts)
	var dp [2][]int
	for h := range hosts {
		j.comm("tp_"+string(rune('0'+h)), 2*h, 2*h+1)
		for k := range 2 {
			j.rank(2*h + k).Host = "node" + string(rune('0'+h))
			dp[k] = append(dp[k], 2*h+k)
		}
	}
	return j.comm("dp_0", dp[0]...).comm("dp_1", dp[1]...)
}

// TestRobustRunAhead: hosts call an iteration ahead. What waits for its turn is no kernel that never started while its GPU
// gets on, even if one node claims that it has finished what nobody else has begun.
func TestRobustRunAhead(t *testing.T) {
	j := grid(3)
	for h := range 3 {
		tp := "tp_" + string(rune('0'+h))
		j.queued(tp, "AllReduce", 2*h, 2*h+1)
		for k := range 2 {
			j.on(2*h+k, tp).SinceCompleted = 20 * time.Millisecond
		}
	}
	j.queued("dp_0", "ReduceScatter", 2, 4)
	j.queued("dp_1", "ReduceScatter", 3, 5)
	j.in("dp_0", "ReduceScatter", []int{0}, flows(map[int][]rca.Flow{0: {send(1, 100, 100, 100, 100), recv(2, 100, 100, 100, 100)}}))
	j.in("dp_1", "ReduceScatter", []int{1}, flows(map[int][]rca.Flow{1: {send(1, 100, 100, 100, 100), recv(2, 100, 100, 100, 100)}}))
	accusesNobody(t, j.verdict())

	for h := range 3 {
		for k := range 2 {
			j.on(2*h+k, "tp_"+string(rune('0'+h))).SinceCompleted = 5 * time.Second
		}
	}
	if v := j.verdict(); v.Class != rca.NotEntered && v.Class != rca.Fault {
		t.Errorf("nothing completes any more: %s\n%s", v.Class, v.Summary)
	}
}

// TestRobustOneClock: one host says that it has stood for an hour in what its peers on other hosts move in.
func TestRobustOneClock(t *testing.T) {
	moving := func(_ int, o *rca.Op) {
		o.Stuck = time.Millisecond
		for i := range o.Flows {
			o.Flows[i].Stuck = time.Millisecond
		}
	}
	j := newHungJob(6)
	for p, name := range []string{"dp_0", "dp_1", "dp_2"} {
		j.comm(name, 2*p, 2*p+1)
		j.in(name, "AllReduce", []int{2 * p, 2*p + 1}, flows(map[int][]rca.Flow{
			2 * p: {send(1, 8, 6, 6, 5), recv(1, 8, 5, 5, 5)}, 2*p + 1: {send(0, 8, 6, 6, 5), recv(0, 8, 5, 5, 5)},
		}), moving)
	}
	o := &j.on(0, "dp_0").InFlight[0]
	o.Age, o.Stuck = time.Hour, time.Hour
	for i := range o.Flows {
		o.Flows[i].Stuck = time.Hour
	}
	accusesNobody(t, j.verdict())

	// A second host that stands says that the job does.
	for _, r := range []int{2, 3} {
		o := &j.on(r, "dp_1").InFlight[0]
		o.Stuck, o.Flows[0].Stuck, o.Flows[1].Stuck = 6*time.Second, 6*time.Second, 6*time.Second
	}
	if v := j.verdict(); v.Class == rca.Healthy {
		t.Errorf("two hosts stand still: %s\n%s", v.Class, v.Summary)
	}
}
