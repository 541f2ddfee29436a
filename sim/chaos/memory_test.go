// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// sizes are the services' resident memory over time.
type sizes struct {
	s    *stack.Stack
	seen []map[string]int // MiB of the largest process of each kind, one look after the other.
}

// watch looks every few seconds until ctx ends.
func (z *sizes) watch(ctx context.Context) {
	for ctx.Err() == nil {
		now := map[string]int{}
		for _, v := range z.s.Services() {
			now[v.Kind] = max(now[v.Kind], resident(v.PID()))
		}
		z.seen = append(z.seen, now)
		sleep(ctx, 5*time.Second)
	}
}

// resident gives a process's resident memory, MiB; 0 where it has ended.
func resident(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}
	return pages * os.Getpagesize() >> 20
}

// flat fails where a kind's largest process of the last third is larger than that of the second third by more than a garbage collector's
// whims.
func (z *sizes) flat(t *testing.T) {
	t.Helper()
	third := len(z.seen) / 3
	if third == 0 {
		t.Errorf("looked %d times: too short a run", len(z.seen))
		return
	}
	before, after := largest(z.seen[third:2*third]), largest(z.seen[2*third:])
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		t.Logf("memory of the largest %s: %d MiB in the second third, %d MiB in the last", kind, before[kind], after[kind])
		if after[kind] > before[kind]+before[kind]/2+32 {
			t.Errorf("the %s grows", kind)
		}
	}
}

func largest(seen []map[string]int) map[string]int {
	out := map[string]int{}
	for _, now := range seen {
		for kind, size := range now {
			out[kind] = max(out[kind], size)
		}
	}
	return out
}
