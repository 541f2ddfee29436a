// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestH2IterationMonitor(t *testing.T) {
	for _, c := range []struct {
		name    string
		lengths []float64
		want    []int
	}{
		{"regular", []float64{10, 10.5, 9.8, 10.2, 10.9}, nil},
		{"just over 1.1 of the mean", []float64{10, 10, 10, 11.01, 11, 10}, []int{3}},
		{"an irregular one does not raise the norm", []float64{10, 10, 10, 20, 12, 12}, []int{3, 4, 5}},
		{"too few", []float64{10, 20}, nil},
	} {
		if got := Irregular(c.lengths, 10, 1.1); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestH7ThreeIrregularities(t *testing.T) {
	every := func(from, to, step int) []int {
		var out []int
		for i := from; i < to; i += step {
			out = append(out, i)
		}
		return out
	}
	for _, c := range []struct {
		name string
		at   []int
		n    int
		want Pattern
	}{
		{"regular", nil, 100, Regular},
		{"spikes", []int{40}, 100, Spike},
		{"fluctuation", every(3, 100, 7), 100, Fluctuation},
		{"degradation", every(60, 100, 1), 100, Degradation},
	} {
		if got := Classify(c.at, c.n); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestH3Detector(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	window := func(mid, jitter float64, n int) []float64 {
		var out []float64
		for range n {
			out = append(out, mid*(1+jitter*rng.NormFloat64()))
		}
		return out
	}
	// The paper's example: 0.02 ms to 1 ms is fifty times, 1 s to 3 s is three times. Only the second matters to an iteration of
	// 7 s.
	small := FeaturesOf(1e-3, 9, window(0.02e-3, 0.05, 100))
	large := FeaturesOf(3, 9, window(1, 0.05, 100))
	if small.Abnormal() || !large.Abnormal() {
		t.Errorf("fifty times nothing: %v, three times a second: %v", small.Abnormal(), large.Abnormal())
	}
	if f := FeaturesOf(1.02, 9, window(1, 0.05, 100)); f.Abnormal() {
		t.Error("noise is abnormal")
	}
	if f := FeaturesOf(5, 9, []float64{1, 1}); f.Abnormal() {
		t.Error("two samples tell")
	}
	f := FeaturesOf(10, 100, []float64{1, 2, 3, 4})
	if f.Mean != 2.5 || f.Q1 != 2 || f.Q2 != 3 || f.Q3 != 4 || f.IQR != 2 || math.Abs(f.Std-1.118) > 0.001 || math.Abs(f.Z-6.708) > 0.001 {
		t.Errorf("features %+v", f)
	}
}

// ops is a graph by hand: operators in order per rank.
type ops struct {
	rank     []int
	group    []int // Same number: same collective; -1 send/recv.
	peer     []int
	abnormal []bool
}

func (g *ops) add(rank, group, peer int, abnormal bool) int {
	g.rank, g.group = append(g.rank, rank), append(g.group, group)
	g.peer, g.abnormal = append(g.peer, peer), append(g.abnormal, abnormal)
	return len(g.rank) - 1
}

func (g *ops) Group(op int) (out []int) {
	for i := range g.group {
		if g.group[i] == g.group[op] {
			out = append(out, i)
		}
	}
	return out
}

func (g *ops) Peer(op int) int      { return g.peer[op] }
func (g *ops) P2P(op int) bool      { return g.group[op] < 0 }
func (g *ops) Abnormal(op int) bool { return g.abnormal[op] }
func (g *ops) Before(op int) (out []int) {
	for i := op - 1; i >= 0; i-- {
		if g.rank[i] == g.rank[op] {
			out = append(out, i)
		}
	}
	return out
}

// TestH4BFSFigure12: GPU 3 computes long before operator 3; the other three wait in it.
func TestH4BFSFigure12(t *testing.T) {
	g := &ops{}
	start := -1
	for r := range 4 {
		g.add(r, 1, -1, false)
		g.add(r, 2, -1, false)
		op := g.add(r, 3, -1, r != 3)
		if r == 0 {
			start = op
		}
	}
	found := Search(g, start)
	if len(found) != 1 || found[0].Cause != Compute || g.rank[found[0].Op] != 3 {
		t.Errorf("%+v, want compute on 3", found)
	}
}

func TestH4AllAbnormalIsTheNetwork(t *testing.T) {
	g := &ops{}
	for r := range 4 {
		g.add(r, 1, -1, true)
	}
	if found := Search(g, 0); len(found) != 1 || found[0].Cause != Network {
		t.Errorf("%+v, want network", found)
	}
}

// TestH4DFSFigure19: stage 0 waits in its receive from stage 1, and stage 1 in its receive from stage 2. Stage 2's exchange is
// abnormal on all GPUs but GPU 5, which waited in a group of its own for GPU 6: GPU 6 computed.
func TestH4DFSFigure19(t *testing.T) {
	g := &ops{}
	tp6 := g.add(6, 20, -1, false)
	g.add(5, 20, -1, true)
	ep4 := g.add(4, 10, -1, true)
	g.add(5, 10, -1, false)
	send21 := g.add(4, -1, -1, false)
	recv12 := g.add(1, -1, send21, true)
	g.peer[send21] = recv12
	send10 := g.add(1, -1, -1, false)
	recv01 := g.add(0, -1, send10, true)
	_, _ = ep4, tp6
	found := Search(g, recv01)
	if len(found) != 1 || found[0].Cause != Compute || g.rank[found[0].Op] != 6 {
		t.Errorf("%+v (rank %d), want compute on 6", found, g.rank[found[0].Op])
	}
}

func TestH4BothSidesAbnormalIsTheLink(t *testing.T) {
	g := &ops{}
	a := g.add(0, -1, -1, true)
	b := g.add(1, -1, a, true)
	g.peer[a] = b
	if found := Search(g, a); len(found) != 1 || found[0].Cause != Network {
		t.Errorf("%+v, want network", found)
	}
}

func TestH4CyclesEnd(t *testing.T) {
	g := &ops{}
	a := g.add(0, -1, -1, true)
	b := g.add(1, -1, -1, true)
	c := g.add(0, -1, b, false)
	d := g.add(1, -1, a, false)
	g.peer[a], g.peer[b] = d, c
	if found := Search(g, a); len(found) > 2 {
		t.Errorf("%+v", found)
	}
}

func TestH5Pearson(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 1, 1}, []float64{3, 2, 1}, 0},
		{[]float64{1}, []float64{1}, 0},
	} {
		if got := Pearson(c.x, c.y); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v %v: %g, want %g", c.x, c.y, got, c.want)
		}
	}
}

func TestH5DecayFigure20(t *testing.T) {
	// Irregularities of rail switches A and B both cross the spine C: without decay C would lead.
	devices := []Device{
		{Name: "A", Kind: "switch", Below: 4, Rates: []float64{0.9, 0.9}},
		{Name: "B", Kind: "switch", Below: 4, Rates: []float64{0.8, 0.8}},
		{Name: "C", Kind: "switch", Below: 64, Rates: []float64{0.9, 0.9, 0.8, 0.8}},
	}
	got := Rank(devices, 0.1, 2)
	if got[0].Name != "A" || got[1].Name != "B" {
		t.Errorf("order %s %s, want A B", got[0].Name, got[1].Name)
	}
	if d := Decay(4); math.Abs(d-math.Log(3+1e-6)/4) > 1e-12 {
		t.Errorf("decay of 4: %g", d)
	}
}

func TestH5PriorBreaksTies(t *testing.T) {
	got := Rank([]Device{{Name: "link", Kind: "link", Rates: []float64{0.7}}, {Name: "gpu", Kind: "gpu", Rates: []float64{0.7}}, {Name: "x", Kind: "nonsense"}}, 1, 3)
	if got[0].Name != "gpu" || got[1].Name != "link" || got[2].Name != "x" {
		t.Errorf("%v", got)
	}
	sum := 0.0
	for _, r := range got {
		sum += r.I
	}
	if got[0].I <= got[1].I || sum > 1.0001 {
		t.Errorf("probabilities %v", got)
	}
}
