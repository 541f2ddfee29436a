// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

var start = time.Date(2026, 11, 21, 2, 30, 0, 0, time.UTC)

// played is a clock that a test sets.
type played struct{ now time.Time }

func (p *played) Now() time.Time                       { return p.now }
func (p *played) Sleep(context.Context, time.Duration) {}

// recorder is a Doer that remembers what it was asked.
type recorder struct {
	asked []*Request
	err   error
}

func (d *recorder) Do(_ context.Context, r *Request) (string, error) {
	d.asked = append(d.asked, r)
	return "drained", d.err
}

// found is an incident whose verdict blames a GPU on each of some hosts.
func found(id string, hosts ...string) incident.Incident {
	v := &rca.Verdict{Class: rca.Fault, Cause: rca.CauseGPU, Confidence: 0.95, Page: true, Summary: "GPU 1 stopped."}
	for i, h := range hosts {
		v.Culprits = append(v.Culprits, rca.Culprit{Rank: i, Host: h, Channel: -1})
	}
	return incident.Incident{ID: id, JobID: "train", State: incident.Open, Verdict: v, VerdictAt: &start, Analyses: []incident.Analysis{{At: start.Add(time.Hour)}}}
}

type bench struct {
	*Runner
	clock *played
	doer  *recorder
	file  string
}

func newBench(t *testing.T, file string, change func(*Rule, *Limits)) *bench {
	t.Helper()
	log, err := OpenLog(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	b := &bench{clock: &played{start}, doer: &recorder{}, file: file}
	b.Runner = NewRunner(log, promslog.NewNopLogger(), prometheus.NewRegistry(), b.clock)
	rule := Rule{Name: "drain", MinConfidence: 0.9, Timeout: time.Minute, Do: b.doer}
	limits := Limits{MaxHosts: 2, Window: 24 * time.Hour, Interval: time.Minute}
	if change != nil {
		change(&rule, &limits)
	}
	b.Apply([]Rule{rule}, limits, func(id string) string { return "https://culprit.example.org/incidents/" + id })
	return b
}

func (b *bench) consider(inc incident.Incident) {
	b.Consider(inc)
	b.Work(context.Background())
}

// Nothing runs that is not sure, names nobody, may be over, or touches what it must not.
func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		inc  func(*incident.Incident)
		rule func(*Rule, *Limits)
		want string // The refusal; "silent": the rule is not meant; empty: it runs.
	}{
		"runs":             {nil, nil, ""},
		"unknown":          {func(i *incident.Incident) { i.Verdict.Class, i.Verdict.Cause = rca.Unknown, rca.CauseUnknown }, nil, "silent"},
		"benign":           {func(i *incident.Incident) { i.Verdict.Class = rca.Benign }, nil, "silent"},
		"imbalance":        {func(i *incident.Incident) { i.Verdict.Class = rca.Imbalance }, nil, "silent"},
		"nobody named":     {func(i *incident.Incident) { i.Verdict.Culprits = nil }, nil, "silent"},
		"pages nobody":     {func(i *incident.Incident) { i.Verdict.Page = false }, nil, "silent"},
		"resolved":         {func(i *incident.Incident) { i.State = incident.Resolved }, nil, "silent"},
		"no verdict":       {func(i *incident.Incident) { i.Verdict = nil }, nil, "silent"},
		"only just found":  {nil, func(r *Rule, _ *Limits) { r.After = time.Second }, "silent"},
		"before a restart": {func(i *incident.Incident) { i.Analyses[0].At = start.Add(-time.Second) }, nil, "silent"},
		"analysis failed":  {func(i *incident.Incident) { i.Analyses[0].Error = "no answer" }, nil, "silent"},
		"code":             {func(i *incident.Incident) { i.Verdict.Cause = rca.CauseException }, nil, "silent"},
		"a power limit": {func(i *incident.Incident) {
			i.Verdict.Action = rca.ActionForFacts(rca.CauseGPU, &i.Verdict.Culprits[0], []rca.Fact{{Rank: 0, Kind: "clock_throttled", Text: "power_cap"}})
		}, nil, "silent"},
		"another class": {nil, func(r *Rule, _ *Limits) { r.Classes = []rca.Class{rca.SlowComm} }, "silent"},
		"another cause": {nil, func(r *Rule, _ *Limits) { r.Causes = []rca.Cause{rca.CausePCIe} }, "silent"},
		"this cause":    {nil, func(r *Rule, _ *Limits) { r.Causes = []rca.Cause{rca.CauseGPU} }, ""},
		"GPU may load":  {func(i *incident.Incident) { i.Verdict.MayGetOn = true }, nil, refusedMayGetOn},
		"pages later":   {func(i *incident.Incident) { i.Verdict.PageIn = 3 }, nil, refusedMayGetOn},
		"live rank": {func(i *incident.Incident) { i.Verdict.Class, i.Verdict.Cause = rca.NotEntered, rca.CauseNotCalled }, func(r *Rule, _ *Limits) {
			r.Causes = []rca.Cause{rca.CauseNotCalled}
		}, refusedMayGetOn},
		"newest differs": {func(i *incident.Incident) { i.Latest = &rca.Verdict{Class: rca.Healthy} }, nil, refusedDiffers},
		"not sure":       {func(i *incident.Incident) { i.Verdict.Confidence = 0.89 }, nil, refusedConfidence},
		"hostile host":   {func(i *incident.Incident) { i.Verdict.Culprits[0].Host = "a; reboot" }, nil, refusedHost},
		"an option":      {func(i *incident.Incident) { i.Verdict.Culprits[0].Host = "--all" }, nil, refusedHost},
		"no host":        {func(i *incident.Incident) { i.Verdict.Culprits[0].Host = "" }, nil, refusedHost},
		"other host":     {nil, func(r *Rule, _ *Limits) { r.Hosts = regexp.MustCompile("^gpu-.*$") }, refusedHost},
		"one of two": {func(i *incident.Incident) {
			i.Verdict.Culprits = append(i.Verdict.Culprits, rca.Culprit{Host: "node-2", Class: rca.NotEntered, Cause: rca.CauseException})
		}, nil, ""},
		"may get on beside another": {func(i *incident.Incident) {
			i.Verdict.Culprits[0].PageIn = 3
		}, nil, "silent"},
		"no budget": {nil, func(_ *Rule, l *Limits) { l.MaxHosts = 0 }, refusedBudget},
		"dry run":   {nil, func(r *Rule, _ *Limits) { r.DryRun = true }, string(WouldRun)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "", c.rule)
			inc := found("aaaaaaaaaaaa", "node-1")
			if c.inc != nil {
				c.inc(&inc)
			}
			b.consider(inc)
			b.consider(inc)
			entries := b.log.Entries("")
			switch c.want {
			case "":
				if len(b.doer.asked) != 1 || !slices.Equal(b.doer.asked[0].Hosts, []string{"node-1"}) || len(entries) != 2 || entries[1].Event != Done || entries[1].Output != "drained" {
					t.Errorf("asked %d times; log %+v", len(b.doer.asked), entries)
				}
				return
			case "silent":
				if len(entries) != 0 {
					t.Errorf("log %+v", entries)
				}
			case string(WouldRun):
				if len(entries) != 1 || entries[0].Event != WouldRun || testutil.ToFloat64(b.ran.WithLabelValues("drain", "would_run")) != 1 {
					t.Errorf("log %+v", entries)
				}
			default:
				if len(entries) != 1 || entries[0].Event != Refused || entries[0].Reason != c.want || testutil.ToFloat64(b.refused.WithLabelValues("drain", c.want)) != 1 {
					t.Errorf("log %+v, want one refusal: %s", entries, c.want)
				}
			}
			if len(b.doer.asked) != 0 {
				t.Errorf("it ran for %v", b.doer.asked[0].Hosts)
			}
		})
	}
}

// All rules and incidents share one budget of hosts and one pace. What was refused runs when there is room again.
func TestLimits(t *testing.T) {
	b := newBench(t, "", nil)
	step := func(wait time.Duration, id string, want int, reason string, hosts ...string) {
		t.Helper()
		b.clock.now = b.clock.now.Add(wait)
		inc := found(id, hosts...)
		inc.Analyses[0].At = b.clock.now
		b.consider(inc)
		last := b.log.Entries("")[len(b.log.Entries(""))-1]
		if len(b.doer.asked) != want || reason != "" && last.Reason != reason {
			t.Fatalf("%s: ran %d times, want %d; last %+v", id, len(b.doer.asked), want, last)
		}
	}
	step(0, "first", 1, "", "node-1")
	step(time.Second, "second", 1, refusedInterval, "node-2")
	step(time.Minute, "second", 2, "", "node-2")
	step(time.Minute, "third", 2, refusedBudget, "node-3")
	step(time.Minute, "again", 3, "", "node-1") // It counts as one host.
	step(time.Hour, "pair", 3, refusedBudget, "node-1", "node-4")
	step(24*time.Hour, "third", 4, "", "node-3")
}

// A verdict must have stood for a while.
func TestAfter(t *testing.T) {
	b := newBench(t, "", func(r *Rule, _ *Limits) { r.After = time.Minute })
	for _, wait := range []time.Duration{0, 59 * time.Second, time.Second} {
		b.clock.now = b.clock.now.Add(wait)
		if b.consider(found("aaaaaaaaaaaa", "node-1")); len(b.doer.asked) > 0 && wait != time.Second {
			t.Fatalf("it ran after %s", b.clock.now.Sub(start))
		}
	}
	if len(b.doer.asked) != 1 {
		t.Errorf("it ran %d times", len(b.doer.asked))
	}
}

// A restart forgets nothing, and an action that a crash cut off does not run again.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "actions.jsonl")
	b := newBench(t, file, nil)
	b.consider(found("aaaaaaaaaaaa", "node-1"))
	if err := b.log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(file, []byte(first+"\n"+`{"at":"2026-11-21T02:3`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := newBench(t, file, func(_ *Rule, l *Limits) { l.MaxHosts = 1 })
	again.clock.now = start.Add(2 * time.Hour)
	again.consider(found("aaaaaaaaaaaa", "node-1"))
	again.consider(found("bbbbbbbbbbbb", "node-2"))
	entries := again.log.Entries("")
	if len(again.doer.asked) != 0 || len(entries) != 2 || entries[1].Reason != refusedBudget {
		t.Errorf("ran %d times; log %+v", len(again.doer.asked), entries)
	}
	if err := again.log.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := OpenLog(file)
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	if got := last.Entries(""); len(got) != 2 {
		t.Errorf("after the cut line: %+v", got)
	}
}

// An action of which no record can be kept does not run.
func TestNoRecordNoAction(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "actions.jsonl"), nil)
	if err := b.log.Close(); err != nil {
		t.Fatal(err)
	}
	b.consider(found("aaaaaaaaaaaa", "node-1"))
	if len(b.doer.asked) != 0 || testutil.ToFloat64(b.refused.WithLabelValues("drain", refusedLog)) != 1 {
		t.Errorf("ran %d times", len(b.doer.asked))
	}
}

func TestFailure(t *testing.T) {
	b := newBench(t, "", nil)
	b.doer.err = errors.New("no such node")
	b.consider(found("aaaaaaaaaaaa", "node-1"))
	b.clock.now = b.clock.now.Add(time.Hour)
	b.consider(found("aaaaaaaaaaaa", "node-1"))
	entries := b.log.Entries("aaaaaaaaaaaa")
	if len(b.doer.asked) != 1 || len(entries) != 2 || entries[1].Event != Failed || entries[1].Reason != "no such node" {
		t.Errorf("ran %d times; log %+v", len(b.doer.asked), entries)
	}
}

var request = &Request{
	Version: 1, Summary: "`reboot`",
	Subject: Subject{
		Action: "drain", Incident: "aaaaaaaaaaaa", JobID: `$(reboot)`, Class: rca.Fault, Cause: rca.CauseGPU, Confidence: 0.95, Hosts: []string{"node-1", "node-2"},
	},
}

func TestCommand(t *testing.T) {
	out, err := Command{"/bin/sh", "-c", `echo "$CULPRIT_ACTION $CULPRIT_INCIDENT $CULPRIT_CLASS $CULPRIT_CAUSE $CULPRIT_CONFIDENCE"; for h in $CULPRIT_HOSTS; do echo "host $h"; done; cat; echo " $SECRET"`}.Do(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out, "drain aaaaaaaaaaaa fault gpu 0.950\nhost node-1\nhost node-2\n{") || !strings.Contains(out, `"job_id":"$(reboot)"`) {
		t.Errorf("%s", out)
	}
}

// What a service is told in its environment is not told to commands.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("SECRET", "hush")
	t.Setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
	out, err := Command{"/usr/bin/env"}.Do(t.Context(), request)
	if err != nil || strings.Contains(out, "hush") || !strings.Contains(out, "SLURM_CONF=/etc/slurm/slurm.conf") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestCommandFails(t *testing.T) {
	out, err := Command{"/bin/sh", "-c", "echo no such node >&2; exit 3"}.Do(t.Context(), request)
	if err == nil || out != "no such node\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := (Command{"/nonexistent/program"}).Do(t.Context(), request); err == nil {
		t.Error("a program that is not there runs")
	}
}

func TestWebhook(t *testing.T) {
	var got Request
	status := http.StatusAccepted
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, %v", err, r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("told"))
	}))
	defer srv.Close()
	w := &Webhook{URL: srv.URL, HTTP: srv.Client()}
	if out, err := w.Do(t.Context(), request); err != nil || out != "told" || got.Incident != request.Incident || !slices.Equal(got.Hosts, request.Hosts) {
		t.Errorf("%q, %v, %+v", out, err, got)
	}
	status = http.StatusForbidden
	if _, err := w.Do(t.Context(), request); err == nil {
		t.Error("403 is success")
	}
}
