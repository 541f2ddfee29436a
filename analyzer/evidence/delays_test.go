// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

func TestUsualDelays(t *testing.T) {
	const query = `max by (rank) (avg_over_time(culprit_host_thread_run_delay_ratio{job_id="job",job="culprit-exporter",role="proxy"}[5m] offset 3m)) > 0.1`
	sample := func(rank string, share float64) *model.Sample {
		s := series("rank", rank)
		s.Value = model.SampleValue(share)
		return s
	}
	p := &prom{answers: map[string]model.Value{query: model.Vector{sample("5", 0.4), sample("x", 0.5), sample("6", 7)}}}
	d := NewDirectory(p, config.Default().Prometheus, func(error) {}, clock.System)
	got, err := d.UsualDelays(t.Context(), identity.Job{ID: "job"}, 3*time.Minute)
	if want := map[int]float64{5: 0.4}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v; asked %v", got, err, want, p.asked)
	}
}
