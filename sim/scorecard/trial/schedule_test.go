// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

func TestRoomHoldsWhatFits(t *testing.T) {
	for _, c := range []struct {
		name string
		res  Resources
		need []int64 // Taken one after the other.
		fit  int     // How many of them at the same time.
	}{
		{"workers", Resources{Workers: 2}, []int64{1 << 40, 1 << 40, 1}, 2},
		{"memory", Resources{Workers: 4, Memory: 16}, []int64{7, 7, 7}, 2},
		{"alone", Resources{Workers: 4, Memory: 16}, []int64{40, 1}, 1},
		{"nothing larger beside it", Resources{Workers: 4, Memory: 16}, []int64{1, 40}, 1},
		{"no workers are one", Resources{}, []int64{1, 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := newRoom(ctx, c.res)
			for i, n := range c.need[:c.fit] {
				if !r.take(ctx, n) {
					t.Fatalf("no room for the %d-th", i+1)
				}
			}
			got := make(chan bool)
			next := c.need[c.fit]
			go func() { got <- r.take(ctx, next) }()
			for _, n := range c.need[:c.fit] {
				r.give(n)
			}
			if !<-got {
				t.Error("no room when all is free")
			}
			go func() { got <- r.take(ctx, 1<<50) }()
			go func() { got <- r.take(ctx, 1<<50) }()
			cancel()
			if a, b := <-got, <-got; a && b {
				t.Error("room for two where there is one, or none")
			}
		})
	}
}

// A worker that takes more than fits waits, until what was taken before is given back.
func TestRoomWaits(t *testing.T) {
	r := newRoom(t.Context(), Resources{Workers: 3, Memory: 10})
	r.take(t.Context(), 6)
	done, ended := make(chan bool, 1), context.Background()
	ended, cancel := context.WithCancel(ended)
	cancel()
	if r.take(ended, 6) {
		t.Fatal("room for 12 of 10")
	}
	go func() { done <- r.take(t.Context(), 6) }()
	select {
	case <-done:
		t.Fatal("room for 12 of 10")
	default:
	}
	r.give(6)
	if !<-done {
		t.Error("no room for 6 of 10")
	}
}

func TestSmallJobsRunFirst(t *testing.T) {
	cases := []matrix.Case{{Ranks: 512, Seed: 1}, {Ranks: 512, Seed: 2}, {Ranks: 8, Seed: 2}, {Ranks: 512, Seed: 1}, {Ranks: 8, Seed: 1}}
	if got := bySize(cases); !slices.Equal(got, []int{4, 2, 0, 3, 1}) {
		t.Errorf("order %v", got)
	}
}
