// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

func stall(from, to time.Duration) cluster.Stall {
	s := cluster.Stall{From: cluster.At(from), To: cluster.Never}
	if to > 0 {
		s.To = cluster.At(to)
	}
	return s
}

func TestStallFires(t *testing.T) {
	const warm, learned, end = 10 * time.Second, 40 * time.Second, 100 * time.Second
	for _, c := range []struct {
		name   string
		stalls []cluster.Stall
		want   time.Duration // 0: never.
	}{
		{"nothing stands", nil, 0},
		// Scrapes at 11.67 s and every 5 s; the floor is 3 s; the next evaluation and a second of grouping follow.
		{"for good", []cluster.Stall{stall(42*time.Second, 0)}, 51 * time.Second},
		{"shorter than the floor", []cluster.Stall{stall(42*time.Second, 44*time.Second)}, 0},
		// Waits of 8 s are usual here: the threshold is twice that.
		{"as usual", []cluster.Stall{stall(20*time.Second, 28*time.Second), stall(50*time.Second, 58*time.Second)}, 0},
		{"longer than usual", []cluster.Stall{stall(20*time.Second, 28*time.Second), stall(50*time.Second, 0)}, 71 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, ok := usual.firesAt(c.stalls, warm, learned, end)
			if ok != (c.want > 0) || at != c.want {
				t.Errorf("fires at %v, %v, want %v", at, ok, c.want)
			}
		})
	}
}

func TestSlowFires(t *testing.T) {
	const warm, learned, end = 10 * time.Second, 40 * time.Second, 100 * time.Second
	run := func(after time.Duration) []cluster.Time {
		var ends []cluster.Time
		for at := 10 * time.Second; at <= end; {
			ends = append(ends, cluster.At(at))
			if at < learned {
				at += 2 * time.Second
			} else {
				at += after
			}
		}
		return ends
	}
	for _, c := range []struct {
		name  string
		after time.Duration
		fires bool
	}{{"no change", 2 * time.Second, false}, {"5% slower", 2100 * time.Millisecond, false}, {"20% slower", 2400 * time.Millisecond, true}} {
		t.Run(c.name, func(t *testing.T) {
			at, ok := usual.slowAt(run(c.after), warm, learned, end)
			if ok != c.fires {
				t.Fatalf("fires: %v at %v, want %v", ok, at, c.fires)
			}
			if ok && (at <= learned+usual.eval || at > learned+30*time.Second) {
				t.Errorf("told at %v, that is two evaluations in a row after %v", at, learned)
			}
		})
	}
}
