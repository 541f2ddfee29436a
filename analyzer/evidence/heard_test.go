// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestHeard: only for an exporter that does not answer, the directory looks up when it was last heard of.
func TestHeard(t *testing.T) {
	const query = `time() - max by (rank) (max_over_time(timestamp(culprit_nccl_process_info{job_id="job",rank=~"1",job="culprit-exporter"})[1h:15s]))`
	silent := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }
	for _, c := range []struct {
		name   string
		second http.HandlerFunc
		answer model.Vector
		want   time.Duration
		asked  bool
	}{
		{"all answer", serve(stateOf("b", rankProcess(1, "b"))), nil, 0, false},
		{"one does not", silent, model.Vector{{Metric: model.Metric{"rank": "1"}, Value: 12.5}}, 12500 * time.Millisecond, true},
		{"nobody knows", silent, nil, 0, true},
		{"clocks disagree", silent, model.Vector{{Metric: model.Metric{"rank": "1"}, Value: -3}}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRack(t)
			r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"))))
			r.add(t, 1, "b", c.second)
			r.prom.answers[query] = c.answer
			s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask(t.Context(), s.AllNodes())
			i := slices.IndexFunc(s.Evidence().Missing, func(m rca.Missing) bool { return m.What == "exporter" })
			if (i >= 0) != c.asked || i >= 0 && s.Evidence().Missing[i].Heard != c.want {
				t.Errorf("missing is %+v, want one heard of %v ago", s.Evidence().Missing, c.want)
			}
			if got := slices.ContainsFunc(r.prom.asked, func(q string) bool { return strings.HasPrefix(q, "time()") }); got != c.asked {
				t.Errorf("asked: %v, want %v: %q", got, c.asked, r.prom.asked)
			}
		})
	}
}
