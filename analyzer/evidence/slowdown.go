// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"math"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// Slowdown gives how many times longer a job's iterations take than when it was healthy; 0 unknown.
func (d *Directory) Slowdown(ctx context.Context, job identity.Job) (float64, error) {
	query, err := config.Query(d.cfg.Queries.Slowdown, job.Selector())
	if err != nil {
		return 0, err
	}
	vector, err := d.vector(ctx, query)
	if err != nil || len(vector) == 0 {
		return 0, err
	}
	times := float64(vector[0].Value)
	if !(times > 0) || math.IsInf(times, 0) {
		return 0, nil
	}
	return times, nil
}

// LearnSlowdown looks up how much slower the job is than in its own past.
func (s *Session) LearnSlowdown(ctx context.Context) {
	times, err := s.g.Directory.Slowdown(ctx, s.job)
	s.note(err)
	s.slowdown = times
}
