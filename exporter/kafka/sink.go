// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kafka streams everything that the exporter reads to a Kafka topic, for those who want to keep it longer or
// analyse it elsewhere. It is off by default: the analyzer asks for what it needs.
package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// maxBuffered bounds the records that wait for the brokers; more are dropped and counted.
	maxBuffered = 10_000
	// maxBufferedBytes bounds their memory.
	maxBufferedBytes = 16 << 20
	// linger is how long a record waits for others to share its request.
	linger = 500 * time.Millisecond
	// greeting is how long a broker may take to answer at all.
	greeting = 10 * time.Second
)

// Options configure a Sink.
type Options struct {
	Brokers []string
	Topic   string
	TLS     bool
	Config  string // File with tls_config and sasl; empty: neither.
	Node    string // Name of this host.
}

// Sink writes records to a topic, each as JSON (nodeapi.Streamed) under the key of its rank, so that a rank's records
// keep their order. It never waits: what the brokers do not take in time is dropped.
type Sink struct {
	client *kgo.Client
	node   string
	log    *slog.Logger

	sent, failed, dropped atomic.Uint64
	complained            atomic.Bool
}

// New makes a Sink. It connects in the background, and logs when it cannot.
func New(o Options, log *slog.Logger) (*Sink, error) {
	file, err := load(o.Config)
	if err != nil {
		return nil, fmt.Errorf("reading --kafka.config.file: %w", err)
	}
	secure, err := file.options(o.TLS)
	if err != nil {
		return nil, fmt.Errorf("--kafka.config.file=%s: %w", o.Config, err)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.DefaultProduceTopic(o.Topic), kgo.MaxBufferedRecords(maxBuffered),
		kgo.MaxBufferedBytes(maxBufferedBytes), kgo.ProducerLinger(linger), kgo.ClientID("culprit-exporter"),
		kgo.RecordDeliveryTimeout(30 * time.Second),
	}
	client, err := kgo.NewClient(append(opts, secure...)...)
	if err != nil {
		return nil, fmt.Errorf("making the Kafka client: %w", err)
	}
	s := &Sink{client: client, node: o.Node, log: log}
	go s.greet(o.Brokers)
	return s, nil
}

// greet says at once that no broker answers, and not when the first job's records are lost.
func (s *Sink) greet(brokers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), greeting)
	defer cancel()
	if err := s.client.Ping(ctx); err != nil && !errors.Is(err, kgo.ErrClientClosed) && !s.complained.Swap(true) {
		s.log.Warn("No Kafka broker answers; records are dropped until one does. Check --kafka.broker and --kafka.config.file.", "brokers", brokers, "err", err)
	}
}

// Send streams one line of a process. The line is encoded before Send returns.
func (s *Sink) Send(p *nodeapi.Process, line *nodeapi.TraceLine) {
	value, err := json.Marshal(nodeapi.Streamed{Node: s.node, JobID: p.JobID, Rank: p.Rank, Host: p.Host, TraceLine: *line})
	if err != nil {
		s.note(err)
		return
	}
	s.client.TryProduce(context.Background(), &kgo.Record{Key: []byte(p.JobID + "/" + strconv.Itoa(int(p.Rank))), Value: value},
		func(_ *kgo.Record, err error) { s.note(err) })
}

// note counts a record's fate. The first of a row of failures is logged.
func (s *Sink) note(err error) {
	switch {
	case err == nil:
		s.sent.Add(1)
		s.complained.Store(false)
		return
	case errors.Is(err, kgo.ErrMaxBuffered):
		s.dropped.Add(1)
	default:
		s.failed.Add(1)
	}
	if !s.complained.Swap(true) {
		s.log.Warn("Streaming to Kafka", "err", err)
	}
}

// Close sends what waits, as far as ctx allows.
func (s *Sink) Close(ctx context.Context) error {
	err := s.client.Flush(ctx)
	s.client.Close()
	if err != nil {
		return fmt.Errorf("sending the last records to Kafka: %w", err)
	}
	return nil
}

var recordsDesc = prometheus.NewDesc("culprit_exporter_kafka_records_total",
	"Records for Kafka, by outcome.", []string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (s *Sink) Describe(ch chan<- *prometheus.Desc) { ch <- recordsDesc }

// Collect implements prometheus.Collector.
func (s *Sink) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]*atomic.Uint64{"ok": &s.sent, "error": &s.failed, "dropped": &s.dropped} {
		ch <- prometheus.MustNewConstMetric(recordsDesc, prometheus.CounterValue, float64(n.Load()), outcome)
	}
}
