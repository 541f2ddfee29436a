// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// liar is a job of user 1002 on three hosts, as Prometheus and the exporters show it. The third host belongs to a liar.
type liar struct {
	*rack
	states map[string]*nodeapi.State
}

const (
	sinceQuery = "min by (rank, instance, uid) (min_over_time(timestamp(" + liveQuery + ")[1h:1m]))"
	upQuery    = `culprit_nccl_process_up{job_id="job"}`
)

func newLiar(t *testing.T) *liar {
	l := &liar{rack: newRack(t), states: map[string]*nodeapi.State{}}
	for rank, host := range []string{"a", "b"} {
		l.claims(t, rank, host, "1002", 1000, nodeapi.ProcessSleep)
	}
	return l
}

// claims makes a process on a host claim a rank as a user, since a time by Prometheus's clock.
func (l *liar) claims(t *testing.T, rank int, host, uid string, since float64, state nodeapi.ProcessState) {
	p := rankProcess(rank, host)
	p.UID, p.Kernel.State, p.Identity.WorldSize = uid, state, 3
	if l.states[host] == nil {
		l.states[host] = stateOf(host)
		l.add(t, rank, host, serve(l.states[host]))
		l.live = l.live[:len(l.live)-1]
	}
	l.states[host].Processes = append(l.states[host].Processes, p)
	instance := strings.TrimPrefix(l.servers[host].URL, "http://")
	s := rankSeries(rank, host, instance, fmt.Sprint(100+len(l.live)))
	s.Metric["uid"] = model.LabelValue(uid)
	l.live = append(l.live, s)
	l.prom.answers[liveQuery] = l.live
	at := series("rank", fmt.Sprint(rank), "instance", instance, "uid", uid)
	at.Value = model.SampleValue(since)
	up := series("rank", fmt.Sprint(rank), "instance", instance)
	if !alive(state) {
		up.Value = 0
	}
	known, _ := l.prom.answers[sinceQuery].(model.Vector)
	l.prom.answers[sinceQuery] = append(known, at)
	ups, _ := l.prom.answers[upQuery].(model.Vector)
	l.prom.answers[upQuery] = append(ups, up)
}

// The liar claims rank 0 of the job, which runs on host a, or another rank. Whatever it does, either host a's process speaks for
// rank 0 or no process does.
func TestClaimsBetweenNodes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		claim func(t *testing.T, l *liar)
		want  []string // Ranks and hosts of the evidence.
		doubt []int    // Ranks that must not be named.
	}{
		{"nobody lies", func(*testing.T, *liar) {}, []string{"0 a", "1 b"}, nil},
		{"another user, later", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 2000, nodeapi.ProcessSleep) }, []string{"0 a", "1 b"}, nil},
		{"another user, killed", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 2000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil},
		{"another user, another rank", func(t *testing.T, l *liar) { l.claims(t, 2, "evil", "1001", 2000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil},
		{"another user, at once", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 1000, nodeapi.ProcessGone) }, nil, []int{0, 1}},
		{"the same user, later", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 2000, nodeapi.ProcessSleep) }, []string{"0 a", "1 b"}, nil},
		{"the same user, killed", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 2000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil},
		{"the same user, killed, there before", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 900, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil},
		{"the same user, at once", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 1000, nodeapi.ProcessSleep) }, []string{"1 b"}, []int{0}},
		{"disputed by its own exporter", func(t *testing.T, l *liar) {
			l.claims(t, 2, "evil", "1002", 2000, nodeapi.ProcessGone)
			l.states["evil"].Processes[0].Disputed = "another container"
		}, []string{"0 a", "1 b"}, []int{2}},
		{"not scraped yet", func(_ *testing.T, l *liar) {
			p := rankProcess(0, "b")
			p.UID, p.Identity.CreatedRealNS = "1001", 1
			l.states["b"].Processes = append(l.states["b"].Processes, p)
		}, []string{"0 a", "1 b"}, nil},
		{"a world of a million", func(t *testing.T, l *liar) {
			l.states["b"].Processes[0].Identity.WorldSize = 1 << 20
			l.live[1].Metric["world_size"] = "1048576"
			l.claims(t, 2, "c", "1002", 1000, nodeapi.ProcessSleep)
		}, []string{"0 a", "1 b", "2 c"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLiar(t)
			tc.claim(t, l)
			s, err := l.Open(t.Context(), identity.Job{ID: "job"}, nil)
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
				t.Errorf("the evidence is of %v, want %v", got, tc.want)
			}
			for rank := range 3 {
				if doubt := s.Disputed(rank) != ""; doubt != slices.Contains(tc.doubt, rank) {
					t.Errorf("rank %d in dispute: %v", rank, doubt)
				}
			}
			shown := false
			for _, m := range ev.Missing {
				shown = shown || m.What == "claim"
				if m.What == "rank" || len(m.Ranks) > 0 {
					t.Errorf("missing is %+v", m)
				}
			}
			if shown != (len(tc.doubt) > 0) {
				t.Errorf("missing is %+v", ev.Missing)
			}
			if ev.WorldSize != 3 && len(ev.Ranks) > 0 {
				t.Errorf("the world has %d ranks", ev.WorldSize)
			}
		})
	}
}

// The owner of a job stays known when Prometheus can no longer tell who was first.
func TestOwnerIsRemembered(t *testing.T) {
	l := newLiar(t)
	if _, err := l.Open(t.Context(), identity.Job{ID: "job"}, nil); err != nil {
		t.Fatal(err)
	}
	l.claims(t, 0, "evil", "1001", 1000, nodeapi.ProcessSleep)
	l.Directory.known[identity.Job{ID: "job"}] = func(r remembered) remembered { r.processes = nil; return r }(l.Directory.known[identity.Job{ID: "job"}])
	s, err := l.Open(t.Context(), identity.Job{ID: "job"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.tenancy.owner != "1002" || s.Disputed(0) != "" {
		t.Errorf("tenancy is %+v", s.tenancy)
	}
}
