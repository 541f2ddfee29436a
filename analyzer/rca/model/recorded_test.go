// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/model"
)

// Of what real jobs recorded, the model names whom it should, and nobody else.
func TestRecorded(t *testing.T) {
	truth := map[string]struct{ Ranks []int }{}
	for _, set := range []string{"nccl", "gpu"} {
		text, err := os.ReadFile(filepath.Join("../../offline/testdata", set, "answers.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &truth); err != nil {
			t.Fatal(err)
		}
	}
	named := 0
	for file, r := range model.Recorded(t) {
		v := model.Analyze(r.Evidence, r.Options)
		want := truth[file[:len(file)-len(".tar.gz")]].Ranks
		for _, c := range v.Culprits {
			if c.Rank >= 0 && !slices.Contains(want, c.Rank) {
				t.Errorf("%s: rank %d is accused, at fault is %v: %s", file, c.Rank, want, v.Summary)
			}
		}
		if len(v.Culprits) == 1 && len(want) == 1 && v.Culprits[0].Rank == want[0] {
			named++
		}
		t.Logf("%s: %s", file, said(&v))
	}
	if named < 10 {
		t.Errorf("%d incidents have their culprit named, want 10", named)
	}
}

// opposite is a job of ranks that called two operations on two communicators, the first half in one order and the second in the other.
func opposite(ranks, odd int) rca.Evidence {
	ev := rca.Evidence{WorldSize: ranks}
	for _, id := range []rca.CommID{"a", "b"} {
		c := rca.Comm{ID: id, Name: string(id), Size: ranks}
		for r := range ranks {
			c.Members = append(c.Members, r)
		}
		ev.Comms = append(ev.Comms, c)
	}
	const second = 1_000_000_000
	for r := range ranks {
		rank := rca.Rank{ID: r, Host: "host" + string(rune('0'+r)), Caps: rca.SeesCalls | rca.SeesKernels | rca.SeesCompletion | rca.SeesCallTimes, WriteBytesPerSec: -1, ReadBytesPerSec: -1}
		for k, id := range []rca.CommID{"a", "b"} {
			first := (k == 0) == (r >= odd)
			op := rca.Op{Func: "AllReduce", Number: 10, Seq: 10, Peer: -1, Root: -1, Bytes: 8, State: rca.OpEnqueued, Age: 9 * second, Stuck: 9 * second}
			if first {
				op.State, op.KernelStarted, op.Age, op.Stuck = rca.OpEntered, 1, 10*second, 10*second
			}
			rank.Memberships = append(rank.Memberships, rca.Membership{
				Comm: id, CommRank: r, Called: 11, Started: 11, Completed: 10, SinceCompleted: 20 * second, SinceCalled: 9 * second, InFlight: []rca.Op{op},
			})
		}
		ev.Ranks = append(ev.Ranks, rank)
	}
	return ev
}

// Where most ranks called in one order, the others are wrong. Where as many called in either, nobody can tell: all are named together.
func TestOppositeOrders(t *testing.T) {
	for _, c := range []struct {
		ranks, odd int
		rank       int
		group      string
	}{{3, 1, 0, ""}, {2, 1, -1, "ranks 0, 1"}, {4, 2, -1, "ranks 0, 1, 2, 3"}} {
		v := model.Analyze(opposite(c.ranks, c.odd), rca.Options{})
		if v.Class != rca.Inconsistent || len(v.Culprits) != 1 || v.Culprits[0].Rank != c.rank || v.Culprits[0].Group != c.group {
			t.Errorf("%d of %d ranks in another order: %s: %s", c.odd, c.ranks, said(&v), v.Summary)
		}
	}
}

// in gives a rank that is in some operations, each on its own communicator, the oldest first, and has completed so many on each.
func in(ev *rca.Evidence, id int, completed map[rca.CommID]int64, ops ...rca.Op) {
	const second = 1_000_000_000
	r := rca.Rank{ID: id, Host: "host" + string(rune('a'+id)), Caps: rca.SeesCalls | rca.SeesKernels | rca.SeesCompletion | rca.SeesCallTimes, WriteBytesPerSec: -1, ReadBytesPerSec: -1}
	for i := range ev.Comms {
		c := &ev.Comms[i]
		k := slices.Index(c.Members, id)
		if k < 0 {
			continue
		}
		m := rca.Membership{Comm: c.ID, CommRank: k, Called: completed[c.ID], Started: completed[c.ID], Completed: completed[c.ID], SinceCompleted: 20 * second, SinceCalled: 9 * second}
		for j := range ops {
			if o := ops[j]; o.Datatype == string(c.ID) { // Where it is called, until it is known.
				o.Datatype, o.Peer, o.Root, o.State, o.KernelStarted, o.Seq = "", -1, -1, rca.OpEntered, 1, o.Number
				if j > 0 { // Its kernel waits for that of the first.
					o.State, o.KernelStarted = rca.OpEnqueued, 0
				}
				o.Age = 20*second - time.Duration(j)*second
				o.Stuck = o.Age
				m.InFlight = append(m.InFlight, o)
				m.Called, m.Started = o.Number+1, o.Number+1
			}
		}
		r.Memberships = append(r.Memberships, m)
	}
	ev.Ranks = append(ev.Ranks, r)
}

// The ranks of one program do the same in each communicator of a kind: where two ranks of one disagree, the others tell which is wrong.
func TestSiblings(t *testing.T) {
	call := func(fn string, on rca.CommID) rca.Op {
		return rca.Op{Func: fn, Number: 7, Bytes: 8, Datatype: string(on)}
	}
	ev := rca.Evidence{WorldSize: 6, Comms: []rca.Comm{
		{ID: "dp_0", Name: "dp_0", Size: 2, Members: []int{0, 3}}, {ID: "dp_1", Name: "dp_1", Size: 2, Members: []int{1, 4}}, {ID: "dp_2", Name: "dp_2", Size: 2, Members: []int{2, 5}},
	}}
	done := map[rca.CommID]int64{"dp_0": 7, "dp_1": 7, "dp_2": 7}
	in(&ev, 0, done, call("AllGather", "dp_0"))
	in(&ev, 3, done, call("ReduceScatter", "dp_0"))
	for _, r := range []int{1, 2, 4, 5} { // They have ended it.
		in(&ev, r, map[rca.CommID]int64{"dp_1": 8, "dp_2": 8})
		ev.Ranks[len(ev.Ranks)-1].Memberships[0].Recent = []rca.Op{{Func: "ReduceScatter", Number: 7, Seq: 7, Bytes: 8, Peer: -1, Root: -1}}
	}
	if v := model.Analyze(ev, rca.Options{}); len(v.Culprits) != 1 || v.Culprits[0].Rank != 0 || v.Class != rca.Inconsistent {
		t.Errorf("%s: %s", said(&v), v.Summary)
	}
}

// A rank that is in one operation and has not called another called them in this order; the other rank is in the second and then called the
// first. That is a deadlock, and not a rank that makes no more calls.
func TestNotCalledIsLater(t *testing.T) {
	ev := rca.Evidence{WorldSize: 12, Comms: []rca.Comm{{ID: "all", Name: "all", Size: 12}, {ID: "pair", Name: "pair", Size: 2, Members: []int{0, 1}}}}
	call := func(on rca.CommID) rca.Op {
		return rca.Op{Func: "AllReduce", Number: 7, Bytes: 8, Datatype: string(on)}
	}
	for r := range ev.WorldSize {
		ev.Comms[0].Members = append(ev.Comms[0].Members, r)
	}
	for r := range ev.WorldSize {
		ops := []rca.Op{call("all")}
		if r == 1 {
			ops = []rca.Op{call("pair"), call("all")}
		}
		in(&ev, r, map[rca.CommID]int64{"all": 7, "pair": 7}, ops...)
	}
	if v := model.Analyze(ev, rca.Options{}); v.Class != rca.Inconsistent || v.Cause != rca.CauseDeadlock {
		t.Errorf("%s: %s", said(&v), v.Summary)
	}
}

// A rank that is two calls ahead of all others of a communicator is one fault, and no two.
func TestAhead(t *testing.T) {
	ev := rca.Evidence{WorldSize: 4, Comms: []rca.Comm{{ID: "all", Name: "all", Size: 4, Members: []int{0, 1, 2, 3}}}}
	done := map[rca.CommID]int64{"all": 7}
	in(&ev, 0, done, rca.Op{Func: "AllReduce", Number: 7, Bytes: 8, Datatype: "all"}, rca.Op{Func: "AllReduce", Number: 8, Bytes: 8, Datatype: "all"})
	for r := 1; r < 4; r++ {
		in(&ev, r, done)
	}
	if v := model.Analyze(ev, rca.Options{}); len(v.Culprits) != 1 || v.Culprits[0].Rank != 0 {
		t.Errorf("%s: %s", said(&v), v.Summary)
	}
}
