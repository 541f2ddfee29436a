// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	promapi "github.com/prometheus/client_golang/api"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/fetch"
)

// Mimir tells no targets, and is not asked where those are named that scrape for it. What one of them tells counts when another does not answer.
func TestScrapers(t *testing.T) {
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	mimir := answer(404, `404 page not found`)
	agent := func(instance string) string {
		return answer(200, `{"status":"success","data":{"activeTargets":[{"labels":{"instance":"`+instance+`","job":"culprit-exporter"}}]}}`)
	}
	cfg := config.Default()
	cfg.Prometheus.URL = mimir
	for _, u := range []string{agent("a:9850"), answer(503, ``), agent("b:9850")} {
		cfg.Prometheus.Scrapers = append(cfg.Prometheus.Scrapers, config.Scraper{URL: u, HTTPConfig: cfg.Prometheus.HTTPConfig})
	}
	q, err := (&App{budget: fetch.NewBudget(1 << 20)}).querier(&cfg.Prometheus)
	if err != nil {
		t.Fatal(err)
	}
	list, err := q.(evidence.Lister).Targets(t.Context())
	if err == nil || errors.Is(err, evidence.ErrUntold) || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// What servers with Prometheus's API answer when they are asked for their targets.
func TestTargets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   []string // Instances.
		untold bool
		failed bool
	}{
		{"Prometheus", 200, `{"status":"success","data":{"activeTargets":[{"discoveredLabels":{"__address__":"x"},"labels":{"instance":"a:9850","job":"culprit-exporter"},"health":"down"},{"labels":{"instance":"b"}}],"droppedTargets":[]}}`, []string{"a:9850", "b"}, false, false},
		{"none", 200, `{"status":"success","data":{"activeTargets":[],"droppedTargetCounts":{}}}`, nil, false, false},
		{"an answer to something else", 200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, nil, false, false},
		{"nulls", 200, `{"data":{"activeTargets":[null,{"labels":null}]}}`, []string{"", ""}, false, false},
		{"Mimir", 404, `404 page not found`, nil, true, false},
		{"VictoriaMetrics' vmselect", 400, `unsupported path requested: "/select/0/prometheus/api/v1/targets"`, nil, true, false},
		{"VictoriaMetrics, which scrapes nothing", 200, `{"status":"success","data":{"activeTargets":[],"droppedTargets":[]}}`, nil, false, false},
		{"vmagent", 200, `{"status":"success","data":{"activeTargets":[{"discoveredLabels":{"__address__":"a:9850","__metrics_path__":"/metrics"},"labels":{"instance":"a:9850","job":"culprit-exporter"},"scrapePool":"culprit-exporter","scrapeUrl":"http://a:9850/metrics","lastError":"","lastScrape":"2026-11-28T22:00:00Z","lastScrapeDuration":0.004,"lastSamplesScraped":412,"health":"up"}],"droppedTargets":[]}}`, []string{"a:9850"}, false, false},
		{"a gateway", 501, ``, nil, true, false},
		{"a gateway that lets nobody ask", 403, ``, nil, true, false},
		{"a gateway that was asked too often", 429, ``, nil, false, true},
		{"an overloaded Prometheus", 503, `{}`, nil, false, true},
		{"no JSON", 200, `<html>`, nil, false, true},
		{"other types", 200, `{"data":{"activeTargets":{"labels":1}}}`, nil, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/prometheus/api/v1/targets" || r.URL.RawQuery != "state=active" {
					t.Errorf("asked %s", r.URL)
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(server.Close)
			client, err := promapi.NewClient(promapi.Config{Address: server.URL + "/prometheus"})
			if err != nil {
				t.Fatal(err)
			}
			list, err := scrapes{scrapers: []promapi.Client{client}}.Targets(t.Context())
			if errors.Is(err, evidence.ErrUntold) != tc.untold || (err != nil) != (tc.untold || tc.failed) {
				t.Errorf("error %v", err)
			}
			var got []string
			for _, labels := range list {
				got = append(got, labels["instance"])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
