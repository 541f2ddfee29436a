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

// members is the size of the communicators here.
const members = 4

// TestOperationsWithoutEnd takes operations that nothing shows to end to last until a member of the node saw the end, or all have called
// them, and leaves out those that wait for members on other nodes, or do not wait for all.
func TestOperationsWithoutEnd(t *testing.T) {
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

// TestRunsAhead tells processes that call operations ahead of their GPUs from those that wait for each, by the calls alone.
func TestRunsAhead(t *testing.T) {
	const us, iterations = int64(1000), 8
	for _, tc := range []struct {
		name   string
		calls  int            // Operations between two waits.
		group  bool           // They are one group.
		behind [members]int64 // How much later a process calls, us.
		want   bool
	}{
		{"each is waited for", 1, false, [members]int64{0, 400, 30, 20}, false},
		{"every second is waited for", 2, false, [members]int64{0, 400, 30, 20}, true},
		{"the last of many is waited for", 8, false, [members]int64{0, 0, 0, 400}, true},
		{"groups are waited for", 3, true, [members]int64{0, 400, 30, 20}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, number := &Finished{}, uint64(0)
			for i := range iterations {
				for k := range tc.calls {
					number++
					for rank, late := range tc.behind {
						ordinal := uint64(1)
						if tc.group {
							ordinal += uint64(k)
						}
						at := int64(i+1)*5000*us + late*us + int64(k)*10*us
						l.Add(fmt.Sprint(rank), &trace.Completion{
							CommID: 0xa, NRanks: members, Number: number, Func: trace.AllReduce, EnqueuedNS: uint64(at), LeftNS: uint64(at), GroupOrdinal: ordinal, Flags: trace.OpNoCompletion,
						})
					}
				}
			}
			if got := l.endsUnseen() == nil; got != tc.want {
				t.Errorf("they call ahead: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestNetworkEndsComeLate has processes that wait for each operation, two of which know the network's ends, a little after the fact. That the
// next operation is called before is no reason to take their calls for ones ahead of the GPU.
func TestNetworkEndsComeLate(t *testing.T) {
	const us = int64(1000)
	l := &Finished{}
	for i := range int64(8) {
		begun := (i + 1) * 5000 * us
		for rank, late := range [members]int64{0, 400, 30, 20} {
			net := trace.Completion{CommID: 0xa, NRanks: 2 * members, Number: uint64(i), Func: trace.AllReduce, EnqueuedNS: uint64(begun + late*us)}
			if net.LeftNS = uint64(begun + 450*us); rank > 1 {
				net.LeftNS, net.Flags = net.EnqueuedNS, trace.OpNoCompletion
			}
			next := uint64(begun + 420*us + int64(rank)*us)
			l.Add(fmt.Sprint(rank), &net)
			l.Add(fmt.Sprint(rank), &trace.Completion{
				CommID: 0xb, NRanks: members, Number: uint64(i), Func: trace.AllReduce, EnqueuedNS: next, LeftNS: next, Flags: trace.OpNoCompletion,
			})
		}
	}
	if l.endsUnseen() == nil {
		t.Error("they are taken to call ahead")
	}
}
