// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"math"
	"math/rand/v2"
	"testing"
)

// production is the job of Holmes' figure 17: data, pipeline and tensor parallelism of 96, 8 and 4. GPU 2574 computes slowly. Its
// tensor group waits for it in an all-gather, and the data-parallel group of GPU 2572 waits for that one in an all-reduce. Stage
// by stage, up to GPU 0, every stage waits for the next.
type production struct {
	fetched []int // Ranks whose logs were requested, in order.
	counted map[int]bool
}

const (
	dpDegree, ppDegree, tpDegree = 96, 8, 4
	// Operators of a rank within the iteration, in order.
	gather, reduce, recv, send, perRank = 0, 1, 2, 3, 4
)

func rankAt(pp, dp, tp int) int { return (pp*dpDegree+dp)*tpDegree + tp }

func place(rank int) (pp, dp, tp int) {
	return rank / (dpDegree * tpDegree), rank / tpDegree % dpDegree, rank % tpDegree
}

func (p *production) ask(rank int) {
	p.fetched = append(p.fetched, rank)
	p.counted[rank] = true
}

func (p *production) Group(op int) []int {
	var out []int
	pp, dp, tp := place(op / perRank)
	if op%perRank == reduce {
		for d := range dpDegree {
			out = append(out, rankAt(pp, d, tp)*perRank+reduce)
		}
	} else {
		for t := range tpDegree {
			out = append(out, rankAt(pp, dp, t)*perRank+gather)
		}
	}
	for _, o := range out {
		p.ask(o / perRank)
	}
	return out
}

// Peer: a stage's send is the next one's receive.
func (p *production) Peer(op int) int {
	pp, dp, tp := place(op / perRank)
	next := rankAt(pp+1, dp, tp)
	p.ask(next)
	return next*perRank + recv
}

func (p *production) Before(op int) []int {
	var out []int
	first := op / perRank * perRank
	// In a rank's log, what it sends on comes before the receive whose data it acknowledges.
	order := []int{gather, reduce, send, recv}
	for _, o := range order {
		if o == op%perRank {
			break
		}
		out = append([]int{first + o}, out...)
	}
	return out
}

func (p *production) P2P(op int) bool { return op%perRank >= recv }

func (p *production) Abnormal(op int) bool {
	pp, dp, tp := place(op / perRank)
	switch op % perRank {
	case send: // All stages before the sixth, on the way from GPU 0.
		return pp < 6 && dp == 0 && tp == 0
	case reduce: // All of group 24 except GPU 2572.
		return pp == 6 && tp == 0 && dp != 67
	case gather: // All of its tensor group except GPU 2574.
		return pp == 6 && dp == 67 && tp != 2
	}
	return false
}

// TestH4H6H8WalkOfFigure17: the walk goes from GPU 0 along the pipeline to GPU 2304, through its data-parallel group to GPU 2572,
// and through that one's tensor group to GPU 2574. It requests 6 + 96 + 4 = 106 of 3,072 logs.
func TestH4H6H8WalkOfFigure17(t *testing.T) {
	if rankAt(6, 0, 0) != 2304 || rankAt(6, 67, 0) != 2572 || rankAt(6, 67, 2) != 2574 {
		t.Fatal("the numbering is not the paper's")
	}
	p := &production{counted: map[int]bool{}}
	found := Search(p, rankAt(0, 0, 0)*perRank+send)
	if len(found) != 1 || found[0].Cause != Compute || found[0].Op/perRank != 2574 {
		t.Fatalf("found %+v (rank %d), want compute on 2574", found, found[0].Op/perRank)
	}
	if len(p.fetched) != 106 {
		t.Errorf("%d logs were asked for, want 106", len(p.fetched))
	}
	for _, r := range []int{2304, 2572, 2574} {
		if !p.counted[r] {
			t.Errorf("the walk does not pass GPU %d", r)
		}
	}
	// GPUs 2304 and 2572 are each at the end of one part of the walk and the start of the next.
	if share := float64(len(p.counted)) / (dpDegree * ppDegree * tpDegree); len(p.counted) != 104 || share > 0.035 {
		t.Errorf("%d different GPUs (%.1f%%)", len(p.counted), 100*share)
	}
}

// TestH7AppendixB: 85 of 600 iterations, one in every six to nine, fluctuate with a period of about seven. 39 random spikes among
// 1,000 iterations do not, nor does a throughput that falls from 150 to 125 for good.
func TestH7AppendixB(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noisy := func(n int, base float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = base * (1 + 0.004*rng.NormFloat64())
		}
		return out
	}
	fluctuating := noisy(600, 8.3)
	for i := 3; i < 600; i += 7 {
		fluctuating[min(599, i+rng.IntN(2))] = 9.45
	}
	spiky := noisy(1000, 8.3)
	for range 39 {
		spiky[rng.IntN(1000)] *= 1.96
	}
	degraded := append(noisy(500, 1/150.0), noisy(500, 1/125.0)...)
	for _, c := range []struct {
		name   string
		series []float64
		delta  float64
		want   Pattern
		period float64
	}{
		{"fluctuation", fluctuating, 1.05, Fluctuation, 7},
		{"spikes", spiky, 1.1, Spike, 0},
		{"degradation", degraded, 1.1, Degradation, 0},
	} {
		irregular := Irregular(c.series, 100, c.delta)
		if got := Classify(irregular, len(c.series)); got != c.want {
			t.Errorf("%s: %v with %d irregular iterations", c.name, got, len(irregular))
		}
		if c.want == Degradation {
			continue // A step has every frequency, the low ones most.
		}
		if got := Period(c.series); math.Abs(got-c.period) > 0.3 {
			t.Errorf("%s: period %.2f, want %g", c.name, got, c.period)
		}
	}
	if Period(noisy(10, 1)) != 0 || Period(make([]float64, 100)) != 0 {
		t.Error("too little or nothing has a period")
	}
}

// TestH5Table1: the prior is that of 126 cases: 74 GPUs, 23 NICs, 12 links, 6 switches, 4 CPUs, 7 others.
func TestH5Table1(t *testing.T) {
	sum := 0.0
	for kind, cases := range map[string]float64{"gpu": 74, "nic": 23, "link": 12, "switch": 6, "cpu": 4, "other": 7} {
		if math.Abs(Prior[kind]-cases/126) > 0.001 {
			t.Errorf("%s: %g, want %d of 126", kind, Prior[kind], int(cases))
		}
		sum += Prior[kind]
	}
	if math.Abs(sum-1) > 0.001 {
		t.Errorf("the priors sum to %g", sum)
	}
}

// TestH5MAPOfAppendixD: I(d) is the device's accumulated rates plus its prior, over the rates of all devices plus the prior's
// strength. A prior of no weight leaves the shares; one of great weight is the prior.
func TestH5MAPOfAppendixD(t *testing.T) {
	devices := []Device{{Name: "nic", Kind: "nic", Rates: []float64{0.9, 0.6}}, {Name: "gpu", Kind: "gpu", Rates: []float64{0.5}}}
	of := func(alpha float64) map[string]float64 {
		out := map[string]float64{}
		for _, r := range Rank(devices, alpha, 2) {
			out[r.Name] = r.I
		}
		return out
	}
	for _, c := range []struct{ alpha, nic, gpu float64 }{
		{0, 0.75, 0.25}, {1, (1.5 + 0.183) / 3, (0.5 + 0.587) / 3}, {1e9, 0.183, 0.587},
	} {
		if got := of(c.alpha); math.Abs(got["nic"]-c.nic) > 1e-6 || math.Abs(got["gpu"]-c.gpu) > 1e-6 {
			t.Errorf("alpha %g: %v, want %g and %g", c.alpha, got, c.nic, c.gpu)
		}
	}
	if top := Rank(devices, 1, 1); len(top) != 1 || top[0].Name != "nic" {
		t.Errorf("top 1 is %v", top)
	}
}
