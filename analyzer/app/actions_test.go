// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/api"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// receiver is what an action is posted to.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []action.Request
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var a action.Request
		if err := json.NewDecoder(req.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, a)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []action.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// withActions has a configuration tell the receiver of stopped processes, and of everything on a dry run.
func withActions(cfg *config.Config, r *receiver) *config.Config {
	tell := config.Action{
		Name: "tell", Causes: []rca.Cause{rca.CauseProcessStopped}, MinConfidence: 0.1, Timeout: model.Duration(time.Minute), Webhook: config.ActionWebhook{URL: r.URL},
	}
	rehearse := tell
	rehearse.Name, rehearse.DryRun = "rehearse", true
	cfg.Actions.Rules = []config.Action{tell, rehearse}
	cfg.Actions.Interval = model.Duration(time.Millisecond)
	return cfg
}

// A verdict runs its action once, however often it is found again, also after a restart; a dry run runs nothing.
func TestActionOnVerdict(t *testing.T) {
	c, storage, r := newCluster(t, 4), t.TempDir(), newReceiver(t)
	c.hang(2, nodeapi.ProcessStopped)
	a := start(t, withActions(quick(c), r), storage)
	a.push(0, trouble("CulpritJobStalled"))
	eventually(t, "the action", func() bool { return len(r.requests()) == 1 })
	got := r.requests()[0]
	inc := a.incidents()[0]
	if got.Action != "tell" || got.Incident != inc.ID || got.JobID != jobID || len(got.Hosts) != 1 || got.Hosts[0] != inc.Verdict.Culprits[0].Host ||
		got.URL != "http://culprit.example.org/incidents/"+inc.ID {
		t.Errorf("%+v", got)
	}
	var told api.ActionList
	eventually(t, "the record", func() bool {
		a.get("/api/v1/actions?incident="+inc.ID, &told)
		return len(told.Actions) == 3
	})
	var events []action.Event
	for _, e := range told.Actions {
		events = append(events, e.Event)
	}
	if !slices.Equal(events, []action.Event{action.Started, action.Done, action.WouldRun}) {
		t.Errorf("the log has %v", events)
	}
	count := inc.Count
	a.push(0, trouble("CulpritOperationTooOld"))
	eventually(t, "another analysis", func() bool { return a.incidents()[0].Count > count })
	a.stop()
	text, err := os.ReadFile(filepath.Join(storage, "actions.jsonl"))
	if err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("%s, %v", text, err)
	}

	again := start(t, withActions(quick(c), r), storage)
	count = again.incidents()[0].Count
	eventually(t, "an analysis after the restart", func() bool { return again.incidents()[0].Count > count })
	again.stop() // What is to run has run.
	if n := len(r.requests()); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// Without a folder the record of what ran would not outlive the process, so nothing may run.
func TestActionsNeedStorage(t *testing.T) {
	c, r := newCluster(t, 1), newReceiver(t)
	cfg := withActions(quick(c), r)
	if _, err := New(cfg, "", promslog.NewNopLogger(), prometheus.NewRegistry()); !errors.Is(err, errNoStorage) {
		t.Errorf("error %v", err)
	}
	cfg.Actions.Rules = cfg.Actions.Rules[1:]
	if _, err := New(cfg, "", promslog.NewNopLogger(), prometheus.NewRegistry()); err != nil {
		t.Errorf("a dry run: %v", err)
	}
}
