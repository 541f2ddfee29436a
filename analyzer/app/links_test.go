// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// A page leads to the runbook at its cause, and to the dashboards of its job and rank at its time.
func TestLinks(t *testing.T) {
	cfg := config.Default()
	cfg.GrafanaURL = "https://grafana.example.org/"
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
	if len(links) != 3 || !strings.HasSuffix(links[0].URL, "CulpritFound.md#gpu") {
		t.Fatalf("links are %+v", links)
	}
	u, err := url.Parse(links[2].URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if u.Path != "/d/culprit-rank" || q.Get("var-job_id") != "a&b" || q.Get("var-rank") != "5" || q.Get("from") != "1799999400000" || q.Get("to") != "1800004200000" {
		t.Errorf("the link is %s", u)
	}
	inc.Triggers = []incident.Trigger{{Comm: "beef"}}
	if got := a.links(&inc); len(got) != 4 || !strings.Contains(got[2].URL, "/d/culprit-communicator?") || !strings.Contains(got[2].URL, "var-comm=beef") {
		t.Errorf("links are %+v", got)
	}
	inc.Flow = &incident.FlowView{CommID: "cafe"}
	if got := a.links(&inc); !strings.Contains(got[2].URL, "var-comm=cafe") {
		t.Errorf("links are %+v", got)
	}
	if got := a.jobLinks(identity.Job{ID: "a&b"}); len(got) != 1 || !strings.Contains(got[0].URL, "var-job_id=a%26b") {
		t.Errorf("links of a job are %+v", got)
	}
	if u := a.rankURL(identity.Job{ID: "a&b"}, 7); !strings.Contains(u, "/d/culprit-rank?") || !strings.Contains(u, "var-job_id=a%26b") || !strings.Contains(u, "var-rank=7") {
		t.Errorf("the link is %s", u)
	}
	inc.ResolvedAt = nil
	if u := a.links(&inc)[1].URL; !strings.Contains(u, "to=now") {
		t.Errorf("the link is %s", u)
	}
}
