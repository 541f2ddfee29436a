// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"strconv"
	"testing"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// A rank that has never called NCCL is told from one of which nothing is known: other ranks of its host were seen, and their
// hooks record calls.
func TestRanksThatNeverCalled(t *testing.T) {
	const hosts, perHost = 3, 4
	for _, tc := range []struct {
		name  string
		spoil func(s *Session)
		want  []int
	}{
		{"one is not there", func(*Session) {}, []int{6}},
		{"all are there", func(s *Session) { s.processes[6] = Process{Rank: 6} }, nil},
		{"no hooks there", func(s *Session) {
			for i := range s.nodes[1].state.Processes {
				s.nodes[1].state.Processes[i].CallsSeen = false
			}
		}, nil},
		{"its exporter has a file that it cannot read", func(s *Session) { s.nodes[1].state.Unread = []nodeapi.Unread{{File: "x"}} }, nil},
		{"its exporter was not asked", func(s *Session) { s.nodes[1].state = nil }, nil},
		{"its exporter shows it since", func(s *Session) {
			s.nodes[1].state.Processes = append(s.nodes[1].state.Processes, rankProcess(6, "b"))
		}, nil},
		{"ranks are dealt out otherwise", func(s *Session) {
			for r, p := range s.processes {
				p.Labels["local_rank"] = strconv.Itoa(r % hosts)
			}
		}, nil},
		{"no local ranks", func(s *Session) { s.processes[0].Labels["local_rank"] = "-1" }, nil},
		{"nobody knows how many there should be", func(s *Session) { s.world = 0 }, nil},
		{"a whole host is missing", func(s *Session) {
			for r := 4; r < 8; r++ {
				delete(s.processes, r)
			}
			delete(s.byRank, 4)
			s.nodes = slices.Delete(s.nodes, 1, 2)
		}, nil},
	} {
		s := &Session{job: identity.Job{ID: "job"}, world: hosts * perHost, processes: map[int]Process{}, byRank: map[int]*Node{}}
		for h := range hosts {
			n := &Node{Base: string(rune('a' + h)), asked: true, state: &nodeapi.State{Node: string(rune('a' + h)), NowNS: 1 << 40}}
			s.nodes = append(s.nodes, n)
			for l := range perHost {
				rank := h*perHost + l
				if rank == 6 {
					continue
				}
				s.processes[rank] = Process{Rank: rank, Labels: map[string]string{"local_rank": strconv.Itoa(l)}}
				s.byRank[rank] = n
				p := rankProcess(rank, n.Base)
				p.CallsSeen, p.Calls = true, []trace.Call{{Name: "ncclCommInitRank", ID: 1, Size: hosts * perHost, Thread: 1, SinceNS: 1}}
				n.Ranks, n.state.Processes = append(n.Ranks, rank), append(n.state.Processes, p)
			}
		}
		tc.spoil(s)
		if tc.name == "one is not there" {
			if beside := s.besideAbsent(); !slices.Equal(beside, []int{4}) {
				t.Errorf("beside it are %v", beside)
			}
		}
		ev := s.Evidence()
		var got []int
		for i := range ev.Ranks {
			if r := &ev.Ranks[i]; len(r.Calls) == 0 && r.Caps&rca.SeesInit != 0 {
				got = append(got, r.ID)
				if r.Host != "b" {
					t.Errorf("%s: rank %d is on host %q", tc.name, r.ID, r.Host)
				}
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: ranks %v have never called, want %v", tc.name, got, tc.want)
		}
	}
}
