// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package harm_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const day = 86_400_000_000_000

func hosts(n int) []string {
	var out []string
	for h := range n {
		out = append(out, fmt.Sprintf("node-%d", h))
	}
	return out
}

// told is what a run's nodes tell under a harm: states and histories of two ranks a host, each inside an operation.
type told struct {
	States  []*nodeapi.State
	History []trace.Completion
	Silent  []string
}

func tell(s *harm.Spoiler, n int) told {
	out := told{Silent: s.Silent}
	for h, host := range hosts(n) {
		st := &nodeapi.State{Node: host, NowNS: 3 * day}
		for r := range 2 {
			rank := int32(2*h + r)
			p := nodeapi.Process{Rank: rank, Kernel: &nodeapi.Kernel{State: nodeapi.ProcessRunning}}
			p.Comms = []trace.Comm{{ID: 7, NRanks: 12, Rank: rank, OpsCalled: 41, OpsStarted: 41, OpsCompleted: 40}}
			for k := range uint64(4) {
				p.Ops = append(p.Ops, trace.Op{Number: 40 + k, CalledNS: 2 * day, EnqueuedNS: 2*day + 5})
				p.Flows = append(p.Flows, trace.Flow{Index: uint32(k), OpNumber: 40 + k, StepsTotal: 8, Posted: 3})
			}
			st.Processes = append(st.Processes, p)
			for k := range uint64(40) {
				c := trace.Completion{CommID: 7, Rank: rank, Number: k, CalledNS: 2*day + 1000*k, EnqueuedNS: 2*day + 1000*k, EnteredNS: 2*day + 1000*k + 10, LeftNS: 2*day + 1000*k + 900}
				if s.Record == nil || s.Record(host, &c) {
					out.History = append(out.History, c)
				}
			}
		}
		if s.State != nil {
			s.State(st)
		}
		out.States = append(out.States, st)
	}
	return out
}

// A harm changes something, does the same every time and however often it is asked, and something else in another run.
func TestHarmsAreDrawnByTheRun(t *testing.T) {
	whole := tell(&harm.Spoiler{}, 6)
	for _, name := range harm.Names() {
		t.Run(name, func(t *testing.T) {
			differs, varies := false, false
			var first told
			for run := range 8 {
				a, _ := harm.Named(name).On(fmt.Sprint(run), hosts(6))
				b, _ := harm.Named(name).On(fmt.Sprint(run), hosts(6))
				once := tell(&a, 6)
				if !reflect.DeepEqual(once, tell(&a, 6)) || !reflect.DeepEqual(once, tell(&b, 6)) {
					t.Fatalf("run %d: a second time is not the same", run)
				}
				if run == 0 {
					first = once
				}
				differs = differs || !reflect.DeepEqual(once, whole)
				varies = varies || !reflect.DeepEqual(once, first)
			}
			if !differs || !varies {
				t.Errorf("changes something: %v, otherwise in another run: %v", differs, varies)
			}
		})
	}
}

// What is between hosts means nothing in a job on one.
func TestHarmsOfOneHost(t *testing.T) {
	for name, want := range map[string]bool{"records-10": true, "silent-20": false, "liar": false, "clock": false, "drift": false} {
		if _, ok := harm.Named(name).On("run", hosts(1)); ok != want {
			t.Errorf("%s on one host: %v", name, ok)
		}
	}
	if harm.Named("no such harm") != nil {
		t.Error("a harm that does not exist is found")
	}
}

// A fifth of eleven hosts are two, and of three one.
func TestSilentHosts(t *testing.T) {
	for n, want := range map[int]int{11: 2, 3: 1} {
		s, _ := harm.Named("silent-20").On("run", hosts(n))
		if len(s.Silent) != want || slices.ContainsFunc(s.Silent, func(h string) bool { return !slices.Contains(hosts(n), h) }) {
			t.Errorf("%v of %d hosts are silent", s.Silent, n)
		}
	}
}

// About a tenth is lost, and every rank says that it has lost something.
func TestLostRecords(t *testing.T) {
	s, _ := harm.Named("records-10").On("run", hosts(11))
	got := tell(&s, 11)
	if share := 1 - float64(len(got.History))/(11*2*40); share < 0.07 || share > 0.13 {
		t.Errorf("%.3f of the finished operations are lost", share)
	}
	for _, st := range got.States {
		for i := range st.Processes {
			if p := &st.Processes[i]; p.Status.DroppedOps == 0 {
				t.Errorf("rank %d has lost nothing", p.Rank)
			}
		}
	}
}

// A liar's host alone lies.
func TestOnlyTheLiarLies(t *testing.T) {
	whole := tell(&harm.Spoiler{}, 6)
	for run := range 16 {
		s, _ := harm.Named("liar").On(fmt.Sprint(run), hosts(6))
		got := tell(&s, 6)
		for h, st := range got.States {
			if lies := !reflect.DeepEqual(st, whole.States[h]); lies != (st.Node == s.Liar) {
				t.Errorf("run %d: %s lies: %v, the liar is %s", run, st.Node, lies, s.Liar)
			}
		}
	}
}
