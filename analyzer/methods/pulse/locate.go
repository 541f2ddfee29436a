// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package pulse has Pulse's methods: how much an operation should transmit (P3), where its transfers begin and end in a rate
// curve (P4), how long it really communicated and how much (P5), custom collectives (P6), the first operation that is late or
// missing (P7), and which parallelism a communicator serves (P8). All are pure functions of plain numbers.
package pulse

import (
	"slices"
	"time"
)

// Sample is what leaves a host about one rank in one operation (P5, P9): times and bytes. Zero Active is unknown.
type Sample struct {
	Rank     int
	Start    time.Duration // On a clock that the samples share.
	Started  bool
	Duration time.Duration
	Active   time.Duration
	Volume   int64
	Complete bool
}

// Kind is what a sample set shows.
type Kind int

// Kinds.
const (
	Normal      Kind = iota
	SlowNetwork      // A rank was active longer than the others.
	StopNetwork      // A rank sent least and the operation does not end.
	SlowCompute      // A rank began late.
	StopCompute      // A rank did not begin.
	SlowInside       // Long duration with normal start and active time: CPU or GPU inside the operation, never the network.
)

// Thresholds of Locate.
const (
	longer   = 1.3 // Times the median, from which a time is abnormal.
	lateness = 5 * time.Millisecond
)

// Locate gives the rank to which one operation's samples point, in Pulse's order: a rank that did not begin, began late, was
// active longest, or sent least. normal is the operation's usual duration, 0 unknown.
func Locate(samples []Sample, normal time.Duration) (rank int, kind Kind) {
	if len(samples) == 0 {
		return -1, Normal
	}
	for _, s := range samples {
		if !s.Started {
			return s.Rank, StopCompute
		}
	}
	if !slices.ContainsFunc(samples, func(s Sample) bool { return s.Complete }) {
		least := slices.MinFunc(samples, func(a, b Sample) int { return int(min(max(a.Volume-b.Volume, -1), 1)) })
		return least.Rank, StopNetwork
	}
	starts := collect(samples, func(s Sample) time.Duration { return s.Start })
	last := slices.MaxFunc(samples, func(a, b Sample) int { return int(min(max(a.Start-b.Start, -1), 1)) })
	if last.Start-median(starts) > lateness {
		return last.Rank, SlowCompute
	}
	actives := collect(samples, func(s Sample) time.Duration { return s.Active })
	busy := slices.MaxFunc(samples, func(a, b Sample) int { return int(min(max(a.Active-b.Active, -1), 1)) })
	usual := median(actives)
	if usual > 0 && float64(busy.Active) > longer*float64(usual) {
		return busy.Rank, SlowNetwork
	}
	if normal > 0 && usual > 0 { // Where no transfer was seen, none is known to be normal.
		long := slices.MaxFunc(samples, func(a, b Sample) int { return int(min(max(a.Duration-b.Duration, -1), 1)) })
		if float64(long.Duration) > longer*float64(normal) {
			return long.Rank, SlowInside
		}
	}
	return -1, Normal
}

func collect(samples []Sample, of func(Sample) time.Duration) []time.Duration {
	out := make([]time.Duration, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}

func median(v []time.Duration) time.Duration {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

// Exchange is one custom collective (a group of sends) on one rank: how much it moved in total, and how long any of its transfers
// was under way (P6).
type Exchange struct {
	Bytes  int64
	Active time.Duration
}

// Rate is a rank's rate in bytes per second: the mean over its last ten exchanges, because single transfers of a custom
// collective vary with their size and with the transfers that they meet. It is 0 when nothing was active.
func Rate(exchanges []Exchange) float64 {
	const recent = 10
	sum, n := 0.0, 0
	for _, e := range exchanges[max(0, len(exchanges)-recent):] {
		if e.Active > 0 {
			sum += float64(e.Bytes) / e.Active.Seconds()
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// SlowestRate gives the rank whose rate is well below the median, -1 where there is none.
func SlowestRate(byRank map[int][]Exchange) int {
	var rates []float64
	worst, least := -1, 0.0
	for r, e := range byRank {
		rate := Rate(e)
		if rate == 0 {
			continue
		}
		rates = append(rates, rate)
		if worst < 0 || rate < least || rate == least && r < worst {
			worst, least = r, rate
		}
	}
	if len(rates) < 2 {
		return -1
	}
	slices.Sort(rates)
	if least*longer < rates[len(rates)/2] {
		return worst
	}
	return -1
}

// Transfer is one send or receive of a custom collective: how much it moved, and how much it should.
type Transfer struct {
	Rank, Peer       int
	Volume, Expected int64
}

// Unfinished gives the rank that takes part in most of the transfers that are not complete (P6): each of those has the faulty
// rank at one end. -1 when all are complete, or when two ranks take part in equally many.
func Unfinished(transfers []Transfer) int {
	count := map[int]int{}
	for _, t := range transfers {
		if t.Volume < t.Expected {
			count[t.Rank]++
			count[t.Peer]++
		}
	}
	best, tie := -1, false
	for r, n := range count {
		switch {
		case best < 0 || n > count[best]:
			best, tie = r, false
		case n == count[best]:
			tie = true
		}
	}
	if tie {
		return -1
	}
	return best
}

// Granularity is the longest measuring interval that still shows the gaps which a straggler causes on the others. A slice takes
// some time to cross a channel, and p times as long at 1/p of the bandwidth; the others wait for the difference.
func Granularity(sliceBytes int64, bitsPerSecond float64, channels int, p float64) time.Duration {
	slice := float64(8*sliceBytes) * float64(channels) / bitsPerSecond
	return time.Duration(slice * (p - 1) * float64(time.Second))
}
