// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/page"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// A page leads to the runbook at its cause, and to the dashboards of its job and rank at its time.
func TestLinks(t *testing.T) {
	cfg := config.Default()
	cfg.GrafanaURL, cfg.Alertmanager.ExternalURL = "https://grafana.example.org/", "https://alerts.example.org/"
	cfg.Links = []config.Link{{Text: "Log", URL: "https://logs.example.org/?job={{ .JobID }}&slurm={{ .SlurmJob }}&rank={{ .Rank }}&from={{ .From }}"}}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, "", promslog.NewNopLogger(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.warning(), "--web.external-url") {
		t.Errorf("warning %q", a.warning())
	}
	opened := time.UnixMilli(1_800_000_000_000)
	resolved := opened.Add(time.Hour)
	inc := incident.Incident{JobID: "a&b", OpenedAt: opened, ResolvedAt: &resolved, Verdict: &rca.Verdict{Class: rca.Fault, Cause: rca.CauseGPU, Culprits: []rca.Culprit{{Rank: 5}}}}
	links := a.links(&inc)
	if len(links) != 4 || !strings.HasSuffix(links[0].URL, "CulpritFound.md#gpu") {
		t.Fatalf("links are %+v", links)
	}
	u, err := url.Parse(links[3].URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if u.Path != "/d/culprit-rank" || q.Get("var-job_id") != "a&b" || q.Get("var-rank") != "5" || q.Get("from") != "1799999400000" || q.Get("to") != "1800004200000" {
		t.Errorf("the link is %s", u)
	}
	inc.Triggers = []incident.Trigger{{Comm: "beef"}}
	if got := a.links(&inc); len(got) != 5 || !strings.Contains(got[3].URL, "/d/culprit-communicator?") || !strings.Contains(got[3].URL, "var-comm=beef") {
		t.Errorf("links are %+v", got)
	}
	inc.Flow = &incident.FlowView{CommID: "cafe"}
	if got := a.links(&inc); !strings.Contains(got[3].URL, "var-comm=cafe") {
		t.Errorf("links are %+v", got)
	}
	inc.ID, inc.Workload = "abc", &incident.Workload{SlurmJob: "7", User: "1003"}
	if got := a.links(&inc); got[1] != (page.Link{Text: "Log", URL: "https://logs.example.org/?job=a%26b&slurm=7&rank=5&from=1799999400000"}) {
		t.Errorf("links are %+v", got)
	}
	if got := a.silenceURL(&inc); got != "https://alerts.example.org/#/silences/new?filter=%7Bincident%3D%22abc%22%7D" {
		t.Errorf("the silence is at %s", got)
	}
	if got := a.jobLinks(identity.Job{ID: "a&b"}); len(got) != 1 || !strings.Contains(got[0].URL, "var-job_id=a%26b") {
		t.Errorf("links of a job are %+v", got)
	}
	if u := a.rankURL(identity.Job{ID: "a&b"}, 7); !strings.Contains(u, "/d/culprit-rank?") || !strings.Contains(u, "var-job_id=a%26b") || !strings.Contains(u, "var-rank=7") {
		t.Errorf("the link is %s", u)
	}
	inc.ResolvedAt = nil
	if u := a.links(&inc)[2].URL; !strings.Contains(u, "to=now") {
		t.Errorf("the link is %s", u)
	}
}

// A page tells to whom Alertmanager routes the alerts of its incident, and says nothing where it does not answer.
func TestNotified(t *testing.T) {
	answer := `[{"receivers":[{"name":"pager"}],"status":{"silencedBy":["a"]}},{"receivers":[{"name":"pager"},{"name":"chat"}],"status":{"silencedBy":[]}}]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("filter") != `incident="abc"` {
			http.Error(w, "which incident?", http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	cfg := config.Default()
	cfg.Alertmanager.URLs = []string{server.URL}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, "", promslog.NewNopLogger(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	inc := incident.Incident{ID: "abc", Verdict: &rca.Verdict{Page: true}}
	if got := a.notified(t.Context(), &inc); got == nil || got.Silenced || !slices.Equal(got.Receivers, []string{"pager", "chat"}) {
		t.Errorf("%+v", got)
	}
	inc.ID = "other"
	if got := a.notified(t.Context(), &inc); got != nil {
		t.Errorf("%+v of an Alertmanager that refuses", got)
	}
}
