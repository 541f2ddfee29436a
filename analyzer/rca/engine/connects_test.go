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

// TestFirstCallWaitsForPeers: NCCL connects inside the first call, from both ends (ncclTransportP2pSetup). A rank inside such a call waits
// for the members that are not in it, and until a moment ago it waited for the one that has just come.
func TestFirstCallWaitsForPeers(t *testing.T) {
	const long = 7 * time.Second
	for _, c := range []struct {
		name    string
		members []int
		fn      string
		done    int64                 // Operations that the job's other communicator has completed.
		in      map[int]time.Duration // Since when a rank is inside the call; 0: it has come out of it,
		out     time.Duration         // so long ago.
		want    []int
		page    bool
	}{
		{"one member has not called the collective", []int{0, 1, 2, 3}, "AllReduce", 900, map[int]time.Duration{0: long, 1: long, 2: long}, long, []int{3}, true},
		{"one member has not called it, another's neighbours have", []int{0, 1, 2, 3}, "AllReduce", 900, map[int]time.Duration{0: 0, 1: long, 2: long}, long, []int{3}, true},
		{"one member has just come", []int{0, 1, 2, 3}, "AllReduce", 900, map[int]time.Duration{0: long, 1: long, 2: long, 3: 200 * time.Millisecond}, long, nil, false},
		{"the others have just come out of a group", []int{0, 1, 2, 3}, "Send", 900, map[int]time.Duration{0: 0, 1: 0, 2: 0, 3: long}, 20 * time.Millisecond, nil, false},
		{"the others came out of a group long ago", []int{0, 1, 2, 3}, "Send", 900, map[int]time.Duration{0: 0, 1: 0, 2: 0, 3: long}, long, []int{3}, true},
		{"the only peer has not called", []int{0, 1}, "Send", 900, map[int]time.Duration{0: long}, long, []int{1}, true},
		{"the only peer has just come", []int{0, 1}, "Send", 900, map[int]time.Duration{0: long, 1: 200 * time.Millisecond}, long, nil, false},
		{"the only peer has just come, in a first step", []int{0, 1}, "Send", 0, map[int]time.Duration{0: long, 1: 200 * time.Millisecond}, long, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newHungJob(4).comm("new", c.members...).comm("old", 0, 1, 2, 3)
			for r := range 4 {
				m := j.on(r, "old")
				m.Called, m.Started, m.Completed, m.SinceCalled, m.SinceCompleted = c.done, c.done, c.done, long, long
			}
			for _, r := range c.members {
				m := j.on(r, "new")
				m.Called, m.Started, m.Completed = 0, 0, 0
				if age, ok := c.in[r]; ok {
					j.in("new", c.fn, []int{r}, func(_ int, o *rca.Op) {
						o.Age, o.Stuck = long, c.out
						if c.fn == "Send" {
							o.Peer, o.Seq = 3, 0
						}
						if age > 0 {
							o.State, o.Peer, o.KernelStarted, o.Age, o.Stuck = rca.OpCalled, -1, 0, age, age
						}
					})
					m.SinceCalled, j.rank(r).GroupOpen = max(age, time.Millisecond), age
				}
			}
			for r := len(c.members); r < 4; r++ {
				j.in("old", "AllReduce", []int{r}) // It waits for the others.
			}
			v := j.verdict()
			if got := rcatest.Accused(v); !slices.Equal(got, c.want) || v.Page != c.page {
				t.Errorf("%s/%s accuses %v, page %v, want %v, %v: %s", v.Class, v.Cause, got, v.Page, c.want, c.page, v.Summary)
			}
			for _, r := range rcatest.CulpritRanks(v) {
				if c.in[r] == long && !slices.Contains(c.want, r) {
					t.Errorf("%s/%s names rank %d, which waits: %s", v.Class, v.Cause, r, v.Summary)
				}
			}
		})
	}
}
