// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// UsualDelays gives, by rank, the share of time that its proxy threads waited for a CPU this long ago. Ranks that hardly waited
// are left out.
func (d *Directory) UsualDelays(ctx context.Context, job identity.Job, ago time.Duration) (map[int]float64, error) {
	query, err := config.QueryBefore(d.cfg.Queries.RunDelay, job.Selector(), d.RateWindow(ctx), ago)
	if err != nil {
		return nil, err
	}
	vector, err := d.vector(ctx, query)
	if err != nil {
		return nil, err
	}
	delays := map[int]float64{}
	for _, s := range vector {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil && s.Value > 0 && s.Value <= 1 {
			delays[rank] = float64(s.Value)
		}
	}
	return delays, nil
}

// LearnUsualDelays looks up how long threads waited for a CPU before the job became slow, that is, this long ago. A job that
// started later has no past to compare with.
func (s *Session) LearnUsualDelays(ctx context.Context, since time.Duration) {
	ago := since + s.g.Directory.past(ctx)
	if age := s.Age(); age > 0 && age < ago {
		return
	}
	delays, err := s.g.Directory.UsualDelays(ctx, s.job, ago)
	s.note(err)
	s.delays = delays
}
