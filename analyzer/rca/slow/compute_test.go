// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestChanceOfUnevenDataAccusesNobody: data-parallel replicas with samples of uneven length are longer than the others now, shorter then; in
// few iterations one of them is longer in the mean, and no machine of it is slow.
func TestChanceOfUnevenDataAccusesNobody(t *testing.T) {
	lengths := []float64{1.3, 1.2, 0.8, 1.25, 0.85, 1.3, 1.1, 0.9, 1.2, 0.8, 1.15, 1.25}
	for _, c := range []struct {
		name    string
		compute func(rank, iter int) float64
		class   rca.Class
	}{
		{"longer or shorter", func(r, it int) float64 { return pick(r >= 4, lengths[it], 1) }, rca.Healthy},
		{"never shorter", func(r, it int) float64 { return pick(r >= 4, max(1, lengths[it]), 1) }, rca.SlowCompute},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := rcatest.NewSlowJob(2, 1, 4)
			j.Compute = c.compute
			if v := verdictOf(j.Evidence(), rca.Options{}); v.Class != c.class {
				t.Errorf("%s %v, want %s: %s", v.Class, rcatest.CulpritRanks(v), c.class, v.Summary)
			}
		})
	}
}

// TestConstantOffendersAreNoRotation: that the slowest rank changes means nothing where those who change places are slow all the time.
func TestConstantOffendersAreNoRotation(t *testing.T) {
	j := rcatest.NewSlowJob(4, 1, 4)
	j.Jitter = 0.01
	j.Compute = func(r, _ int) float64 { return pick(r/4 == 1, 1.7, 1.0) }
	pauses := map[int]int{1: 0, 4: 9, 9: 14} // Rank by iteration.
	j.Host = func(r, it int) time.Duration {
		n, ok := pauses[it]
		return pick(ok && n == r, 350*time.Millisecond, 0)
	}
	ev := j.Evidence()
	a := analysisOf(&ev)
	heavy := a.heavyRanks()
	if heavy == nil || !slices.Equal(slices.Sorted(slices.Values(heavy.nodes)), []int32{4, 5, 6, 7}) {
		t.Fatalf("heavy: %v", heavy)
	}
	every, ok := a.rotating()
	if !ok || every.gain <= heavy.gain {
		t.Fatalf("evening out everybody gains %v, the constant ones alone %v", every.gain, heavy.gain)
	}
	a.beyondPeers = func() *suspects { return &suspects{gain: 1.02 * every.gain / leastScatter} }
	if _, ok := a.rotating(); ok {
		t.Error("rotation, though what is left without the constant ones is no more than a machine's noise")
	}
}
