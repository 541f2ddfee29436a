// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

func BenchmarkHang(b *testing.B) {
	for _, n := range []int{1024, 10240, 102400} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ev, culprit := rcatest.BigHang(n)
			b.ReportAllocs()
			var peak uint64
			for b.Loop() {
				v := Analyze(ev, rca.Options{})
				if len(v.Culprits) != 1 || v.Culprits[0].Rank != culprit {
					b.Fatalf("got %v, want %d: %s", rcatest.CulpritRanks(v), culprit, v.Summary)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.Sys)
			}
			b.ReportMetric(float64(peak)/(1<<20), "MiB-sys")
		})
	}
}

func BenchmarkSlow(b *testing.B) {
	for _, c := range []struct{ dp, pp, tp int }{{16, 8, 8}, {160, 8, 8}} {
		b.Run(fmt.Sprint(c.dp*c.pp*c.tp), func(b *testing.B) {
			j := rcatest.NewSlowJob(c.dp, c.pp, c.tp)
			j.Iters = 6
			j.Compute = rcatest.One(77, 1.5)
			ev := j.Evidence()
			b.ReportAllocs()
			for b.Loop() {
				if v := Analyze(ev, rca.Options{}); len(v.Culprits) != 1 || v.Culprits[0].Rank != 77 {
					b.Fatalf("got %v: %s", rcatest.CulpritRanks(v), v.Summary)
				}
			}
			b.ReportMetric(float64(len(ev.Timeline)), "segments")
		})
	}
}

// BenchmarkSlowAsFetched: of a large slow job the service fetches the histories of at most 40 exporters (diagnose.lookBack), a minute long.
// Budget: 2 s on one core, for the engine.
func BenchmarkSlowAsFetched(b *testing.B) {
	const hosts, perHost, world, slow = 40, 8, 10_240, 77
	j := rcatest.NewSlowJob(16, 8, 8)
	j.Iters = 60
	j.Compute = rcatest.One(slow, 1.5)
	ev := j.Evidence()
	fetched := func(r int) bool { return r/perHost < hosts }
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return !fetched(s.Rank) })
	ev.Ranks = slices.DeleteFunc(ev.Ranks, func(r rca.Rank) bool { return !fetched(r.ID) })
	ev.WorldSize, ev.Partial = world, true
	b.ReportAllocs()
	for b.Loop() {
		if v := Analyze(ev, rca.Options{}); len(v.Culprits) != 1 || v.Culprits[0].Rank != slow {
			b.Fatalf("got %v: %s", rcatest.CulpritRanks(v), v.Summary)
		}
	}
	b.ReportMetric(float64(len(ev.Timeline)), "segments")
}
