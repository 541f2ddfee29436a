// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// launched makes evidence in the form that RAS gives: per communicator, the members and their counts of AllReduce.
func launched(comms ...map[int]int64) rca.Evidence {
	var ev rca.Evidence
	ranks := map[int]*rca.Rank{}
	for i, counts := range comms {
		id := rca.CommID(fmt.Sprint("c", i))
		c := rca.Comm{ID: id, Name: string(id), Size: len(counts)}
		for r := range counts {
			c.Members = append(c.Members, r)
		}
		slices.Sort(c.Members)
		for place, r := range c.Members {
			if ranks[r] == nil {
				ranks[r] = &rca.Rank{ID: r, Caps: rca.SeesCalls}
			}
			ranks[r].Memberships = append(ranks[r].Memberships, rca.Membership{
				Comm: id, CommRank: place, Called: counts[r], Started: -1, Completed: -1,
				FuncCalled: map[string]int64{"AllReduce": counts[r]}, SinceCalled: -1, SinceCompleted: -1,
			})
		}
		ev.Comms = append(ev.Comms, c)
	}
	for _, r := range ranks {
		ev.Ranks = append(ev.Ranks, *r)
		ev.WorldSize = max(ev.WorldSize, r.ID+1)
	}
	return ev
}

// alike gives n ranks one count.
func alike(n int, count int64, but map[int]int64) map[int]int64 {
	out := map[int]int64{}
	for r := range n {
		out[r] = count
	}
	maps.Copy(out, but)
	return out
}

func still(ev rca.Evidence) rca.Evidence {
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			ev.Ranks[i].Memberships[j].SinceCalled = time.Minute
		}
	}
	return ev
}

func fact(ev rca.Evidence, rank int, kind, text string) rca.Evidence {
	ev.Facts = append(ev.Facts, rca.Fact{Rank: rank, Component: "process", Kind: kind, Text: text})
	return ev
}

func TestLaunches(t *testing.T) {
	other := launched(alike(4, 10, nil))
	for i := range other.Ranks {
		if r := &other.Ranks[i]; r.ID == 2 {
			r.Memberships[0].FuncCalled = map[string]int64{"AllReduce": 9, "Broadcast": 1}
		}
	}
	moving := launched(alike(8, 64, map[int]int64{7: 63}))
	for i := range moving.Ranks {
		moving.Ranks[i].Memberships[0].SinceCalled = 0
	}
	// Trace files of a running job are read one after another: those read first are behind those read last.
	live, mixed, late := launched(alike(4, 100, map[int]int64{0: 96, 1: 98})), launched(alike(4, 10, nil)), launched(alike(4, 64, map[int]int64{3: 60}))
	mixed.Ranks[0].Memberships[0].FuncCalled = map[string]int64{"AllReduce": 9}
	for i := range 4 {
		live.Ranks[i].Memberships[0].SinceCalled = 5 * time.Millisecond
		mixed.Ranks[i].Memberships[0].SinceCalled = 5 * time.Millisecond
		late.Ranks[i].Memberships[0].SinceCalled = 5 * time.Millisecond
		if late.Ranks[i].ID == 3 {
			late.Ranks[i].Memberships[0].SinceCalled = time.Minute
		}
	}
	for _, tc := range []struct {
		name  string
		ev    rca.Evidence
		class rca.Class
		cause rca.Cause
		ranks []int
	}{
		{"all alike", launched(alike(8, 64, nil)), rca.Unknown, rca.CauseUnknown, nil},
		{"four behind", launched(alike(8, 64, map[int]int64{7: 60})), rca.NotEntered, rca.CauseNotCalled, []int{7}},
		{"two ranks behind", launched(alike(32, 64, map[int]int64{3: 60, 9: 60})), rca.NotEntered, rca.CauseNotCalled, []int{3, 9}},
		{"one behind by one, once", launched(alike(8, 64, map[int]int64{7: 63})), rca.Unknown, rca.CauseUnknown, []int{-1}},
		{"one behind by one, still so", still(launched(alike(8, 64, map[int]int64{7: 63}))), rca.NotEntered, rca.CauseNotCalled, []int{7}},
		{"one behind by one, moving", moving, rca.Healthy, rca.CauseUnknown, nil},
		{"read one after the other while they move", live, rca.Healthy, rca.CauseUnknown, nil},
		{"read between an operation's call and its count", mixed, rca.Healthy, rca.CauseUnknown, nil},
		{"one stands still while the others move", late, rca.NotEntered, rca.CauseNotCalled, []int{3}},
		{"a few ahead are not late", launched(alike(32, 60, map[int]int64{1: 64, 2: 64})), rca.Unknown, rca.CauseUnknown, nil},
		{
			"followed across communicators",
			// Rank 1 is behind in the first communicator and waits in the second for rank 5, which waits for nobody.
			launched(alike(4, 50, map[int]int64{1: 40}), map[int]int64{1: 20, 5: 10, 6: 20}), rca.NotEntered, rca.CauseNotCalled,
			[]int{5},
		},
		{
			"behind each other", launched(map[int]int64{0: 9, 1: 5}, map[int]int64{0: 5, 1: 9}), rca.Unknown, rca.CauseUnknown, nil,
		},
		{"another function", other, rca.Inconsistent, rca.CauseOtherOp, []int{2}},
		{"unresponsive", fact(launched(alike(4, 5, nil)), 3, "ras_unresponsive", "rank 3 did not answer"), rca.NotEntered, rca.CauseProcessStopped, []int{3}},
		{
			"recovered", fact(fact(launched(alike(4, 5, nil)), 3, "ras_unresponsive", "x"), 3, "ras_recovered", "y"), rca.Unknown, rca.CauseUnknown, nil,
		},
		{"dead", fact(launched(alike(4, 5, nil)), 3, "ras_dead", "rank 3 is dead"), rca.NotEntered, rca.CauseProcessGone, []int{3}},
		{"own error", fact(launched(alike(4, 5, nil)), 1, "ras_async_error", "unhandled CUDA error"), rca.Fault, rca.CauseUnknown, []int{1}},
		{"victim's error", fact(launched(alike(4, 5, nil)), 1, "ras_async_error", "remote process exited"), rca.Unknown, rca.CauseUnknown, nil},
		{"finalising", fact(launched(alike(4, 5, map[int]int64{1: 1})), 1, "ras_finalizing", "x"), rca.Benign, rca.CauseJobEnd, nil},
		{"initialising", fact(launched(alike(4, 5, nil)), 1, "ras_initializing", "x"), rca.Benign, rca.CauseFirstStep, nil},
		{"nameless process missing", fact(rca.Evidence{}, -1, "ras_unresponsive", "process 7 missing"), rca.Unknown, rca.CauseUnknown, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := Analyze(tc.ev, rca.Options{HangAfter: 1})
			if v.Class != tc.class || v.Cause != tc.cause || !slices.Equal(rcatest.CulpritRanks(v), tc.ranks) {
				t.Errorf("%s/%s %v, want %s/%s %v\n%s", v.Class, v.Cause, rcatest.CulpritRanks(v), tc.class, tc.cause, tc.ranks, v.Summary)
			}
			if v.Confidence <= 0 || v.Confidence >= 1 {
				t.Errorf("confidence %g", v.Confidence)
			}
		})
	}
}

// TestPipelineEnds: the ends of a pipeline send and receive half as often as the stages between them, and no rank is behind.
func TestPipelineEnds(t *testing.T) {
	ev := launched(alike(4, 0, nil), alike(4, 30, map[int]int64{2: 29}))
	for i := range ev.Ranks {
		n := pick(i == 0 || i == 3, int64(160), 320)
		ev.Ranks[i].Memberships[0].Called, ev.Ranks[i].Memberships[0].FuncCalled = n, map[string]int64{"Send": n / 2, "Recv": n - n/2}
	}
	if v := Analyze(still(ev), rca.Options{}); !slices.Equal(rcatest.Accused(v), []int{2}) {
		t.Errorf("with one rank behind on another communicator: %v: %s", rcatest.Accused(v), v.Summary)
	}
	for i := range ev.Ranks {
		ev.Ranks[i].Memberships = ev.Ranks[i].Memberships[:1]
	}
	if v := Analyze(still(ev), rca.Options{}); len(rcatest.Accused(v)) > 0 || v.Page {
		t.Errorf("without: %v, page %v: %s", rcatest.Accused(v), v.Page, v.Summary)
	}
	for i := range ev.Ranks { // As many, of different kinds: the first sends what the last receives.
		ev.Ranks[i].Memberships[0].Called, ev.Ranks[i].Memberships[0].FuncCalled = 160, map[string]int64{"Send": int64(pick(i < 2, 160, 0)), "Recv": int64(pick(i < 2, 0, 160))}
	}
	if v := Analyze(still(ev), rca.Options{}); len(rcatest.Accused(v)) > 0 || v.Page {
		t.Errorf("with sends here and receives there: %v, page %v: %s", rcatest.Accused(v), v.Page, v.Summary)
	}
}

// TestLaunchesTellNothingOfSlowness: a job that makes progress may be slow, which launch counts do not show.
func TestLaunchesTellNothingOfSlowness(t *testing.T) {
	for _, slow := range []bool{false, true} {
		ev := launched(alike(4, 30, nil))
		for i := range ev.Ranks {
			ev.Ranks[i].Memberships[0].SinceCalled = 0
		}
		ev.PastAsked = slow
		want := pick(slow, rca.Unknown, rca.Healthy)
		if v := Analyze(ev, rca.Options{}); v.Class != want || v.Page {
			t.Errorf("asked for slowness %v: %s, want %s: %s", slow, v.Class, want, v.Summary)
		}
	}
}

// TestBehindSince: others wait for the rank behind since its last call, not since the alert fired.
func TestBehindSince(t *testing.T) {
	ev := launched(alike(4, 30, map[int]int64{2: 28}), alike(4, 9, nil))
	for i := range ev.Ranks {
		for k := range ev.Ranks[i].Memberships {
			ev.Ranks[i].Memberships[k].SinceCalled = time.Duration(4+3*k) * time.Second
		}
	}
	if v := Analyze(ev, rca.Options{}); !slices.Equal(rcatest.Accused(v), []int{2}) || v.Waited != 4 {
		t.Errorf("accuses %v, waited for %g s, want rank 2 and 4 s: %s", rcatest.Accused(v), v.Waited, v.Summary)
	}
}

// TestLastRanksBesideUnseen: members without a known rank do not hide the job's last ranks.
func TestLastRanksBesideUnseen(t *testing.T) {
	ev := launched(alike(8, 5, nil), map[int]int64{0: 5, 1: 5}, map[int]int64{2: 5, 3: 5})
	for _, c := range []int{1, 2} { // Each of two communicators has a member more than ranks are known of.
		ev.Comms[c].Size, ev.Comms[c].Members = 3, nil
	}
	v := Analyze(fact(ev, 7, "ras_dead", "rank 7 is dead"), rca.Options{})
	if !slices.Equal(rcatest.Accused(v), []int{7}) {
		t.Errorf("accuses %v, want rank 7: %s", rcatest.Accused(v), v.Summary)
	}
}

// TestPauseBegins: a rank that pauses is not behind before its peers have waited for it as long as in any hang. Launches run
// ahead of the GPUs, so a peer may launch several more operations within a moment.
func TestPauseBegins(t *testing.T) {
	for _, c := range []struct {
		waited time.Duration
		want   []int
	}{{1500 * time.Millisecond, nil}, {2500 * time.Millisecond, []int{3}}} {
		ev := launched(alike(4, 64, map[int]int64{3: 62}))
		for i := range ev.Ranks {
			m := &ev.Ranks[i].Memberships[0]
			m.SinceCalled = pick(ev.Ranks[i].ID == 3, c.waited+time.Second, 1200*time.Millisecond)
			if ev.Ranks[i].ID != 3 {
				for k := range int64(2) {
					m.InFlight = append(m.InFlight, rca.Op{Number: 62 + k, Func: "AllReduce", State: rca.OpLeft, Age: c.waited - time.Duration(k)*200*time.Millisecond, NoCompletion: true})
				}
			}
		}
		if v := Analyze(ev, rca.Options{}); !slices.Equal(rcatest.Accused(v), c.want) {
			t.Errorf("after %s: %s/%s accuses %v, want %v: %s", c.waited, v.Class, v.Cause, rcatest.Accused(v), c.want, v.Summary)
		}
	}
}
