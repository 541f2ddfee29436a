// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package methods_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods"
	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// say gives a method's own vote on evidence.
func say(t *testing.T, ev rca.Evidence, method string, o ...methods.Options) record.Vote {
	t.Helper()
	opt := methods.Options{}
	if len(o) > 0 {
		opt = o[0]
	}
	votes := methods.Say(&ev, &opt)
	for _, v := range votes {
		if v.Method == method {
			return v
		}
	}
	t.Fatalf("%s says nothing: %+v", method, votes)
	return record.Vote{}
}

// hung is a job that stands still: a rank a host, communicators by name.
type hung struct{ ev rca.Evidence }

func newHung(world int) *hung {
	j := &hung{rca.Evidence{JobID: "job", WorldSize: world}}
	for r := range world {
		j.ev.Ranks = append(j.ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r), GPU: "0", State: rca.ProcessRunning, Caps: rcatest.AllCaps})
	}
	return j
}

func (j *hung) comm(name string, members ...int) *hung {
	j.ev.Comms = append(j.ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
	for i, r := range members {
		j.ev.Ranks[r].Memberships = append(j.ev.Ranks[r].Memberships, rca.Membership{Comm: rca.CommID(name), CommRank: i, Nodes: len(members), Called: 100, Started: 100, Completed: 100})
	}
	return j
}

func (j *hung) on(r int, comm string) *rca.Membership {
	ms := j.ev.Ranks[r].Memberships
	return &ms[slices.IndexFunc(ms, func(m rca.Membership) bool { return m.Comm == rca.CommID(comm) })]
}

// in puts ranks into the next operation of a communicator.
func (j *hung) in(comm, fn string, ranks []int, set ...func(r int, o *rca.Op)) *hung {
	for _, r := range ranks {
		m := j.on(r, comm)
		o := rca.Op{Number: m.Called, Seq: m.Called, Func: fn, Peer: -1, Root: -1, Bytes: 1 << 20, Datatype: "float32", Algo: "ring", Proto: "simple", State: rca.OpMoving, Age: 6 * time.Second, Stuck: 6 * time.Second, Channels: 1}
		for _, f := range set {
			f(r, &o)
		}
		m.Called++
		m.InFlight = append(m.InFlight, o)
	}
	return j
}

// send and recv make flows; the counters are those of Flow's comment.
func send(channel, peer int, ready, transmitted, done int64) rca.Flow {
	return rca.Flow{Channel: channel, Send: true, Peer: peer, Total: 100, Posted: ready, Ready: ready, Transmitted: transmitted, Done: done}
}

func recv(channel, peer int, received, given, consumed int64) rca.Flow {
	return rca.Flow{Channel: channel, Peer: peer, Total: 100, Posted: received + 4, Ready: received, Transmitted: given, Done: consumed}
}

func flows(by map[int][]rca.Flow) func(int, *rca.Op) {
	return func(r int, o *rca.Op) { o.Flows = append(o.Flows, by[r]...) }
}

// demo is the stalled link of `make demo`: what rank 0 posts to rank 1 is not delivered, on both channels alike. Rank 1 is innocent.
func demo() *hung {
	by := map[int][]rca.Flow{}
	for ch := range 2 {
		by[0] = append(by[0], send(ch, 1, 4, 4, 0), recv(ch, 1, 2, 2, 2))
		by[1] = append(by[1], send(ch, 0, 2, 2, 2), recv(ch, 0, 0, 0, 0))
	}
	return newHung(2).comm("dp", 0, 1).in("dp", "AllReduce", []int{0, 1}, flows(by))
}

// TestTheDemosLink: the ends of a link. Mycroft's algorithm 2 compares flows at their senders and is right; its section 5.3 blames the
// receiver, which is innocent. CCL-D's kernel counts are fewest at the receiver: an innocent is named. Pulse's volume is right.
func TestTheDemosLink(t *testing.T) {
	ev := demo().ev
	if v := say(t, ev, "mycroft"); !slices.Equal(v.Ranks, []int{0}) || v.Note != "CheckMinData on dp: not delivered (here: RDMA issue, receiver: receiver failed); section 5.3 blames the receiver, rank 1" {
		t.Errorf("mycroft: %v %s", v.Ranks, v.Note)
	}
	if v := say(t, ev, "ccl-d"); !slices.Equal(v.Ranks, []int{1}) || !strings.HasPrefix(v.Note, "H3") {
		t.Errorf("ccl-d: %v %s, want the innocent rank 1", v.Ranks, v.Note)
	}
	if v := say(t, ev, "pulse"); !slices.Equal(v.Ranks, []int{0}) {
		t.Errorf("pulse: %v %s", v.Ranks, v.Note)
	}
}

// TestM7AllFlowsOfARank is section 5.2: the flows that stand are aggregated. Around a dead NIC both directions stand, so that a flow of each
// neighbour's stands too; the rank all of whose flows stand is the cause.
func TestM7AllFlowsOfARank(t *testing.T) {
	by := map[int][]rca.Flow{}
	for r := range 4 {
		next, prev := (r+1)%4, (r+3)%4
		s, v := send(0, next, 9, 9, 9), recv(0, prev, 9, 9, 9)
		if r == 2 || next == 2 {
			s = send(0, next, 5, 5, 1)
		}
		by[r] = []rca.Flow{s, v}
	}
	v := say(t, newHung(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 2, 3}, flows(by)).ev, "mycroft")
	if !slices.Equal(v.Ranks, []int{2}) || v.Class != rca.Fault {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestM7AnotherPairOfTheGroup: of two pairs of a group that stand, the one that has stood less moved least.
func TestM7AnotherPairOfTheGroup(t *testing.T) {
	pair := func(from, to int, moved int64, stood time.Duration) func(r int, o *rca.Op) {
		return func(r int, o *rca.Op) {
			o.Age, o.Stuck = stood, stood
			if o.Peer = to; r == to {
				o.Func, o.Peer = "Recv", from
				return
			}
			o.Flows = []rca.Flow{send(0, to, moved, moved, moved)}
		}
	}
	j := newHung(4).comm("pp", 0, 1, 2, 3).in("pp", "Send", []int{0, 1}, pair(0, 1, 9, 8*time.Second)).in("pp", "Send", []int{2, 3}, pair(2, 3, 1, 6*time.Second))
	if v := say(t, j.ev, "mycroft"); !slices.Contains(v.Ranks, 2) {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestM7CheckMinOpLooksAtWhatRuns: a program that runs ahead has called operations that its GPU has not begun. What it has called says nothing.
func TestM7CheckMinOpLooksAtWhatRuns(t *testing.T) {
	j := newHung(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 2})
	j.in("dp", "AllReduce", []int{1}, func(_ int, o *rca.Op) { o.State = rca.OpEnqueued })
	j.in("dp", "AllReduce", []int{1}, func(_ int, o *rca.Op) { o.State = rca.OpEnqueued })
	for _, m := range []string{"mycroft", "ccl-d", "pulse"} {
		if v := say(t, j.ev, m); !slices.Equal(v.Ranks, []int{1}) || v.Class != rca.NotEntered {
			t.Errorf("%s: %s %v (%s)", m, v.Class, v.Ranks, v.Note)
		}
	}
}

// TestM7TheAffectedGroup: a pipeline's send and receive stands, and behind it the group of the receiver. The blame goes from the group that
// stands longest to the one in which its suspect waits (section 5.4); groups that wait for each other have no suspect.
func TestM7TheAffectedGroup(t *testing.T) {
	p2p := func(fn string, peer int) func(int, *rca.Op) {
		return func(_ int, o *rca.Op) { o.Func, o.Peer, o.Seq, o.Number = fn, peer, 7, -1 }
	}
	j := newHung(4).comm("tp", 1, 3).comm("pp", 0, 1)
	j.in("tp", "AllReduce", []int{3}, func(_ int, o *rca.Op) { o.Stuck = 8 * time.Second })
	j.in("pp", "Recv", []int{1}, p2p("Recv", 0))
	if v := say(t, j.ev, "mycroft"); !slices.Equal(v.Ranks, []int{0}) || v.Note != "CheckMinOp on tp, CheckMinOp on pp" {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
	// The send has begun, and its flow stands.
	j = newHung(4).comm("tp", 1, 3).comm("pp", 0, 1)
	j.in("tp", "AllReduce", []int{3}, func(_ int, o *rca.Op) { o.Stuck = 8 * time.Second })
	j.in("pp", "Recv", []int{1}, p2p("Recv", 0), flows(map[int][]rca.Flow{1: {recv(0, 0, 2, 2, 2)}}))
	j.in("pp", "Send", []int{0}, p2p("Send", 1), flows(map[int][]rca.Flow{0: {send(0, 1, 5, 4, 2)}}))
	if v := say(t, j.ev, "mycroft"); !slices.Equal(v.Ranks, []int{0}) || !strings.HasSuffix(v.Note, "CheckMinData on pp: not transmitted (here: RDMA issue, receiver: receiver not ready); not delivered (here: RDMA issue, receiver: receiver failed)") {
		t.Errorf("%s %v: %s", v.Class, v.Ranks, v.Note)
	}
	j = newHung(2).comm("a", 0, 1).comm("b", 0, 1).in("a", "AllReduce", []int{0}).in("b", "AllReduce", []int{1})
	if v := say(t, j.ev, "mycroft"); len(v.Ranks) > 0 || !strings.Contains(v.Note, "wait for each other") {
		t.Errorf("deadlock: %s %v: %s", v.Class, v.Ranks, v.Note)
	}
}

// TestM9TheOneChannelThatStands: one of a ring's four channels makes no progress, and is named.
func TestM9TheOneChannelThatStands(t *testing.T) {
	by := map[int][]rca.Flow{}
	for r := range 3 {
		for ch := range 4 {
			s := send(ch, (r+1)%3, 10, 10, 10)
			if r == 1 && ch == 2 {
				s = send(ch, 2, 8, 8, 4)
			}
			by[r] = append(by[r], s, recv(ch, (r+2)%3, 10, 10, 10))
		}
	}
	if v := say(t, newHung(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}, flows(by)).ev, "mycroft"); !slices.Equal(v.Ranks, []int{1}) || !strings.Contains(v.Note, "channel 2") {
		t.Errorf("%v: %s", v.Ranks, v.Note)
	}
}

// TestC6DecisionTreeOfFigure7: the three classes of hangs, each by its own branch.
func TestC6DecisionTreeOfFigure7(t *testing.T) {
	all := []int{0, 1, 2, 3}
	ring := map[int][]rca.Flow{}
	for r := range 4 {
		n := int64(10)
		if r == 1 {
			n = 4
		}
		ring[r] = []rca.Flow{send(0, (r+1)%4, n, n, n), recv(0, (r+3)%4, n, n, n)}
	}
	one := func() *hung { return newHung(4).comm("dp", all...) }
	for _, c := range []struct {
		name  string
		job   *hung
		class rca.Class
		note  string
		rank  int
	}{
		{"H1: a counter did not advance", one().in("dp", "AllReduce", []int{0, 1, 3}), rca.NotEntered, "H1", 2},
		{"H2: a rank that does not hang", func() *hung {
			j := one().in("dp", "AllReduce", []int{0, 1, 2})
			j.on(3, "dp").Called, j.on(3, "dp").Completed = 101, 101
			return j
		}(), rca.Inconsistent, "H2", 3},
		{"H2: type sets differ", one().in("dp", "AllReduce", all, func(r int, o *rca.Op) { o.Datatype = map[bool]string{true: "float16", false: "float32"}[r == 3] }), rca.Inconsistent, "H2", 3},
		{"H3: the fewest Send and Recv", one().in("dp", "AllReduce", all, flows(ring)), rca.Fault, "H3", 1},
	} {
		if v := say(t, c.job.ev, "ccl-d"); v.Class != c.class || !slices.Equal(v.Ranks, []int{c.rank}) || !strings.HasPrefix(v.Note, c.note) {
			t.Errorf("%s: %s %v (%s)", c.name, v.Class, v.Ranks, v.Note)
		}
	}
	barrier := one().in("dp", "AllReduce", []int{0, 1, 3}, func(_ int, o *rca.Op) { o.Bytes = 4 })
	if got := methods.Of(methods.Say(&barrier.ev, &methods.Options{}), "ccl-d"); len(got) > 0 {
		t.Errorf("a barrier raises the alert: %+v", got)
	}
}

// TestC7TreeLayers: over eight nodes, nodes 1 and 5 are of one layer of NCCL's first tree and node 4 is not. Node 4 has done less than all others,
// as a node nearer to the root may; of its own layer node 5 lags.
func TestC7TreeLayers(t *testing.T) {
	by := map[int][]rca.Flow{}
	count := []int64{40, 10, 20, 10, 2, 7, 20, 10}
	for r, n := range count {
		by[r] = []rca.Flow{send(0, 0, n, n, n)}
	}
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	j := newHung(8).comm("dp", all...).in("dp", "AllReduce", all, flows(by), func(_ int, o *rca.Op) { o.Algo, o.Channels = "tree", 2 })
	if v := say(t, j.ev, "ccl-d"); !slices.Equal(v.Ranks, []int{5}) {
		t.Errorf("tree: %v (%s)", v.Ranks, v.Note)
	}
	j = newHung(8).comm("dp", all...).in("dp", "AllReduce", all, flows(by))
	if v := say(t, j.ev, "ccl-d"); !slices.Equal(v.Ranks, []int{4}) {
		t.Errorf("ring: %v (%s)", v.Ranks, v.Note)
	}
}

// TestP5P6Hangs: the rank that has not begun, else the one that has sent the smallest share; of sends and receives that stand, the rank at an
// end of all of them.
func TestP5P6Hangs(t *testing.T) {
	by := map[int][]rca.Flow{0: {send(0, 1, 10, 10, 10)}, 1: {send(0, 2, 8, 8, 4)}, 2: {send(0, 0, 10, 10, 10)}}
	three := func() *hung { return newHung(3).comm("dp", 0, 1, 2) }
	mesh := newHung(4).comm("ep", 0, 1, 2, 3)
	for _, r := range []int{0, 1, 3} {
		mesh.in("ep", "Recv", []int{r}, func(_ int, o *rca.Op) { o.Peer, o.Number = 2, -1 })
	}
	for _, c := range []struct {
		name  string
		job   *hung
		class rca.Class
		ranks []int
	}{
		{"one has not begun", three().in("dp", "AllReduce", []int{0, 2}), rca.NotEntered, []int{1}},
		{"one has sent least", three().in("dp", "AllReduce", []int{0, 1, 2}, flows(by)), rca.Fault, []int{1}},
		{"no volumes", three().in("dp", "AllReduce", []int{0, 1, 2}), rca.Unknown, []int{}},
		{"an exchange", mesh, rca.Fault, []int{2}},
	} {
		if v := say(t, c.job.ev, "pulse"); v.Class != c.class || !slices.Equal(v.Ranks, c.ranks) {
			t.Errorf("%s: %s %v (%s)", c.name, v.Class, v.Ranks, v.Note)
		}
	}
}

// TestNothingToSay: evidence without anything in it names nobody.
func TestNothingToSay(t *testing.T) {
	if got := methods.Say(&rca.Evidence{}, &methods.Options{}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
