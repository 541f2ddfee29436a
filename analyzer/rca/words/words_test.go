// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-1, "unknown time"},
		{0, "0 s"},
		{time.Microsecond, "1 ms"},
		{22 * time.Millisecond, "22 ms"},
		{99600 * time.Microsecond, "100 ms"},
		{100 * time.Millisecond, "0.1 s"},
		{1250 * time.Millisecond, "1.3 s"},
		{45 * time.Second, "45 s"},
		{5 * time.Minute, "5 min"},
		{3 * time.Hour, "3.0 h"},
	} {
		if got := Span(c.d); got != c.want {
			t.Errorf("%v: %q, want %q", c.d, got, c.want)
		}
	}
}
