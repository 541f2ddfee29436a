// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// restricted is an API that only the user "operator" may act on.
func restricted(t *testing.T, f *fixed, opt Options) http.Handler {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte("basic_auth_users: {operator: x, viewer: x}"), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	New(f, opt, promslog.NewNopLogger()).Register(mux)
	h, err := access.Restrict(mux, file, []string{"operator"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func as(h http.Handler, user, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if user != "" {
		r.SetBasicAuth(user, "checked before")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func judgedSet() *fixed {
	return &fixed{list: []incident.Incident{
		{ID: "aaaaaaaaaaaa", JobID: "train", State: incident.Open, Verdict: &rca.Verdict{Class: rca.Fault, Cause: rca.CauseGPU}}, {ID: "bbbbbbbbbbbb", State: incident.Open},
	}}
}

// Only who may act, and is known by name, says whether a verdict was right.
func TestFeedback(t *testing.T) {
	const path = "/api/v1/incidents/aaaaaaaaaaaa/feedback"
	for name, c := range map[string]struct {
		user, path, body string
		want             int
	}{
		"right":         {"operator", path, `{"right": true}`, 204},
		"wrong":         {"operator", path, `{"right": false, "class": "slow_comm", "cause": "pcie", "who": "rank 3", "note": "replays"}`, 204},
		"viewer":        {"viewer", path, `{"right": true}`, 403},
		"nobody":        {"", path, `{"right": true}`, 403},
		"not said":      {"operator", path, `{"class": "fault"}`, 400},
		"made-up class": {"operator", path, `{"right": false, "class": "gremlins"}`, 400},
		"made-up cause": {"operator", path, `{"right": false, "cause": "gremlins"}`, 400},
		"unknown field": {"operator", path, `{"right": true, "by": "somebody"}`, 400},
		"no JSON":       {"operator", path, `right`, 400},
		"no incident":   {"operator", "/api/v1/incidents/cccccccccccc/feedback", `{"right": true}`, 404},
		"no verdict":    {"operator", "/api/v1/incidents/bbbbbbbbbbbb/feedback", `{"right": true}`, 409},
	} {
		t.Run(name, func(t *testing.T) {
			f := judgedSet()
			h := restricted(t, f, Options{})
			if w := as(h, c.user, http.MethodPost, c.path, c.body); w.Code != c.want {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			var list incident.FeedbackList
			w := as(h, "viewer", http.MethodGet, "/api/v1/feedback", "")
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || list.Version != incident.FeedbackVersion {
				t.Fatalf("%s, %v", w.Body, err)
			}
			if got := len(list.Feedback); got != map[bool]int{true: 1}[c.want == 204] {
				t.Errorf("%d are listed", got)
			}
			if c.want == 204 && list.Feedback[0].By != "operator" {
				t.Errorf("listed %+v", list.Feedback[0])
			}
		})
	}
}

// Without users nobody is known by name, and confidence is not fitted to what strangers say.
func TestFeedbackNeedsUsers(t *testing.T) {
	mux := http.NewServeMux()
	New(judgedSet(), Options{}, promslog.NewNopLogger()).Register(mux)
	h, err := access.Restrict(mux, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := as(h, "operator", http.MethodPost, "/api/v1/incidents/aaaaaaaaaaaa/feedback", `{"right": true}`); w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
	page := as(h, "", http.MethodGet, "/incidents/aaaaaaaaaaaa", "").Body.String()
	if strings.Contains(page, `id="judge"`) || !strings.Contains(page, `id="ask"`) {
		t.Error("the page offers what is refused, or not what is allowed")
	}
}

// The page offers only what its reader may do.
func TestPageOffersWhatIsAllowed(t *testing.T) {
	h := restricted(t, judgedSet(), Options{})
	for user, want := range map[string]bool{"operator": true, "viewer": false} {
		page := as(h, user, http.MethodGet, "/incidents/aaaaaaaaaaaa", "").Body.String()
		if strings.Contains(page, `id="judge"`) != want || strings.Contains(page, `id="ask"`) != want {
			t.Errorf("%s: offered %t", user, !want)
		}
	}
	if page := as(h, "operator", http.MethodGet, "/incidents/bbbbbbbbbbbb", "").Body.String(); strings.Contains(page, `id="judge"`) {
		t.Error("there is no verdict to judge")
	}
}

// What rules did is told in JSON and on the page.
func TestActions(t *testing.T) {
	entries := []action.Entry{{Event: action.Started, Subject: action.Subject{Action: "drain", Incident: "aaaaaaaaaaaa", Hosts: []string{"node-1"}}}}
	h := restricted(t, judgedSet(), Options{Actions: func(id string) []action.Entry {
		if id == "" || id == "aaaaaaaaaaaa" {
			return entries
		}
		return []action.Entry{}
	}})
	for path, want := range map[string]int{"/api/v1/actions": 1, "/api/v1/actions?incident=aaaaaaaaaaaa": 1, "/api/v1/actions?incident=bbbbbbbbbbbb": 0} {
		var list ActionList
		if err := json.Unmarshal(as(h, "viewer", http.MethodGet, path, "").Body.Bytes(), &list); err != nil || len(list.Actions) != want {
			t.Errorf("%s: %+v, %v", path, list, err)
		}
	}
	if page := as(h, "viewer", http.MethodGet, "/incidents/aaaaaaaaaaaa", "").Body.String(); !strings.Contains(page, "Started for node-1.") {
		t.Error("the page does not tell")
	}
}
