// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pulse

import (
	"slices"
	"testing"
	"time"
)

func TestP3ExpectedVolume(t *testing.T) {
	for _, c := range []struct {
		operation string
		algorithm Algorithm
		bytes     int64
		size      int
		want      int64
	}{
		{"AllReduce", Ring, 800, 8, 1400},
		{"AllReduce", UnknownAlgorithm, 1000, 2, 1000},
		{"AllReduce", Tree, 800, 8, 800},
		{"AllGather", Ring, 100, 8, 700},
		{"ReduceScatter", Ring, 100, 4, 300},
		{"Send", UnknownAlgorithm, 123, 2, 123},
		{"AllReduce", Ring, 800, 1, 0},
		{"Barrier", Ring, 800, 8, 0},
	} {
		if got := ExpectedVolume(c.operation, c.algorithm, c.bytes, c.size); got != c.want {
			t.Errorf("%s over %d of %d bytes: %d, want %d", c.operation, c.size, c.bytes, got, c.want)
		}
	}
}

func TestP3AlgorithmFromPeers(t *testing.T) {
	ring, tree := []int{4, 6}, []int{1, 6, 7}
	for _, c := range []struct {
		peers []int
		want  Algorithm
	}{{[]int{4, 6}, Ring}, {[]int{1, 7}, Tree}, {[]int{6}, Ring}, {[]int{9}, UnknownAlgorithm}, {nil, UnknownAlgorithm}} {
		if got := InferAlgorithm(c.peers, ring, tree); got != c.want {
			t.Errorf("peers %v: %v, want %v", c.peers, got, c.want)
		}
	}
}

const epoch = 32 * time.Microsecond

// curve makes epochs of 1000 bytes at the given epoch numbers.
func curve(at ...int) []Epoch {
	var out []Epoch
	for _, k := range at {
		out = append(out, Epoch{At: time.Duration(k) * epoch, Bytes: 1000})
	}
	return out
}

func TestP4Segmentation(t *testing.T) {
	for _, c := range []struct {
		name   string
		epochs []Epoch
		size   int64
		want   []Operation
	}{
		{"one", curve(0, 1, 2), 3000, []Operation{{Start: 0, End: 3 * epoch, Volume: 3000, Active: 3 * epoch}}},
		{"two, a gap between", curve(0, 1, 2, 100, 101, 102), 3000, []Operation{{0, 3 * epoch, 3000, 3 * epoch}, {100 * epoch, 103 * epoch, 3000, 3 * epoch}}},
		{"a gap inside does not cut before the volume is there", curve(0, 1, 100, 200, 201, 202), 3000, []Operation{{0, 101 * epoch, 3000, 3 * epoch}, {200 * epoch, 203 * epoch, 3000, 3 * epoch}}},
		{"the volume does not cut without a gap", curve(0, 1, 2, 3, 4), 3000, []Operation{{0, 5 * epoch, 5000, 5 * epoch}}},
		{"nothing", nil, 3000, nil},
	} {
		if got := Segment(c.epochs, epoch, c.size, time.Millisecond); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestP5ActiveTimeLeavesGapsOut(t *testing.T) {
	// A straggler at half rate sends all the time. The others pause for it and take equally long.
	var slow, fast []Epoch
	for k := range 20 {
		slow = append(slow, Epoch{At: time.Duration(k) * epoch, Bytes: 500})
		if k%2 == 0 {
			fast = append(fast, Epoch{At: time.Duration(k) * epoch, Bytes: 1000})
		}
	}
	s, f := Segment(slow, epoch, 10000, time.Millisecond)[0], Segment(fast, epoch, 10000, time.Millisecond)[0]
	if s.Volume != f.Volume || s.Active != 2*f.Active {
		t.Errorf("straggler %+v, other %+v", s, f)
	}
	rank, kind := Locate([]Sample{
		{Rank: 0, Started: true, Complete: true, Duration: f.End, Active: f.Active},
		{Rank: 1, Started: true, Complete: true, Duration: s.End, Active: s.Active},
		{Rank: 2, Started: true, Complete: true, Duration: f.End, Active: f.Active},
	}, 0)
	if rank != 1 || kind != SlowNetwork {
		t.Errorf("rank %d kind %d, want 1 slow network", rank, kind)
	}
}

func TestP5P7Locate(t *testing.T) {
	ok := func(rank int) Sample {
		return Sample{Rank: rank, Started: true, Complete: true, Duration: 20 * time.Millisecond, Active: 15 * time.Millisecond, Volume: 100}
	}
	with := func(s Sample, f func(*Sample)) Sample { f(&s); return s }
	for _, c := range []struct {
		name    string
		samples []Sample
		rank    int
		kind    Kind
	}{
		{"normal", []Sample{ok(0), ok(1), ok(2)}, -1, Normal},
		{"network stop: least volume", []Sample{with(ok(0), func(s *Sample) { s.Complete = false }), with(ok(1), func(s *Sample) { s.Complete, s.Volume = false, 40 })}, 1, StopNetwork},
		{"compute stop: never starts", []Sample{ok(0), with(ok(1), func(s *Sample) { s.Started = false })}, 1, StopCompute},
		{"compute slow: starts late", []Sample{ok(0), ok(1), with(ok(2), func(s *Sample) { s.Start = 30 * time.Millisecond })}, 2, SlowCompute},
		{"inside: long, start and active normal", []Sample{ok(0), with(ok(1), func(s *Sample) { s.Duration = 60 * time.Millisecond }), ok(2)}, 1, SlowInside},
		{"nobody", nil, -1, Normal},
	} {
		if r, k := Locate(c.samples, 20*time.Millisecond); r != c.rank || k != c.kind {
			t.Errorf("%s: rank %d kind %d, want %d %d", c.name, r, k, c.rank, c.kind)
		}
	}
}

func TestP6CustomCollectives(t *testing.T) {
	many := func(rate float64, n int) []Exchange {
		var out []Exchange
		for i := range n {
			b := int64(1000 * (1 + i%3)) // Sizes vary, the rate does not.
			out = append(out, Exchange{Bytes: b, Active: time.Duration(float64(b) / rate * 1e9)})
		}
		return out
	}
	if got := SlowestRate(map[int][]Exchange{0: many(1e6, 30), 1: many(1e6, 30), 2: many(5e5, 30), 3: many(1e6, 30)}); got != 2 {
		t.Errorf("slowest %d, want 2", got)
	}
	if got := SlowestRate(map[int][]Exchange{0: many(1e6, 30), 1: many(0.95e6, 30), 2: many(1e6, 30)}); got != -1 {
		t.Errorf("slowest %d, want none", got)
	}
	// Only the last ten count.
	if got := Rate(append(many(1, 30), many(1e6, 10)...)); got < 0.99e6 || got > 1.01e6 {
		t.Errorf("rate %g, want 1e6", got)
	}
	o := Operation{Volume: 5}
	if o.Complete(6) || !o.Complete(5) {
		t.Error("completion is not by volume")
	}
}

func TestP8Parallelism(t *testing.T) {
	for _, c := range []struct {
		name string
		t    Traffic
		want Parallelism
	}{
		{"data", Traffic{Collectives: 2, CollectiveBytes: 2 << 30, Size: 8}, Data},
		{"tensor", Traffic{Collectives: 256, CollectiveBytes: 4 << 30, Size: 8}, Tensor},
		{"pipeline", Traffic{P2P: 64, P2PBytes: 1 << 30, Pairs: 6, Size: 4}, Pipeline},
		{"pipeline of two", Traffic{P2P: 64, P2PBytes: 1 << 30, Pairs: 2, Size: 2}, Pipeline},
		{"expert", Traffic{P2P: 640, P2PBytes: 1 << 30, Pairs: 12, Size: 4}, Expert},
		{"context", Traffic{P2P: 640, P2PBytes: 1 << 30, Pairs: 4, Size: 4, Around: true}, Context},
		{"interleaved pipeline", Traffic{P2P: 64, P2PBytes: 1 << 30, Pairs: 8, Size: 4, Around: true}, Pipeline},
		{"none", Traffic{Collectives: 3, CollectiveBytes: 64, Size: 8}, None},
		{"silent", Traffic{Size: 8}, None},
	} {
		if got := Infer(c.t); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestP6CompletionOfEachTransfer: in an all-to-all every unfinished transfer has the faulty rank at one end.
func TestP6CompletionOfEachTransfer(t *testing.T) {
	mesh := func(faulty int) (out []Transfer) {
		for a := range 4 {
			for b := range 4 {
				if a != b {
					tr := Transfer{Rank: a, Peer: b, Volume: 100, Expected: 100}
					if a == faulty || b == faulty {
						tr.Volume = 30
					}
					out = append(out, tr)
				}
			}
		}
		return out
	}
	for _, faulty := range []int{-1, 0, 3} {
		if got := Unfinished(mesh(faulty)); got != faulty {
			t.Errorf("rank %d, want %d", got, faulty)
		}
	}
	if got := Unfinished([]Transfer{{Rank: 0, Peer: 1, Expected: 8}}); got != -1 {
		t.Errorf("of one pair nobody can be told, got %d", got)
	}
}

// TestP1P5FortyMicroseconds is section 6.1: a slice of 1 MB over one of two channels at 400 Gbps takes 40 us, so a straggler at
// half its bandwidth causes gaps of 40 us. Epochs of 32 us show the gaps, epochs of 64 us do not.
func TestP1P5FortyMicroseconds(t *testing.T) {
	gap := Granularity(1_000_000, 400e9, 2, 2)
	if gap != 40*time.Microsecond {
		t.Fatalf("gap %v, want 40us", gap)
	}
	if third := Granularity(1_000_000, 400e9, 2, 3); third != 80*time.Microsecond {
		t.Errorf("at a third %v, want 80us", third)
	}
	// A normal rank repeatedly sends for 40 us and waits for 40 us, until 20 slices have passed.
	active := func(epoch time.Duration) time.Duration {
		bytes := map[int]int64{}
		for slice := range 20 {
			for us := range 40 {
				bytes[int((time.Duration(2*40*slice+us)*time.Microsecond)/epoch)] += 25_000
			}
		}
		var epochs []Epoch
		for k := range 20 * 80 {
			if b := bytes[k]; b > 0 {
				epochs = append(epochs, Epoch{At: time.Duration(k) * epoch, Bytes: b})
			}
		}
		return Segment(epochs, epoch, 20_000_000, time.Millisecond)[0].Active
	}
	straggler := 20 * 80 * time.Microsecond
	if fine := active(32 * time.Microsecond); 10*fine > 9*straggler {
		t.Errorf("with epochs of 32us a normal rank seems active for %v of %v", fine, straggler)
	}
	if coarse := active(64 * time.Microsecond); coarse <= active(32*time.Microsecond) {
		t.Errorf("epochs of 64us hide no gaps: %v", coarse)
	}
}

// TestP5P7ProxiesThatStarve: proxy threads that get no CPU prolong the operation, not the active time, and the network is not
// blamed.
func TestP5P7ProxiesThatStarve(t *testing.T) {
	samples := []Sample{}
	for r := range 4 {
		samples = append(samples, Sample{Rank: r, Started: true, Complete: true, Duration: 20 * time.Millisecond, Active: 15 * time.Millisecond})
	}
	samples[1].Duration = 80 * time.Millisecond
	if rank, kind := Locate(samples, 20*time.Millisecond); rank != 1 || kind != SlowInside {
		t.Errorf("rank %d kind %d, want 1 inside", rank, kind)
	}
}
