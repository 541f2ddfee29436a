// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestPausesAreBenign: a rank that leaves the loop for long now and then and goes on as before is not slow, whether or
// not it is seen to write; one that is late in every iteration, or at random, is.
func TestPausesAreBenign(t *testing.T) {
	late := func(when func(it int) bool) func(*rcatest.SlowJob) {
		return func(j *rcatest.SlowJob) {
			j.Iters = 24
			j.Host = func(r, it int) time.Duration { return pick(r == 2 && when(it), 20*time.Second, 0) }
		}
	}
	every6 := func(it int) bool { return it%6 == 5 }
	for _, c := range []struct {
		name  string
		edit  func(*rcatest.SlowJob)
		write float64
		want  rca.Class
		cause rca.Cause
	}{
		{"every sixth iteration, writing", late(every6), 1e9, rca.Benign, rca.CauseCheckpoint},
		{"every sixth iteration, seen between writes", late(every6), 2e4, rca.Benign, rca.CauseCheckpoint},
		{"once", late(func(it int) bool { return it == 9 }), 0, rca.Benign, rca.CauseCheckpoint},
		{"irregularly, writing", late(func(it int) bool { return it == 3 || it == 5 || it == 14 || it == 21 }), 1e9, rca.Benign, rca.CauseCheckpoint},
		{"irregularly", late(func(it int) bool { return it == 3 || it == 5 || it == 14 || it == 21 }), 0, rca.SlowCompute, rca.CauseCPU},
		{"in every iteration since some time ago", late(func(it int) bool { return it >= 19 }), 0, rca.SlowCompute, rca.CauseCPU},
		{"in most iterations for a while, writing", late(func(it int) bool { return it >= 4 && it < 10 && it != 8 }), 1e9, rca.Unknown, rca.CauseUnknown},
		{"in every iteration", late(func(int) bool { return true }), 0, rca.SlowCompute, rca.CauseCPU},
		{"a rank slow beside", func(j *rcatest.SlowJob) { late(every6)(j); j.Compute = rcatest.One(5, 1.5) }, 1e9, rca.SlowCompute, rca.CauseGPU},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(4, 2, 2)
			c.edit(j)
			ev := j.Evidence()
			for i := range ev.Ranks {
				ev.Ranks[i].WriteBytesPerSec = 0
			}
			ev.Ranks[2].WriteBytesPerSec = c.write
			v := verdictOf(ev, rca.Options{})
			if v.Class != c.want || v.Cause != c.cause {
				t.Errorf("%s/%s, want %s/%s\n%s", v.Class, v.Cause, c.want, c.cause, v.Summary)
			}
			if c.want == rca.Benign && (len(v.Culprits) > 0 || v.Page) {
				t.Errorf("accuses %v, page %t", rcatest.CulpritRanks(v), v.Page)
			}
		})
	}
}

func TestEvenSpaced(t *testing.T) {
	for _, c := range []struct {
		at   []int32
		want bool
	}{
		{nil, false},
		{[]int32{2, 8}, false},
		{[]int32{2, 8, 14}, true},
		{[]int32{2, 8, 15, 21}, true},
		{[]int32{2, 8, 10}, false},
	} {
		if got := evenSpaced(c.at); got != c.want {
			t.Errorf("%v: %t", c.at, got)
		}
	}
}
