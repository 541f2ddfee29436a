// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/catalog"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/live"
)

// BenchmarkSecondOf1024Ranks is what a second of real time costs: the job goes on, and each of 128 nodes is scraped once.
func BenchmarkSecondOf1024Ranks(b *testing.B) {
	w, err := catalog.FindWorkload("gpt-1024")
	if err != nil {
		b.Fatal(err)
	}
	c, err := live.New(slog.New(slog.DiscardHandler), cluster.Config{Seed: 1, Until: time.Hour, Hardware: w.Hardware, Job: w.Job})
	if err != nil {
		b.Fatal(err)
	}
	at := 30 * time.Second
	if err := c.Advance(b.Context(), at); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for range 5 {
			at += 200 * time.Millisecond
			if err := c.Advance(b.Context(), at); err != nil {
				b.Fatal(err)
			}
		}
		for _, n := range c.Nodes() {
			if err := n.WriteMetrics(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	}
}
