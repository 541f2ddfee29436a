// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package iteration_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/culprit-project/culprit/exporter/iteration"
)

const (
	allReduce     = 2
	allGather     = 1
	reduceScatter = 7
	send          = 9
)

// job makes the operations of a training loop.
type job struct {
	d        *iteration.Detector
	rng      *rand.Rand
	now      time.Duration
	found    []time.Duration
	foundNow int
}

func newJob() *job {
	return &job{d: iteration.New(), rng: rand.New(rand.NewPCG(1, 2)), now: time.Hour}
}

func (j *job) op(comm uint64, fn uint16, bytes uint64, took time.Duration) {
	j.now += took + time.Duration(j.rng.Int64N(int64(took/20)+1))
	if d, ok := j.d.Observe(iteration.Op{Comm: comm, Func: fn, Bytes: bytes, EndNS: uint64(j.now), Peer: -1}); ok {
		j.found = append(j.found, d)
		j.foundNow++
	}
}

func TestDetector(t *testing.T) {
	tests := []struct {
		name       string
		iterations int
		settled    int // Iterations after which each one must be found.
		iterate    func(j *job, i int)
	}{
		{"one operation", 40, 20, func(j *job, _ int) { j.op(1, allReduce, 1<<20, 100*time.Millisecond) }},
		{"buckets of different sizes", 40, 20, func(j *job, _ int) {
			j.now += 50 * time.Millisecond
			for b := range uint64(6) {
				j.op(1, allReduce, 1<<20+b<<16, 5*time.Millisecond)
			}
		}},
		{"buckets of the same size", 60, 40, func(j *job, _ int) {
			j.now += 80 * time.Millisecond
			for range 8 {
				j.op(1, allReduce, 1<<20, 2*time.Millisecond)
			}
		}},
		{"two equal buckets among others", 40, 20, func(j *job, _ int) {
			j.op(1, allGather, 1<<20, 10*time.Millisecond)
			j.op(1, allReduce, 1<<22, 5*time.Millisecond)
			j.op(1, allReduce, 1<<22, 5*time.Millisecond)
			j.op(1, allGather, 1<<20, 10*time.Millisecond)
			j.op(1, allGather, 1<<20, 10*time.Millisecond)
		}},
		{"twice at nearly equal distance", 40, 20, func(j *job, _ int) {
			j.op(1, allReduce, 1<<22, 5*time.Millisecond)
			for range 9 {
				j.op(1, allGather, 1<<20, 5*time.Millisecond)
			}
			j.op(1, allReduce, 1<<22, 5*time.Millisecond)
			for range 11 {
				j.op(1, allGather, 1<<20, 5*time.Millisecond)
			}
		}},
		{"a slow start", 40, 20, func(j *job, i int) {
			if i < 3 {
				j.now += time.Duration(3-i) * 10 * time.Second
			}
			j.op(2, allGather, 1<<20, 5*time.Millisecond)
			j.op(2, allGather, 1<<20, 5*time.Millisecond)
			j.op(1, allReduce, 1<<22, 90*time.Millisecond)
		}},
		{"layers, micro-batches and a gradient", 30, 15, func(j *job, _ int) {
			for range 16 {
				for range 12 {
					j.op(2, allGather, 1<<20, time.Millisecond)
					j.op(2, reduceScatter, 1<<20, time.Millisecond)
				}
				j.op(3, send, 1<<18, time.Millisecond)
			}
			j.op(1, reduceScatter, 1<<26, 40*time.Millisecond)
			j.op(1, allGather, 1<<26, 40*time.Millisecond)
		}},
		{"expert parallel sizes", 60, 30, func(j *job, _ int) {
			for range 4 {
				j.op(2, send, 1<<18+uint64(j.rng.IntN(1<<16)), 3*time.Millisecond)
			}
			j.op(1, allReduce, 1<<24, 20*time.Millisecond)
		}},
		{"a log line every tenth", 60, 30, func(j *job, i int) {
			j.op(1, allGather, 1<<20, 20*time.Millisecond)
			j.op(1, allReduce, 1<<22, 20*time.Millisecond)
			if i%10 == 0 {
				j.op(1, allReduce, 40, time.Millisecond)
			}
		}},
		{"overlap that reorders", 40, 25, func(j *job, _ int) {
			order := []uint64{1, 2, 3, 4}
			j.rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
			for _, b := range order {
				j.op(b, allReduce, b<<20, 5*time.Millisecond)
				j.op(9, allGather, 1<<20, 5*time.Millisecond)
			}
			j.op(8, allReduce, 1<<25, 15*time.Millisecond)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := newJob()
			var total time.Duration
			for i := range tt.iterations {
				if i == tt.settled {
					j.found, total = nil, -j.now
				}
				tt.iterate(j, i)
			}
			total += j.now
			want := tt.iterations - tt.settled
			if len(j.found) < want-1 || len(j.found) > want+1 {
				t.Fatalf("found %d iterations of %d: %v", len(j.found), want, j.found)
			}
			mean := total / time.Duration(want)
			for _, d := range j.found {
				if d < mean*7/10 || d > mean*13/10 {
					t.Errorf("an iteration of %v among such of %v", d, mean)
				}
			}
		})
	}
}

// TestSlowStartIsNoPattern looks after every number of iterations: no early guess may take two for one.
func TestSlowStartIsNoPattern(t *testing.T) {
	for start := range 6 {
		j := newJob()
		for i := range 60 {
			if i <= start {
				j.now += time.Duration(j.rng.Int64N(int64(20 * time.Second)))
			}
			j.op(1, allReduce, 1<<20, 100*time.Millisecond)
			if i > start+1 && len(j.found) > 0 && j.found[len(j.found)-1] > 150*time.Millisecond {
				t.Fatalf("%d slow iterations at the start: %v after %d", start, j.found[len(j.found)-1], i)
			}
		}
	}
}

func TestSlowIterationShows(t *testing.T) {
	j := newJob()
	for i := range 60 {
		j.foundNow = 0
		if i == 50 {
			j.now += 900 * time.Millisecond
		}
		j.op(1, allGather, 1<<20, 50*time.Millisecond)
		j.op(1, allReduce, 1<<22, 50*time.Millisecond)
		if i > 50 && j.foundNow != 1 {
			t.Fatalf("iteration %d: %d found", i, j.foundNow)
		}
	}
	slow := 0
	for _, d := range j.found {
		if d > 900*time.Millisecond {
			slow++
		}
	}
	if slow != 1 {
		t.Errorf("%d slow iterations of one: %v", slow, j.found)
	}
}

func TestLossIsNoIteration(t *testing.T) {
	j := newJob()
	for range 40 {
		j.op(1, allReduce, 1<<20, 100*time.Millisecond)
	}
	before := len(j.found)
	j.d.Lost()
	j.now += time.Hour
	j.op(1, allReduce, 1<<20, 100*time.Millisecond)
	if len(j.found) != before {
		t.Errorf("an iteration across a loss: %v", j.found[before:])
	}
	j.op(1, allReduce, 1<<20, 100*time.Millisecond)
	if len(j.found) != before+1 || j.found[before] > time.Second {
		t.Errorf("after a loss: %v", j.found[before:])
	}
}

func TestNewPhaseIsFound(t *testing.T) {
	j := newJob()
	for range 40 {
		j.op(1, allReduce, 1<<20, 100*time.Millisecond)
	}
	// The communicator is replaced, as after an elastic restart.
	for range 60 {
		j.op(2, allReduce, 1<<20, 30*time.Millisecond)
		j.op(2, allGather, 1<<21, 30*time.Millisecond)
	}
	if last := j.found[len(j.found)-1]; last > 80*time.Millisecond {
		t.Errorf("last iteration %v", last)
	}
}

func TestNoiseHasNoIterations(t *testing.T) {
	j := newJob()
	for range 3000 {
		j.op(uint64(j.rng.IntN(5)), allReduce, 1<<20+uint64(j.rng.IntN(1<<20)), time.Millisecond)
	}
	if len(j.found) > 30 {
		t.Errorf("%d iterations in noise", len(j.found))
	}
}

func BenchmarkObserve(b *testing.B) {
	d := iteration.New()
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		d.Observe(iteration.Op{Comm: n % 7, Func: allReduce, Bytes: 1 << 20 << (n % 5), EndNS: n * 1e6})
	}
}
