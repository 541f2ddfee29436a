// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/culprit-project/culprit/analyzer/api"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Jobs of two clusters have the same id: an analyzer that is told its cluster asks for that one's series, takes that one's triggers, and
// says whose verdict it is.
func TestOneOfTwoClusters(t *testing.T) {
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessGone)
	parsed, err := config.Parse([]byte("labels: {match: {cluster: north}}"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := quick(c, am)
	cfg.Labels, cfg.Prometheus.Queries = parsed.Labels, parsed.Prometheus.Queries
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled", "cluster", "south"), trouble("CulpritJobStalled"))
	if list := a.incidents(); len(list) != 0 {
		t.Errorf("another cluster's triggers opened %+v", list)
	}
	a.push(0, trouble("CulpritJobStalled", "cluster", "north"))
	eventually(t, "the page", func() bool { return len(am.verdicts()) == 1 })
	if got := am.verdicts()[0].Labels["cluster"]; got != "north" {
		t.Errorf("the page is of cluster %q", got)
	}
	var metrics string
	a.get("/metrics", &metrics)
	if !strings.Contains(metrics, `culprit_verdict_info{cause="process_gone",class="not_entered",cluster="north",`) {
		t.Errorf("the verdict's series has no cluster:\n%s", metrics)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, query := range c.queries {
		if strings.Contains(query, "culprit_nccl_") && !strings.Contains(query, `,cluster="north"`) {
			t.Errorf("query %s asks for all clusters", query)
		}
	}
}

// Jobs of two clusters have the same id. With both labels as their identity each has its incident, its page and its verdict series.
func TestTwoClusters(t *testing.T) {
	clusters, am := map[string]*cluster{"north": newCluster(t, 2), "south": newCluster(t, 2)}, newAlertmanager(t)
	for name, culprit := range map[string]int{"north": 1, "south": 2} {
		clusters[name].hang(culprit, nodeapi.ProcessGone)
		clusters[name].labels = func(int) map[string]string { return map[string]string{"cluster": name} }
	}
	// One Prometheus has the series of both.
	var mixed atomic.Bool
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, c := range clusters {
			if strings.Contains(r.FormValue("query"), `cluster="`+name+`"`) {
				c.query(w, r)
				return
			}
		}
		mixed.Store(mixed.Load() || strings.Contains(r.FormValue("query"), jobID))
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	t.Cleanup(prometheus.Close)
	cfg := quick(clusters["north"], am)
	parsed, err := config.Parse([]byte("labels: {job: [cluster, job_id]}"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Labels, cfg.Prometheus.JobLabels, cfg.Prometheus.URL = parsed.Labels, parsed.Prometheus.JobLabels, prometheus.URL
	a := start(t, cfg, "")
	a.push(0, trouble("CulpritJobStalled", "cluster", "north"), trouble("CulpritJobStalled", "cluster", "south"))
	eventually(t, "both pages", func() bool { return len(am.verdicts()) == 2 })
	ranks := map[string]string{}
	for _, alert := range am.verdicts() {
		ranks[alert.Labels["cluster"]] = alert.Labels["rank"]
	}
	if want := map[string]string{"north": "1", "south": "2"}; !maps.Equal(ranks, want) {
		t.Errorf("culprits by cluster are %v, want %v", ranks, want)
	}
	if n := len(a.incidents()); n != 2 {
		t.Errorf("there are %d incidents", n)
	}
	var metrics string
	a.get("/metrics", &metrics)
	for _, want := range []string{`cause="process_gone",class="not_entered",cluster="north",`, `cause="process_gone",class="not_entered",cluster="south",`} {
		if !strings.Contains(metrics, "culprit_verdict_info{"+want) {
			t.Errorf("no verdict series with %s:\n%s", want, metrics)
		}
	}
	var list api.IncidentList
	a.get("/api/v1/incidents?cluster=south", &list)
	if len(list.Incidents) != 1 || list.Incidents[0].JobLabels["cluster"] != "south" {
		t.Errorf("incidents of one cluster are %+v", list)
	}
	if mixed.Load() {
		t.Error("a query about the job asks for all clusters")
	}
	changed := config.Default()
	changed.Prometheus.URL = prometheus.URL
	if err := a.app.Apply(changed); err == nil || !strings.Contains(err.Error(), "labels.job") {
		t.Errorf("a changed identity gives %v", err)
	}
}

// Mimir and others take the tenant and a token from headers.
func TestTenantAndToken(t *testing.T) {
	var mu sync.Mutex
	headers := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		headers[r.Header.Get("X-Scope-Orgid")+"|"+r.Header.Get("Authorization")] = true
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	t.Cleanup(server.Close)
	cfg, err := config.Parse([]byte(`prometheus:
  url: ` + server.URL + `/prometheus
  http_config:
    authorization: {credentials: secret}
    http_headers: {X-Scope-OrgID: {values: [training]}}`))
	if err != nil {
		t.Fatal(err)
	}
	start(t, cfg, "")
	eventually(t, "a query", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(headers) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if !headers["training|Bearer secret"] || len(headers) != 1 {
		t.Errorf("headers are %v", headers)
	}
}
