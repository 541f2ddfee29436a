// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
)

// Heard gives, by rank, how long ago Prometheus last got an answer from the rank's exporter. Exporters silent for more than an
// hour are left out.
func (d *Directory) Heard(ctx context.Context, job identity.Job, ranks []int) (map[int]time.Duration, error) {
	text := make([]string, len(ranks))
	for i, r := range ranks {
		text[i] = strconv.Itoa(r)
	}
	processes, err := config.Query(d.cfg.Queries.Processes, job.Selector()+","+selectorOneOf("rank", text))
	if err != nil {
		return nil, err
	}
	// A series ends at the first scrape that fails. The subquery finds that time.
	vector, err := d.vector(ctx, fmt.Sprintf("time() - max by (rank) (max_over_time(timestamp(%s)[1h:15s]))", processes))
	if err != nil {
		return nil, err
	}
	out := make(map[int]time.Duration, len(vector))
	for _, s := range vector {
		if rank, err := strconv.Atoi(string(s.Metric["rank"])); err == nil && s.Value >= 0 {
			out[rank] = time.Duration(float64(s.Value) * float64(time.Second))
		}
	}
	return out, nil
}

// hear looks up when the exporters that do not answer were last heard of. Where Prometheus does not know, the time stays unknown.
func (s *Session) hear(ctx context.Context, nodes []*Node) {
	var ranks []int
	for _, n := range nodes {
		if n.asked && n.err != nil && n.state == nil && len(n.Ranks) > 0 {
			ranks = append(ranks, n.Ranks[0])
		}
	}
	if len(ranks) == 0 || s.prom != nil {
		return
	}
	heard, err := s.g.Directory.Heard(ctx, s.job, ranks)
	if err != nil {
		return // The directory counts and reports the error.
	}
	for _, r := range ranks {
		s.byRank[r].heard = heard[r]
	}
}
