// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package clock is the time that the service goes by. The program goes by the machine's; the scorecard has the same service
// diagnose simulated jobs, on simulated time.
package clock

import (
	"context"
	"time"
)

// Clock tells the time.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or when the context ends.
	Sleep(ctx context.Context, d time.Duration)
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
