// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
)

// Trend is how a job did over some time.
type Trend struct {
	Unit   Unit
	Points []Point // Oldest first.
}

// Unit is what a trend counts.
type Unit string

// Units of trends.
const (
	PerSecond Unit = "operations a second"  // Completed by a rank, on average: they fall to none when the job stands still.
	Iteration Unit = "seconds an iteration" // They rise when the job gets slow.
)

// Point is one sample of a trend.
type Point struct {
	At    time.Time
	Value float64
}

// trendTimeout is for how long the page of an incident waits for its graph: the page matters more.
const trendTimeout = time.Second

// recorded are the series of the shipped rules that trends are made of, by unit.
var recorded = map[Unit]string{PerSecond: "job_id:culprit_nccl_function_ops:rate_short", Iteration: "job_id:culprit_nccl_iteration_seconds:mean_short"}

// Trend gives how a job did between two times, from what the rules recorded. A selector of a range answers with its samples, in any server
// with Prometheus's query API.
func (s *Source) Trend(ctx context.Context, id identity.Job, unit Unit, from, to time.Time) (*Trend, error) {
	if s.query == nil {
		return nil, errors.New("no Prometheus is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, trendTimeout)
	defer cancel()
	query := strings.Join([]string{recorded[unit], "{", ofWhole(id.Selector(), s.cfg.RecordedSelector), "}[", model.Duration(to.Sub(from).Round(time.Second)).String(), "]"}, "")
	value, _, _, err := s.query.Query(ctx, query, to)
	if err != nil {
		return nil, fmt.Errorf("querying Prometheus for %s: %w", query, err)
	}
	m, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("querying Prometheus for %s: the answer is a %T, want a matrix", query, value)
	}
	out := &Trend{Unit: unit}
	if len(m) == 0 || m[0] == nil {
		return out, nil
	}
	for _, p := range m[0].Values {
		if v := float64(p.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
			out.Points = append(out.Points, Point{p.Timestamp.Time(), v})
		}
	}
	return out, nil
}
