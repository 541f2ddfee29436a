// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

var namedRank = regexp.MustCompile(`Rank (\d+) on (\S+)`)

// sentences are what Prometheus's own alerts say of a rank, without any analyzer.
var sentences = map[string]string{
	"kill":           "exited without orderly shutdown",
	"stop":           "is stopped",
	"op-not-entered": "has not entered an operation that its peers in communicator",
	"link-stall":     "that the network has not delivered",
}

// triggersName: without any analyzer, Prometheus's own alerts say which rank is dead, stopped or missing, or whose data does not arrive, and
// name no other.
func triggersName(t *testing.T, j *job, rank int) {
	t.Helper()
	sentence, said := sentences[j.Config.Fault]
	if !said {
		return
	}
	client, err := promapi.NewClient(promapi.Config{Address: j.on.PrometheusURL()})
	if err != nil {
		t.Fatal(err)
	}
	text := waitNames(waiting(t), t, v1.NewAPI(client), j.Config.ID, sentence)
	for _, m := range namedRank.FindAllStringSubmatch(text, -1) {
		if want := []string{fmt.Sprint(rank), j.on.HostName(j.HostOfRank(rank))}; !slices.Equal(m[1:], want) {
			t.Errorf("%q names rank %s on %s, want rank %s on %s", text, m[1], m[2], want[0], want[1])
		}
	}
}

// waitNames gives the description of the first alert about a job that has a sentence.
func waitNames(ctx context.Context, t *testing.T, prometheus v1.API, job, sentence string) string {
	t.Helper()
	last := ""
	for {
		result, err := prometheus.Alerts(ctx)
		if err == nil {
			for _, a := range result.Alerts {
				if string(a.Labels["job_id"]) != job || a.Labels["culprit"] != "trigger" {
					continue
				}
				if last = string(a.Annotations["description"]); strings.Contains(last, sentence) {
					return last
				}
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no alert about %s says %q; the last one: %q, %v", job, sentence, last, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
