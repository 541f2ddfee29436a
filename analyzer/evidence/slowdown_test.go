// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

func TestSlowdown(t *testing.T) {
	cfg := config.Default().Prometheus
	query, err := config.Query(cfg.Queries.Slowdown, `job_id="job"`)
	if err != nil || !strings.Contains(query, `mean_long_baseline{job_id="job",job="",instance=""}[2h]`) {
		t.Fatalf("%s, %v", query, err)
	}
	for name, c := range map[string]struct {
		answer []float64
		want   float64
	}{
		"slower":           {[]float64{1.4}, 1.4},
		"without a past":   {nil, 0},
		"from nothing":     {[]float64{math.Inf(1)}, 0},
		"nothing measured": {[]float64{math.NaN()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var v model.Vector
			for _, x := range c.answer {
				s := series()
				s.Value = model.SampleValue(x)
				v = append(v, s)
			}
			d := NewDirectory(&prom{answers: map[string]model.Value{query: v}}, cfg, func(error) {}, clock.System)
			if got, err := d.Slowdown(t.Context(), identity.Job{ID: "job"}); err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}
