// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// unreachable gives an address that takes no connections and refuses none, as that of a host that is gone.
func unreachable(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for { // Until nobody accepts what waits to be accepted, and no more may wait.
		conn, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// silence has all ranks but those of node-2 wait for those.
func (c *cluster) silence() {
	c.hang(5, nodeapi.ProcessSleep)
	c.change(func() {
		for _, p := range c.processes {
			p.Flows = nil
		}
		c.dead[2] = true
	})
}

// A host that is lost answers neither scrapes nor us. Its ranks are named all the same, with the host from before.
func TestHostLost(t *testing.T) {
	c, am := newCluster(t, 4), newAlertmanager(t)
	c.silence()
	c.nodes[2].server.URL = "http://" + unreachable(t)
	cfg := quick(c, am)
	cfg.Exporters.Timeout = model.Duration(100 * time.Millisecond)
	a := start(t, cfg, "")
	a.push(0, trouble("NCCLStall", "rank", "0"))
	eventually(t, "a verdict that pages", func() bool { return len(am.verdicts()) > 0 })
	inc := a.incidents()[0]
	v := inc.Verdict
	if v.Cause != rca.CauseHostLost || len(v.Missing) == 0 {
		t.Errorf("verdict is %+v", v)
	}
	for _, c := range v.Culprits {
		if c.Host != "node-2" {
			t.Errorf("culprit is %+v", c)
		}
	}
	for _, p := range am.verdicts() {
		if p.Labels["host"] != "node-2" {
			t.Errorf("page's labels are %v", p.Labels)
		}
	}
}

// A host that takes connections is there. That its exporter hangs says nothing of its ranks, which may write a checkpoint: they are
// waited for as any that live.
func TestExporterHangs(t *testing.T) {
	for name, tc := range map[string]struct {
		waited, told time.Duration
		page         bool
	}{
		"5 s":                       {5 * time.Second, 5 * time.Second, false},
		"31 s":                      {31 * time.Second, 31 * time.Second, true},
		"31 s, asked for the first": {31 * time.Second, 0, false}, // It may have stopped a moment ago.
	} {
		t.Run(name, func(t *testing.T) {
			c, am := newCluster(t, 4), newAlertmanager(t)
			c.silence()
			c.change(func() {
				c.later = tc.waited - 5*time.Second
				c.nodes[2].broken = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			})
			cfg := quick(c, am)
			cfg.Exporters.Timeout = model.Duration(100 * time.Millisecond)
			a := start(t, cfg, "")
			trigger := trouble("NCCLStall", "rank", "0")
			trigger.start = trigger.start.Add(-tc.told)
			a.push(0, trigger)
			eventually(t, "a verdict", func() bool { list := a.incidents(); return len(list) == 1 && list[0].Verdict != nil })
			v := a.incidents()[0].Verdict
			if v.Cause != rca.CauseHostLost || v.Page != tc.page || !strings.Contains(v.Summary, "takes connections). Either all processes of the host hang, or only its exporter does") {
				t.Errorf("verdict is %+v", v)
			}
		})
	}
}

// A host that refuses the connection is up and runs no exporter: its ranks are suspects, and nobody is paged for a lost host (D9).
func TestHostWithoutExporter(t *testing.T) {
	c, am := newCluster(t, 4), newAlertmanager(t)
	c.hang(5, nodeapi.ProcessSleep)
	c.nodes[2].server.CloseClientConnections()
	c.nodes[2].server.Close()
	c.change(func() { c.dead[2] = true })
	a := start(t, quick(c, am), "")
	a.push(0, trouble("NCCLStall", "rank", "0"))
	eventually(t, "several analyses", func() bool { list := a.incidents(); return len(list) == 1 && list[0].Count >= 3 })
	v := a.incidents()[0].Verdict
	if v.Cause == rca.CauseHostLost || v.Page || !strings.Contains(v.Summary, "node-2") {
		t.Errorf("verdict is %+v", v)
	}
	if len(am.verdicts()) > 0 {
		t.Errorf("paged: %+v", am.verdicts())
	}
}

// An exporter that talks nonsense costs its own ranks' evidence only, and the verdict says so.
func TestExporterTalksNonsense(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{
		"500":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", http.StatusInternalServerError) },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"newer":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":99}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			c, am := newCluster(t, 4), newAlertmanager(t)
			c.hang(5, nodeapi.ProcessStopped)
			c.change(func() { c.nodes[0].broken = broken })
			a := start(t, quick(c, am), "")
			a.push(0, trouble("NCCLStall", "rank", "7"))
			eventually(t, "a verdict", func() bool { list := a.incidents(); return len(list) == 1 && list[0].Verdict != nil })
			v := a.incidents()[0].Verdict
			if len(v.Missing) == 0 {
				t.Errorf("verdict does not say what is missing: %+v", v)
			}
			for _, culprit := range v.Culprits {
				if culprit.Rank != 5 {
					t.Errorf("accused is %+v", culprit)
				}
			}
			c.change(func() { c.nodes[0].broken = nil })
			eventually(t, "a verdict on all evidence", func() bool { v := a.incidents()[0].Verdict; return len(v.Missing) == 0 })
			if v := a.incidents()[0].Verdict; len(v.Culprits) != 1 || v.Culprits[0].Rank != 5 || !v.Page {
				t.Errorf("verdict is %+v", v)
			}
		})
	}
}

// With Prometheus down, what was read ahead serves.
func TestPrometheusDown(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	a := start(t, quick(c, am), "")
	eventually(t, "membership to be read ahead", func() bool {
		return testutil.ToFloat64(a.app.source.WithLabelValues("prometheus", "ok")) >= 2
	})
	c.hang(1, nodeapi.ProcessStopped)
	c.change(func() { c.down = true })
	a.push(0, trouble("NCCLStall"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	if got := am.verdicts()[0].Labels; got["rank"] != "1" || got["host"] != "node-0" {
		t.Errorf("labels are %v", got)
	}
}

// With Prometheus down from the start, the trigger's own instance can be asked, if it is configured.
func TestPrometheusNeverSeen(t *testing.T) {
	c, am := newCluster(t, 1), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessStopped)
	c.change(func() { c.down = true })
	instance := strings.TrimPrefix(c.nodes[0].server.URL, "http://")
	cfg := quick(c, am)
	cfg.Exporters.Instances = []string{instance}
	a := start(t, cfg, "")
	a.push(0, trouble("NCCLStall", "instance", instance))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
}

func TestNobodyKnown(t *testing.T) {
	c, am := newCluster(t, 1), newAlertmanager(t)
	c.change(func() { c.down = true })
	a := start(t, quick(c, am), "")
	a.push(0, trouble("NCCLStall"))
	eventually(t, "two attempts", func() bool { list := a.incidents(); return len(list) == 1 && list[0].Count >= 2 })
	inc := a.incidents()[0]
	if inc.Verdict != nil || !strings.Contains(inc.Analyses[0].Error, "nobody is known") {
		t.Errorf("incident is %+v", inc)
	}
	c.hang(0, nodeapi.ProcessStopped)
	c.change(func() { c.down = false })
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
}

// A job that runs well pages nobody, and is looked at again.
func TestHealthyJob(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	a := start(t, quick(c, am), "")
	a.push(0, trouble("NCCLStraggler"))
	eventually(t, "several analyses", func() bool { list := a.incidents(); return len(list) == 1 && list[0].Count >= 3 })
	if inc := a.incidents()[0]; inc.Verdict == nil || inc.Verdict.Page {
		t.Errorf("incident is %+v", inc)
	}
	if len(am.verdicts()) != 0 {
		t.Errorf("pages: %+v", am.verdicts())
	}
	c.hang(3, nodeapi.ProcessStopped)
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
}

// TestPatience: a process that lives and has not called warns at once and pages when it has stayed away for longer than the job's
// own waits explain; one that is gone or stopped pages at once.
func TestPatience(t *testing.T) {
	for _, tc := range []struct {
		name          string
		state         nodeapi.ProcessState
		longest       time.Duration // Wait of the job that ended by itself.
		waited        time.Duration
		page, warning bool
	}{
		{"away for 5 s", nodeapi.ProcessSleep, 0, 5 * time.Second, false, true},
		{"away for 29 s", nodeapi.ProcessSleep, 0, 29 * time.Second, false, true},
		{"away for 31 s", nodeapi.ProcessSleep, 0, 31 * time.Second, true, false},
		{"away for 31 s where evaluations take 40 s", nodeapi.ProcessSleep, 40 * time.Second, 31 * time.Second, false, true},
		{"away for 81 s where evaluations take 40 s", nodeapi.ProcessSleep, 40 * time.Second, 81 * time.Second, true, false},
		{"away for 11 min where somebody once waited for an hour", nodeapi.ProcessSleep, time.Hour, 11 * time.Minute, true, false},
		{"stopped", nodeapi.ProcessStopped, 0, 5 * time.Second, true, false},
		{"stopped where evaluations take 40 s", nodeapi.ProcessStopped, 40 * time.Second, 5 * time.Second, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, am := newCluster(t, 2), newAlertmanager(t)
			c.longest, c.later = tc.longest, tc.waited-5*time.Second
			c.hang(3, tc.state)
			a := start(t, quick(c, am), "")
			a.push(0, trouble("CulpritJobStalled"))
			eventually(t, "an alert", func() bool { return len(am.verdicts()) == 1 })
			alert := am.verdicts()[0]
			if page := alert.Labels["alertname"] == "CulpritFound" && alert.Labels["culprit"] == "verdict"; page != tc.page {
				t.Errorf("pages: %t, want %t; labels %v", page, tc.page, alert.Labels)
			}
			if warning := alert.Labels["alertname"] == "CulpritSuspected" && alert.Labels["culprit"] == "suspect"; warning != tc.warning {
				t.Errorf("warns: %t, want %t; labels %v", warning, tc.warning, alert.Labels)
			}
			if alert.Labels["rank"] != "3" {
				t.Errorf("names rank %q, want 3", alert.Labels["rank"])
			}
		})
	}
}

// blind has all ranks call the same operation, of which nothing tells the end.
func (c *cluster) blind(writes float64) {
	for _, p := range c.processes {
		waits(p, -1)
		p.Identity.Capabilities = trace.CapCommIdentity | trace.CapAPIEvents
		p.Flows, p.Kernel.WriteBytesPerSec = nil, writes
		o := &p.Ops[0]
		o.Flags, o.State, o.EnteredNS, o.FirstStepNS, o.LastProgressNS, o.KernelStarted = trace.OpNoCompletion, trace.OpEnqueued, 0, 0, 0, 0
	}
}

// TestPatienceWithoutAName: all have called alike and nothing shows an end. That pages as unknown once it has lasted for longer than a
// living rank may stay away, or than the job's own pauses; until then, and while bytes move, nobody is told.
func TestPatienceWithoutAName(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pause  time.Duration
		waited time.Duration
		writes float64
		page   bool
	}{
		{"29 s", 0, 29 * time.Second, 0, false},
		{"31 s", 0, 31 * time.Second, 0, true},
		{"31 s where nobody calls for 40 s now and then", 40 * time.Second, 31 * time.Second, 0, false},
		{"31 s, and all write to storage", 0, 31 * time.Second, 50e6, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, am := newCluster(t, 2), newAlertmanager(t)
			c.pause, c.later = tc.pause, tc.waited-5*time.Second
			c.blind(tc.writes)
			a := start(t, quick(c, am), "")
			a.push(0, trouble("CulpritLaunchesStopped"))
			var v *rca.Verdict
			eventually(t, "a verdict", func() bool {
				list := a.incidents()
				if len(list) == 1 {
					v = list[0].Verdict
				}
				return v != nil
			})
			if v.Class != rca.Unknown || len(v.Culprits) > 0 || v.Page != tc.page || !strings.Contains(v.Action, "py-spy") {
				t.Errorf("verdict %+v", v)
			}
			if !tc.page {
				if alerts := am.verdicts(); len(alerts) > 0 {
					t.Errorf("alerts %+v", alerts)
				}
				return
			}
			eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
			if l := am.verdicts()[0].Labels; l["alertname"] != "CulpritUnknown" || l["class"] != "unknown" || l["rank"] != "" || l["host"] != "" {
				t.Errorf("page %v", l)
			}
		})
	}
}

// TestPatienceEnds: the warning becomes a page when the wait goes on, and ends with the wait when it does not.
func TestPatienceEnds(t *testing.T) {
	for _, comes := range []bool{false, true} {
		t.Run(fmt.Sprintf("comes %t", comes), func(t *testing.T) {
			c, am := newCluster(t, 2), newAlertmanager(t)
			c.hang(3, nodeapi.ProcessSleep)
			a := start(t, quick(c, am), "")
			stall := trouble("CulpritJobStalled")
			a.push(0, stall)
			named := func(name string) func() bool {
				return func() bool {
					v := am.verdicts()
					return len(v) == 1 && v[0].Labels["alertname"] == name
				}
			}
			eventually(t, "the warning", named("CulpritSuspected"))
			if !comes {
				c.change(func() { c.later = 30 * time.Second })
				eventually(t, "the page in place of the warning", named("CulpritFound"))
				return
			}
			c.change(func() {
				for i, p := range c.processes {
					*p = *healthy(i, len(c.processes), p.Host)
				}
			})
			eventually(t, "the end of the warning", func() bool { return len(am.verdicts()) == 0 })
			for _, old := range am.history {
				if old.Labels["alertname"] == "CulpritFound" {
					t.Errorf("paged for a wait that ended: %v", old.Labels)
				}
			}
		})
	}
}

// A culprit that changes: the old page ends, the incident stays.
func TestCulpritChanges(t *testing.T) {
	c, am := newCluster(t, 4), newAlertmanager(t)
	c.hang(5, nodeapi.ProcessStopped)
	cfg := quick(c, am)
	cfg.Incidents.Recheck = model.Duration(20 * time.Millisecond)
	a := start(t, cfg, "")
	a.push(0, trouble("NCCLStall"))
	eventually(t, "the first page", func() bool { return len(am.verdicts()) == 1 })
	first := am.verdicts()[0].Labels
	c.hang(2, nodeapi.ProcessStopped)
	eventually(t, "the second page alone", func() bool {
		v := am.verdicts()
		return len(v) == 1 && v[0].Labels["rank"] == "2"
	})
	if second := am.verdicts()[0].Labels; first["rank"] != "5" || first["incident"] != second["incident"] {
		t.Errorf("pages are %v and %v", first, second)
	}
}

// max_alerts cut the notification: the rest is fetched, with the same routing.
func TestTruncatedNotification(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessStopped)
	var rest []notify.Listed
	for rank := range 3 {
		tr := trouble("NCCLStall", "rank", fmt.Sprint(rank))
		rest = append(rest, notify.Listed{Fingerprint: webhook.Fingerprint(tr.labels), Labels: tr.labels, StartsAt: tr.start})
	}
	a := start(t, quick(c, am), "")
	eventually(t, "what it asks at its start", func() bool { am.mu.Lock(); defer am.mu.Unlock(); return len(am.asked) > 0 })
	am.mu.Lock()
	am.firing = rest
	am.mu.Unlock()
	a.push(2, trouble("NCCLStall", "rank", "0"))
	eventually(t, "all triggers", func() bool { list := a.incidents(); return len(list) == 1 && len(list[0].Triggers) == 3 })
	am.mu.Lock()
	defer am.mu.Unlock()
	want := url.Values{"receiver": {"^(?:culprit)$"}, "filter": {`job_id="` + jobID + `"`}}
	if !slices.ContainsFunc(am.asked, func(asked string) bool {
		q, err := url.ParseQuery(asked)
		return err == nil && q.Get("receiver") == want.Get("receiver") && q.Get("filter") == want.Get("filter")
	}) {
		t.Errorf("asked for %q, want %v", am.asked, want)
	}
}

// The notification of the end got lost: Alertmanager's list tells.
func TestLostResolve(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessStopped)
	cfg := quick(c, am)
	cfg.Alertmanager.PollInterval = model.Duration(5 * time.Millisecond)
	cfg.Incidents.LostTriggers = model.Duration(20 * time.Millisecond)
	tr := trouble("NCCLStall")
	am.firing = []notify.Listed{{Fingerprint: webhook.Fingerprint(tr.labels), Labels: tr.labels}}
	a := start(t, cfg, "")
	a.push(0, tr)
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	eventually(t, "some listings", func() bool { am.mu.Lock(); defer am.mu.Unlock(); return len(am.asked) > 20 })
	if inc := a.incidents()[0]; inc.State != incident.Open {
		t.Fatal("ended while Alertmanager has the trigger")
	}
	am.mu.Lock()
	am.down = true // Knows nothing: no reason to end.
	am.mu.Unlock()
	failed := a.app.source.WithLabelValues("alertmanager", "error")
	before := testutil.ToFloat64(failed)
	eventually(t, "some failures", func() bool { return testutil.ToFloat64(failed) > before+20 })
	if inc := a.incidents()[0]; inc.State != incident.Open {
		t.Fatal("ended because Alertmanager is down")
	}
	am.mu.Lock()
	am.down, am.firing = false, nil
	am.mu.Unlock()
	eventually(t, "the end", func() bool { return a.incidents()[0].State == incident.Resolved })
	eventually(t, "the end of the page", func() bool { return len(am.verdicts()) == 0 })
}

// The first Alertmanager is down: the other one pages.
func TestOneAlertmanagerDown(t *testing.T) {
	c, down, up := newCluster(t, 2), newAlertmanager(t), newAlertmanager(t)
	down.down = true
	c.hang(1, nodeapi.ProcessStopped)
	a := start(t, quick(c, down, up), "")
	a.push(0, trouble("NCCLStall"))
	eventually(t, "the page", func() bool { return len(up.verdicts()) == 1 })
	down.mu.Lock()
	down.down = false
	down.mu.Unlock()
	eventually(t, "the page at the other", func() bool { return len(down.verdicts()) == 1 })
}

func TestOverloadIsToldToComeBack(t *testing.T) {
	c, am := newCluster(t, 1), newAlertmanager(t)
	cfg := quick(c, am)
	cfg.Incidents.MaxOpen = 1
	a := start(t, cfg, "")
	if code := a.push(0, trouble("NCCLStall")); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	if code := a.push(0, trouble("NCCLStall", "job_id", "another")); code != http.StatusServiceUnavailable {
		t.Errorf("status %d", code)
	}
}

// Alerts that are no triggers change nothing.
func TestLeftAlone(t *testing.T) {
	c, am := newCluster(t, 1), newAlertmanager(t)
	a := start(t, quick(c, am), "")
	own := trouble("CulpritFound")
	own.labels["culprit"] = "verdict"
	jobless := trouble("NodeDown")
	delete(jobless.labels, "job_id")
	if code := a.push(0, own, jobless); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	if list := a.incidents(); len(list) != 0 {
		t.Errorf("incidents: %+v", list)
	}
}

// Another system asks (M13).
func TestPassiveTrigger(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(2, nodeapi.ProcessStopped)
	a := start(t, quick(c, am), "")
	var inc incident.Incident
	if code := a.post("/api/v1/analyze?wait=20s", `{"job_id":"`+jobID+`","rank":0,"reason":"watchdog"}`, &inc); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if inc.Verdict == nil || inc.Verdict.Culprits[0].Rank != 2 || inc.Triggers[0].Name != "watchdog" || !inc.Triggers[0].Passive {
		t.Errorf("incident is %+v", inc)
	}
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	if code := a.post("/api/v1/analyze", `{"job_id":"`+jobID+`"}`, &inc); code != http.StatusAccepted || len(inc.Triggers) != 2 {
		t.Errorf("status %d, %+v", code, inc)
	}
	for _, tc := range []struct{ path, body string }{
		{"/api/v1/analyze", `{}`},
		{"/api/v1/analyze", `{"job":"x"}`},
		{"/api/v1/analyze", `[`},
		{"/api/v1/analyze?wait=soon", `{"job_id":"x"}`},
		{"/api/v1/analyze?wait=-1s", `{"job_id":"x"}`},
	} {
		var text string
		if code := a.post(tc.path, tc.body, &text); code != http.StatusBadRequest || !strings.Contains(text, `"error"`) {
			t.Errorf("%s: status %d %s", tc.body, code, text)
		}
	}
}

// Stacks of the accused and of those that wait (M11), grouped.
func TestStacks(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessSleep)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		frame := "all_reduce"
		if r.URL.Query().Get("pid") == "1001" {
			frame = "next_batch"
		}
		_, _ = fmt.Fprintf(w, `[{"pid":1,"thread_id":1,"thread_name":"MainThread","frames":[{"name":%q,"filename":"train.py","line":7}]}]`, frame)
	}))
	t.Cleanup(srv.Close)
	cfg := quick(c, am)
	cfg.Stacks.URL = srv.URL + "/dump?pid={{ .pid }}"
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	groups := a.incidents()[0].Stacks
	if len(groups) < 2 || !slices.Equal(groups[0].Ranks, []int{1}) || groups[0].Frames[0] != "next_batch (train.py:7)" {
		t.Errorf("stacks are %+v", groups)
	}
}

func TestIncidentAPI(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(2, nodeapi.ProcessStopped)
	a := start(t, quick(c, am), "")
	a.push(0, trouble("NCCLStall"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	id := a.incidents()[0].ID
	var inc incident.Incident
	if code := a.get("/api/v1/incidents/"+id, &inc); code != http.StatusOK || len(inc.Ranks) != 4 || inc.Ranks[2].State != "culprit" {
		t.Errorf("status %d, ranks %+v", code, inc.Ranks)
	}
	if a.incidents()[0].Ranks != nil {
		t.Error("the list carries ranks")
	}
	if code := a.get("/api/v1/incidents/nobody", nil); code != http.StatusNotFound {
		t.Errorf("status %d", code)
	}
	for query, want := range map[string]int{"?job_id=" + jobID: 1, "?job_id=x": 0, "?state=open": 1, "?state=resolved": 0} {
		var list struct{ Incidents []json.RawMessage }
		if a.get("/api/v1/incidents"+query, &list); len(list.Incidents) != want || list.Incidents == nil {
			t.Errorf("%s gives %d incidents, want %d", query, len(list.Incidents), want)
		}
	}
}

func TestRestart(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessStopped)
	dir := t.TempDir()
	a := start(t, quick(c, am), dir)
	tr := trouble("NCCLStall")
	a.push(0, tr)
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	id := a.incidents()[0].ID
	a.stop()
	am.mu.Lock()
	posts := am.posts
	am.mu.Unlock()

	b := start(t, quick(c, am), dir)
	eventually(t, "the page to be said again", func() bool { am.mu.Lock(); defer am.mu.Unlock(); return am.posts > posts })
	if list := b.incidents(); len(list) != 1 || list[0].ID != id || list[0].State != incident.Open {
		t.Errorf("incidents: %+v", list)
	}
	b.push(0, tr.resolved())
	eventually(t, "the end of the page", func() bool { return len(am.verdicts()) == 0 })
}

func TestReload(t *testing.T) {
	c, am, other := newCluster(t, 2), newAlertmanager(t), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessStopped)
	a := start(t, quick(c, am), "")
	a.push(0, trouble("NCCLStall"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })

	next := quick(c, other)
	next.Notify.Labels = map[string]string{"team": "infra"}
	var fail error
	r := newReloader(func() (*config.Config, error) { return next, errors.Join(fail, next.Check()) }, a.app, promslog.NewNopLogger(), prometheus.NewRegistry())
	if err := r.reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page at the new place with the new label", func() bool {
		v := other.verdicts()
		return len(v) == 1 && v[0].Labels["team"] == "infra"
	})
	fail = errors.New("bad file")
	if err := r.reload(); err == nil || testutil.ToFloat64(r.success) != 0 {
		t.Errorf("error is %v, success %v", err, testutil.ToFloat64(r.success))
	}
	fail = nil
	next = quick(c)
	next.Exporters.HTTPConfig.TLSConfig.CAFile = filepath.Join(t.TempDir(), "absent")
	if err := r.reload(); err == nil {
		t.Error("a certificate that is not there was taken")
	}
	if _, err := os.Stat(next.Exporters.HTTPConfig.TLSConfig.CAFile); err == nil {
		t.Error("the certificate is there")
	}
}

func TestMetricsLint(t *testing.T) {
	c := newCluster(t, 1)
	a := start(t, quick(c), "")
	problems, err := testutil.GatherAndLint(a.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}
