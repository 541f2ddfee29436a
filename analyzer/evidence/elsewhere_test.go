// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// A compromised exporter answers for rank 0, which Prometheus has from host a. Neither its processes nor its facts count for that rank, and
// it cannot hide how rank 0 is.
func TestRanksOfOtherExporters(t *testing.T) {
	for _, tc := range []struct {
		name       string
		a          nodeapi.ProcessState // Of rank 0, by its own exporter; empty: that one does not answer.
		evil       nodeapi.ProcessState // By the compromised one.
		prometheus bool                 // False: it is down, and what it had is remembered.
		want       []string             // Ranks with their hosts.
		doubt      bool                 // Rank 0 is not named.
	}{
		{"both alive", nodeapi.ProcessSleep, nodeapi.ProcessSleep, true, []string{"0 a", "1 evil"}, false},
		{"said to be dead", nodeapi.ProcessSleep, nodeapi.ProcessGone, true, []string{"0 a", "1 evil"}, false},
		{"said to be alive", nodeapi.ProcessGone, nodeapi.ProcessSleep, true, []string{"1 evil"}, true},
		{"its exporter is silent", "", nodeapi.ProcessStopped, true, []string{"1 evil"}, false},
		{"moved there while Prometheus is down", nodeapi.ProcessGone, nodeapi.ProcessSleep, false, []string{"0 evil", "1 evil"}, false},
		{"Prometheus is down, and its exporter silent", "", nodeapi.ProcessStopped, false, []string{"1 evil"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRack(t)
			mine, lie := rankProcess(0, "a"), rankProcess(0, "evil")
			mine.Kernel.State, lie.Kernel.State = tc.a, tc.evil
			lie.Identity.CreatedRealNS = 1 << 60 // The youngest.
			handler := serve(stateOf("a", mine))
			if tc.a == "" {
				handler = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }
			}
			r.add(t, 0, "a", handler)
			evil := stateOf("evil", rankProcess(1, "evil"), lie)
			evil.Facts = []nodeapi.Fact{
				{Component: "gpu", Kind: "xid", Rank: 0, Value: 79}, {Component: "gpu", Kind: "xid", Rank: 1, Value: 79}, {Component: "nic", Kind: "port_down", Rank: -1},
			}
			r.add(t, 1, "evil", serve(evil))
			job := identity.Job{ID: "job"}
			if !tc.prometheus {
				if _, err := r.Directory.Processes(t.Context(), job); err != nil {
					t.Fatal(err)
				}
				r.prom.err = fmt.Errorf("down")
			}
			s, err := r.Open(t.Context(), job, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask(t.Context(), s.AllNodes())
			ev := s.Evidence()
			var got []string
			for i := range ev.Ranks {
				got = append(got, fmt.Sprintf("%d %s", ev.Ranks[i].ID, ev.Ranks[i].Host))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("the ranks are %v, want %v", got, tc.want)
			}
			if doubt := s.Disputed(0) != ""; doubt != tc.doubt {
				t.Errorf("rank 0 in dispute: %v, want %v", doubt, tc.doubt)
			}
			for _, f := range ev.Facts {
				if f.Rank == 0 && tc.want[0] != "0 evil" || f.Host != "evil" {
					t.Errorf("a fact of another exporter's rank: %+v", f)
				}
			}
		})
	}
}

// A compromised exporter gives finished work under the name of another exporter's trace file.
func TestHistoryOfAnotherExporter(t *testing.T) {
	r := newRack(t)
	work := trace.Completion{CommID: 0xa, NRanks: 3, EnqueuedNS: 1, LeftNS: 2}
	r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"))))
	evil, forged := stateOf("evil", rankProcess(1, "evil")), rankProcess(0, "a")
	forged.Completions = []trace.Completion{work}
	evil.Processes[0].Completions = []trace.Completion{work}
	evil.Processes = append(evil.Processes, forged)
	r.add(t, 1, "evil", func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == nodeapi.TracePath {
			http.NotFound(w, req) // What the state has stands in.
			return
		}
		serve(evil)(w, req)
	})
	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask(t.Context(), s.AllNodes())
	s.AskHistory(t.Context(), s.AllNodes(), longestPast)
	ev := s.Evidence()
	if len(ev.Timeline) != 1 || ev.Timeline[0].Rank != 1 {
		t.Errorf("the timeline is %+v", ev.Timeline)
	}
}

// A compromised exporter shows series of another exporter's rank: who is a member of which communicator, and how far it is.
func TestSeriesOfAnotherExporter(t *testing.T) {
	r := newRack(t)
	r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"))))
	r.add(t, 1, "evil", serve(stateOf("evil", rankProcess(1, "evil"))))
	a, evil := string(r.live[0].Metric["instance"]), string(r.live[1].Metric["instance"])
	member := func(rank, commRank, instance string) *model.Sample {
		return series("comm", "c", "nranks", "2", "rank", rank, "comm_rank", commRank, "instance", instance)
	}
	count := func(rank, instance string, n float64) *model.Sample {
		s := series("comm", "c", "rank", rank, "instance", instance)
		s.Value = model.SampleValue(n)
		return s
	}
	const selector = `{job_id="job",comm=~"c",job="culprit-exporter"}`
	r.prom.answers["last_over_time(culprit_nccl_comm_info"+selector+"[10m])"] = model.Vector{
		member("0", "0", a), member("1", "1", evil), member("0", "1", evil), // Rank 0 would have the place of rank 1.
	}
	for _, metric := range []string{"culprit_nccl_ops_started_total", "culprit_nccl_ops_completed_total"} {
		r.prom.answers[metric+selector] = model.Vector{count("0", a, 7), count("1", evil, 7), count("0", evil, 3)}
	}
	s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ring := s.rings(t.Context(), []rca.CommID{"c"})["c"]
	var got []string
	for _, m := range ring.Members {
		got = append(got, fmt.Sprintf("%d at %d: %d, %d", m.Rank, m.CommRank, m.Started, m.Completed))
	}
	if want := []string{"0 at 0: 7, 7", "1 at 1: 7, 7"}; !slices.Equal(got, want) {
		t.Errorf("the ring has %q, want %q", got, want)
	}
	for rank, memberships := range s.counted {
		if len(memberships) != 1 || memberships[0].Started != 7 {
			t.Errorf("rank %d has %+v", rank, memberships)
		}
	}
}
