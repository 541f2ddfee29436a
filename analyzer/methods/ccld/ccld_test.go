// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ccld

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

var options = Options{Alpha: 0.4, Beta: 0.6, Theta: 3, Repeat: 2}

func round(durations ...time.Duration) Round {
	r := Round{Duration: durations}
	for i := range durations {
		r.Ranks = append(r.Ranks, i)
	}
	return r
}

func TestC5Baseline(t *testing.T) {
	var rounds []Round
	for i := range 150 {
		r := round(8*ms, 10*ms, 9*ms)
		if i >= 100 {
			r = round(80*ms, 100*ms)
		}
		r.At = time.Duration(i) * time.Second
		rounds = append(rounds, r)
	}
	if b, configured := Baseline(rounds, 30*ms); b != 10*ms || configured {
		t.Errorf("first 100 rounds: %v configured=%v, want 10ms", b, configured)
	}
	for i := range rounds {
		rounds[i].At = time.Duration(i) * 12 * time.Second // Ten rounds in two minutes.
	}
	rounds[3].Duration[1] = 20 * ms
	if b, _ := Baseline(rounds, 0); b != 11*ms {
		t.Errorf("rounds of the first two minutes: %v, want 11ms", b)
	}
	if b, configured := Baseline(rounds[:5], 30*ms); b != 30*ms || !configured {
		t.Errorf("too few rounds: %v configured=%v, want the configured 30ms", b, configured)
	}
	barrier := round(time.Hour, time.Hour)
	barrier.Barrier = true
	if b, _ := Baseline([]Round{barrier}, 7*ms); b != 7*ms {
		t.Errorf("barriers count: %v", b)
	}
}

func TestC5TheRoundWithTheLargestSpread(t *testing.T) {
	// The longest round is even; the widest one is judged.
	r := Analyze([]Round{round(200*ms, 199*ms), round(100*ms, 12*ms)}, 10*ms, options)
	if r.TMax != 100*ms || r.TMin != 12*ms {
		t.Errorf("judged %v to %v, want 12ms to 100ms", r.TMin, r.TMax)
	}
}

func TestC6SlowClasses(t *testing.T) {
	probes := func(r Round, v ...int) Round { r.Send = v; return r }
	for _, c := range []struct {
		name         string
		round        Round
		kind         Kind
		rank, second int
		p            float64
	}{
		{"S1: others wait for 2", round(100*ms, 98*ms, 11*ms), Compute, 2, -1, 0.989},
		{"S2: all long, 1 slowest", probes(round(100*ms, 99*ms, 98*ms), 2, 7, 2), Comm, 1, -1, 0.022},
		{"S3: both", probes(round(100*ms, 95*ms, 55*ms), 2, 7, 2), Mixed, 2, 1, 0.5},
		{"not slow enough", round(39*ms, 12*ms), Normal, -1, -1, 0},
	} {
		r := Analyze([]Round{c.round}, 10*ms, options)
		if r.Kind != c.kind || r.Rank != c.rank || r.Second != c.second || math.Abs(r.P-c.p) > 0.001 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	// P is exactly between: at alpha and beta themselves it is mixed.
	if r := Analyze([]Round{probes(round(110*ms, 70*ms), 1, 2)}, 10*ms, options); r.Kind != Mixed || r.P != 0.4 {
		t.Errorf("at alpha: %+v", r)
	}
}

// TestC2RatesNameTheEndsOfASlowLink: figure 6 has 1/2 on normal ranks and 1/7 on the slow one; a link has an end that sends and one that
// receives.
func TestC2RatesNameTheEndsOfASlowLink(t *testing.T) {
	slow := func(send, recv []int) Round {
		r := round(100*ms, 99*ms, 98*ms, 100*ms)
		r.Send, r.Recv = send, recv
		return r
	}
	normal := []int{2, 2, 2, 2}
	for _, c := range []struct {
		name         string
		window       []Round
		rank, second int
	}{
		{"1 to 2", []Round{slow([]int{2, 7, 2, 2}, []int{2, 2, 7, 2})}, 1, 2},
		{"all at the same rate", []Round{slow(normal, normal)}, -1, -1},
		{"two share the lowest", []Round{slow([]int{2, 7, 7, 2}, normal)}, -1, -1},
		{"in most rounds", []Round{slow([]int{2, 7, 2, 2}, nil), slow([]int{2, 7, 2, 2}, nil), slow([]int{9, 7, 2, 2}, nil)}, 1, -1},
		{"in half of the rounds", []Round{slow([]int{2, 7, 2, 2}, nil), slow([]int{9, 7, 2, 2}, nil)}, -1, -1},
		{"only one sends over the network", []Round{slow([]int{0, 7, 0, 0}, nil)}, -1, -1},
		{"those inside a host have none", []Round{slow([]int{0, 7, 0, 2}, []int{2, 0, 7, 0})}, 1, 2},
		{"no rates are known", []Round{slow(nil, nil)}, -1, -1},
	} {
		if r := Analyze(c.window, 10*ms, options); r.Kind != Comm || r.Rank != c.rank || r.Second != c.second {
			t.Errorf("%s: %+v, want ranks %d and %d", c.name, r, c.rank, c.second)
		}
	}
}

func TestC5BlipsAreIgnoredUntilTheyRepeat(t *testing.T) {
	slow, fine := []Round{round(100*ms, 98*ms, 11*ms)}, []Round{round(10*ms, 9*ms, 10*ms)}
	if r := Repeated([][]Round{fine, slow, fine}, 10*ms, options); r.Kind != Normal {
		t.Errorf("one blip: %+v", r)
	}
	if r := Repeated([][]Round{slow, fine, slow}, 10*ms, options); r.Kind != Compute || r.Rank != 2 {
		t.Errorf("repeated: %+v", r)
	}
}

func TestC5BarriersAreExcluded(t *testing.T) {
	b := round(time.Minute, ms)
	b.Barrier = true
	if r := Analyze([]Round{b}, 10*ms, options); r.Kind != Normal {
		t.Errorf("%+v", r)
	}
}

// TestC5ThetaFromStatistics: healthy windows that scatter as CCL-D's do give a bound near 3.
func TestC5ThetaFromStatistics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var healthy []float64
	for range 500 {
		healthy = append(healthy, math.Abs(rng.NormFloat64()))
	}
	if theta := Theta(healthy, 3); math.Abs(theta-2.6) > 0.2 {
		t.Errorf("theta %.2f", theta)
	}
	if theta := Theta(healthy[:10], 3); theta != 3 {
		t.Errorf("of ten windows %.2f, want the usual 3", theta)
	}
}

// TestC6PAtItsEnds: purely slow communication has P at 0, purely slow computation at 1, equal parts at 0.5 (equation 4).
func TestC6PAtItsEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		round Round
		p     float64
		kind  Kind
	}{
		{"all are in it as long", round(100*ms, 100*ms, 100*ms), 0, Comm},
		{"the last one in takes what it should", round(100*ms, 100*ms, 10*ms), 1, Compute},
		{"half and half", round(100*ms, 100*ms, 55*ms), 0.5, Mixed},
	} {
		c.round.Send = []int{2, 7, 2}
		if r := Analyze([]Round{c.round}, 10*ms, options); math.Abs(r.P-c.p) > 1e-9 || r.Kind != c.kind {
			t.Errorf("%s: P %g kind %d, want %g kind %d", c.name, r.P, r.Kind, c.p, c.kind)
		}
	}
}

// TestC6SlowAtStart: before there are statistics the configured baseline judges, and says so.
func TestC6SlowAtStart(t *testing.T) {
	rounds := []Round{round(100*ms, 98*ms, 11*ms), round(99*ms, 98*ms, 10*ms)}
	base, configured := Baseline(rounds, 10*ms)
	if !configured {
		t.Fatal("two rounds are statistics")
	}
	if r := Analyze(rounds, base, options); r.Kind != Compute || r.Rank != 2 {
		t.Errorf("%+v", r)
	}
}
