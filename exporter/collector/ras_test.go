// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/ras"
	"github.com/culprit-project/culprit/trace/nodeapi"
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
	}, time.Millisecond, fakeRanks{{Rank: 0}}, promslog.NewNopLogger())
	expect(t, c, "")
	c.Run(ctx)
	c.at = time.Unix(77, 0)
	expect(t, c, `
culprit_nccl_ras_async_error_ranks comm=ab = 1
culprit_nccl_ras_async_error_ranks comm=cd = 0
culprit_nccl_ras_collection_seconds = 0.25
culprit_nccl_ras_dead_ranks comm=ab = 1
culprit_nccl_ras_dead_ranks comm=cd = 0
culprit_nccl_ras_launch_lag comm=ab = 4
culprit_nccl_ras_launch_lag comm=cd = 0
culprit_nccl_ras_missing_ranks comm=ab = 1
culprit_nccl_ras_missing_ranks comm=cd = 0
culprit_nccl_ras_report_timestamp_seconds = 77
culprit_nccl_ras_up = 1
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
	}, time.Millisecond, fakeRanks{{Rank: 0}}, promslog.NewNopLogger())
	c.Run(ctx)
	expect(t, c, "culprit_nccl_ras_up = 0")
}

// TestRASIsAskedOncePerJob has nodes without a job's rank 0 leave the asking to the one that has it.
func TestRASIsAskedOncePerJob(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ranks fakeRanks
		want  bool
	}{
		{"no job", nil, false}, {"other ranks", fakeRanks{{Rank: 8}, {Rank: 9}, {Rank: -1}}, false}, {"rank 0", fakeRanks{{Rank: 1}, {Rank: 0}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			asked := false
			c := NewRAS(func(context.Context) (*ras.Report, error) { asked = true; cancel(); return nil, nil }, time.Millisecond, tt.ranks, promslog.NewNopLogger())
			c.Run(ctx)
			if asked != tt.want {
				t.Errorf("asked: %v", asked)
			}
			expect(t, c, "")
		})
	}
}

func parse(t *testing.T, text string) *ras.Report {
	t.Helper()
	r, err := ras.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRASFacts has two reports of a job whose ranks 0 and 1 run here: rank 1 has launched nothing since the first one,
// rank 2, elsewhere, is dead, rank 3 does not answer, and rank 4 has an error.
func TestRASFacts(t *testing.T) {
	const missing = `"missing_ranks": [
		{"rank": 2, "host": "n2", "pid": 22, "status": {"unresponsive": true, "considered_dead": true}},
		{"rank": 3, "host": "n2", "pid": 23, "status": {"unresponsive": true, "considered_dead": false}}]`
	first := parse(t, `{"communicators": [{"hash": "0xab", "size": 6, "ranks": [
		{"rank": 0, "collective_counts": {"AllReduce": 5}}, {"rank": 1, "collective_counts": {"AllReduce": 5}},
		{"rank": 4, "collective_counts": {"AllReduce": 5}}, {"rank": 5, "collective_counts": {"AllReduce": 4}}], `+missing+`}]}`)
	second := parse(t, `{"communicators": [
		{"hash": "0xab", "size": 6, "ranks": [
			{"rank": 0, "host": "n1", "pid": 10, "collective_counts": {"AllReduce": 9}}, {"rank": 1, "host": "n1", "pid": 11, "collective_counts": {"AllReduce": 5}},
			{"rank": 4, "host": "n3", "pid": 24, "status": {"async_error": 5}, "collective_counts": {"AllReduce": 9}},
			{"rank": 5, "host": "n3", "pid": 25, "collective_counts": {"AllReduce": 8}}], `+missing+`},
		{"hash": "0xcd", "size": 2, "ranks": [{"rank": 0, "collective_counts": {}}], "missing_ranks": [
			{"rank": 1, "host": "n2", "pid": 22, "status": {"considered_dead": true}}]},
		{"hash": "what?", "size": 1, "missing_ranks": [{"rank": 0, "host": "n9", "pid": 1}]}]}`)
	ranks := fakeRanks{
		{Rank: 0, World: 6, Comms: []node.CommRef{{ID: 0xab, Rank: 0, NRanks: 6}, {ID: 0xcd, Rank: 0, NRanks: 2}}},
		{Rank: 1, World: 6, Comms: []node.CommRef{{ID: 0xab, Rank: 1, NRanks: 6}}},
	}
	c := NewRAS(nil, time.Minute, ranks, promslog.NewNopLogger())
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	fact := func(kind string, rank int32, value float64) nodeapi.Fact {
		return nodeapi.Fact{Component: "process", Kind: kind, Value: value, Rank: rank, AgeSeconds: 10}
	}
	facts(t, c.Facts())
	c.note(first, nil)
	now = now.Add(10 * time.Second)
	facts(t, c.Facts(), fact("ras_dead", 2, 1), fact("ras_unresponsive", 3, 1)) // Who lags is not known yet.
	c.note(second, nil)
	now = now.Add(10 * time.Second)
	facts(t, c.Facts(),
		fact("ras_dead", 2, 1), fact("ras_unresponsive", 3, 1), fact("ras_async_error", 4, 5), fact("ras_lagging", 1, 4),
		fact("ras_dead", -1, 1), // Of a communicator that is not the whole job, and not here.
		fact("ras_missing", -1, 1),
	)
	now = now.Add(time.Hour)
	facts(t, c.Facts()) // Too old to say anything.
	c.note(nil, errors.New("refused"))
	facts(t, c.Facts())
}
