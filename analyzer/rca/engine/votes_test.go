// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestC6DecisionTreeOfFigure7: what CCL-D's decision tree alone says for its three classes of hangs.
func TestC6DecisionTreeOfFigure7(t *testing.T) {
	ring := map[int][]rca.Flow{
		0: {send(1, 14, 10, 10, 10), recv(3, 12, 9, 9, 9)}, 1: {send(2, 8, 8, 8, 4), recv(0, 12, 9, 9, 9)},
		2: {send(3, 14, 10, 10, 10), recv(1, 8, 4, 4, 4)}, 3: {send(0, 14, 10, 10, 10), recv(2, 14, 10, 10, 10)},
	}
	for _, c := range []struct {
		name  string
		build func() *hungJob
		class rca.Class
		note  string
		ranks []int
	}{
		{"H1: a counter did not advance", func() *hungJob {
			return newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 3})
		}, rca.NotEntered, "H1", []int{2}},
		{"H2: the type sets differ", func() *hungJob {
			return newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 2, 3}, func(r int, o *rca.Op) { o.Datatype = pick(r == 3, "float16", "float32") })
		}, rca.Inconsistent, "H2", []int{3}},
		{"H3: all are in it, the fewest Send and Recv", func() *hungJob {
			return newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 2, 3}, flows(ring))
		}, rca.Fault, "H3", []int{1}},
	} {
		m := rcatest.VoteOf(t, c.build().verdict(), "ccl-d")
		if m.Class != c.class || !slices.Equal(m.Ranks, c.ranks) || !strings.HasPrefix(m.Note, c.note) {
			t.Errorf("%s: %s %v (%s), want %s %v", c.name, m.Class, m.Ranks, m.Note, c.class, c.ranks)
		}
	}
}

// TestC3OperationTypeSet: operation, algorithm, protocol, data type and size are compared, each on its own.
func TestC3OperationTypeSet(t *testing.T) {
	for field, edit := range map[string]func(*rca.Op){
		"operation": func(o *rca.Op) { o.Func = "ReduceScatter" },
		"algorithm": func(o *rca.Op) { o.Algo = "tree" },
		"protocol":  func(o *rca.Op) { o.Proto = "ll128" },
		"datatype":  func(o *rca.Op) { o.Datatype = "bfloat16" },
		"size":      func(o *rca.Op) { o.Bytes *= 2 },
	} {
		j := newHungJob(4).comm("dp", 0, 1, 2, 3).in("dp", "AllReduce", []int{0, 1, 2, 3}, func(r int, o *rca.Op) {
			if r == 2 {
				edit(o)
			}
		})
		v := j.verdict()
		if v.Class != rca.Inconsistent || !slices.Equal(rcatest.CulpritRanks(v), []int{2}) || !strings.Contains(v.Summary, field) {
			t.Errorf("%s: %s %v: %s", field, v.Class, rcatest.CulpritRanks(v), v.Summary)
		}
	}
}

// TestM7Algorithm2: CheckMinOp first, then CheckMinData with the causes of table 4.
func TestM7Algorithm2(t *testing.T) {
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 2})
	if m := rcatest.VoteOf(t, j.verdict(), "mycroft"); !slices.Equal(m.Ranks, []int{1}) || !strings.Contains(m.Note, "CheckMinOp") {
		t.Errorf("%v: %s", m.Ranks, m.Note)
	}
	j = newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}, flows(map[int][]rca.Flow{
		0: {send(1, 14, 10, 10, 10), recv(2, 12, 9, 9, 9)}, 1: {send(2, 8, 8, 8, 4), recv(0, 12, 9, 9, 9)}, 2: {send(0, 14, 10, 10, 10), recv(1, 8, 4, 4, 4)},
	}))
	m := rcatest.VoteOf(t, j.verdict(), "mycroft")
	if !slices.Equal(m.Ranks, []int{1}) || !strings.Contains(m.Note, "CheckMinData on dp: not delivered (here: RDMA issue, receiver: receiver failed)") {
		t.Errorf("%v: %s", m.Ranks, m.Note)
	}
	// Its receiver has used everything that arrived (M8, section 5.3), and this is the channel on which it moved least (M9).
	if !strings.Contains(m.Note, "so it is the receiver; broken: each rank should transmit the same amount of data (channel 0)") {
		t.Errorf("neither side nor channel: %s", m.Note)
	}
}

// TestM9TheOneChannelThatStands: one of a ring's four channels makes no progress, and is named.
func TestM9TheOneChannelThatStands(t *testing.T) {
	all := map[int][]rca.Flow{}
	for r := range 3 {
		for ch := range 4 {
			s, v := send((r+1)%3, 14, 10, 10, 10), recv((r+2)%3, 14, 10, 10, 10)
			s.Channel, v.Channel = ch, ch
			if r == 1 && ch == 2 {
				s = send(2, 8, 8, 8, 4)
				s.Channel = ch
			}
			all[r] = append(all[r], s, v)
		}
	}
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}, flows(all))
	if m := rcatest.VoteOf(t, j.verdict(), "mycroft"); !strings.Contains(m.Note, "(channel 2)") {
		t.Errorf("%v: %s", m.Ranks, m.Note)
	}
}

// TestP5PulseVotesOnHangs: the rank that has not begun, else the rank that has sent least; none where no volumes are seen.
func TestP5PulseVotesOnHangs(t *testing.T) {
	ring := map[int][]rca.Flow{
		0: {send(1, 14, 10, 10, 10), recv(2, 12, 9, 9, 9)}, 1: {send(2, 8, 8, 8, 4), recv(0, 12, 9, 9, 9)}, 2: {send(0, 14, 10, 10, 10), recv(1, 8, 4, 4, 4)},
	}
	for _, c := range []struct {
		name  string
		job   *hungJob
		class rca.Class
		ranks []int
	}{
		{"one has not begun", newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 2}), rca.NotEntered, []int{1}},
		{"one has sent least", newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}, flows(ring)), rca.Fault, []int{1}},
		{"no volumes", newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}), rca.Unknown, []int{}},
	} {
		if m := rcatest.VoteOf(t, c.job.verdict(), "pulse"); m.Class != c.class || !slices.Equal(m.Ranks, c.ranks) {
			t.Errorf("%s: %s %v (%s)", c.name, m.Class, m.Ranks, m.Note)
		}
	}
}

// TestP6PulseVotesOnTransfers: in an exchange by sends and receives that does not end, every transfer without progress has the
// faulty rank at one end.
func TestP6PulseVotesOnTransfers(t *testing.T) {
	j := newHungJob(4).comm("ep", 0, 1, 2, 3)
	for _, r := range []int{0, 1, 3} {
		j.in("ep", "Recv", []int{r}, func(_ int, o *rca.Op) { o.Peer, o.Number = 2, -1 })
	}
	if m := rcatest.VoteOf(t, j.verdict(), "pulse"); !slices.Equal(m.Ranks, []int{2}) {
		t.Errorf("%s %v (%s)", m.Class, m.Ranks, m.Note)
	}
}

// TestC7TreeLayersInAHang: a tree's leaf has moved less than its root because it has less to move.
func TestC7TreeLayersInAHang(t *testing.T) {
	tree := map[int][]rca.Flow{
		0: {send(1, 14, 10, 10, 10), recv(1, 14, 10, 10, 10), send(2, 14, 10, 10, 10), recv(2, 14, 10, 10, 10)},
		1: {send(0, 14, 10, 10, 10), recv(0, 14, 10, 10, 10)}, 2: {send(0, 8, 8, 8, 4), recv(0, 14, 10, 10, 10)},
	}
	j := newHungJob(3).comm("dp", 0, 1, 2).in("dp", "AllReduce", []int{0, 1, 2}, flows(tree), func(_ int, o *rca.Op) { o.Algo = "tree" })
	if m := rcatest.VoteOf(t, j.verdict(), "ccl-d"); !slices.Equal(m.Ranks, []int{2}) {
		t.Errorf("%v: %s", m.Ranks, m.Note)
	}
}
