// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"testing"
	"time"
)

func TestTicker(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const period = 5 * time.Millisecond
	start := time.Now()
	tick, err := newTicker(period)
	if err != nil {
		t.Fatal(err)
	}
	tick.closeWith(ctx)
	for range 4 {
		if err := tick.wait(); err != nil {
			t.Fatal(err)
		}
	}
	if passed := time.Since(start); passed < 4*period {
		t.Errorf("four ticks took %v", passed)
	}
	// Whoever waits is let go when the context ends, and nobody can wait any more.
	slow, err := newTicker(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	slow.closeWith(ctx)
	ended := make(chan error, 1)
	go func() { ended <- slow.wait() }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("ticked although the context has ended")
	}
	if err := slow.wait(); err == nil {
		t.Error("ticked after its end")
	}
}
