// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/webhook"
)

// peerTimeout is Alertmanager's --cluster.peer-timeout.
const peerTimeout = 15 * time.Second

// peerStub is an Alertmanager behind a transport, so that a test's clock rules.
type peerStub struct {
	mu     sync.Mutex
	begin  time.Time
	fail   error
	status int
	answer string
	hang   bool
	mute   bool // It takes alerts and does not list any.
	urls   []string
	log    []string // "10s firing rank=5", in order.
	ends   []time.Time
	lists  map[string]Listed // What it has, by fingerprint; nil: it lists nothing.
	// name and members are its own name and all names of its cluster; empty: it has none.
	name    string
	members []string
}

func (p *peerStub) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	hang := p.hang || p.mute && r.Method == http.MethodGet
	p.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urls = append(p.urls, r.URL.String())
	if p.fail != nil {
		return nil, p.fail
	}
	if r.Method == http.MethodPost && p.status == 0 {
		var alerts []Alert
		if err := json.NewDecoder(r.Body).Decode(&alerts); err != nil {
			return nil, err
		}
		for _, a := range alerts {
			if a.StartsAt.After(a.EndsAt) { // As Alertmanager does.
				return &http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(bytes.NewBufferString("start time must be before end time")), Request: r}, nil
			}
			state := "firing"
			if !a.EndsAt.After(time.Now()) {
				state = "resolved"
			}
			p.log = append(p.log, time.Since(p.begin).String()+" "+state+" rank="+a.Labels["rank"])
			p.ends = append(p.ends, a.EndsAt)
			if fp := webhook.Fingerprint(a.Labels); p.lists != nil {
				p.lists[fp] = Listed{Fingerprint: fp, Labels: a.Labels, EndsAt: a.EndsAt}
			}
		}
	}
	if strings.HasSuffix(r.URL.Path, "/api/v2/status") {
		return p.state(r)
	}
	if r.Method == http.MethodGet && p.lists != nil {
		active := []Listed{}
		for _, l := range p.lists {
			if l.EndsAt.After(time.Now()) {
				active = append(active, l)
			}
		}
		b, err := json.Marshal(active)
		if err != nil {
			return nil, err
		}
		p.answer = string(b)
	}
	if r.Method == http.MethodGet && p.answer == "" {
		p.answer = "[]"
	}
	status := p.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(bytes.NewBufferString(p.answer)), Request: r}, nil
}

// state answers as Alertmanager does of its cluster.
func (p *peerStub) state(r *http.Request) (*http.Response, error) {
	type member struct {
		Name string `json:"name"`
	}
	var cluster struct {
		Name  string   `json:"name,omitempty"`
		Peers []member `json:"peers,omitempty"`
	}
	cluster.Name = p.name
	for _, name := range p.members {
		cluster.Peers = append(cluster.Peers, member{name})
	}
	state := map[string]any{"cluster": cluster}
	if p.lists != nil { // Else it cannot be told from one that has lost all alerts.
		state["uptime"] = p.begin
	}
	b, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewBuffer(b)), Request: r}, nil
}

func (p *peerStub) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *peerStub) take() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.log
	p.log = nil
	return out
}

func (p *peerStub) client() *Client {
	return &Client{URL: "http://am.example.org/prefix/", HTTP: &http.Client{Transport: p}, Timeout: 5 * time.Second}
}

func runSender(t *testing.T, stubs ...*peerStub) (*Sender, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	source := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "source_total", Help: "x"}, []string{"source", "outcome"})
	s := NewSender(promslog.NewNopLogger(), source, reg)
	var clients []*Client
	for _, p := range stubs {
		p.begin = time.Now()
		clients = append(clients, p.client())
	}
	s.Apply(clients, time.Minute, peerTimeout)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return s, reg
}

func rankAlert(rank, text string) Alert {
	return Alert{Labels: map[string]string{"alertname": "CulpritFound", "rank": rank}, Annotations: map[string]string{"summary": text}, StartsAt: time.Now()}
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if !slices.Equal(got, lines) {
		t.Errorf("posted %q, want %q", got, lines)
	}
}

func TestSaidAgainUntilResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peerStub{}
		s, reg := runSender(t, p)
		s.Set("i", []Alert{rankAlert("5", "a")})
		want(t, p.take(), "0s firing rank=5")
		if end := time.Until(p.ends[0]); end != 4*time.Minute {
			t.Errorf("it ends by itself after %s", end)
		}
		s.Set("i", []Alert{rankAlert("5", "a")}) // Nothing new.
		time.Sleep(30 * time.Second)
		want(t, p.take())
		s.Set("i", []Alert{rankAlert("5", "now with evidence")})
		want(t, p.take(), "30s firing rank=5")
		time.Sleep(2 * time.Minute)
		want(t, p.take(), "1m30s firing rank=5", "2m30s firing rank=5")
		s.Set("i", nil)
		want(t, p.take(), "2m30s resolved rank=5")
		time.Sleep(time.Hour)
		want(t, p.take())
		if len(s.held) != 0 {
			t.Errorf("still holds %+v", s.held)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	})
}

// TestClockSetBack: an alert that began later than now, by a clock that has been set back since, still ends.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peerStub{}
		s, _ := runSender(t, p)
		a := rankAlert("5", "a")
		a.StartsAt = time.Now().Add(time.Minute)
		s.Set("i", []Alert{a})
		want(t, p.take(), "0s firing rank=5")
		s.Set("i", nil)
		want(t, p.take(), "0s resolved rank=5")
		if end := time.Since(p.ends[len(p.ends)-1]); end < time.Minute {
			t.Errorf("it ended %s ago: a clock that is set back by a minute lets it fire again", end)
		}
	})
}

// TestPairEndsOnce: of two analyzers the first to see the end of an incident does not resolve the alert that the other still tells of. It
// is resolved, for good, when both have told of it no more for a while. Another culprit takes over at once.
func TestPairEndsOnce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		later time.Duration // By how much the second sees the end later.
	}{
		{"at once", 0},
		{"one after another", 20 * time.Second},
		{"much later", 4 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peerStub{lists: map[string]Listed{}}
				one, _ := runSender(t, p)
				two, _ := runSender(t, p)
				one.Set("i", []Alert{rankAlert("5", "a")})
				want(t, p.take(), "0s firing rank=5")
				time.Sleep(time.Second)
				two.Set("i", []Alert{rankAlert("5", "a")})
				want(t, p.take(), "1s firing rank=5")
				time.Sleep(99 * time.Second)
				p.take()
				one.Set("i", nil)
				want(t, p.take())
				time.Sleep(tc.later)
				two.Set("i", nil)
				time.Sleep(10 * time.Minute)
				ended, last := time.Duration(0), 100*time.Second+tc.later
				for _, line := range p.take() {
					at, state, _ := strings.Cut(line, " ")
					d, err := time.ParseDuration(at)
					switch firing := strings.HasPrefix(state, "firing"); {
					case err != nil:
						t.Fatal(err)
					case firing && (ended > 0 || d > last):
						t.Errorf("%s, when it had ended", line)
					case !firing && ended == 0:
						ended = d
					}
				}
				if ended < last || ended > last+100*time.Second {
					t.Errorf("ended after %s; the last analyzer saw the end after %s", ended, last)
				}
				for _, l := range p.lists {
					if l.EndsAt.After(time.Now()) {
						t.Error("it has not ended")
					}
				}
			})
		})
	}
	// Of two Alertmanagers one heard the first analyzer last and one the second: both are told the end at the same time. While they differ,
	// each notifies of what it has.
	synctest.Test(t, func(t *testing.T) {
		p, q := &peerStub{lists: map[string]Listed{}}, &peerStub{lists: map[string]Listed{}, fail: errors.New("starting")}
		one, _ := runSender(t, p, q)
		two, _ := runSender(t, p, q)
		one.Set("i", []Alert{rankAlert("5", "a")})
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		two.Set("i", []Alert{rankAlert("5", "a")})
		synctest.Wait()
		q.set(func() { q.fail = nil }) // one tries again first: there the second analyzer tells last, too, and then the first.
		time.Sleep(35 * time.Second)
		one.Set("i", nil)
		two.Set("i", nil)
		time.Sleep(10 * time.Minute)
		ended := func(p *peerStub) string {
			for _, line := range p.take() {
				if at, is := strings.CutSuffix(line, " resolved rank=5"); is {
					return at
				}
			}
			return "never"
		}
		if x, y := ended(p), ended(q); x != y || x == "never" {
			t.Errorf("ended at %s and at %s", x, y)
		}
		// One Alertmanager does not say in time what it has when the first analyzer sees the end.
		for _, s := range []*Sender{one, two} {
			s.Set("i", []Alert{rankAlert("5", "a")})
		}
		time.Sleep(90 * time.Second)
		q.set(func() { q.mute = true })
		one.Set("i", nil)
		time.Sleep(5 * time.Second)
		q.set(func() { q.mute = false })
		time.Sleep(30 * time.Second)
		two.Set("i", nil)
		time.Sleep(10 * time.Minute)
		if x, y := ended(p), ended(q); x != y || x == "never" {
			t.Errorf("with one that was slow ended at %s and at %s", x, y)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := &peerStub{lists: map[string]Listed{}}
		one, _ := runSender(t, p)
		two, _ := runSender(t, p)
		for _, s := range []*Sender{one, two} {
			s.Set("i", []Alert{rankAlert("5", "a")})
			synctest.Wait()
		}
		p.take()
		one.Set("i", []Alert{rankAlert("6", "a")})
		got := p.take()
		slices.Sort(got)
		want(t, got, "0s firing rank=6", "0s resolved rank=5")
	})
}

// Another culprit takes over: the old alert ends and the new one begins in one go.
func TestCulpritChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peerStub{}
		s, _ := runSender(t, p)
		s.Set("i", []Alert{rankAlert("5", "a")})
		s.Set("other incident", []Alert{rankAlert("9", "b")})
		p.take()
		s.Set("i", []Alert{rankAlert("6", "a")})
		got := p.take()
		slices.Sort(got)
		want(t, got, "0s firing rank=6", "0s resolved rank=5")
		s.Set("i", []Alert{rankAlert("5", "a")}) // And back.
		got = p.take()
		slices.Sort(got)
		want(t, got, "0s firing rank=5", "0s resolved rank=6")
	})
}

func TestPeerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, down := &peerStub{}, &peerStub{fail: errors.New("connection refused")}
		s, _ := runSender(t, up, down)
		s.Set("i", []Alert{rankAlert("5", "a")})
		want(t, up.take(), "0s firing rank=5")
		time.Sleep(10 * time.Second)
		down.set(func() { down.fail = nil })
		time.Sleep(10 * time.Second)
		want(t, down.take(), "15.5s firing rank=5") // After 0.5, 1, 2, 4 and 8 s.
		want(t, up.take())

		down.set(func() { down.status, down.answer = http.StatusBadRequest, `"bad label"` })
		s.Set("i", nil)
		want(t, up.take()) // While it fires for the other one, that one would call somebody again.
		time.Sleep(10 * time.Second)
		down.set(func() { down.status, down.answer = 0, "" })
		time.Sleep(lastRetry)
		if got := down.take(); len(got) != 1 || !strings.HasSuffix(got[0], "resolved rank=5") || !slices.Equal(up.take(), got) {
			t.Errorf("the end was not told to both at once: %q", got)
		}
	})
}

func TestPeerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, hung := &peerStub{}, &peerStub{hang: true}
		s, _ := runSender(t, hung, up)
		s.Set("i", []Alert{rankAlert("5", "a")})
		want(t, up.take(), "0s firing rank=5")
		time.Sleep(time.Second)
		s.Set("i", nil)
		want(t, up.take())
		time.Sleep(2 * time.Minute)
		want(t, up.take(), "2m1s resolved rank=5")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.held) != 0 {
			t.Error("an ended alert is kept for good for a peer that never answers")
		}
	})
}

// TestPageDoesNotWaitForTheList: who else tells of an alert is asked for a moment only.
func TestPageDoesNotWaitForTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peerStub{mute: true}
		s, _ := runSender(t, p)
		s.Set("i", []Alert{rankAlert("5", "a")})
		time.Sleep(lookTimeout)
		want(t, p.take(), "1s firing rank=5")
	})
}

func TestPeersReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := &peerStub{}, &peerStub{begin: time.Now()}
		s, _ := runSender(t, p)
		s.Set("i", []Alert{rankAlert("5", "a")})
		p.take()
		s.Apply([]*Client{q.client()}, 10*time.Second, peerTimeout)
		want(t, q.take(), "0s firing rank=5")
		time.Sleep(10 * time.Second)
		want(t, q.take(), "10s firing rank=5")
		want(t, p.take())
		if len(s.Clients()) != 1 {
			t.Errorf("clients are %v", s.Clients())
		}
	})
}

func TestList(t *testing.T) {
	p := &peerStub{answer: `[{"fingerprint":"f","labels":{"job_id":"7"},"status":{"state":"suppressed"},"startsAt":"2026-11-21T02:30:58Z","surprise":1}]`}
	list, err := p.client().List(t.Context(), "^(?:hook)$", Matcher("job_id", `a"b\`))
	if err != nil || len(list) != 1 || list[0].Fingerprint != "f" || list[0].Labels["job_id"] != "7" {
		t.Errorf("list is %+v, %v", list, err)
	}
	for _, part := range []string{
		"http://am.example.org/prefix/api/v2/alerts?", "silenced=true", "inhibited=true", "active=true", "filter=job_id%3D%22a%5C%22b%5C%5C%22",
		"receiver=%5E%28%3F%3Ahook%29%24",
	} {
		if !strings.Contains(p.urls[0], part) {
			t.Errorf("%s lacks %s", p.urls[0], part)
		}
	}
	for name, broken := range map[string]*peerStub{
		"refused": {fail: errors.New("refused")}, "500": {status: 500, answer: "oh"}, "garbage": {answer: "<html>"},
	} {
		if _, err := broken.client().List(t.Context(), ""); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestState(t *testing.T) {
	for _, tc := range []struct {
		name    string
		members []string
		want    int
	}{
		{"", nil, 0},
		{"b", []string{"b"}, 0},
		{"b", []string{"c", "a", "b"}, 1},
		{"c", []string{"c", "a", "b"}, 2},
	} {
		p := &peerStub{name: tc.name, members: tc.members}
		if got, err := p.client().State(t.Context()); err != nil || got.Turn != tc.want {
			t.Errorf("%s of %v is at %d, want %d: %v", tc.name, tc.members, got.Turn, tc.want, err)
		}
	}
	refused := &peerStub{fail: errors.New("refused")}
	if _, err := refused.client().State(t.Context()); err == nil {
		t.Error("no error")
	}
}
