// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// A flow shows the step nearest to its end at which data stays.
func TestFlowLetter(t *testing.T) {
	flow := func(send bool, posted, ready, transmitted, done int64) rca.Flow {
		return rca.Flow{Send: send, Total: 8, Posted: posted, Ready: ready, Transmitted: transmitted, Done: done}
	}
	for _, c := range []struct {
		flow rca.Flow
		want Letter
	}{
		{flow(true, 0, 0, 0, 0), Unposted},
		{flow(true, 4, 0, 0, 0), Mute},
		{flow(true, 4, 2, 2, 2), Unsent},
		{flow(true, 4, 3, 2, 2), Full},
		{flow(true, 4, 3, 2, 1), Undelivered},
		{flow(true, 8, 8, 8, 8), Passed},
		{flow(false, 0, 0, 0, 0), Unposted},
		{flow(false, 4, 0, 0, 0), Starved},
		{flow(false, 4, 2, 2, 2), Starved},
		{flow(false, 4, 3, 2, 2), Unflushed},
		{flow(false, 4, 3, 2, 1), Unconsumed},
		{flow(false, 8, 8, 8, 8), Passed},
	} {
		if got := flowLetter(&c.flow); got != c.want {
			t.Errorf("%+v shows %s, want %s", c.flow, got, c.want)
		}
	}
}

// Of several channels between two ranks the one counts on which data stays.
func TestMoreTelling(t *testing.T) {
	for _, c := range []struct{ a, b, want Letter }{
		{Passed, Undelivered, Undelivered}, {Undelivered, Full, Undelivered}, {Mute, Unsent, Unsent}, {Unknown, Starved, Starved}, {Unconsumed, Starved, Unconsumed},
	} {
		if got, back := moreTelling(c.a, c.b), moreTelling(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("of %s and %s counts %s or %s, want %s", c.a, c.b, got, back, c.want)
		}
	}
}

// job2 is a job of two ranks, of which rank 0 has waited in an operation that rank 1 is in, too, or has not called, or has left.
func job2(called int64, in bool, missing ...rca.Missing) rca.Evidence {
	op := rca.Op{Func: "AllReduce", Number: 5, Seq: 5, Peer: -1, Root: -1, State: rca.OpEntered, KernelStarted: 1, Age: time.Minute, Stuck: time.Minute}
	rank := func(id int, called int64, ops ...rca.Op) rca.Rank {
		return rca.Rank{ID: id, Host: "h", Caps: rca.SeesCalls | rca.SeesKernels | rca.SeesCompletion, Memberships: []rca.Membership{
			{Comm: "c", CommRank: id, Called: called, Completed: 5, SinceCompleted: 2 * time.Minute, SinceCalled: time.Minute, InFlight: ops},
		}}
	}
	ev := rca.Evidence{WorldSize: 2, Comms: []rca.Comm{{ID: "c", Name: "dp", Size: 2, Members: []int{0, 1}}}, Missing: missing}
	ev.Ranks = append(ev.Ranks, rank(0, 6, op))
	if in {
		ev.Ranks = append(ev.Ranks, rank(1, called, op))
	} else if missing == nil {
		ev.Ranks = append(ev.Ranks, rank(1, called))
	}
	return ev
}

// What the second rank shows of the operation that the first is in.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		ev     rca.Evidence
		want   Letter
		silent bool
	}{
		"inside":     {job2(6, true), Inside, false},
		"not called": {job2(5, false), NotCalled, false},
		"left":       {job2(7, false), Left, false},
		"not seen":   {job2(5, false, rca.Missing{What: "exporter", Name: "h2", Ranks: []int{1}}), Unknown, true},
	} {
		j := Read(c.ev, rca.Options{})
		if len(j.Operations) != 1 || !j.Operations[0].Still {
			t.Fatalf("%s: operations %+v", name, j.Operations)
		}
		p := j.partOf(1, 0)
		if p < 0 || j.Parts[p].Seen != c.want || j.Silent[1] != c.silent {
			t.Errorf("%s: part %d of %+v, silent %v; want %s", name, p, j.Parts, j.Silent, c.want)
		}
	}
}

// What a rank has called and is not recorded to be in has ended there, unless records were lost: then it may be in it.
func TestLostRecords(t *testing.T) {
	for lost, want := range map[int]Letter{0: Left, 7: Unknown} {
		ev := job2(7, false)
		ev.Ranks[1].Lost = uint64(lost)
		j := Read(ev, rca.Options{})
		if p := &j.Parts[j.partOf(1, 0)]; p.Seen != want || p.Hidden != (lost > 0) {
			t.Errorf("%d records lost: %s, hidden %v; want %s", lost, p.Seen, p.Hidden, want)
		}
	}
}

// Of many operations whose end nobody records the last ones are read: they show how far a rank has come. One that is not read was not left.
func TestManyOpen(t *testing.T) {
	ev := job2(6, true)
	for i := range ev.Ranks {
		m := &ev.Ranks[i].Memberships[0]
		first := m.InFlight[0]
		m.InFlight = nil
		for k := range int64(30) {
			o := first
			o.Number, o.Seq, o.NoCompletion = k, k, true
			if i == 0 || k < 29 { // Rank 1 has not called the last one.
				m.InFlight = append(m.InFlight, o)
			}
		}
		m.Called = int64(len(m.InFlight))
	}
	j := Read(ev, rca.Options{})
	last := false
	for p := range j.Parts {
		part := &j.Parts[p]
		last = last || part.Seen == NotCalled && part.Node == 1
		if part.Seen == Left {
			t.Errorf("rank %d has left what it is in", part.Node)
		}
	}
	if !last {
		t.Error("the operation that rank 1 has not called is not read")
	}
}

// Ranks that show the same are read once: one of them may have a fault, and another stands for the rest. A rank that shows anything else stays
// by itself.
func TestGather(t *testing.T) {
	ev, _ := rcatest.BigHang(128)
	j := Read(ev, rca.Options{})
	total, alone := int32(0), 0
	for n := range j.Of {
		total += j.Weight[n]
		for _, p := range j.Of[n] {
			for _, q := range j.Operations[j.Parts[p].Operation].Parts {
				if j.Weight[j.Parts[q].Node] == 0 {
					t.Fatalf("node %d stands for no one and is in an operation", j.Parts[q].Node)
				}
			}
		}
		if j.Weight[n] == 1 && len(j.Alike(int32(n))) == 1 {
			alone++
		}
	}
	// 112 of them are in the operation of all and show no more. The other 16 are the stage of the one that holds them up.
	if total != 128 || alone != 16 {
		t.Errorf("%d nodes are counted, want 128; %d are alone, want 16", total, alone)
	}
	if rest := j.StandsFor(j.Alike(127)[2]); j.Weight[rest] != 111 {
		t.Errorf("one node stands for %d, want 111", j.Weight[rest])
	}
}
