// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package harm_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/trace"
)

// seen is evidence of ranks on hosts of two, each inside an operation over the network and with a history.
func seen(hosts int) rca.Evidence {
	ev := rca.Evidence{WorldSize: 2 * hosts, Comms: []rca.Comm{{ID: "dp", Size: 2 * hosts}}}
	for r := range 2 * hosts {
		ev.Comms[0].Members = append(ev.Comms[0].Members, r)
		flow := rca.Flow{Peer: (r + 2) % (2 * hosts), Send: true, Total: 8, Posted: 3, Stuck: time.Second}
		op := rca.Op{Number: 40, Func: "AllReduce", Bytes: 1 << 20, State: rca.OpMoving, Age: 5 * time.Second, Stuck: time.Second, Flows: []rca.Flow{flow}}
		ev.Ranks = append(ev.Ranks, rca.Rank{
			ID: r, Host: fmt.Sprintf("node-%d", r/2), Caps: rca.SeesCalls | rca.SeesKernels | rca.SeesSteps, State: rca.ProcessRunning,
			Memberships: []rca.Membership{{Comm: "dp", CommRank: r, Called: 41, Started: 41, Completed: 40, InFlight: []rca.Op{op}}},
		})
		for n := range int64(40) {
			ev.Timeline = append(ev.Timeline, rca.Segment{
				Kind: rca.SegmentOp, Rank: r, Comm: "dp", Number: n, Peer: -1, Bytes: 1 << 20, Start: 1e9 * n, Entered: 1e9*n + 10, End: 1e9*n + 1e8,
			})
		}
		ev.Facts = append(ev.Facts, rca.Fact{Host: fmt.Sprintf("node-%d", r/2), Rank: r, Kind: "xid"})
	}
	return ev
}

// spoiled does a harm to a copy, as drawn for a run; the history comes from the original, as it does from nodes.
func spoiled(t *testing.T, name, run string, ev *rca.Evidence) rca.Evidence {
	t.Helper()
	s, ok := harm.Named(name).On(run, ev)
	if !ok {
		t.Fatalf("%s means nothing here", name)
	}
	out := harm.Copy(ev)
	if s.States != nil {
		s.States(&out)
	}
	out.Timeline = slices.Clone(ev.Timeline)
	if s.History != nil {
		s.History(&out, 0)
	}
	return out
}

// A harm changes something, does the same every time, and leaves the original alone.
func TestHarmsAreDrawnByTheRun(t *testing.T) {
	for _, name := range harm.Names() {
		t.Run(name, func(t *testing.T) {
			differs, varies := false, false
			first := seen(6)
			first = spoiled(t, name, "0", &first)
			for run := range 8 {
				ev := seen(6)
				a, b := spoiled(t, name, fmt.Sprint(run), &ev), spoiled(t, name, fmt.Sprint(run), &ev)
				if !reflect.DeepEqual(a, b) {
					t.Fatalf("run %d: a second time is not the same", run)
				}
				if whole := seen(6); !reflect.DeepEqual(ev, whole) {
					t.Fatalf("run %d: the original is spoiled", run)
				}
				differs = differs || !reflect.DeepEqual(a, ev)
				varies = varies || !reflect.DeepEqual(a, first)
			}
			if !differs || !varies {
				t.Errorf("changes something: %v, otherwise in another run: %v", differs, varies)
			}
		})
	}
}

// What is between hosts means nothing in a job on one.
func TestHarmsOfOneHost(t *testing.T) {
	one := seen(1)
	for name, want := range map[string]bool{"records-10": true, "sampled": true, "silent-20": false, "liar": false, "clock": false, "drift": false} {
		if _, ok := harm.Named(name).On("run", &one); ok != want {
			t.Errorf("%s on one host: %v", name, ok)
		}
	}
	if harm.Named("no such harm") != nil {
		t.Error("a harm that does not exist is found")
	}
}

// Of eleven hosts two are silent, and nothing is left of them but that they are missing.
func TestSilentHosts(t *testing.T) {
	ev := seen(11)
	bad := spoiled(t, "silent-20", "run", &ev)
	if len(bad.Missing) != 2 || len(bad.Ranks) != 18 || len(bad.Facts) != 18 || len(bad.Timeline) != 18*40 {
		t.Errorf("%d hosts missing; %d ranks, %d facts, %d segments left", len(bad.Missing), len(bad.Ranks), len(bad.Facts), len(bad.Timeline))
	}
}

// A finished operation of which only the call was seen has no time inside the kernel, and tells that its end is a guess.
func TestMaskedRecords(t *testing.T) {
	ev := seen(2)
	masked := 0
	for run := range 16 {
		s, _ := harm.Named("sampled").On(fmt.Sprint(run), &ev)
		c := trace.Completion{CalledNS: 10, EnqueuedNS: 20, EnteredNS: 30, LeftNS: 40, GPUNS: 5}
		s.Record(&c)
		if c.EnteredNS != 0 {
			continue
		}
		masked++
		if c.Flags&trace.OpNoCompletion == 0 || c.Flags&trace.OpLeftInferred == 0 || c.LeftNS != 20 || c.GPUNS != 0 {
			t.Errorf("run %d: %+v", run, c)
		}
	}
	if masked == 0 {
		t.Error("no run went without kernel events")
	}
}
