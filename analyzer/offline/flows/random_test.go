// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRandomRings: rings of any size, buffer, interval and noise, with a fault or none. Nobody innocent is ever named. FLOWS_RINGS sets how
// many.
func TestRandomRings(t *testing.T) {
	runs := 30
	if testing.Short() {
		runs = 8
	}
	if n, err := strconv.Atoi(os.Getenv("FLOWS_RINGS")); err == nil {
		runs = n
	}
	seeds := []int{94, 309, 344, 352, 373} // Innocents were named here before clocks and ends were told apart.
	for seed := range runs {
		seeds = append(seeds, seed)
	}
	named, wrong := map[string]int{}, 0
	for _, seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		g, kind, guilty := randomRing(rnd)
		v, _, _ := Analyze([]*Recording{g.read(t)})
		key := kind + " " + string(v.Class)
		named[key]++
		for _, c := range v.Culprits {
			a, b, link := strings.Cut(strings.TrimPrefix(c.Group, "link "), "->")
			me := strconv.Itoa(guilty)
			if kind == "none" || kind == "killed" || !link && c.Rank != guilty || link && a != me && b != me {
				t.Errorf("seed %d: %s of %d in %d: %s %+v: %s", seed, kind, guilty, g.ranks, v.Class, v.Culprits, v.Summary)
				wrong++
			}
		}
		if v.Class == "healthy" && kind != "none" && kind != "killed" && kind != "late" && kind != "slow" {
			t.Errorf("seed %d: %s of %d in %d: healthy", seed, kind, guilty, g.ranks)
		}
	}
	t.Log(named, wrong)
}

func randomRing(rnd *rand.Rand) (g *ring, kind string, guilty int) {
	g = newRing(2 + rnd.IntN(9))
	g.ops = 6 + rnd.IntN(8)
	g.chunk = 1 + rnd.IntN(4)
	g.window = g.chunk + 1 + rnd.IntN(12)
	g.slices = (g.ranks - 1) * 2 * (1 + rnd.IntN(6)) * g.chunk
	g.interval = []float64{10e-6, 32e-6, 100e-6, 1e-3, 2e-3}[rnd.IntN(5)]
	g.slice = []float64{40e-6, 200e-6, 1e-3}[rnd.IntN(3)]
	g.compute = 5e-3 + 50e-3*rnd.Float64()
	g.unposted = rnd.IntN(2) == 0
	g.totals = rnd.IntN(2) == 0
	if g.totals {
		g.header = "time_seconds,rank,peer,bytes_total"
	}
	for r := range g.ranks {
		g.clock[r] = 1e-3 * rnd.Float64()
	}
	uneven := []float64{0, 1e-3, 8e-3}[rnd.IntN(3)]
	noise := make([]float64, 64*g.ranks)
	for i := range noise {
		noise[i] = uneven * rnd.Float64()
	}
	guilty = rnd.IntN(g.ranks)
	me := func(r int) bool { return r == guilty }
	kind = []string{"none", "late", "slow", "absent", "stops", "undelivered", "nic", "killed"}[rnd.IntN(8)]
	extra, op := 20e-3*rnd.Float64(), rnd.IntN(3)
	g.late = func(k, r int) float64 {
		return noise[k*g.ranks+r] + pick(kind == "late" && me(r) && k >= op, extra, 0)
	}
	one := float64(g.slices)*g.slice + g.compute + uneven
	at := one * (3 + float64(g.ops-4)*rnd.Float64())
	switch kind {
	case "none", "late", "slow":
		g.after = 0
		times := 1 + 3*rnd.Float64()
		g.slow = func(r int) float64 { return pick(kind == "slow" && me(r), times, 1) }
	case "absent":
		g.absent = func(k, r int) bool { return me(r) && k >= g.ops-1-op }
	case "stops":
		g.stops[guilty] = at
	case "undelivered":
		g.undelivered[guilty] = at
	case "nic":
		g.stops[guilty], g.undelivered[(guilty+g.ranks-1)%g.ranks] = at, at
	case "killed":
		for r := range g.ranks {
			g.stops[r] = at
		}
	}
	return g, fmt.Sprint(kind), guilty
}
