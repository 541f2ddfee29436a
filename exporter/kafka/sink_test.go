// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// TestBackPressureNeverReachesTheJob has a broker that takes requests and never answers: whoever sends goes on at once, memory
// is bounded, and each record is counted as dropped or failed.
func TestBackPressureNeverReachesTheJob(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(1, "traces"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	stuck := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		<-stuck
		return nil, errors.New("the broker is stuck"), true
	})
	sink, err := New(Options{Brokers: cluster.ListenAddrs(), Topic: "traces", Node: "node-1"}, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	const records = 3 * maxBuffered
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p := &nodeapi.Process{JobID: "llm", Rank: 1}
		for n := range uint64(records) {
			sink.Send(p, &nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{Completion: trace.Completion{Number: n}}})
		}
	}()
	select {
	case <-sent: // While the broker holds every request.
	case <-time.After(time.Minute):
		t.Fatal("a sender waits for the broker")
	}
	if n := sink.client.BufferedProduceRecords(); n > maxBuffered {
		t.Errorf("%d records are buffered", n)
	}
	// Drops are told of a moment later.
	for deadline := time.Now().Add(time.Minute); sink.dropped.Load() < records-maxBuffered; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d records counted as dropped, want %d", sink.dropped.Load(), records-maxBuffered)
		}
	}
	close(stuck)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sink.Close(ctx); err == nil {
		t.Error("everything was sent")
	}
	for deadline := time.Now().Add(time.Minute); sink.dropped.Load()+sink.failed.Load()+sink.sent.Load() != records; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d dropped, %d failed, %d sent of %d", sink.dropped.Load(), sink.failed.Load(), sink.sent.Load(), records)
		}
	}
}
