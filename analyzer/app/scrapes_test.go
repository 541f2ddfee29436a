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

	"github.com/culprit-project/culprit/analyzer/evidence"
)

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
		{"VictoriaMetrics' vmselect", 400, `unsupported path`, nil, true, false},
		{"a gateway", 501, ``, nil, true, false},
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
			list, err := scrapes{client: client}.Targets(t.Context())
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
