// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// exporters answers for the exporters of a job.
type exporters struct {
	asked []int
	err   error
}

func (e *exporters) State(_ context.Context, _, job string, ranks []int, _ []string, _ func(int64) bool) (*nodeapi.State, int64, error) {
	e.asked = append(e.asked, ranks...)
	if e.err != nil {
		return nil, 0, e.err
	}
	tp, dp := trace.CommID(1), trace.CommID(2)
	done := func(comm trace.CommID, n int32, fn trace.Func, bytes, enqueued, entered, left uint64) trace.Completion {
		return trace.Completion{CommID: comm, NRanks: n, Func: fn, Bytes: bytes, EnqueuedNS: enqueued, EnteredNS: entered, LeftNS: left}
	}
	p := nodeapi.Process{JobID: job, Rank: int32(ranks[0])}
	p.Comms = []trace.Comm{{ID: tp, Name: "tp_3"}, {ID: dp, Name: "dp_0"}}
	p.Completions = []trace.Completion{
		done(tp, 4, trace.AllReduce, 1e6, 1, 1e6+1, 3e6+1), // 2 ms from when the GPU came to it.
		done(tp, 4, trace.AllReduce, 1e6, 1, 0, 1e6+1),
		done(dp, 8, trace.AllGather, 4e6, 1, 0, 1e7+1),
		done(dp, 8, trace.AllReduce, 2e6, 1, 0, 0),  // Its end was not seen.
		done(dp, 1, trace.AllReduce, 8e6, 1, 0, 10), // With nobody.
	}
	return &nodeapi.State{Processes: []nodeapi.Process{{JobID: "another", Rank: p.Rank}, p}}, 0, nil
}

func (e *exporters) Trace(context.Context, string, string, time.Duration, func(*nodeapi.TraceLine)) (int64, error) {
	return 0, errors.New("nobody asks for it")
}

// Bus bandwidth is told by communicator, function and size where sizes differ, of the rank that waits least.
func TestTransfers(t *testing.T) {
	p, e := training(), &exporters{}
	cfg := config.Default().Prometheus
	s := NewSource(p, cfg, evidence.NewDirectory(p, cfg, func(error) {}, clock.System), Exporters{Nodes: e, BaseURL: func(labels map[string]string) (string, error) { return "http://" + labels["instance"], nil }})
	j, err := s.Get(t.Context(), identity.Job{ID: "train"}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := []Transfer{
		{Comm: "dp", Function: "AllGather", Ranks: 8, Bytes: 4e6, Ops: 1, Seconds: 0.01, Bus: 7 * 4e8},
		{Comm: "tp", Function: "AllReduce", Ranks: 4, Bytes: 1e6, Ops: 2, Seconds: 0.001, Bus: 1.5 * 1e9},
	}
	if !reflect.DeepEqual(j.Transfers, want) || j.TransfersOf != 9 || !slices.Equal(e.asked, []int{9}) {
		t.Errorf("rank %d, asked %v: %+v", j.TransfersOf, e.asked, j.Transfers)
	}
	e.err = errors.New("connection refused")
	if j, err := s.Get(t.Context(), identity.Job{ID: "train"}, now.Add(time.Minute)); err != nil || len(j.Transfers) > 0 || !strings.Contains(strings.Join(j.Missing, " "), "connection refused") {
		t.Errorf("%+v, %v", j, err)
	}
}
