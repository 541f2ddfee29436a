// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// hostVotes counts, of one operation at a time, the hosts whose ranks say that it stands and those whose ranks say that it
// moves. It is kept from one operation to the next, for there are as many operations as ranks.
type hostVotes struct {
	of     []int32 // Host by node; a rank whose host is unknown is one by itself.
	hosts  int
	tally  []tally // By host.
	voters []int32 // Hosts that have voted.
}

type tally struct {
	still, moving int
	age           time.Duration // The longest without progress.
}

func newHostVotes(x *job.Index) *hostVotes {
	v := &hostVotes{of: make([]int32, len(x.Nodes))}
	number := make(map[string]int32, len(x.Mates))
	for n := range x.Nodes {
		h := x.Host(int32(n))
		k, known := number[h]
		if !known || h == "" {
			k = int32(len(v.tally))
			number[h] = k
			v.tally = append(v.tally, tally{})
		}
		if v.of[n] = k; !known && x.Nodes[n].Rank != nil {
			v.hosts++
		}
	}
	return v
}

func (v *hostVotes) clear() {
	for _, h := range v.voters {
		v.tally[h] = tally{}
	}
	v.voters = v.voters[:0]
}

func (v *hostVotes) add(j *join, moves bool) {
	h := v.of[j.node]
	t := &v.tally[h]
	if t.still+t.moving == 0 {
		v.voters = append(v.voters, h)
	}
	if moves {
		t.moving++
	} else {
		t.still++
	}
	t.age = max(t.age, stuckFor(j.op))
}

// stuck reports whether no fewer hosts say that it stands than say that it moves.
func (v *hostVotes) stuck() bool {
	still, moving := 0, 0
	for _, h := range v.voters {
		if t := &v.tally[h]; t.still >= t.moving {
			still++
		} else {
			moving++
		}
	}
	return still > 0 && still >= moving
}

// age is how long the operation has stood: of three hosts or more one may be wrong about the time, and the longest counts that
// a second one confirms.
func (v *hostVotes) age() time.Duration {
	var first, second time.Duration
	for _, h := range v.voters {
		switch a := v.tally[h].age; {
		case a > first:
			first, second = a, first
		case a > second:
			second = a
		}
	}
	if len(v.voters) < 3 {
		return first
	}
	return second
}
