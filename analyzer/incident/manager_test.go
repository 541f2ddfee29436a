// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
)

var testOptions = Options{
	MaxOpen: 4, History: 2, Workers: 2, Grace: 15 * time.Second, RetryMin: time.Second, RetryMax: 8 * time.Second,
	Recheck: time.Minute, LookBack: 8 * time.Second, PassiveTTL: 2 * time.Minute, Silent: 6 * time.Hour,
}

// rig is a manager whose analyses a test scripts, on the bubble's clock.
type rig struct {
	*Manager
	reg *prometheus.Registry

	mu        sync.Mutex
	begin     time.Time
	outcome   func(Request) (Outcome, error)
	requests  []Request
	times     []time.Duration // Of the requests, after the beginning.
	published []Incident
}

func newRig(t *testing.T, store *Store) *rig {
	t.Helper()
	return newRigOn(t, store, clock.System)
}

func newRigOn(t *testing.T, store *Store, clk clock.Clock) *rig {
	t.Helper()
	r := &rig{begin: time.Now(), reg: prometheus.NewPedanticRegistry()}
	r.outcome = func(Request) (Outcome, error) { return Outcome{Verdict: blame(3), Complete: true}, nil }
	m, err := NewManager(testOptions, func(_ context.Context, req Request) (Outcome, error) {
		r.mu.Lock()
		r.requests = append(r.requests, req)
		r.times = append(r.times, time.Since(r.begin))
		f := r.outcome
		r.mu.Unlock()
		return f(req)
	}, func(inc Incident) {
		r.mu.Lock()
		r.published = append(r.published, inc)
		r.mu.Unlock()
	}, store, promslog.NewNopLogger(), r.reg, clk)
	if err != nil {
		t.Fatal(err)
	}
	r.Manager = m
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) asked() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *rig) at() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.times)
}

func (r *rig) told() []Incident {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.published)
}

func (r *rig) script(f func(Request) (Outcome, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = f
}

func (r *rig) verdict(v rca.Verdict, complete bool) {
	r.script(func(Request) (Outcome, error) { return Outcome{Verdict: v, Complete: complete}, nil })
}

func (r *rig) receive(t *testing.T, triggers ...Trigger) {
	t.Helper()
	if err := r.Receive(triggers); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) only(t *testing.T) Incident {
	t.Helper()
	list := r.List()
	if len(list) != 1 {
		t.Fatalf("%d incidents, want 1", len(list))
	}
	return list[0]
}

// resolved has the job's first trigger come and go, and gives it with its incident.
func (r *rig) resolved(t *testing.T) (Trigger, Incident) {
	t.Helper()
	a := firing("a", "job")
	r.receive(t, a)
	r.receive(t, ended(a))
	pass(time.Minute)
	return a, r.only(t)
}

func pass(d time.Duration) {
	time.Sleep(d) // The bubble's clock.
	synctest.Wait()
}

func blame(rank int) rca.Verdict {
	return rca.Verdict{
		Version: 1, Class: rca.NotEntered, Cause: rca.CauseProcessStopped, Page: true, Confidence: 0.9,
		Culprits: []rca.Culprit{{Rank: rank, Host: "node-" + strconv.Itoa(rank)}}, Summary: "rank " + strconv.Itoa(rank),
	}
}

func benign() rca.Verdict {
	return rca.Verdict{Version: 1, Class: rca.Benign, Cause: rca.CauseCheckpoint, Confidence: 0.9, Summary: "a checkpoint"}
}

func healthy() rca.Verdict {
	return rca.Verdict{Version: 1, Class: rca.Healthy, Cause: rca.CauseUnknown, Confidence: 0.9, Summary: "nothing is wrong"}
}

func unknown() rca.Verdict {
	return rca.Verdict{Version: 1, Class: rca.Unknown, Cause: rca.CauseUnknown, Confidence: 0.2, Summary: "cannot tell"}
}

func firing(key, job string) Trigger {
	return Trigger{Key: key, Name: "Stall", JobID: job, Rank: -1, StartedAt: time.Now()}
}

func ended(t Trigger) Trigger {
	now := time.Now()
	t.EndedAt = &now
	return t
}

func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a, b := firing("a", "job"), firing("b", "job")
		r.receive(t, a)
		inc := r.only(t)
		if inc.State != Open || inc.Verdict == nil || inc.Verdict.Culprits[0].Rank != 3 || inc.Benign {
			t.Fatalf("after the first trigger: %+v", inc)
		}
		r.receive(t, b)
		if len(r.asked()) != 2 || len(r.asked()[1].Triggers) != 2 {
			t.Fatalf("%d analyses after a second trigger", len(r.asked()))
		}
		pass(time.Second)
		r.receive(t, a, b, a) // Repetition: another peer, repeat_interval.
		if len(r.asked()) != 2 {
			t.Errorf("%d analyses after a repetition", len(r.asked()))
		}

		r.receive(t, ended(a))
		pass(time.Minute)
		if inc := r.only(t); inc.State != Open {
			t.Error("resolved while a trigger fires")
		}
		r.receive(t, ended(b))
		pass(14 * time.Second)
		if inc := r.only(t); inc.State != Open {
			t.Error("resolved within the grace")
		}
		pass(time.Second)
		inc = r.only(t)
		if inc.State != Resolved || inc.ResolvedAt == nil {
			t.Errorf("not resolved: %+v", inc)
		}
		n := len(r.asked())
		pass(time.Hour)
		if len(r.asked()) != n {
			t.Error("analysed after its end")
		}
		if last := r.told()[len(r.told())-1]; last.State != Resolved {
			t.Errorf("published last: %+v", last)
		}
	})
}

func TestGraceKeepsIncident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a := firing("a", "job")
		r.receive(t, a)
		id := r.only(t).ID
		r.receive(t, ended(a))
		pass(10 * time.Second)
		again := firing("a", "job") // A new start.
		r.receive(t, again)
		pass(time.Minute)
		if inc := r.only(t); inc.ID != id || inc.State != Open || inc.Triggers[0].EndedAt != nil {
			t.Errorf("incident is %+v", inc)
		}
		r.receive(t, ended(a)) // Late: the end of the first time.
		pass(time.Minute)
		if inc := r.only(t); inc.State != Open {
			t.Error("a late end ended the new one")
		}
	})
}

// The same trigger after the end opens the same incident again, and what was true then does not page at once.
func TestReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a, inc := r.resolved(t)
		id := inc.ID
		r.verdict(rca.Verdict{Class: rca.Healthy, Cause: rca.CauseUnknown}, true)
		published := len(r.told())
		r.receive(t, a)
		if inc := r.only(t); inc.ID != id || inc.State != Open || inc.Verdict.Page || !inc.Benign {
			t.Errorf("incident is %+v", inc)
		}
		for _, inc := range r.told()[published:] {
			if inc.Verdict != nil && inc.Verdict.Page {
				t.Error("the old verdict paged again")
			}
		}
	})
}

// What was last true before the job's last incident ended opens none: Prometheus was killed before it could write that an alert ended, or
// the machine's clock has been set back, so that rules see the past. What is true later does, and so does a person who asks.
func TestPastIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a, inc := r.resolved(t)
		id, resolved := inc.ID, *inc.ResolvedAt
		trueAt := func(key string, at time.Time) Trigger {
			tr := firing(key, "job")
			tr.StartedAt, tr.TrueAt = a.StartedAt.Add(time.Second), at
			return tr
		}
		r.receive(t, trueAt("stale", resolved.Add(-time.Millisecond)))
		pass(time.Minute)
		if got := r.List(); len(got) != 1 || got[0].State != Resolved {
			t.Fatalf("incidents are %+v", got)
		}
		if n := testutil.ToFloat64(r.metrics.refused.WithLabelValues("past")); n != 1 {
			t.Errorf("%v refused, want 1", n)
		}
		other := firing("stale", "another job")
		other.TrueAt = resolved.Add(-time.Minute)
		r.receive(t, trueAt("true since", resolved.Add(time.Second)), other)
		pass(time.Second)
		open := 0
		for _, inc := range r.List() {
			if inc.State == Open && inc.ID != id {
				open++
			}
		}
		if open != 2 {
			t.Errorf("%d new incidents, want the one of this job and the one of the other", open)
		}
	})
}

// TestPastDoesNotKeepOpen: of an incident that is about to be resolved the trigger, as it was before its end, is of the past. True again
// later, it is news.
func TestPastDoesNotKeepOpen(t *testing.T) {
	for _, tc := range []struct {
		trueAt time.Duration // After the trigger ended.
		past   bool
	}{{-time.Millisecond, true}, {time.Millisecond, false}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			a := firing("a", "job")
			r.receive(t, a)
			pass(time.Second)
			r.receive(t, ended(a))
			a.TrueAt = r.only(t).Triggers[0].EndedAt.Add(tc.trueAt)
			if got := r.Past(&a); got != tc.past || r.only(t).State != Open {
				t.Errorf("true %s after its end: past %v, want %v", tc.trueAt, got, tc.past)
			}
		})
	}
}

// setBack is the machine's clock, which somebody sets back.
type setBack struct {
	clock.Clock
	by atomic.Int64 // ns.
}

func (c *setBack) Now() time.Time { return c.Clock.Now().Round(0).Add(-time.Duration(c.by.Load())) }

func TestClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := &setBack{Clock: clock.System}
		r := newRigOn(t, nil, clk)
		r.resolved(t)
		clk.by.Store(int64(time.Minute))
		again, asked := firing("b", "job"), firing("api-1", "job")
		asked.Passive = true
		r.receive(t, again)
		if got := r.List(); len(got) != 1 || got[0].State != Resolved {
			t.Errorf("incidents are %+v", got)
		}
		r.receive(t, asked)
		if got := r.List(); len(got) != 2 {
			t.Errorf("a person asked, and %d incidents are there", len(got))
		}
	})
}

// TestEndedJobIsToldOnce: the remains of a job that stood still, was paged for and has ended page nobody again. Another run of it does.
func TestEndedJobIsToldOnce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ended bool
		began time.Duration // Of the youngest process, after the first incident began.
		first time.Duration // The first end, after the first incident ended; 0 not known.
		comm  string        // The first one's is "a/8".
		paged bool
	}{
		{"its remains", true, -time.Hour, -time.Minute, "", false},
		{"its remains, of whose ends nobody knows when", true, -time.Hour, 0, "", false},
		{"its remains, by a clock that runs ahead", true, 17 * time.Second, -time.Second, "", false},
		{"its remains, by a clock that runs ahead, of whose ends nobody knows when", true, 20 * time.Second, 0, "a/8", false},
		{"it lives", false, -time.Hour, 0, "a/8", true},
		{"the next run, which has crashed, too", true, 30 * time.Second, time.Second, "b/8", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				began := time.Now().Add(tc.began)
				r.script(func(Request) (Outcome, error) {
					return Outcome{Verdict: blame(7), Complete: true, Comms: []string{"a/8", "c/2"}}, nil
				})
				r.resolved(t)
				var first time.Time
				if tc.first != 0 {
					first = r.only(t).ResolvedAt.Add(tc.first)
				}
				r.script(func(Request) (Outcome, error) {
					return Outcome{Verdict: blame(7), Complete: true, Ended: tc.ended, Began: began, FirstEnd: first, Comms: []string{"d/2", tc.comm}}, nil
				})
				r.receive(t, firing("b", "job"))
				pass(time.Second)
				for _, inc := range r.List() {
					if inc.State == Open && inc.Verdict.Page != tc.paged {
						t.Errorf("page %v, want %v", inc.Verdict.Page, tc.paged)
					}
				}
				if n := len(r.List()); n != 2 {
					t.Errorf("%d incidents, want 2", n)
				}
			})
		})
	}
}

// TestReopenedForRemains: a trigger that comes back with the time of its first coming opens the same incident again. Who was paged for it
// is not paged for what an ended job left behind.
func TestReopenedForRemains(t *testing.T) {
	for _, lives := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			began := time.Now().Add(-time.Hour)
			a, _ := r.resolved(t)
			r.script(func(Request) (Outcome, error) {
				return Outcome{Verdict: blame(7), Complete: true, Ended: !lives, Began: began}, nil
			})
			r.receive(t, a)
			pass(time.Second)
			if inc := r.only(t); inc.State != Open || inc.Verdict.Page != lives {
				t.Errorf("lives %v: %s, page %v", lives, inc.State, inc.Verdict.Page)
			}
		})
	}
}

// TestEndedJobIsToldOnceByNobodysName: it was paged for, although nobody could be named.
func TestEndedJobIsToldOnceByNobodysName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		began := time.Now().Add(-time.Hour)
		v := unknown()
		v.Page, v.Standstill = true, 400
		r.verdict(v, true)
		r.resolved(t)
		r.script(func(Request) (Outcome, error) {
			return Outcome{Verdict: blame(7), Complete: true, Ended: true, Began: began}, nil
		})
		r.receive(t, firing("b", "job"))
		pass(time.Second)
		for _, inc := range r.List() {
			if inc.State == Open && inc.Verdict.Page {
				t.Error("paged again")
			}
		}
	})
}

// Peers of an analyzer pair agree on the id, whatever the order in which they learn of things.
func TestIDsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newRig(t, nil), newRig(t, nil)
		a := firing("a", "job")
		pass(time.Second)
		b := firing("b", "job")
		one.receive(t, a, b)
		two.receive(t, b, a)
		if x, y := one.only(t).ID, two.only(t).ID; x != y || !idPattern.MatchString(x) {
			t.Errorf("ids are %q and %q", x, y)
		}
	})
}

// A benign verdict pages nobody and is looked at again, ever less often, because it may turn out a hang.
func TestBenignTurnsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.verdict(benign(), true)
		r.receive(t, firing("a", "job"))
		if inc := r.only(t); !inc.Benign || inc.Verdict.Page {
			t.Fatalf("incident is %+v", inc)
		}
		pass(16 * time.Second)
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}
		if len(r.at()) != len(want) {
			t.Fatalf("analyses at %v, want %v", r.at(), want)
		}
		for i := range want {
			if r.at()[i] != want[i] {
				t.Errorf("analyses at %v, want %v", r.at(), want)
			}
		}
		r.verdict(blame(3), true)
		pass(8 * time.Second)
		inc := r.only(t)
		if inc.Benign || !inc.Verdict.Page {
			t.Errorf("incident is %+v", inc)
		}
		n := len(r.at())
		pass(58 * time.Second)
		if len(r.at()) != n {
			t.Error("a complete verdict that pages was looked at again too soon")
		}
		pass(time.Second)
		if len(r.at()) != n+1 {
			t.Error("a verdict that pages was not looked at again")
		}
	})
}

// TestCostlyAnalysis: what fetched much is repeated with a distance; the present is looked at in between, and a standstill
// that it shows takes the place of what was found before.
func TestCostlyAnalysis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		slow := rca.Verdict{Version: 1, Class: rca.Unknown}
		r.script(func(req Request) (Outcome, error) {
			if req.PresentOnly {
				return Outcome{Verdict: rca.Verdict{Version: 1, Class: rca.Healthy}, Complete: true}, nil
			}
			return Outcome{Verdict: slow, Complete: true, Costly: true}, nil
		})
		r.receive(t, firing("a", "job"))
		pass(7500 * time.Millisecond)
		var full int
		for _, req := range r.asked() {
			if !req.PresentOnly {
				full++
			}
		}
		if n := len(r.asked()); full != 2 || n < 4 {
			t.Errorf("%d analyses with the past and %d in all within the distance, want 2 and several", full, n)
		}
		if v := r.only(t).Verdict; v == nil || v.Class != rca.Unknown {
			t.Errorf("the present alone took the verdict's place: %+v", v)
		}
		r.receive(t, firing("b", "job"))
		if asked := r.asked(); asked[len(asked)-1].PresentOnly {
			t.Error("a new trigger does not look at the past")
		}
		r.verdict(blame(3), true) // The job comes to stand still.
		pass(testOptions.RetryMax)
		if v := r.only(t).Verdict; v == nil || !v.Page {
			t.Errorf("a standstill that the present shows is not told: %+v", v)
		}
	})
}

// TestUnexplainedStandstill: that a job has come to stand still is told where nobody can be named, too, once two looks have found it.
// Until the past was due an incident said that nothing is wrong, while every look said that the job stands still.
func TestUnexplainedStandstill(t *testing.T) {
	stands := func(seconds float64) rca.Verdict {
		return rca.Verdict{Version: 1, Class: rca.Unknown, Standstill: seconds}
	}
	pages := unknown()
	pages.Page = true
	for _, c := range []struct {
		name    string
		present rca.Verdict
		want    rca.Class
	}{
		{"since before the last look", stands(60), rca.Unknown},
		{"for a moment", stands(0.2), rca.Healthy},
		{"pages", pages, rca.Unknown},
		{"moves", rca.Verdict{Version: 1, Class: rca.Unknown}, rca.Healthy},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.script(func(req Request) (Outcome, error) {
					if req.PresentOnly {
						return Outcome{Verdict: c.present, Complete: true}, nil
					}
					return Outcome{Verdict: healthy(), Complete: true, Costly: true}, nil
				})
				r.receive(t, firing("a", "job"))
				pass(testOptions.LookBack - time.Second)
				if v := r.only(t).Verdict; v == nil || v.Class != c.want {
					t.Errorf("the verdict is %+v", v)
				}
			})
		})
	}
}

// TestPastThatShowsNothing: finished work that shows nothing is fetched again after recheck; where a trigger says that the job is slow,
// soon at first.
func TestPastThatShowsNothing(t *testing.T) {
	healthy, nobody := rca.Verdict{Version: 1, Class: rca.Healthy}, rca.Verdict{Version: 1, Class: rca.Unknown, Ask: []int{5}}
	unrecorded := rca.Verdict{Version: 1, Class: rca.Unknown}
	suspected := rca.Verdict{Version: 1, Class: rca.Unknown, Culprits: []rca.Culprit{{Rank: 3}}}
	for _, c := range []struct {
		name    string
		verdict rca.Verdict
		kind    Kind
		again   time.Duration
	}{
		{"healthy", healthy, Hang, testOptions.Recheck},
		{"healthy", healthy, Start, testOptions.Recheck},
		{"healthy", healthy, Slow, testOptions.LookBack / firstLooks},
		{"healthy", healthy, "", testOptions.LookBack / firstLooks},
		{"nobody of those seen", nobody, Start, testOptions.Recheck},
		{"nobody of those seen", nobody, Slow, testOptions.LookBack / firstLooks},
		{"suspected", suspected, Start, testOptions.LookBack},
		{"no finished work", unrecorded, Hang, testOptions.LookBack},
	} {
		t.Run(c.name+"/"+string(c.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.script(func(req Request) (Outcome, error) {
					return Outcome{Verdict: c.verdict, Complete: true, Costly: !req.PresentOnly}, nil
				})
				trigger := firing("a", "job")
				trigger.Kind = c.kind
				r.receive(t, trigger)
				pass(c.again - time.Second)
				past := func() (n int) {
					for _, req := range r.asked() {
						if !req.PresentOnly {
							n++
						}
					}
					return n
				}
				if n := past(); n != 1 {
					t.Errorf("the past was looked at %d times before %v, want once", n, c.again)
				}
				pass(testOptions.RetryMax + time.Second)
				if n := past(); n != 2 {
					t.Errorf("the past was looked at %d times after %v, want twice", n, c.again)
				}
			})
		})
	}
}

// While something is missing the verdict is refined; its incident and its first page stay.
func TestRefinement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		v := unknown()
		v.Missing = []string{"exporter node-3"}
		r.verdict(v, false)
		r.receive(t, firing("a", "job"))
		inc := r.only(t)
		if inc.Verdict.Class != rca.Unknown || len(inc.Verdict.Missing) != 1 {
			t.Fatalf("incident is %+v", inc)
		}
		partial := blame(3)
		partial.Confidence = 0.6
		r.verdict(partial, false)
		pass(time.Second)
		at := r.only(t).VerdictAt
		r.verdict(blame(3), true)
		pass(2 * time.Second)
		next := r.only(t)
		if next.ID != inc.ID || next.Verdict.Confidence != 0.9 || !next.VerdictAt.Equal(*at) {
			t.Errorf("incident is %+v", next)
		}
	})
}

func TestAccusationStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.receive(t, firing("a", "job"))
		r.verdict(unknown(), false) // The nodes have rebooted.
		pass(2 * time.Minute)
		inc := r.only(t)
		if inc.Verdict.Culprits[0].Rank != 3 || inc.Latest == nil || inc.Latest.Class != rca.Unknown {
			t.Fatalf("incident is %+v", inc)
		}
		weaker := blame(5)
		weaker.Confidence = 0.7
		n := 0
		r.script(func(Request) (Outcome, error) {
			if n++; n == 1 {
				return Outcome{Verdict: weaker, Complete: true}, nil
			}
			return Outcome{Verdict: unknown(), Complete: true}, nil
		})
		pass(time.Minute)
		if inc := r.only(t); inc.Verdict.Culprits[0].Rank != 3 {
			t.Error("a single weaker accusation took over")
		}
		r.verdict(weaker, true)
		pass(time.Minute)
		if inc := r.only(t); inc.Verdict.Culprits[0].Rank != 5 || inc.Latest != nil {
			t.Errorf("a repeated accusation did not take over: %+v", inc)
		}
	})
}

// TestWhatProcessesLeftBehind: once all processes have ended, at the hands of whoever was paged for instance, what their files show is no
// better than what was found while they lived.
func TestWhatProcessesLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.receive(t, firing("a", "train"))
		surer := blame(5)
		surer.Confidence = 0.99
		r.script(func(Request) (Outcome, error) { return Outcome{Verdict: surer, Complete: true, Ended: true}, nil })
		r.receive(t, firing("b", "train"))
		pass(5 * time.Minute)
		if inc := r.only(t); inc.Verdict.Culprits[0].Rank != 3 || inc.Latest == nil {
			t.Errorf("stands %+v beside %+v", inc.Verdict, inc.Latest)
		}
	})
}

// TestPagesForOneMoreLater: a verdict that pages for one and will for another is looked at again when it may, and not when settled ones
// are.
func TestPagesForOneMoreLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		held := blame(3)
		held.Culprits = append(held.Culprits, rca.Culprit{Rank: 5, Host: "node-5", PageIn: 1.5})
		both := blame(3)
		both.Culprits = append(both.Culprits, rca.Culprit{Rank: 5, Host: "node-5"})
		n := 0
		r.script(func(Request) (Outcome, error) {
			if n++; n == 1 {
				return Outcome{Verdict: held, Complete: true}, nil
			}
			return Outcome{Verdict: both, Complete: true}, nil
		})
		r.receive(t, firing("a", "job"))
		pass(2 * time.Second)
		if inc := r.only(t); n != 2 || inc.Verdict.Culprits[1].PageIn != 0 {
			t.Errorf("%d analyses at %v, culprits %+v", n, r.at(), inc.Verdict.Culprits)
		}
	})
}

func TestAnalysisFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.script(func(Request) (Outcome, error) { return Outcome{}, errors.New("nobody is known") })
		r.receive(t, firing("a", "job"))
		inc := r.only(t)
		if inc.Verdict != nil || inc.Analyses[0].Error == "" {
			t.Fatalf("incident is %+v", inc)
		}
		r.verdict(blame(3), true)
		pass(time.Second)
		if inc := r.only(t); inc.Verdict == nil || inc.Count != 2 {
			t.Errorf("not tried again: %+v", inc)
		}
	})
}

// A crash of one job's analysis is that analysis's failure, not the end of the service.
func TestAnalysisCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.script(func(Request) (Outcome, error) { panic("index out of range") })
		r.receive(t, firing("a", "job"))
		if inc := r.only(t); inc.Verdict != nil || !strings.Contains(inc.Analyses[0].Error, "index out of range") {
			t.Fatalf("incident is %+v", inc)
		}
		r.verdict(blame(3), true)
		pass(time.Second)
		if inc := r.only(t); inc.Verdict == nil || inc.Count != 2 {
			t.Errorf("not tried again: %+v", inc)
		}
	})
}

// A trigger that comes while an analysis runs is looked at right after it, whatever that analysis finds.
func TestTriggerDuringAnalysis(t *testing.T) {
	for name, found := range map[string]struct {
		out Outcome
		err error
	}{
		"settled":    {out: Outcome{Verdict: blame(3), Complete: true}},
		"incomplete": {out: Outcome{Verdict: blame(3)}},
		"failed":     {err: errors.New("nobody is known")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.script(func(Request) (Outcome, error) {
					time.Sleep(5 * time.Second)
					return found.out, found.err
				})
				r.receive(t, firing("a", "job"))
				pass(time.Second)
				r.receive(t, firing("b", "job"))
				if len(r.asked()) != 1 {
					t.Fatalf("%d analyses at once for one job", len(r.asked()))
				}
				pass(4 * time.Second)
				if len(r.asked()) != 2 || len(r.asked()[1].Triggers) != 2 {
					t.Errorf("requests are %+v", r.asked())
				}
			})
		})
	}
}

// A look at a job after its start that finds nothing is no incident that anybody wants to read of.
func TestFirstLook(t *testing.T) {
	slow := firing("b", "j")
	slow.Kind = Slow
	for name, c := range map[string]struct {
		verdict rca.Verdict
		also    []Trigger
		kept    int
	}{
		"healthy":                  {healthy(), nil, 0},
		"nothing to be told":       {unknown(), nil, 0},
		"somebody is slow":         {blame(3), nil, 1},
		"a rule found it slow too": {healthy(), []Trigger{slow}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.verdict(c.verdict, true)
				start := firing("a", "j")
				start.Kind = Start
				r.receive(t, append(c.also, start)...)
				pass(time.Second)
				if inc := r.only(t); inc.State != Open || inc.Verdict == nil {
					t.Fatalf("while it fires: %+v", inc)
				}
				for _, trigger := range append(c.also, start) {
					r.receive(t, ended(trigger))
				}
				pass(testOptions.Grace + time.Second)
				if got := len(r.List()); got != c.kept {
					t.Errorf("%d incidents are kept, want %d", got, c.kept)
				}
			})
		})
	}
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.script(func(Request) (Outcome, error) {
			time.Sleep(time.Hour)
			return Outcome{Verdict: blame(3), Complete: true}, nil
		})
		for i := range testOptions.MaxOpen {
			r.receive(t, firing("a", "job"+strconv.Itoa(i)))
		}
		if err := r.Receive([]Trigger{firing("b", "job0"), firing("a", "one-too-many")}); !errors.Is(err, ErrOverloaded) {
			t.Errorf("error is %v", err)
		}
		if inc, _ := r.OpenFor(identity.Job{ID: "job0"}); len(inc.Triggers) != 1 {
			t.Error("half of an overload was taken")
		}
		if err := r.Receive([]Trigger{firing("b", "job0")}); err != nil {
			t.Errorf("a trigger of an open incident: %v", err)
		}
		synctest.Wait()
		if len(r.asked()) != testOptions.Workers {
			t.Errorf("%d analyses at once, want %d", len(r.asked()), testOptions.Workers)
		}
		const metric = "culprit_analyzer_queue_length"
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == metric && f.GetMetric()[0].GetGauge().GetValue() != 2 {
				t.Errorf("%s is %v", metric, f.GetMetric())
			}
		}
		time.Sleep(3 * time.Hour)
	})
}

// Somebody makes up jobs until no place is left. A job that is watched gets one, and made-up jobs never have more than half.
func TestMadeUpJobsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		opt := testOptions
		opt.Known = func(job identity.Job) bool { return strings.HasPrefix(job.ID, "real") }
		r.Apply(opt)
		refused := 0
		for i := range 20 {
			if err := r.Receive([]Trigger{firing("a", "made-up"+strconv.Itoa(i))}); errors.Is(err, ErrOverloaded) {
				refused++
			}
		}
		if refused != 18 {
			t.Errorf("%d of 20 made-up jobs were refused, want 18", refused)
		}
		for i := range testOptions.MaxOpen {
			if err := r.Receive([]Trigger{firing("a", "real"+strconv.Itoa(i))}); err != nil {
				t.Errorf("job real%d: %v", i, err)
			}
		}
		if err := r.Receive([]Trigger{firing("a", "real-one-too-many")}); !errors.Is(err, ErrOverloaded) {
			t.Errorf("one more: %v", err)
		}
		if n := testutil.ToFloat64(r.metrics.refused.WithLabelValues("incidents")); n != 18+2+1 {
			t.Errorf("%v triggers are counted as refused", n)
		}
	})
}

// Labels of megabytes are not kept.
func TestLabelsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		large := strings.Repeat("x", 1<<20)
		for i := range 100 {
			trigger := firing(strconv.Itoa(i), "job")
			trigger.Labels = map[string]string{"a": large[:7<<10]}
			if i == 0 {
				trigger.Labels, trigger.Name, trigger.Summary = map[string]string{"a": large}, large, large
			}
			r.receive(t, trigger)
		}
		// One that has ended fires again, as something larger.
		again := firing("1", "job")
		ended := again
		ended.EndedAt = new(time.Now())
		r.receive(t, ended)
		again.Labels, again.Name, again.Summary = map[string]string{"a": large}, large, large
		r.receive(t, again)
		endless := firing("a", large)
		if err := r.Receive([]Trigger{endless}); err != nil {
			t.Error(err)
		}
		inc := r.only(t)
		held := 0
		for i := range inc.Triggers {
			held += labelBytes(inc.Triggers[i].Labels) + len(inc.Triggers[i].Name) + len(inc.Triggers[i].Summary)
		}
		if len(inc.Triggers) != 100 || held > 300<<10 {
			t.Errorf("%d triggers hold %d bytes", len(inc.Triggers), held)
		}
	})
}

func TestPassiveTriggerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := firing("api-1", "job")
		p.Passive = true
		r.receive(t, p)
		if inc := r.only(t); inc.State != Open || inc.Verdict == nil {
			t.Fatalf("incident is %+v", inc)
		}
		pass(testOptions.PassiveTTL + testOptions.Grace)
		if inc := r.only(t); inc.State != Resolved {
			t.Errorf("incident is %+v", inc)
		}
	})
}

func TestEndOfUnknownTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.receive(t, ended(firing("a", "job")))
		if list := r.List(); len(list) != 0 {
			t.Errorf("incidents are %+v", list)
		}
		a := firing("a", "job")
		r.receive(t, a)
		r.End(r.only(t).ID, []string{"a", "nothing"})
		pass(testOptions.Grace)
		if inc := r.only(t); inc.State != Resolved {
			t.Errorf("incident is %+v", inc)
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 5 {
			a := firing("a", "job"+strconv.Itoa(i))
			r.receive(t, a)
			r.receive(t, ended(a))
			pass(time.Minute)
		}
		list := r.List()
		if len(list) != testOptions.History || list[0].JobID != "job4" || list[1].JobID != "job3" {
			t.Errorf("history is %+v", list)
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.script(func(Request) (Outcome, error) {
			time.Sleep(3 * time.Second)
			return Outcome{Verdict: blame(3), Complete: true}, nil
		})
		r.receive(t, firing("a", "job"))
		id := r.only(t).ID
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Wait(short, id, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		inc, err := r.Wait(t.Context(), id, 0)
		if err != nil || inc.Verdict == nil {
			t.Errorf("waited for %+v, %v", inc, err)
		}
		if _, err := r.Wait(t.Context(), "nobody", 0); err == nil {
			t.Error("waited for nothing")
		}
	})
}

func TestMetricsLint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		v := blame(3)
		v.Culprits = append(v.Culprits, v.Culprits[0], rca.Culprit{Rank: -1, Group: "rail 2"})
		r.verdict(v, true)
		r.receive(t, firing("a", "job"))
		problems, err := testutil.GatherAndLint(r.reg)
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	})
}

// BenchmarkStorm is a notification of a thousand alerts of one job, each of which is new.
func BenchmarkStorm(b *testing.B) {
	for b.Loop() {
		m, err := NewManager(testOptions, nil, func(Incident) {}, nil, promslog.NewNopLogger(), prometheus.NewPedanticRegistry(), clock.System)
		if err != nil {
			b.Fatal(err)
		}
		storm := make([]Trigger, 0, maxTriggers)
		for i := range maxTriggers {
			storm = append(storm, Trigger{Key: strconv.Itoa(i), JobID: "job", StartedAt: time.Unix(int64(i), 0)})
		}
		if err := m.Receive(storm); err != nil {
			b.Fatal(err)
		}
	}
}
