// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// TestJobPage: every query of the page of a job has an answer from a real Prometheus under the shipped rules, and no incident is needed.
func TestJobPage(t *testing.T) {
	t.Parallel()
	j := startJob(t, stack.JobConfig{ID: "jobpage"})
	j.train(t, healthySteps)
	ctx := waiting(t)
	get := func(path string) string {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cluster.AnalyzerURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	wanted := []string{
		"8 of 8 ranks watched, on 4 hosts.", "pipeline parallel 2 × data parallel 2 × tensor parallel 2", "an iteration, by the sends", "<h2>Who comes late</h2>",
		"AllReduce", "<th scope=\"row\">dp</th>", "stage 0 · replica 0",
	}
	link := fmt.Sprintf(`href="job?id=jobpage&amp;owner=%d"`, os.Getuid())
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		page := get("/job?id=jobpage")
		var missing []string
		for _, want := range wanted {
			if !strings.Contains(page, want) {
				missing = append(missing, want)
			}
		}
		if strings.Contains(page, "<h2>No answer</h2>") {
			// A Prometheus without a free processor answers later; one that does not accept a query never does.
			if !strings.Contains(page, "deadline exceeded") {
				t.Fatalf("a query has no answer:\n%s", page)
			}
			missing = append(missing, "an answer to each query")
		}
		// Where a scrape fails, Prometheus has no running job at that moment.
		list := get("/jobs?q=jobpage")
		if len(missing) == 0 && strings.Contains(list, link) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%q not on the page, or %s not in the list of jobs:\n%s\n%s", missing, link, page, list)
		case <-tick.C:
		}
	}
}
