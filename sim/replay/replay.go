// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay writes a simulated run as files: what each node's exporter would have answered at its end, and apart
// from that, sealed, what was wrong.
package replay

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// What is in a recording's directory.
const (
	// NodesDir has NODE.state.json.gz and NODE.trace.jsonl.gz of every node that answers: all that an analysis may read.
	NodesDir = "nodes"
	// MetricsDir has NODE.prom: its metrics in text format.
	MetricsDir = "metrics"
	// SealedFile is the answer. No reader of the analyzer takes it.
	SealedFile = "answer.sealed.json"
)

// Config is what is to be recorded.
type Config struct {
	Workload catalog.Workload
	Faults   []string // As catalog.ParseFault reads them.
	Seed     uint64
	// Until is the moment of the recording, after the start of the job.
	Until time.Duration
	// Span is how far the traces go back; 0: to the start.
	Span time.Duration
}

// Sealed is the content of SealedFile.
type Sealed struct {
	Sealed   string          `json:"sealed"` // Says what this is.
	Workload string          `json:"workload"`
	Ranks    int             `json:"ranks"`
	Seed     uint64          `json:"seed"`
	Until    float64         `json:"until_seconds"`
	Faults   []string        `json:"faults,omitempty"`
	Answer   *cluster.Answer `json:"answer"`
}

const seal = "what was injected into a simulated job: for judging a verdict, not evidence"

// simulation is what the simulator is told.
func (c *Config) simulation() (cluster.Config, error) {
	cfg := cluster.Config{Seed: c.Seed, Hardware: c.Workload.Hardware, Job: c.Workload.Job, Until: c.Until}
	for _, text := range c.Faults {
		f, err := catalog.ParseFault(text)
		if err != nil {
			return cfg, err
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	return cfg, nil
}

// Record simulates the run and writes it into dir, which must not hold a recording yet. The same Config writes the same
// bytes.
func Record(ctx context.Context, log *slog.Logger, cfg Config, dir string) (*Sealed, error) {
	sim, err := cfg.simulation()
	if err != nil {
		return nil, err
	}
	c, err := live.New(log, sim)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, NodesDir)); err == nil {
		return nil, fmt.Errorf("%s holds a recording already", dir)
	}
	for _, d := range []string{NodesDir, MetricsDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("making the directory of a recording: %w", err)
		}
	}
	if err := c.Advance(ctx, cfg.Until); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !n.Answers() {
			continue
		}
		if err := writeNode(n, cfg.Span, dir); err != nil {
			return nil, fmt.Errorf("recording %s: %w", n.Name(), err)
		}
	}
	s := &Sealed{
		Sealed: seal, Workload: cfg.Workload.Name, Ranks: cfg.Workload.Ranks(), Seed: cfg.Seed, Until: cfg.Until.Seconds(),
		Faults: cfg.Faults, Answer: c.Answer(),
	}
	return s, writeFile(filepath.Join(dir, SealedFile), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	})
}

func writeNode(n *live.Node, span time.Duration, dir string) error {
	st, err := n.State()
	if err != nil {
		return err
	}
	base := filepath.Join(dir, NodesDir, n.Name())
	if err := writeFile(base+".state.json.gz", zipped(func(enc *json.Encoder) error { return enc.Encode(st) })); err != nil {
		return err
	}
	if span <= 0 {
		span = time.Duration(1<<62 - 1)
	}
	if err := writeFile(base+".trace.jsonl.gz", zipped(func(enc *json.Encoder) error {
		return n.Trace(span, func(l *nodeapi.TraceLine) error { return enc.Encode(l) })
	})); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, MetricsDir, n.Name()+".prom"), n.WriteMetrics)
}

func zipped(write func(*json.Encoder) error) func(io.Writer) error {
	return func(w io.Writer) error {
		zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(write(json.NewEncoder(zw)), zw.Close())
	}
}

func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating a file of the recording: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// ReadSealed opens the answer of a recording. It is for judges.
func ReadSealed(dir string) (*Sealed, error) {
	data, err := os.ReadFile(filepath.Join(dir, SealedFile))
	if err != nil {
		return nil, fmt.Errorf("opening the sealed answer: %w", err)
	}
	var s Sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading the sealed answer: %w", err)
	}
	if s.Sealed != seal || s.Answer == nil {
		return nil, fmt.Errorf("%s is no sealed answer", filepath.Join(dir, SealedFile))
	}
	return &s, nil
}
