// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/ras"
)

func TestRAS(t *testing.T) {
	report, err := ras.Parse([]byte(`{"communicators": [
		{"hash": "0xab", "size": 3, "ranks": [
			{"rank": 0, "status": {"async_error": 5}, "collective_counts": {"AllReduce": 9}},
			{"rank": 1, "collective_counts": {"AllReduce": 5}}],
		 "missing_ranks": [{"rank": 2, "status": {"unresponsive": true, "considered_dead": true}}]},
		{"hash": "0xab", "size": 3}, {"hash": "0xcd", "size": 1}], "ras": {"collection_time_sec": 0.25}}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	asked <- nil
	c := NewRAS(func(context.Context) (*ras.Report, error) {
		select {
		case err := <-asked:
			return report, err
		default:
			cancel()
			return nil, errors.New("no more")
		}
	}, time.Millisecond, promslog.NewNopLogger())
	expect(t, c, "")
	c.Run(ctx)
	c.at = time.Unix(77, 0)
	expect(t, c, `
nccl_ras_async_error_ranks comm=ab = 1
nccl_ras_async_error_ranks comm=cd = 0
nccl_ras_collection_seconds = 0.25
nccl_ras_dead_ranks comm=ab = 1
nccl_ras_dead_ranks comm=cd = 0
nccl_ras_launch_lag comm=ab = 4
nccl_ras_launch_lag comm=cd = 0
nccl_ras_missing_ranks comm=ab = 1
nccl_ras_missing_ranks comm=cd = 0
nccl_ras_report_timestamp_seconds = 77
nccl_ras_up = 1
`)
}

func TestRASDown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	c := NewRAS(func(context.Context) (*ras.Report, error) {
		if n++; n == 2 {
			cancel()
		}
		return nil, errors.New("refused")
	}, time.Millisecond, promslog.NewNopLogger())
	c.Run(ctx)
	expect(t, c, "nccl_ras_up = 0")
}
