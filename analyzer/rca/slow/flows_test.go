// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// flowNet is a network of six hosts with two ranks each: every rank sends to the same rank of the next host, as a ring over
// hosts does, and back, as a pipeline does; slow gives by how much a flow is slower.
func flowNet(facts []rca.Fact, slow func(from, to int) float64) (*analysis, []flowGroup) {
	const hosts = 6
	ev := rca.Evidence{JobID: "net", WorldSize: 2 * hosts, Facts: facts}
	for r := range 2 * hosts {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r/2), State: rca.ProcessRunning})
	}
	a := unseenWork(&ev)
	var gs []flowGroup
	for r := range 2 * hosts {
		for _, d := range []int{2, -2} {
			to := (r + d + 2*hosts) % (2 * hosts)
			f := slow(r, to)
			gs = append(gs, flowGroup{
				node: int32(r), peers: []peerShare{{int32(to), 1}}, now: 1e9 * f, ref: 1e9, ratio: f, weight: 1, lane: -1, slow: f > leastSlower,
			})
		}
	}
	return a, gs
}

// TestPlaceOfSlowFlows: flows that share one end are that end's; that share a path but no end, the path's; where two
// ends explain alike nobody is named.
func TestPlaceOfSlowFlows(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  func(from, to int) bool
		facts []rca.Fact
		ranks []int32
		group string
		class rca.Class
	}{
		{name: "what one rank sends", slow: func(from, _ int) bool { return from == 5 }, ranks: []int32{5}},
		{name: "what one rank receives", slow: func(_, to int) bool { return to == 5 }, ranks: []int32{5}},
		{name: "both", slow: func(from, to int) bool { return from == 5 || to == 5 }, ranks: []int32{5}},
		{name: "a NIC of two ranks", slow: func(from, _ int) bool { return from/2 == 2 }, ranks: []int32{4, 5}},
		{name: "a path", slow: func(from, to int) bool { return from/2 == 2 && to/2 == 3 }, group: "path node2->node3"},
		{name: "one link, one direction", slow: func(from, to int) bool { return from == 5 && to == 7 }, ranks: []int32{5}},
		{
			name: "one link, its receiver's NIC reports errors", slow: func(from, to int) bool { return from == 5 && to == 7 },
			facts: []rca.Fact{{Host: "node3", Rank: 7, Component: "nic", Kind: "port_rate_reduced"}}, ranks: []int32{7},
		},
		{name: "every flow", slow: func(int, int) bool { return true }, class: rca.GlobalSlow},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, gs := flowNet(c.facts, func(from, to int) float64 { return pick(c.slow(from, to), 3.0, 1.0) })
			f, ok := a.locateNet(gs, nil, 1.5)
			if !ok {
				t.Fatal("nothing found")
			}
			if want := pick(c.class == "", rca.SlowComm, c.class); f.class != want || !slices.Equal(f.nodes, c.ranks) || f.group != c.group {
				t.Errorf("%s %v %q, want %s %v %q", f.class, f.nodes, f.group, want, c.ranks, c.group)
			}
		})
	}
}

// TestUnseenReceiver: what a rank sends slowly to somebody of whom nothing is known is not thereby that rank's fault, unless it sends
// slowly to others, too, or its own NIC complains.
func TestUnseenReceiver(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  func(from, to int) bool
		facts []rca.Fact
		place int32 // Of the receiver in the communicator.
		ranks []int32
		group string
	}{
		{name: "to the unseen alone", slow: func(from, to int) bool { return from == 5 && to == 7 }, place: nobodyKnown, group: "link between rank 5 and a rank that was not seen"},
		{name: "to a member of a communicator", slow: func(from, to int) bool { return from == 5 && to == 7 }, place: 3, group: "link between rank 5 and rank 3 of ring, which was not seen"},
		{name: "to others, too", slow: func(from, _ int) bool { return from == 5 }, ranks: []int32{5}},
		{
			name: "its NIC complains", slow: func(from, to int) bool { return from == 5 && to == 7 },
			facts: []rca.Fact{{Host: "node2", Rank: 5, Component: "nic", Kind: "port_rate_reduced"}}, ranks: []int32{5},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, gs := flowNet(c.facts, func(from, to int) float64 { return pick(c.slow(from, to), 3.0, 1.0) })
			a.Comms = []job.Comm{{Name: "ring"}}
			gs = slices.DeleteFunc(gs, func(g flowGroup) bool { return g.node == 7 })
			for i := range gs {
				if gs[i].peers[0].node == 7 {
					gs[i].peers, gs[i].unseen = nil, []int32{c.place}
				}
			}
			f, ok := a.locateNet(gs, nil, 1.5)
			if !ok || !slices.Equal(f.nodes, c.ranks) || f.group != c.group {
				t.Errorf("%v: %v %q, want %v %q", ok, f.nodes, f.group, c.ranks, c.group)
			}
		})
	}
}

// TestFlowsToMembersThatAreNotKnown: a communicator lists its members up to the last that is known. Flows to those behind it go to somebody who
// was not seen.
func TestFlowsToMembersThatAreNotKnown(t *testing.T) {
	sends := func(peers ...int) []rca.Membership {
		op := rca.Op{Peer: -1}
		for _, p := range peers {
			op.Flows = append(op.Flows, rca.Flow{Send: true, Peer: p})
		}
		return []rca.Membership{{Comm: "tree", InFlight: []rca.Op{op}}}
	}
	ev := rca.Evidence{JobID: "tree", WorldSize: 4, Comms: []rca.Comm{{ID: "tree", Size: 4, Members: []int{0, 1, 2}}}, Ranks: []rca.Rank{
		{ID: 0, Memberships: sends(1, 3)}, {ID: 1, Memberships: sends(0, 2)}, {ID: 2, Memberships: sends(1)},
	}}
	a := unseenWork(&ev)
	to := a.flowPeers()
	for _, c := range []struct {
		from   int32
		known  int
		unseen []int32
	}{{0, 1, []int32{3}}, {1, 2, nil}, {2, 1, nil}} {
		if known, unseen := to.of(&transferKey{from: c.from, to: -1}); len(known) != c.known || !slices.Equal(unseen, c.unseen) {
			t.Errorf("rank %d sends to %d known ranks, and to others: %v; want %d, %v", c.from, len(known), unseen, c.known, c.unseen)
		}
	}
	if known, unseen := to.of(&transferKey{class: transferClass{p2p: true}, to: -1}); len(known) > 0 || !slices.Equal(unseen, []int32{nobodyKnown}) {
		t.Errorf("a send to a rank that is not known goes to %v, and to others: %v", known, unseen)
	}
}

// TestSharedNICIsNoPath: where two of four ranks send slowly to the same other host, and the others do not, the path is fine: it is
// one NIC or the other, shared by two.
func TestSharedNICIsNoPath(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  func(from int) bool
		ranks []int32
		group string
	}{
		{"two of four", func(from int) bool { return from < 2 }, []int32{0, 1}, ""},
		{"all four", func(from int) bool { return from < 4 }, nil, "path node0->node1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := rca.Evidence{JobID: "net", WorldSize: 16}
			for r := range 16 {
				ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r/4), State: rca.ProcessRunning})
			}
			a := unseenWork(&ev)
			var gs []flowGroup
			for r := range 16 {
				f := pick(c.slow(r), 3.0, 1.0)
				gs = append(gs, flowGroup{node: int32(r), peers: []peerShare{{int32((r + 4) % 16), 1}}, now: 1e9 * f, ref: 1e9, ratio: f, weight: 1, lane: -1, slow: f > leastSlower})
			}
			f, ok := a.locateNet(gs, nil, 1.5)
			if !ok || !slices.Equal(f.nodes, c.ranks) || f.group != c.group {
				t.Errorf("%v %q, want %v %q", f.nodes, f.group, c.ranks, c.group)
			}
		})
	}
}

// TestLinkBeforeEverybody: that a link is the reason can be sure where it is not which of its ends, and that everybody became slower
// follows from it.
func TestLinkBeforeEverybody(t *testing.T) {
	a, gs := flowNet(nil, func(from, to int) float64 { return pick(from == 5 && to == 7, 3.0, 1.0) })
	gs = slices.DeleteFunc(gs, func(g flowGroup) bool { return g.peers[0].node != (g.node+2)%12 }) // One way round only.
	a.World = 0                                                                                    // Everybody was seen.
	f, ok := a.locateNet(gs, nil, 1.15)
	if !ok || f.weight > placed {
		t.Fatalf("weight %v: the ends are told apart", f.weight)
	}
	f.weight = 0.55 // As where the receiving end explains a little better.
	all := finding{class: rca.GlobalSlow, gain: 1.5, weight: 0.35}
	if fs := a.ranked([]finding{all, f}); fs[0].class != rca.SlowComm {
		t.Errorf("%s goes first", fs[0].class)
	}
	f.certain = false
	if fs := a.ranked([]finding{all, f}); fs[0].class != rca.GlobalSlow {
		t.Errorf("an explanation that fits ill goes before everybody")
	}
}

// TestTreeFlowsShareOneEnd: in a tree a rank's flows to several others are one sum; its neighbours' are slow in part.
func TestTreeFlowsShareOneEnd(t *testing.T) {
	a, _ := flowNet(nil, func(int, int) float64 { return 1 })
	peers := map[int32][]int32{0: {2, 4}, 2: {0, 6, 8}, 4: {0, 10}, 6: {2}, 8: {2}, 10: {4}}
	var gs []flowGroup
	for _, n := range []int32{0, 2, 4, 6, 8, 10} {
		g := flowGroup{node: n, ref: 1e9, weight: 1, lane: -1}
		for _, p := range peers[n] {
			f := pick(n == 2 || p == 2, 3.0, 1.0)
			g.peers = append(g.peers, peerShare{p, 1 / float64(len(peers[n]))})
			g.now += 1e9 * f / float64(len(peers[n]))
		}
		g.ratio = g.now / g.ref
		g.slow = g.ratio > leastSlower
		gs = append(gs, g)
	}
	f, ok := a.locateNet(gs, nil, 1.5)
	if !ok || !slices.Equal(f.nodes, []int32{2}) {
		t.Errorf("%v %q", f.nodes, f.group)
	}
}

// TestFewFlowsExplainLittle: a fiftieth of what a rank sends slowly goes to a rank that nobody else is seen to send to. That rank would have
// to be hundreds of times slower than its peers to explain it.
func TestFewFlowsExplainLittle(t *testing.T) {
	a, gs := flowNet(nil, func(from, to int) float64 { return pick(from == 0 && to == 2, 20.0, 1.0) })
	gs = slices.DeleteFunc(gs, func(g flowGroup) bool { return g.peers[0].node == 4 })
	for i := range gs {
		if g := &gs[i]; g.slow {
			g.peers = []peerShare{{2, 0.98}, {4, 0.02}}
		}
	}
	f, ok := a.locateNet(gs, nil, 1.5)
	if !ok || slices.Contains(f.nodes, 4) || f.times > mostSlow+1 {
		t.Errorf("%v %q, %.0f times", f.nodes, f.group, f.times)
	}
}

func TestNoPlaceWithoutFit(t *testing.T) {
	a, gs := flowNet(nil, func(from, to int) float64 { return 1 + 0.5*float64((from*7+to*3)%5) })
	if f, ok := a.locateNet(gs, nil, 1.5); ok && len(f.nodes) > 0 {
		t.Errorf("names %v (%s)", f.nodes, f.what)
	}
}

// TestOneLinkOfAPath has the flows of eight real processes on four hosts, one of which sends to one other at a five-hundredth of the
// rate: the neighbour on the path, whose gradients are as fast as before, weighs less than the slow flow does.
func TestOneLinkOfAPath(t *testing.T) {
	ev := rca.Evidence{JobID: "net", WorldSize: 8}
	for r := range 8 {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r/2), State: rca.ProcessRunning})
	}
	a := unseenWork(&ev)
	var gs []flowGroup
	for _, f := range []struct {
		from, to      int32
		ratio, weight float64
	}{
		{0, 1, 1.03, 0.63},
		{0, 2, 0.93, 0.35},
		{0, 4, 1.01, 0.28},
		{1, 0, 0.97, 0.62},
		{1, 3, 1.10, 0.39},
		{1, 5, 0.88, 0.25},
		{1, 2, 1.18, 0.32},
		{2, 3, 1.03, 0.63},
		{2, 0, 1.16, 0.40},
		{2, 6, 1.00, 0.28},
		{3, 2, 0.96, 0.62},
		{3, 1, 144, 0.93},
		{3, 7, 0.93, 0.26},
		{3, 4, 1.07, 0.30},
		{4, 5, 1.11, 0.65},
		{4, 0, 1.47, 0.35},
		{4, 6, 1.00, 0.37},
		{5, 4, 1.02, 0.63},
		{5, 1, 1.43, 0.35},
		{5, 7, 0.98, 0.37},
		{5, 6, 0.93, 0.28},
		{6, 7, 1.00, 0.63},
		{6, 2, 1.14, 0.30},
		{6, 4, 1.24, 0.42},
		{7, 6, 1.00, 0.62},
		{7, 3, 1.08, 0.29},
		{7, 5, 1.19, 0.41},
		{7, 0, 1.01, 0.29},
	} {
		gs = append(gs, flowGroup{node: f.from, peers: []peerShare{{f.to, 1}}, now: 2e6 * f.ratio, ref: 2e6, ratio: f.ratio, weight: f.weight, lane: -1, slow: f.ratio > leastSlow})
	}
	f, ok := a.locateNet(gs, nil, 1.2)
	if !ok || !slices.Equal(f.nodes, []int32{3}) || f.group != "" || f.weight > 0.6 {
		t.Errorf("%v %q at weight %.2f, want the sender of the one slow link, not surely", f.nodes, f.group, f.weight)
	}
}

// TestFewBytesTellNoRate: one rank sends slowly to another, and a few bytes to a third as fast as ever: those do not feel its link's rate. On
// NCCL 2.26.5 the receiver was paged for, which receives nothing else.
func TestFewBytesTellNoRate(t *testing.T) {
	for _, c := range []struct {
		bytes int64 // Of what is as fast as ever.
		want  string
	}{{8, "one_direction"}, {1 << 20, "end"}} {
		a, _ := flowNet(nil, func(int, int) float64 { return 1 })
		group := func(from, to int32, bytes int64, ratio, weight float64) flowGroup {
			return flowGroup{
				key: transferKey{class: transferClass{bytes: bytes}}, node: from, peers: []peerShare{{to, 1}}, now: 1e6 * ratio, ref: 1e6, ratio: ratio, weight: weight, lane: -1,
				slow: ratio > leastSlower,
			}
		}
		f, ok := a.locateNet([]flowGroup{
			group(0, 2, 1<<18, 0.8, 0.03), group(1, 3, 1<<18, 0.9, 0.03), group(2, 0, 1<<18, 1, 0.04), group(3, 1, 1<<18, 1230, 0.69), group(3, 0, c.bytes, 0.3, 0.05),
		}, nil, 2)
		if !ok || f.rule != c.want || c.bytes == 8 && !slices.Equal(f.nodes, []int32{3}) {
			t.Errorf("beside %d bytes: %s names %v", c.bytes, f.rule, f.nodes)
		}
	}
}
