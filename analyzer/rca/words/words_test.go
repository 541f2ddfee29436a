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

// A summary loses only how long ranks have been waiting, wherever that stands and however it is written.
func TestWithoutWait(t *testing.T) {
	for summary, want := range map[string]string{
		"Rank 5 does not send. 7 ranks have been waiting for it for 5.2 s.":                               "Rank 5 does not send.",
		"Rank 5 does not send. 1 rank has been waiting for it.":                                           "Rank 5 does not send.",
		"Rank 5 died. 10,239 ranks have been waiting for it in AllReduce #9 on dp for 3 min.":             "Rank 5 died.",
		"Rank 5 is away. At least 3 ranks have been waiting for it for 6 s. 10,239 of 10,240 ranks wait.": "Rank 5 is away. 10,239 of 10,240 ranks wait.",
		"7 ranks wait for rank 5, which was not seen.":                                                    "7 ranks wait for rank 5, which was not seen.",
	} {
		if got := WithoutWait(summary); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
