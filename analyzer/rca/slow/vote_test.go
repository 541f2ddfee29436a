// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestM9ComponentOfASlowCollective: nobody is late, and one rank's network takes longer than the others'.
func TestM9ComponentOfASlowCollective(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Send = rcatest.One(5, 4)
	m := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{}), "mycroft")
	if m.Class != rca.SlowComm || !slices.Equal(m.Ranks, []int{5}) || !strings.Contains(m.Note, "each component should finish within its expected time (network)") {
		t.Errorf("%s %v: %s", m.Class, m.Ranks, m.Note)
	}
}

// TestC5OneSlowIterationIsABlip: an iteration far over the bound accuses nobody, two do.
func TestC5OneSlowIterationIsABlip(t *testing.T) {
	for _, slow := range [][]int{{9}, {9, 12}} {
		j := rcatest.NewSlowJob(8, 1, 1)
		j.Iters = 16
		j.Compute = func(r, it int) float64 { return pick(r == 3 && slices.Contains(slow, it), 30, 1.0) }
		m := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{}), "ccl-d")
		if named := slices.Equal(m.Ranks, []int{3}); named != (len(slow) > 1) {
			t.Errorf("slow in iterations %v: %s %v (%s)", slow, m.Class, m.Ranks, m.Note)
		}
	}
}

// TestC2VoteOfRates: collectives got longer for all alike, and probes find rank 5's sends and rank 6's receives spread over seven
// milliseconds, the others' over two. A member with flows and no probes may be the slowest: then nobody is named.
func TestC2VoteOfRates(t *testing.T) {
	for _, c := range []struct {
		name    string
		unknown int // The rank without probes, -1 none.
		want    []int
	}{
		{"all ranks have probes", -1, []int{5, 6}},
		{"a writer before version 1.5", 2, []int{}},
	} {
		j := rcatest.NewSlowJob(8, 1, 1)
		j.Iters = 16
		j.Send = func(r, it int) float64 { return pick(r == 5 && it >= 8, 30, 1.0) }
		ev := j.Evidence()
		for i := range ev.Timeline {
			s := &ev.Timeline[i]
			if s.Kind != rca.SegmentOp || s.Rank == c.unknown {
				s.SendFlows, s.RecvFlows = 1, 1
				continue
			}
			s.SendFlows, s.SendProbes = 1, pick(s.Rank == 5, 7, 2)
			s.RecvFlows, s.RecvProbes = 1, pick(s.Rank == 6, 7, 2)
		}
		m := rcatest.VoteOf(t, verdictOf(ev, rca.Options{}), "ccl-d")
		if m.Class != rca.SlowComm || !slices.Equal(m.Ranks, c.want) {
			t.Errorf("%s: %s %v (%s), want ranks %v", c.name, m.Class, m.Ranks, m.Note, c.want)
		}
	}
}

// TestP7LongInsideAnOperation: operations got longer for all, nobody is late and nobody sends for longer: it is not the network.
func TestP7LongInsideAnOperation(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Iters = 16
	j.Flush = func(r, it int) float64 { return pick(r == 5 && it >= 8, 80, 1.0) }
	m := rcatest.VoteOf(t, verdictOf(j.Evidence(), rca.Options{}), "pulse")
	if m.Class != rca.SlowComm || !strings.Contains(m.Note, "not the network") {
		t.Errorf("%s %v: %s", m.Class, m.Ranks, m.Note)
	}
}

// TestP6SlowestExchanges: an exchange that a program makes of sends has no rate that can be compared transfer by transfer; the mean of a
// rank's last ten can.
func TestP6SlowestExchanges(t *testing.T) {
	const ranks, iters, slow = 4, 12, 2
	ev := rca.Evidence{JobID: "ep", WorldSize: ranks, Comms: []rca.Comm{{ID: "ep", Name: "ep", Size: ranks, Members: []int{0, 1, 2, 3}}}}
	seq := map[[2]int]int64{}
	for r := range ranks {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: "node" + string(rune('0'+r)), State: rca.ProcessRunning, Caps: rcatest.AllCaps})
	}
	for it := range iters {
		begin := int64(1e15) + int64(it)*int64(100*time.Millisecond)
		end := begin + int64(40*time.Millisecond)
		for r := range ranks {
			for p := range ranks {
				if p == r {
					continue
				}
				active := pick(r == slow, 35*time.Millisecond, 10*time.Millisecond)
				ev.Timeline = append(ev.Timeline,
					rca.Segment{Rank: r, Comm: "ep", Number: -1, Seq: seq[[2]int{r, p}], Func: "Send", Peer: p, Bytes: 1 << 20, Start: begin, Entered: begin, End: end, SendFlows: 1, SendBytes: 1 << 20, SendActive: active, Iteration: it},
					rca.Segment{Rank: p, Comm: "ep", Number: -1, Seq: seq[[2]int{r, p}], Func: "Recv", Peer: r, Bytes: 1 << 20, Start: begin, Entered: begin, End: end, Iteration: it})
				seq[[2]int{r, p}]++
			}
		}
	}
	m := rcatest.VoteOf(t, verdictOf(ev, rca.Options{}), "pulse")
	if m.Class != rca.SlowComm || !slices.Equal(m.Ranks, []int{slow}) || !strings.Contains(m.Note, "last ten exchanges") {
		t.Errorf("%s %v: %s", m.Class, m.Ranks, m.Note)
	}
}
