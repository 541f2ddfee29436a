// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestOperationsWithoutEnd takes operations that nothing shows to end to last until a member of the node saw the end, or all have called
// them, and leaves out those that wait for members on other nodes, or do not wait for all.
func TestOperationsWithoutEnd(t *testing.T) {
	const members = 4
	called := func(nRanks int32, f trace.Func, at ...uint64) (out []trace.Completion) {
		for _, ns := range at {
			out = append(out, trace.Completion{CommID: 0xa, NRanks: nRanks, Number: 7, Func: f, EnqueuedNS: ns, LeftNS: ns + 1000, Flags: trace.OpNoCompletion})
		}
		return out
	}
	seenToEnd := func(c trace.Completion, ns uint64) trace.Completion {
		c.Flags, c.LeftNS = 0, ns
		return c
	}
	for _, tc := range []struct {
		name string
		done []trace.Completion
		busy uint64  // Until when an operation that each called before is in flight; 0 none.
		want []int64 // Ends; empty: none.
	}{
		{"one late", called(members, trace.AllReduce, 10, 460, 12, 9), 0, []int64{460, 460, 460, 460}},
		{"a member on another node", called(members, trace.AllReduce, 10, 460), 0, nil},
		{"a member on another node, and one that saw the end", append(called(members, trace.AllReduce, 10, 12), seenToEnd(called(members, trace.AllReduce, 14)[0], 500)), 0, []int64{500, 500, 500}},
		{"of unknown size, and all are here", called(-1, trace.AllGather, 10, 460, 12, 9), 0, []int64{460, 460, 460, 460}},
		{"of unknown size, and ranks were not seen", called(-1, trace.AllGather, 10, 460), 0, nil},
		{"called ahead of the GPU", called(members, trace.AllReduce, 10, 460, 12, 9), 470, nil},
		{"called when the GPU was done", called(members, trace.AllReduce, 10, 460, 12, 9), 8, []int64{460, 460, 460, 460}},
		{"a root waits for nobody", called(members, trace.Broadcast, 10, 460, 12, 9), 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &Node{}
			h := history{node: node, ranks: map[string]int{}}
			a := assembly{ev: rca.Evidence{WorldSize: members}, seen: map[int]seen{}}
			for rank := range tc.done {
				file := fmt.Sprint(rank)
				h.ranks[file], a.seen[rank] = rank, seen{node: node, process: &nodeapi.Process{File: file}, rank: rca.Rank{
					Memberships: []rca.Membership{{Comm: CommID(trace.CommKey{ID: 0xa, NRanks: tc.done[rank].NRanks})}},
				}}
				h.done.Add(file, &tc.done[rank])
				if tc.busy > 0 {
					h.done.Add(file, &trace.Completion{CommID: 0xb, NRanks: 2, Func: trace.AllReduce, EnqueuedNS: 1, LeftNS: tc.busy})
				}
			}
			got := slices.DeleteFunc(h.appendSegments(nil, &a), func(s rca.Segment) bool { return s.Start == 1 })
			if len(got) != len(tc.want) {
				t.Fatalf("%d operations are left, want %d", len(got), len(tc.want))
			}
			for i, s := range got {
				if s.Rank != i || s.Start != int64(tc.done[i].EnqueuedNS) || s.End != tc.want[i] || s.Kind != rca.SegmentOp {
					t.Errorf("%+v, want it to end at %d", s, tc.want[i])
				}
			}
		})
	}
}
