// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "math"

// Random numbers are hashes of the seed and of what they are for, so that a value does not depend on the order in which
// the simulation asks.

// purpose keeps the random sequences of different uses apart.
type purpose uint64

const (
	forClock purpose = iota + 1
	forCommID
	forCompute
	forBlip
	forHost
	forGC
	forSequence
	forRouting
	forProxy
	forSkew
	forFact
	forWobble
)

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// random hashes the seed, the purpose and up to three coordinates.
func random(seed uint64, p purpose, a, b, c int64) uint64 {
	h := mix(seed ^ mix(uint64(p)))
	h = mix(h ^ uint64(a))
	h = mix(h ^ uint64(b))
	return mix(h ^ uint64(c))
}

// uniform is a number in [0, 1).
func uniform(seed uint64, p purpose, a, b, c int64) float64 {
	return float64(random(seed, p, a, b, c)>>11) / (1 << 53)
}

// normal is a standard normal number, cut at three sigma (sum of twelve uniforms from three hashes would cost more).
func normal(seed uint64, p purpose, a, b, c int64) float64 {
	h := random(seed, p, a, b, c)
	u := (float64(h>>40) + 1) / (1<<24 + 1)
	v := float64(h&(1<<24-1)) / (1 << 24)
	z := math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
	return max(-3, min(3, z))
}
