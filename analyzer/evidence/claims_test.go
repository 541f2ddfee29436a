// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
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
	slurm  map[string]string // The Slurm job that the kernel shows, by host.
}

const (
	ownedQuery = `culprit_nccl_process_info{job_id="job",owner=~"1002|",job="culprit-exporter"}`
	sinceQuery = "min by (rank, instance) (min_over_time(timestamp(" + liveQuery + ")[1h:1m]))"
	upQuery    = `culprit_nccl_process_up{job_id="job",job="culprit-exporter"}`
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
	s.Metric["owner"], s.Metric["uid"] = model.LabelValue(uid), model.LabelValue(uid)
	l.live = append(l.live, s)
	if l.slurm != nil {
		s.Metric["slurm_job_id"] = model.LabelValue(l.slurm[host])
	}
	l.prom.answers[liveQuery], l.prom.answers["group by (owner, uid) ("+liveQuery+")"] = l.live, l.live
	if uid == "1002" {
		owned, _ := l.prom.answers[ownedQuery].(model.Vector)
		l.prom.answers[ownedQuery] = append(owned, s)
	}
	at := series("rank", fmt.Sprint(rank), "instance", instance)
	at.Value = model.SampleValue(since)
	up := series("rank", fmt.Sprint(rank), "instance", instance)
	if !alive(state) {
		up.Value = 0
	}
	known, _ := l.prom.answers[sinceQuery].(model.Vector)
	l.prom.answers[sinceQuery] = append(known, at)
	l.prom.answers[strings.ReplaceAll(sinceQuery, liveQuery, ownedQuery)] = l.prom.answers[sinceQuery]
	ups, _ := l.prom.answers[upQuery].(model.Vector)
	l.prom.answers[upQuery] = append(ups, up)
	l.prom.answers[strings.ReplaceAll(upQuery, `job"`, `job",owner=~"1002|"`)] = l.prom.answers[upQuery]
}

// The liars claim rank 0 of the job, which runs on host a, or another rank. Whatever they do, and whenever, either host a's process speaks
// for rank 0 or no process does.
func TestClaimsBetweenNodes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		claim func(t *testing.T, l *liar)
		want  []string // Ranks and hosts of the evidence.
		doubt []int    // Ranks that must not be named.
		shown string   // What is missing says so.
	}{
		{"nobody lies", func(*testing.T, *liar) {}, []string{"0 a", "1 b"}, nil, ""},
		{"another user, later", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 2000, nodeapi.ProcessSleep) }, []string{"0 a", "1 b"}, nil, "users 1001 and 1002 run jobs of this name"},
		{"another user, killed", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 2000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil, "users 1001 and 1002"},
		{"another user, another rank", func(t *testing.T, l *liar) { l.claims(t, 2, "evil", "1001", 2000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, []int{2}, "only a process of user 1001"},
		{"another user, at once", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 1000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil, "users 1001 and 1002"},
		{"another user, before", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 1, nodeapi.ProcessSleep) }, []string{"0 a", "1 b"}, nil, "users 1001 and 1002"},
		{"several users, before", func(t *testing.T, l *liar) {
			l.claims(t, 0, "evil", "1001", 1, nodeapi.ProcessSleep)
			l.claims(t, 1, "worse", "1003", 1, nodeapi.ProcessSleep)
		}, []string{"0 a", "1 b"}, nil, "users 1001 and 1002 and 1003"},
		{"the same user, later", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 2000, nodeapi.ProcessSleep) }, []string{"0 a", "1 b"}, nil, "claim rank 0"},
		{"the same user, killed", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 2000, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil, ""},
		{"the same user, killed, there before", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 900, nodeapi.ProcessGone) }, []string{"0 a", "1 b"}, nil, ""},
		{"the same user, at once", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1002", 1000, nodeapi.ProcessSleep) }, []string{"1 b"}, []int{0}, "claim to be it"},
		{"the same user, before, outside of Slurm's job", func(t *testing.T, l *liar) {
			l.live[0].Metric["slurm_job_id"], l.live[1].Metric["slurm_job_id"] = "job", "job"
			l.claims(t, 0, "evil", "1002", 1, nodeapi.ProcessSleep)
		}, []string{"0 a", "1 b"}, nil, ""},
		{"disputed by its own exporter", func(t *testing.T, l *liar) {
			l.claims(t, 2, "evil", "1002", 2000, nodeapi.ProcessGone)
			l.states["evil"].Processes[0].Disputed = "another container"
		}, []string{"0 a", "1 b"}, []int{2}, "another container"},
		{"not scraped yet", func(_ *testing.T, l *liar) {
			p := rankProcess(0, "b")
			p.UID, p.Identity.CreatedRealNS = "1001", 1
			l.states["b"].Processes = append(l.states["b"].Processes, p)
		}, []string{"0 a", "1 b"}, nil, ""},
		{"a world of a million", func(t *testing.T, l *liar) {
			l.states["b"].Processes[0].Identity.WorldSize = 1 << 20
			l.live[1].Metric["world_size"] = "1048576"
			l.claims(t, 2, "c", "1002", 1000, nodeapi.ProcessSleep)
		}, []string{"0 a", "1 b", "2 c"}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLiar(t)
			tc.claim(t, l)
			s, err := l.Open(t.Context(), identity.Job{ID: "job"}.OwnedBy("1002"), nil)
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
			for _, m := range ev.Missing {
				if m.What == "rank" || len(m.Ranks) > 0 {
					t.Errorf("missing is %+v", m)
				}
			}
			if claims := strings.Join(Conflicts(&ev), "; "); tc.shown == "" && claims != "" || !strings.Contains(claims, tc.shown) {
				t.Errorf("in conflict are %q, want %q", claims, tc.shown)
			}
			if ev.WorldSize != 3 && len(ev.Ranks) > 0 {
				t.Errorf("the world has %d ranks", ev.WorldSize)
			}
		})
	}
}

// A trigger that tells no owner is about the only user's job, or Slurm's. Else nobody is believed, and both users are named: who came
// first proves nothing.
func TestJobsWithoutOwner(t *testing.T) {
	for _, tc := range []struct {
		name     string
		claim    func(t *testing.T, l *liar)
		ranks    int
		conflict string
	}{
		{"one user", func(*testing.T, *liar) {}, 2, ""},
		{"two users", func(t *testing.T, l *liar) { l.claims(t, 0, "evil", "1001", 1, nodeapi.ProcessSleep) }, 0, "users 1001 and 1002 run processes of this name"},
		{"two users, one in Slurm's job", func(t *testing.T, l *liar) {
			l.live[0].Metric["slurm_job_id"], l.live[1].Metric["slurm_job_id"] = "job", "job"
			l.claims(t, 0, "evil", "1001", 1, nodeapi.ProcessSleep)
		}, 2, ""},
		{"two users, one in another Slurm job", func(t *testing.T, l *liar) {
			l.slurm = map[string]string{"evil": "17"}
			l.claims(t, 0, "evil", "1001", 1, nodeapi.ProcessSleep)
		}, 0, "users 1001 and 1002"},
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
			if len(ev.Ranks) != tc.ranks {
				t.Errorf("the evidence is of %d ranks, want %d", len(ev.Ranks), tc.ranks)
			}
			if got := s.Conflict(); tc.conflict == "" && got != "" || !strings.Contains(got, tc.conflict) {
				t.Errorf("the conflict is %q, want %q", got, tc.conflict)
			}
			if got := strings.Join(Conflicts(&ev), "; "); !strings.Contains(got, tc.conflict) {
				t.Errorf("missing is %q", got)
			}
		})
	}
}

// What is remembered for when Prometheus is down keeps jobs of one name apart.
func TestJobsOfOneNameAreRemembered(t *testing.T) {
	theirs := func(rank int, owner string) *model.Sample {
		s := rankSeries(rank, "h"+owner, owner+":9850", owner)
		s.Metric["owner"] = model.LabelValue(owner)
		return s
	}
	p := &prom{answers: map[string]model.Value{
		`culprit_nccl_process_info{job_id!="",job="culprit-exporter"}`: model.Vector{theirs(0, "1001"), theirs(0, "1002"), theirs(1, "1002")},
	}}
	d := directory(p)
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.err = errors.New("down")
	job := identity.Job{ID: "job"}
	for owner, want := range map[string]int{"1001": 1, "1002": 2, "1003": 0, "": 3} {
		if got, _ := d.Processes(t.Context(), job.OwnedBy(owner)); len(got) != want {
			t.Errorf("of owner %q %d processes are remembered, want %d", owner, len(got), want)
		}
	}
	if got := d.Owners(job); !slices.Equal(got, []string{"1001", "1002"}) {
		t.Errorf("owners are %q", got)
	}
	if !d.Knows(job) || !d.Knows(job.OwnedBy("1001")) || d.Knows(job.OwnedBy("1003")) {
		t.Error("what is known of the jobs is mixed up")
	}
}
