// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// varied makes a job whose ranks take now longer and now shorter, none of them more often than another.
type varied struct {
	name string
	edit func(j *rcatest.SlowJob, s shape, draw drawing)
	seen func(*rca.Evidence) // What is left of the evidence.
}

// drawing gives a function of a number whose values are drawn the first time that they are asked for.
type drawing func(next func() float64) func(k int) float64

type shape struct{ dp, pp, tp int }

// eachTime gives a number for a rank in an iteration.
func eachTime(r, it int) int { return it*1000 + r }

// replica gives a number for a rank's data-parallel replica in an iteration.
func (s shape) replica(r, it int) int { return it*1000 + r/s.tp%s.dp }

var variedJobs = []varied{
	{"each rank", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 1 + 0.8*j.Rng.Float64() })
		j.Compute = func(r, it int) float64 { return f(eachTime(r, it)) }
	}, nil},
	{"each rank, seldom for very long", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 1 + min(3, 0.05*math.Pow(1-j.Rng.Float64(), -0.8)) })
		j.Compute = func(r, it int) float64 { return f(eachTime(r, it)) }
	}, nil},
	{"the data of a replica", func(j *rcatest.SlowJob, s shape, draw drawing) {
		f := draw(func() float64 { return math.Exp(0.3 * j.Rng.NormFloat64()) })
		j.Compute = func(r, it int) float64 { return f(s.replica(r, it)) }
	}, nil},
	{"the data of an iteration", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return math.Exp(0.4 * j.Rng.NormFloat64()) })
		j.Compute = func(_, it int) float64 { return f(it) }
	}, nil},
	{"hosts that are busy now and then", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return pick(j.Rng.Float64() < 0.15, 1.5, 1.0) })
		j.Compute = func(r, it int) float64 { return f(eachTime(r/2, it)) }
	}, nil},
	{"calls that come late", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 60 * j.Rng.ExpFloat64() })
		j.Host = func(r, it int) time.Duration { return time.Duration(f(eachTime(r, it)) * float64(time.Millisecond)) }
	}, nil},
	{"all slower and slower", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 0.1 * j.Rng.Float64() })
		j.Compute = func(r, it int) float64 { return 1 + float64(it)*0.02 + f(eachTime(r, it)) }
	}, nil},
	{"the first iterations", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 5 * j.Rng.Float64() })
		j.Compute = func(r, it int) float64 { return pick(it < 2, 1+f(eachTime(r, it)), 1) }
	}, nil},
	{"all from the middle on", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 0.5 * j.Rng.ExpFloat64() })
		j.Compute = func(r, it int) float64 { return pick(it < j.Iters/2, 1, 1+f(eachTime(r, it))) }
	}, nil},
	{"longer sequences from the middle on", func(j *rcatest.SlowJob, s shape, draw drawing) {
		f := draw(func() float64 { return 1.5 * math.Exp(0.3*j.Rng.NormFloat64()) })
		j.Compute = func(r, it int) float64 { return pick(it < j.Iters/2, 1, f(s.replica(r, it))) }
	}, nil},
	{"sends", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 1 + 4*j.Rng.Float64() })
		j.Send = func(r, it int) float64 { return f(eachTime(r, it)) }
	}, nil},
	{"sends, seldom for very long", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 1 + min(30, 0.1*math.Pow(1-j.Rng.Float64(), -0.9)) })
		j.Send = func(r, it int) float64 { return f(eachTime(r, it)) }
	}, nil},
	{"sends, each by itself", func(j *rcatest.SlowJob, _ shape, _ drawing) {
		j.Send = func(int, int) float64 { return math.Exp(j.Rng.NormFloat64()) }
	}, nil},
	{"sends, each by itself, seldom for very long", func(j *rcatest.SlowJob, _ shape, _ drawing) {
		j.Send = func(int, int) float64 { return 1 + min(100, 0.1*math.Pow(1-j.Rng.Float64(), -1.3)) }
	}, nil},
	{"sends, each by itself, no flows seen", func(j *rcatest.SlowJob, _ shape, _ drawing) {
		j.Send = func(int, int) float64 { return math.Exp(j.Rng.NormFloat64()) }
	}, withoutFlows},
	{"sends, seldom for very long, no flows seen", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 1 + min(30, 0.2*math.Pow(1-j.Rng.Float64(), -1.3)) })
		j.Send = func(r, it int) float64 { return f(eachTime(r, it)) }
	}, withoutFlows},
	{"handing on, seldom for very long", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return 1 + min(400, math.Pow(1-j.Rng.Float64(), -1.6)) })
		j.Flush = func(r, it int) float64 { return f(eachTime(r, it)) }
	}, nil},
	{"the network, for all", func(j *rcatest.SlowJob, _ shape, draw drawing) {
		f := draw(func() float64 { return pick(j.Rng.Float64() < 0.3, 6, 1.0) })
		j.Send = func(_, it int) float64 { return f(it) }
	}, nil},
}

// variedShapes leaves out jobs of tensor parallelism alone: in these nothing tells iterations from layers, so that what varies by iteration
// lasts for many of what is taken for one.
var variedShapes = []shape{{8, 1, 1}, {4, 1, 2}, {2, 2, 2}, {2, 4, 1}, {1, 4, 2}, {2, 1, 1}, {1, 2, 1}}

// TestChancePagesNobody: of ranks that vary alike, one is the slowest. It is not paged for, and one that is slow indeed still is.
func TestChancePagesNobody(t *testing.T) {
	for i, c := range variedJobs {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			right, jobs := 0, 0
			for k, s := range variedShapes {
				for seed := range uint64(6) {
					if testing.Short() && int(seed)%3 != (i+k)%3 {
						continue // Each seed has its turn with each kind and each shape.
					}
					job := func(bad int) rca.Verdict {
						j := rcatest.NewSlowJob(s.dp, s.pp, s.tp)
						j.Iters, j.Computations = []int{6, 12, 24}[seed%3], seed%2 == 0
						j.Rng = rand.New(rand.NewPCG(seed, 99))
						drawn := map[int]float64{}
						c.edit(j, s, func(next func() float64) func(int) float64 {
							return func(k int) float64 {
								if _, ok := drawn[k]; !ok {
									drawn[k] = next()
								}
								return drawn[k]
							}
						})
						if healthy := j.Compute; bad >= 0 {
							j.Iters = 40
							j.Compute = func(r, it int) float64 {
								f := pick(r == bad && it >= 16, 3.0, 1.0)
								if healthy != nil {
									f *= healthy(r, it)
								}
								return f
							}
						}
						ev := j.Evidence()
						if c.seen != nil {
							c.seen(&ev)
						}
						return verdictOf(ev, rca.Options{})
					}
					if v := job(-1); v.Page {
						t.Errorf("%v, seed %d: %s pages %v: %s", s, seed, v.Row, rcatest.Accused(v), v.Summary)
					}
					bad := int(seed) % (s.dp * s.pp * s.tp)
					v := job(bad)
					jobs++
					switch got := rcatest.Accused(v); {
					case slices.Equal(got, []int{bad}):
						right++
					case v.Page:
						t.Errorf("%v, seed %d, rank %d is slow: %s pages %v: %s", s, seed, bad, v.Row, got, v.Summary)
					}
				}
			}
			if t.Logf("the slow rank is named in %d of %d jobs", right, jobs); 3*right < 2*jobs {
				t.Error("that is less than two thirds")
			}
		})
	}
}

// TestVerySlowSends: sends may become so slow that those of others take hardly any time beside them. They are still what the slow ones are
// compared with.
func TestVerySlowSends(t *testing.T) {
	for _, f := range []float64{4, 40, 400, 4000} {
		j := rcatest.NewSlowJob(4, 2, 2)
		j.Send = rcatest.One(5, f)
		if v := verdictOf(j.Evidence(), rca.Options{}); !v.Page || !slices.Equal(rcatest.Accused(v), []int{5}) {
			t.Errorf("%g times as long: %s pages %v, accuses %v: %s", f, v.Row, v.Page, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestBesideTheWorst: on busy hosts everybody becomes slower, each by another factor. The one whose GPU does is named alone, not with the
// next worst.
func TestBesideTheWorst(t *testing.T) {
	for _, c := range []struct {
		times [4]float64
		want  []int
	}{
		{[4]float64{2.1, 1.5, 2.9, 1.3}, []int{2}},
		{[4]float64{1.1, 1, 2.9, 2.7}, []int{2, 3}},
	} {
		j := rcatest.NewSlowJob(2, 1, 2)
		j.Iters = 40
		j.Compute = func(r, it int) float64 { return pick(it >= 16, c.times[r], 1) }
		if v := verdictOf(j.Evidence(), rca.Options{}); !v.Page || !slices.Equal(rcatest.Accused(v), c.want) {
			t.Errorf("%v: %s pages %v, accuses %v, want %v: %s", c.times, v.Row, v.Page, rcatest.Accused(v), c.want, v.Summary)
		}
	}
}

// TestFewIterations: of few iterations, each with many transfers, the one whose transfers take longer in all of them is known.
func TestFewIterations(t *testing.T) {
	const slow, jobs = 5, 24
	paged := 0
	for seed := range uint64(jobs) {
		j := rcatest.NewSlowJob(4, 2, 2)
		j.Iters, j.Rng = 4, rand.New(rand.NewPCG(seed, 7))
		j.Send = func(r, _ int) float64 { return pick(r == slow, 8.0, 1) * math.Exp(0.8*j.Rng.NormFloat64()) }
		v := verdictOf(j.Evidence(), rca.Options{})
		switch got := rcatest.Accused(v); {
		case !v.Page:
		case slices.Equal(got, []int{slow}):
			paged++
		default:
			t.Errorf("seed %d: %s pages %v: %s", seed, v.Row, got, v.Summary)
		}
	}
	if t.Logf("paged for in %d of %d jobs", paged, jobs); 4*paged < 3*jobs {
		t.Error("that is less than three quarters")
	}
}

// TestLoadOfAll: transfers that a thread holds up for a fixed time do not get slower where those of all others do, under a load that comes and
// goes for everybody. That their ratio changes with the load is no chance of theirs.
func TestLoadOfAll(t *testing.T) {
	const slow = 5
	for seed := range uint64(6) {
		j := rcatest.NewSlowJob(4, 2, 2)
		j.Iters, j.Rng = 7, rand.New(rand.NewPCG(seed, 7))
		j.Send = func(r, it int) float64 {
			load := math.Exp(1.5 * math.Cos(float64(it)/2))
			return pick(r == slow, 60, 4*load) * math.Exp(0.1*j.Rng.NormFloat64())
		}
		if v := verdictOf(j.Evidence(), rca.Options{}); !v.Page || !slices.Equal(rcatest.Accused(v), []int{slow}) {
			t.Errorf("seed %d: %s accuses %v: %s", seed, v.Row, rcatest.Accused(v), v.Summary)
		}
	}
}

// TestPlainlyBesideThePast: beside their own past a tenth makes transfers slow. Of a place that is slower by so little, the iterations count in
// which it is by a tenth: a thread that sleeps now and then delays some. Of one that is slower by more, those in which it is by a quarter.
func TestPlainlyBesideThePast(t *testing.T) {
	const slow = 5
	r := ring{hosts: 8, pace: 2, slower: func(r int) float64 { return pick(r == slow, 1.24, 1) }, spared: func(it int) bool { return it%4 < 2 }}
	ev := r.evidence()
	a := analysisOf(&ev)
	twice := math.Pow(float64(len(ev.Ranks)), -2)
	for times, want := range map[float64]float64{1.12: twice, 1.5: 1} {
		p := a.compareFlows(&finding{nodes: []int32{slow}, end: endSend, times: times}).sameAgain()
		if a.past == nil || math.Abs(p-want) > want/100 {
			t.Errorf("a place that is %g times slower: chance does this with %g, want %g", times, p, want)
		}
	}
}

// TestLoadThatStays: a load comes seldom to a host, and then stays for some iterations. Ranks of hosts that had it for fewer than a third of
// the iterations, or not at all, are not paged for.
func TestLoadThatStays(t *testing.T) {
	for seed := range uint64(60) {
		j := rcatest.NewSlowJob(4, 1, 2)
		j.Rng = rand.New(rand.NewPCG(seed, 31))
		var load [4][]bool // By host and iteration.
		for h := range load {
			for it := range j.Iters {
				load[h] = append(load[h], j.Rng.Float64() < pick(it > 0 && load[h][it-1], 0.75, 0.04))
			}
		}
		j.Compute = func(r, it int) float64 { return pick(load[r/2][it], 1.5, 1) }
		v := verdictOf(j.Evidence(), rca.Options{})
		for _, r := range rcatest.Accused(v) {
			if busy := countFunc(load[r/2], func(b bool) bool { return b }); v.Page && 3*busy < j.Iters {
				t.Errorf("seed %d: %s pages %v, with load in %d iterations: %s", seed, v.Row, rcatest.Accused(v), busy, v.Summary)
			}
		}
	}
}
