// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// bigHang is a job of n ranks (tp 8, pp 8, the rest dp) that is held up by one rank that did not call: its tensor group waits for
// it, the data-parallel groups of its stage wait for that group's ranks, and the other stages wait for its stage.
func bigHang(n int) (rca.Evidence, int) {
	const tp, pp = 8, 8
	dp := n / tp / pp
	at := func(p, d, t int) int { return (p*dp+d)*tp + t }
	cp, cd := pp/2, dp/3
	culprit := at(cp, cd, 5)
	ev := rca.Evidence{JobID: "big", WorldSize: n, Ranks: make([]rca.Rank, n)}
	for r := range n {
		ev.Ranks[r] = rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r/8), GPU: fmt.Sprint(r % 8), State: rca.ProcessRunning, Caps: rcatest.AllCaps, ReadBytesPerSec: -1, WriteBytesPerSec: 0, CPUCores: 1}
	}
	// missing is the member that did not enter; -1: no member entered; -2: the members of the stage did not.
	add := func(name string, members []int, missing int) {
		ev.Comms = append(ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
		ring := brokenRing(len(members), max(missing, 0))
		for i, r := range members {
			m := rca.Membership{Comm: rca.CommID(name), CommRank: i, Called: 1000, Started: 1000, Completed: 1000, SinceCalled: 9 * time.Second, SinceCompleted: 9 * time.Second}
			if missing == -2 && r/(dp*tp) != cp || missing >= 0 && i != missing {
				o := rca.Op{
					Number: 1000, Seq: 1000, Func: "AllReduce", Peer: -1, Root: -1, Bytes: 1 << 20, Datatype: "bfloat16", Algo: "ring", State: rca.OpMoving,
					Age: 7 * time.Second, Stuck: 6 * time.Second, Channels: 8, KernelStarted: 8,
				}
				for ch := 0; ch < 8 && missing >= 0; ch++ {
					for _, f := range ring[i] {
						f.Channel = ch
						o.Flows = append(o.Flows, f)
					}
				}
				m.Called, m.Started, m.InFlight = 1001, 1001, []rca.Op{o}
			}
			ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, m)
		}
	}
	for p := range pp {
		for t := range tp {
			mem := make([]int, dp)
			for d := range dp {
				mem[d] = at(p, d, t)
			}
			add(fmt.Sprintf("dp_%d", p*tp+t), mem, pick(p == cp, cd, -1))
		}
		for d := range dp {
			mem := make([]int, tp)
			for t := range tp {
				mem[t] = at(p, d, t)
			}
			add(fmt.Sprintf("tp_%d", p*dp+d), mem, pick(p == cp && d == cd, 5, -1))
		}
	}
	world := make([]int, n)
	for r := range n {
		world[r] = r
	}
	add("world", world, -2)
	return ev, culprit
}

// brokenRing gives the flows of a ring in which one member is missing: the members after it starve, and those before it run into
// full windows.
func brokenRing(size, missing int) [][]rca.Flow {
	const window, total = 4, 1000
	out := make([][]rca.Flow, size)
	next := int64(-window) // What the next member has consumed; the missing one posts nothing.
	sent := make([]int64, size)
	ready := make([]int64, size)
	took := make([]int64, size)
	for d := size - 1; d > 0; d-- {
		sent[d] = min(int64(d), next+window)
		ready[d] = min(int64(d), sent[d]+window)
		took[d] = min(int64(d-1), ready[d]-1)
		next = took[d]
	}
	for d := 1; d < size; d++ {
		i := (missing + d) % size
		got := sent[d-1]
		out[i] = []rca.Flow{
			{Send: true, Peer: (i + 1) % size, Total: total, Posted: sent[d] + window, Ready: ready[d], Transmitted: sent[d], Done: sent[d], Stuck: 6 * time.Second, PeerPolls: 9},
			{Peer: (i + size - 1) % size, Total: total, Posted: took[d] + window, Ready: got, Transmitted: got, Done: took[d], Stuck: 6 * time.Second},
		}
	}
	return out
}

func BenchmarkHang(b *testing.B) {
	for _, n := range []int{1024, 10240, 102400} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ev, culprit := bigHang(n)
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
