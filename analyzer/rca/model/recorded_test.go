// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

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
