// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// alertmanager takes what is posted.
type alertmanager struct {
	*httptest.Server
	status int
	got    chan alert
}

func newAlertmanager(t *testing.T) *alertmanager {
	t.Helper()
	a := &alertmanager{status: http.StatusOK, got: make(chan alert, 10)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list []alert
		if r.URL.Path != "/am/api/v2/alerts" || json.NewDecoder(r.Body).Decode(&list) != nil || len(list) != 1 {
			t.Errorf("%s %s with %d alerts", r.Method, r.URL.Path, len(list))
		}
		w.WriteHeader(a.status)
		a.got <- list[0]
	}))
	t.Cleanup(a.Close)
	return a
}

// rank is a process of a job of four ranks, in an operation that has made no progress for so long.
func rank(id int32, stall time.Duration) *node.Process {
	const now = uint64(time.Hour)
	p := &node.Process{JobID: "llm", Rank: id}
	p.Kernel.State = nodeapi.ProcessRunning
	p.Snap.Identity.WorldSize = 4
	p.Totals.Func[0].Ops = 7
	if stall > 0 {
		p.Snap.Comms = []trace.Comm{{NRanks: 4}}
		p.Snap.Ops = []trace.Op{{State: trace.OpMoving, EnteredNS: now - uint64(stall)}}
	}
	return p
}

// watcher looks at processes that a test sets.
func watcher(t *testing.T, url string, labels map[string]string) (w *Watcher, set func(...*node.Process)) {
	t.Helper()
	rule, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPoster(rule, Options{URLs: []string{url}, Labels: labels, Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var list []*node.Process
	w = &Watcher{rule: rule, post: p, jobs: map[job]*watched{}, from: func(f func(uint64, []*node.Process)) { f(uint64(time.Hour), list) }}
	return w, func(now ...*node.Process) { list = now }
}

// TestTrigger: a job that has stood for longer than the rules' floor is told of once every ten seconds while it stands, with the rule's labels
// and those that Prometheus adds, and no more once it moves.
func TestTrigger(t *testing.T) {
	am := newAlertmanager(t)
	w, set := watcher(t, am.URL+"/am/", map[string]string{"cluster": "blue"})
	go w.post.run(t.Context())
	start := time.Unix(1000, 0)
	at := func(after time.Duration, list ...*node.Process) {
		set(list...)
		w.look(start.Add(after))
	}
	at(0, rank(0, 0), rank(1, time.Second))
	at(time.Second, rank(0, 2900*time.Millisecond), rank(1, 0))
	at(2*time.Second, rank(0, 3100*time.Millisecond), rank(1, 0))
	got := <-am.got
	want := alert{
		Labels: map[string]string{
			"alertname": "CulpritJobStalled", "job_id": "llm", "owner": "0", "cluster": "blue", "culprit": "trigger", "kind": "hang", "severity": "none",
		},
		Annotations: map[string]string{
			"summary":     w.rule.Summary,
			"description": "A communicator of job llm with an operation in flight has made no progress for 3.1s.",
			"runbook_url": w.rule.RunbookURL,
		},
		StartsAt: start.Add(2 * time.Second), EndsAt: start.Add(2*time.Second + expires),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the trigger (-want +got):\n%s", diff)
	}
	at(5*time.Second, rank(0, 6*time.Second))
	at(12*time.Second, rank(0, 13*time.Second))
	if got := <-am.got; !got.StartsAt.Equal(want.StartsAt) || !got.EndsAt.Equal(start.Add(12*time.Second+expires)) {
		t.Errorf("again from %s to %s", got.StartsAt, got.EndsAt)
	}
	at(30*time.Second, rank(0, 0))
	at(90*time.Second, rank(0, 80*time.Second))
	if got := <-am.got; !got.StartsAt.Equal(start.Add(90 * time.Second)) {
		t.Errorf("a second stall begins at %s", got.StartsAt)
	}
	if n := testutil.ToFloat64(w.post.posts.WithLabelValues("accepted")); n < 2 || len(am.got) > 0 {
		t.Errorf("%g posts taken, %d more", n, len(am.got))
	}
}

// TestNoTrigger: what the rules do not count is no stall here either.
func TestNoTrigger(t *testing.T) {
	for name, change := range map[string]func(p *node.Process){
		"dead":       func(p *node.Process) { p.Kernel.State = nodeapi.ProcessGone },
		"disputed":   func(p *node.Process) { p.Disputed = "another user's job" },
		"lost":       func(p *node.Process) { p.Lost = true },
		"first step": func(p *node.Process) { p.Totals.Func[0].Ops = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w, set := watcher(t, "http://127.0.0.1:1", nil)
			p := rank(0, 9*time.Second)
			change(p)
			set(p)
			w.look(time.Unix(1000, 0))
			if len(w.post.queue) > 0 {
				t.Errorf("a trigger: %+v", <-w.post.queue)
			}
		})
	}
}

// TestLongWaitsAreUsual: a job whose every iteration waits for 4 s has stopped after 8 s, not after 3.
func TestLongWaitsAreUsual(t *testing.T) {
	w, set := watcher(t, "http://127.0.0.1:1", nil)
	start := time.Unix(1000, 0)
	for second := range 300 {
		set(rank(0, time.Duration(second%5)*time.Second))
		w.look(start.Add(time.Duration(second) * time.Second))
	}
	for len(w.post.queue) > 0 { // Of its first long wait nobody knew better.
		<-w.post.queue
	}
	for second := range 12 {
		set(rank(0, time.Duration(second)*time.Second))
		w.look(start.Add(time.Duration(300+second) * time.Second))
		if told := len(w.post.queue) > 0; told != (second > 8) {
			t.Errorf("told after %d s: %v", second, told)
		}
	}
}

// TestTurns: of 1,280 nodes of 8 ranks three post at once, three each half a second later, and nobody else.
func TestTurns(t *testing.T) {
	for _, j := range []job{{"a", "1000"}, {"b", "1000"}, {"a", "1001"}} {
		posting := map[time.Duration]int{}
		for host := range int32(1280) {
			var ranks []int32
			for r := range int32(8) {
				ranks = append(ranks, 8*host+r)
			}
			if wait, mine := turn(j, ranks, 10240); mine {
				posting[wait]++
			}
		}
		if posting[0] == 0 || len(posting) > turns || posting[0]+posting[turnTime]+posting[2*turnTime] > perTurn*turns {
			t.Errorf("%v: nodes by how long they wait: %v", j, posting)
		}
	}
	if _, mine := turn(job{"a", "1000"}, []int32{3}, 0); !mine {
		t.Error("a job of unknown size has nobody to post")
	}
}

// TestAlertmanagerAway: a refusal is said once and counted, posts that wait are bounded, and the watcher goes on.
func TestAlertmanagerAway(t *testing.T) {
	am := newAlertmanager(t)
	am.status = http.StatusUnauthorized
	var log strings.Builder
	w, _ := watcher(t, am.URL+"/am", nil)
	w.post.log = slog.New(slog.NewTextHandler(&log, nil))
	for range waiting + 5 {
		w.post.send(job{"llm", "0"}, 4, time.Unix(1000, 0), time.Unix(1030, 0))
	}
	if n := testutil.ToFloat64(w.post.posts.WithLabelValues("dropped")); n != 5 {
		t.Errorf("%g posts dropped, want 5", n)
	}
	for range 3 {
		w.post.report(w.post.urls[0], w.post.post(t.Context(), w.post.urls[0], <-w.post.queue))
	}
	if n := testutil.ToFloat64(w.post.posts.WithLabelValues("failed")); n != 3 || strings.Count(log.String(), "401") != 1 {
		t.Errorf("%g posts failed; log:\n%s", n, log.String())
	}
	problems, err := testutil.CollectAndLint(w)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", err, problems)
	}
}

func TestBadURL(t *testing.T) {
	for _, url := range []string{"alertmanager:9093", "", "ftp://am"} {
		if _, err := newPoster(&Rule{}, Options{URLs: []string{url}}); err == nil || !strings.Contains(err.Error(), "--trigger.url") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
