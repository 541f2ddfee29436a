// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package detail

import (
	"reflect"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
)

// cables are queue pairs of one rank.
type cables struct {
	rank, peer int
	list       []trace.QP
}

func (c cables) QueuePairs(rank int, _ rca.CommID, peer int) []trace.QP {
	if rank != c.rank || peer != c.peer {
		return nil
	}
	return c.list
}

// ring is a job of four ranks in a ring, in which what rank 11 sent to rank 12 is not delivered. Ranks in the communicator are 0 to 3.
func ring() *rca.Evidence {
	ev := &rca.Evidence{WorldSize: 4, Comms: []rca.Comm{{ID: "c/4", Name: "dp", Size: 4, Members: []int{10, 11, 12, 13}}}}
	for i := range 4 {
		send := rca.Flow{Channel: 1, Send: true, Peer: (i + 1) % 4, Total: 64, Posted: 12, Ready: 8, Transmitted: 8, Done: 8, Stuck: 4 * time.Second}
		recv := rca.Flow{Channel: 1, Peer: (i + 3) % 4, Total: 64, Posted: 12, Ready: 8, Transmitted: 8, Done: 8, Stuck: 4 * time.Second}
		if i == 1 {
			send.Ready, send.Transmitted, send.Stuck = 12, 12, 5*time.Second
			recv.Stuck = 6 * time.Second // It waits, too, and tells nothing of why.
		}
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: 10 + i, Host: "node", NIC: "mlx5_0", Memberships: []rca.Membership{{
			Comm: "c/4", CommRank: i, InFlight: []rca.Op{{Number: 7, Peer: -1, Func: "AllReduce", Flows: []rca.Flow{recv, send}}},
		}}})
	}
	return ev
}

func TestStandingFlow(t *testing.T) {
	qps := cables{11, 2, []trace.QP{{Device: "mlx5_0", QPNum: 77, DestQPNum: 78, SendsPosted: 12, SendsCompleted: 8, Errors: 1}}}
	want := &incident.FlowView{
		Comm: "dp", CommID: "c", Op: "AllReduce #7", Channel: 1, Total: 64, Stuck: 5,
		From: incident.FlowEnd{Rank: 11, Host: "node", NIC: "mlx5_0", Steps: [4]int64{12, 12, 12, 8}},
		To:   incident.FlowEnd{Rank: 12, Host: "node", NIC: "mlx5_0", Steps: [4]int64{12, 8, 8, 8}},
		QPs:  []incident.QueuePair{{Device: "mlx5_0", Num: 77, DestNum: 78, Outstanding: 4, Errors: 1}},
	}
	accused := &rca.Verdict{Class: rca.Fault, Comm: "dp", Culprits: []rca.Culprit{{Rank: 11, Channel: -1}}}
	if got := StandingFlow(ring(), accused, qps); !reflect.DeepEqual(got, want) {
		t.Errorf("of the accused:\n%+v, want\n%+v", got, want)
	}
	// The accused shows nothing: the flow of who waits for it, seen from the other end.
	ev := ring()
	ev.Ranks[1].Memberships = nil
	v := &rca.Verdict{Class: rca.Fault, Comm: "dp", Culprits: []rca.Culprit{{Rank: 11, Channel: -1}}, Chain: []rca.Link{{From: 12, To: 11}}}
	got := StandingFlow(ev, v, nil)
	if got == nil || got.From.Rank != 11 || got.From.Steps != [4]int64{-1, -1, -1, -1} || got.To.Rank != 12 || got.To.Steps != [4]int64{12, 8, 8, 8} {
		t.Errorf("of who waits: %+v", got)
	}
	// Its node was not asked.
	ev.Ranks = append(ev.Ranks[:1], ev.Ranks[2:]...)
	if got = StandingFlow(ev, v, nil); got == nil || got.From.Rank != 11 || got.From.Host != "" {
		t.Errorf("of a rank that nobody asked: %+v", got)
	}
	for name, v := range map[string]*rca.Verdict{
		"slow": {Class: rca.SlowComm, Culprits: accused.Culprits}, "nobody": {Class: rca.Fault}, "another channel": {Class: rca.Fault, Culprits: []rca.Culprit{{Rank: 11, Channel: 3}}},
		"a stranger": {Class: rca.Fault, Culprits: []rca.Culprit{{Rank: 99, Channel: -1}}},
	} {
		if got := StandingFlow(ring(), v, qps); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of the verdict's communicator the large operations are shown, with the time before and inside each, on each rank's own clock.
func TestRounds(t *testing.T) {
	ev := &rca.Evidence{Comms: []rca.Comm{{ID: "a", Name: "dp"}, {ID: "b", Name: "tp"}}}
	for rank := range 3 {
		at := int64(rank) * 1e12 // Clocks do not agree.
		for n := range int64(10) {
			compute := int64(1e9)
			if rank == 2 {
				compute = 15e8
			}
			begin := at + compute
			at = begin + 3e9 - compute
			ev.Timeline = append(ev.Timeline,
				rca.Segment{Rank: rank, Comm: "b", Number: n, Func: "AllGather", Peer: -1, Bytes: 1 << 30, Start: begin - 5e8, End: begin - 4e8},
				rca.Segment{Rank: rank, Comm: "a", Number: 2 * n, Func: "AllReduce", Peer: -1, Bytes: 1 << 20, Start: begin - 7e8, Entered: begin, End: at},
				rca.Segment{Rank: rank, Comm: "a", Number: 2*n + 1, Func: "AllReduce", Peer: -1, Bytes: 4, Start: at, End: at})
		}
	}
	got := Rounds(ev, &rca.Verdict{Class: rca.SlowCompute, Comm: "dp", Culprits: []rca.Culprit{{Rank: 2}}})
	if len(got) != mostRounds {
		t.Fatalf("%d rounds", len(got))
	}
	want := incident.Round{Comm: "dp", Op: "AllReduce #18", Members: []incident.Spell{{Rank: 0, Before: 1, Inside: 2}, {Rank: 1, Before: 1, Inside: 2}, {Rank: 2, Before: 1.5, Inside: 1.5}}}
	if last := got[len(got)-1]; !reflect.DeepEqual(last, want) {
		t.Errorf("%+v, want %+v", last, want)
	}
	// Nobody names the communicator: others wait for the accused in this one.
	if got := Rounds(ev, &rca.Verdict{Class: rca.SlowCompute, Culprits: []rca.Culprit{{Rank: 2}}}); len(got) == 0 || got[0].Comm != "dp" {
		t.Errorf("of the accused: %+v", got)
	}
	if got := Rounds(ev, &rca.Verdict{Class: rca.Fault, Comm: "dp"}); got != nil {
		t.Errorf("of a job that stands still: %+v", got)
	}
	if got := Rounds(&rca.Evidence{}, &rca.Verdict{Class: rca.SlowCompute}); got != nil {
		t.Errorf("without finished work: %+v", got)
	}
}

// Of a large communicator those that came last are kept, and who came first.
func TestRoundsAreBounded(t *testing.T) {
	ev := &rca.Evidence{}
	for rank := range 1000 {
		ev.Timeline = append(ev.Timeline, rca.Segment{Rank: rank, Comm: "a", Peer: -1, Bytes: 1, End: int64(2000-rank) * 1e6})
	}
	got := Rounds(ev, &rca.Verdict{Class: rca.SlowCompute})
	if len(got) != 1 || len(got[0].Members) != mostSpells || got[0].Members[0].Rank != 0 || got[0].Members[1].Rank != 1000-mostSpells+1 || got[0].Members[mostSpells-1].Rank != 999 {
		t.Errorf("%+v", got)
	}
}

func TestLayout(t *testing.T) {
	ev := &rca.Evidence{WorldSize: 16, Comms: []rca.Comm{
		{ID: "a", Name: "tp_0", Size: 4, Members: []int{0, 1, 2, 3}}, {ID: "b", Name: "dp_0", Size: 4, Members: []int{0, 4, 8, 12}}, {ID: "c", Name: "dp_1", Size: 4, Members: []int{1, 5}},
	}}
	l := Layout(ev)
	if l == nil || len(l.Axes) != 2 || l.Axes[0].Kind != "tp" || l.Axes[1].Size != 4 {
		t.Errorf("%+v", l)
	}
}
