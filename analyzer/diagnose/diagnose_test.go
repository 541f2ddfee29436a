// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestHistory(t *testing.T) {
	cfg := config.Default()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	d := &Diagnoser{Config: cfg.Analysis}
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name     string
		triggers []string
		calm     time.Duration // Before now; 0 never.
		want     time.Duration
	}{
		{"a standstill that is over", []string{"CulpritJobStalled", "CulpritProcessVanished"}, 0, 5 * time.Minute},
		{"slowness", []string{"CulpritIterationSlow"}, 0, 5 * time.Minute},
		{"both", []string{"CulpritJobStalled", "CulpritThroughputLow"}, 0, 5 * time.Minute},
		{"an alert of somebody's own", []string{"TrainingSlow"}, 0, 5 * time.Minute},
		{"a restart, no trigger left", nil, 0, 5 * time.Minute},
		{"a benign pause a while ago", []string{"CulpritIterationSlow"}, 30 * time.Second, 30 * time.Second},
		{"a benign pause just now", []string{"CulpritIterationSlow"}, time.Second, 0},
		{"a benign pause long ago", []string{"CulpritIterationSlow"}, time.Hour, 5 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := incident.Request{}
			for _, name := range tc.triggers {
				req.Triggers = append(req.Triggers, incident.Trigger{Name: name})
			}
			if tc.calm > 0 {
				req.CalmUntil = now.Add(-tc.calm)
			}
			if got := d.history(&req, now); got != tc.want {
				t.Errorf("looks back %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSettledPast: the first 20 s of a job show nothing about slowness.
func TestSettledPast(t *testing.T) {
	for _, tc := range []struct{ span, age, want time.Duration }{
		{5 * time.Minute, 0, 5 * time.Minute},
		{5 * time.Minute, 3 * time.Second, 0},
		{5 * time.Minute, 24 * time.Second, 0},
		{5 * time.Minute, time.Minute, 40 * time.Second},
		{5 * time.Minute, time.Hour, 5 * time.Minute},
		{10 * time.Second, time.Minute, 10 * time.Second},
		{0, time.Hour, 0},
	} {
		if got := settledPast(tc.span, tc.age); got != tc.want {
			t.Errorf("of %s in a job %s old %s are looked at, want %s", tc.span, tc.age, got, tc.want)
		}
	}
}

func TestToldOfSlowness(t *testing.T) {
	cfg := config.Default()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	d := &Diagnoser{Config: cfg.Analysis}
	for _, tc := range []struct {
		triggers []incident.Kind
		want     bool
	}{
		{nil, true},
		{[]incident.Kind{incident.Hang}, false},
		{[]incident.Kind{incident.Hang, incident.Hang}, false},
		{[]incident.Kind{incident.Hang, incident.Slow}, true},
		{[]incident.Kind{""}, true}, // A request through the API.
	} {
		req := incident.Request{}
		for _, kind := range tc.triggers {
			req.Triggers = append(req.Triggers, incident.Trigger{Kind: kind})
		}
		if got := d.toldOfSlowness(&req); got != tc.want {
			t.Errorf("%v: %t, want %t", tc.triggers, got, tc.want)
		}
	}
}

// TestWantsPast: a reported standstill that is not understood is looked at again, unless the job no longer stands still.
func TestWantsPast(t *testing.T) {
	cfg := config.Default()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	d := &Diagnoser{Config: cfg.Analysis}
	for _, tc := range []struct {
		trigger incident.Kind
		v       rca.Verdict
		want    bool
	}{
		{incident.Hang, rca.Verdict{Class: rca.Unknown}, false},
		{incident.Hang, rca.Verdict{Class: rca.Unknown, Moving: true}, true},
		{incident.Hang, rca.Verdict{Class: rca.Healthy}, true},
		{incident.Hang, rca.Verdict{Class: rca.Fault}, false},
		{incident.Slow, rca.Verdict{Class: rca.Unknown}, true},
		{incident.Slow, rca.Verdict{Class: rca.Benign}, false},
	} {
		req := incident.Request{Triggers: []incident.Trigger{{Kind: tc.trigger}}}
		if got := d.wantsPast(&req, &tc.v); got != tc.want {
			t.Errorf("%s, then %s, moving %t: %t, want %t", tc.trigger, tc.v.Class, tc.v.Moving, got, tc.want)
		}
	}
}

func TestSuspects(t *testing.T) {
	v := &rca.Verdict{
		Culprits: []rca.Culprit{{Rank: 3}, {Rank: -1}},
		Chain:    []rca.Link{{From: 1, To: 2}, {From: 2, To: 3}, {From: 3, To: -1}},
	}
	if got, want := suspects(v), []int{3, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("suspects are %v, want %v", got, want)
	}
	link := &rca.Verdict{Culprits: []rca.Culprit{{Rank: -1, Group: "link 2->6"}}, RestsOn: []int{2, 6}}
	if got, want := suspects(link), []int{2, 6}; !slices.Equal(got, want) {
		t.Errorf("suspects of a link are %v, want both its ends %v", got, want)
	}
	for r := range 1000 {
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: r})
	}
	if got := suspects(v); len(got) != maxSuspects {
		t.Errorf("%d suspects", len(got))
	}
}

func TestRankState(t *testing.T) {
	in := func(stuck time.Duration) []rca.Membership {
		return []rca.Membership{{Comm: "a/2", InFlight: []rca.Op{{Func: "AllReduce", Number: 5, Stuck: stuck}}}}
	}
	for _, tc := range []struct {
		name  string
		rank  rca.Rank
		state string
		text  string
	}{
		{"stopped", rca.Rank{State: rca.ProcessStopped, Memberships: in(time.Minute)}, "stopped", "stopped"},
		{"gone", rca.Rank{State: rca.ProcessGone}, "gone", "gone"},
		{"stuck", rca.Rank{State: rca.ProcessRunning, Memberships: in(3 * time.Second)}, "stuck", "AllReduce #5 on a/2, no progress for 3.0 s"},
		{"moving", rca.Rank{Memberships: in(time.Millisecond)}, "moving", "AllReduce #5 on a/2"},
		{"named", rca.Rank{Memberships: []rca.Membership{{Comm: "b/2", InFlight: []rca.Op{{Func: "Send", Number: 6}}}}}, "moving", "Send #6 on dp"},
		{"idle", rca.Rank{Memberships: []rca.Membership{{Comm: "a/2"}}}, "idle", "in no operation"},
	} {
		if state, text := rankState(&tc.rank, map[rca.CommID]string{"b/2": "dp"}, 2*time.Second); state != tc.state || text != tc.text {
			t.Errorf("%s: %q, %q", tc.name, state, text)
		}
	}
}
