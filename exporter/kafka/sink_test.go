// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

func TestSink(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(3, "traces"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	sink, err := New(Options{Brokers: cluster.ListenAddrs(), Topic: "traces", Node: "node-1"}, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	const each = 20
	for n := range uint64(each) {
		for rank := range int32(2) {
			p := &nodeapi.Process{JobID: "llm", Rank: rank, Host: "node-1"}
			sink.Send(p, &nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: "f", Completion: trace.Completion{Number: n}}})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := sink.Close(ctx); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(sink)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if n := sink.sent.Load(); n != 2*each {
		t.Errorf("%d records sent", n)
	}

	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("traces"))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	next := map[int32]uint64{}
	for next[0]+next[1] < 2*each {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var got nodeapi.Streamed
			if err := json.Unmarshal(r.Value, &got); err != nil {
				t.Fatal(err)
			}
			if got.Node != "node-1" || got.JobID != "llm" || got.Completion == nil || got.Completion.Number != next[got.Rank] {
				t.Errorf("record %s after %v", r.Value, next)
			}
			next[got.Rank]++
		})
	}
}

func TestSinkNeverWaits(t *testing.T) {
	sink, err := New(Options{Brokers: []string{"127.0.0.1:1"}, Topic: "traces"}, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	p := &nodeapi.Process{JobID: "llm"}
	line := &nodeapi.TraceLine{Lifecycle: &nodeapi.ProcessLifecycleEvent{}}
	for range maxBuffered + 500 {
		sink.Send(p, line)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sink.Close(ctx); err == nil {
		t.Error("everything sent to nobody")
	}
	// The last records are told of after the client has closed.
	for deadline := time.Now().Add(time.Minute); sink.dropped.Load()+sink.failed.Load() != maxBuffered+500; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d dropped, %d failed of %d", sink.dropped.Load(), sink.failed.Load(), maxBuffered+500)
		}
	}
	if n := sink.dropped.Load(); n < 500 {
		t.Errorf("%d dropped", n)
	}
}
