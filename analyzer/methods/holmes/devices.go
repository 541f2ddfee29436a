// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package holmes

import (
	"cmp"
	"math"
	"slices"
)

// Pearson is the correlation of two series, 0 where one does not vary. Holmes calls it the irregularity rate R(x) when
// it is an abnormal operator's time against the iteration's (H5).
func Pearson(x, y []float64) float64 {
	n := min(len(x), len(y))
	if n < 2 {
		return 0
	}
	var mx, my float64
	for i := range n {
		mx += x[i] / float64(n)
		my += y[i] / float64(n)
	}
	var cov, vx, vy float64
	for i := range n {
		cov += (x[i] - mx) * (y[i] - my)
		vx += (x[i] - mx) * (x[i] - mx)
		vy += (y[i] - my) * (y[i] - my)
	}
	if vx == 0 || vy == 0 {
		return 0
	}
	return cov / math.Sqrt(vx*vy)
}

// Prior is the share of each kind of device among 126 cases at Tencent (table 1). Other clusters differ, so it is only a weak
// hint.
var Prior = map[string]float64{"gpu": 0.587, "nic": 0.183, "link": 0.095, "switch": 0.048, "cpu": 0.032, "other": 0.055}

// Decay is H(d) = ln(C+eps-1)/C for a device with C connections below it: a spine switch is not guilty because all traffic
// crosses it. Devices with no or one connection below are not decayed.
func Decay(connections int) float64 {
	const eps = 1e-6
	if connections <= 2 {
		return 1
	}
	c := float64(connections)
	return math.Log(c+eps-1) / c
}

// Device is a device that may cause irregularities.
type Device struct {
	Name  string
	Kind  string    // gpu, nic, link, switch, cpu, other.
	Below int       // Connections to devices below it, for switches.
	Rates []float64 // Irregularity rates of the irregularities that use it.
}

// Ranked is a device with its probability of being the cause.
type Ranked struct {
	Device
	I float64
}

// Rank orders devices by the maximum a posteriori estimate I(d) with a Beta prior of strength alpha (appendix D), most
// likely first, and gives the first k.
func Rank(devices []Device, alpha float64, k int) []Ranked {
	total := 0.0
	sums := make([]float64, len(devices))
	for i, d := range devices {
		for _, r := range d.Rates {
			sums[i] += max(0, r) * Decay(d.Below)
		}
		total += sums[i]
	}
	out := make([]Ranked, len(devices))
	for i, d := range devices {
		p, ok := Prior[d.Kind]
		if !ok {
			p = Prior["other"]
		}
		out[i] = Ranked{d, (sums[i] + alpha*p) / (total + alpha)}
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Or(cmp.Compare(b.I, a.I), cmp.Compare(a.Name, b.Name)) })
	return out[:min(k, len(out))]
}
