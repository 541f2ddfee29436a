// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// spans gives the durations of a rank's iterations, without the first.
func spans(rec *Recording, rank int) []float64 {
	ends := rec.Iterations(rank)
	var out []float64
	for i := 1; i < len(ends); i++ {
		out = append(out, (ends[i] - ends[i-1]).Seconds())
	}
	return out
}

func TestFirstStepIsSlow(t *testing.T) {
	rec, _ := mustRun(t, Config{Seed: 1, Until: 40 * time.Second, Job: gpt64()})
	first, rest := rec.Iterations(0)[0].Seconds(), spans(rec, 0)
	if usual := slices.Min(rest); first < 2.5*usual || first > 4*usual+1 {
		t.Errorf("the first iteration takes %.2f s, later ones %.2f s", first, usual)
	}
}

// An evaluation is forward passes only: shorter, and not the same sequence of operations.
func TestEvaluationIsForwardOnly(t *testing.T) {
	job := gpt64()
	job.EvalEvery = 3
	rec, _ := mustRun(t, Config{Seed: 1, Until: 40 * time.Second, Job: job})
	for i, s := range spans(rec, 0) {
		iteration := i + 1
		if train := spans(rec, 0)[0]; iteration%3 == 0 && s > 0.6*train || iteration%3 != 0 && s < 0.9*train {
			t.Errorf("iteration %d takes %.2f s, a training one %.2f s", iteration, s, train)
		}
	}
}

func TestCheckpointPausesTheJob(t *testing.T) {
	job := gpt64()
	job.CheckpointEvery, job.CheckpointTime = 4, 5*time.Second
	rec, _ := mustRun(t, Config{Seed: 1, Until: 60 * time.Second, Job: job})
	usual := slices.Min(spans(rec, 8))
	for i, s := range spans(rec, 8) { // Data-parallel index 1: it waits for the writers.
		iteration := i + 1
		near(t, "iteration after or without a checkpoint", s, usual+map[bool]float64{true: 5}[iteration%4 == 0], 0.05)
	}
	at := rec.Iterations(0)[3].Duration() + 4*time.Second // The writers' iteration ends with the writing.
	x, err := New(Config{Seed: 1, Until: time.Minute, Job: job})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Advance(t.Context(), at-5*time.Second); err != nil {
		t.Fatal(err)
	}
	if b := x.Answer().Benign; b != "checkpoint" {
		t.Errorf("in the middle of a checkpoint the answer is %q", b)
	}
	for rank, writes := range map[int]bool{0: true, 8: false} {
		p, err := x.Recording().Process(rank)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Kernel.WriteBytesPerSec > 1e8; got != writes {
			t.Errorf("rank %d writes %g bytes/s", rank, p.Kernel.WriteBytesPerSec)
		}
	}
}

func TestGarbageCollectionPausesRanksOutOfStep(t *testing.T) {
	job := gpt64()
	job.GCEvery, job.GCPause = 5, 400*time.Millisecond
	rec, _ := mustRun(t, Config{Seed: 1, Until: 60 * time.Second, Job: job})
	iterations := map[int]int{}
	for i := range rec.s.ranks {
		r := &rec.s.ranks[i]
		for _, b := range r.busy {
			if b.what == "gc" {
				iterations[sortedBefore(r.ends, b.from)%5]++
			}
		}
	}
	if len(iterations) != 5 {
		t.Errorf("ranks collect in the same iterations: %v", iterations)
	}
	quiet, _ := mustRun(t, Config{Seed: 1, Until: 60 * time.Second, Job: gpt64()})
	if a, b := len(rec.Iterations(0)), len(quiet.Iterations(0)); a >= b {
		t.Errorf("%d iterations with pauses, %d without", a, b)
	}
}

func sortedBefore(ends []Time, t Time) int {
	i, _ := slices.BinarySearch(ends, t)
	return i
}

// Ranks of one data-parallel index get the same sequences, others have other lengths.
func TestSequenceImbalanceIsByDataParallelIndex(t *testing.T) {
	job := gpt64()
	job.SeqImbalance, job.Jitter = 0.3, 1e-9
	s, err := newSim(Config{Seed: 1, Until: time.Second, Job: job})
	if err != nil {
		t.Fatal(err)
	}
	pc := slices.IndexFunc(s.programs[0].train, func(in instr) bool { return in.label == forward })
	in := &s.programs[0].train[pc]
	var work []float64
	for dp := range 4 {
		var same []float64
		for tp := range 8 {
			r := &s.ranks[s.cfg.Job.rankAt(place{tp: tp, dp: dp})]
			same = append(same, r.duration(s, &item{in: in, iter: 2, pc: int32(pc)}).Seconds())
		}
		if slices.Max(same) > 1.6*slices.Min(same) {
			t.Errorf("data-parallel index %d: work %v", dp, same)
		}
		slices.Sort(same)
		work = append(work, same[4])
	}
	if slices.Max(work) < 1.1*slices.Min(work) {
		t.Errorf("work by data-parallel index %v", work)
	}
}

// Clocks of hosts drift apart, by parts in a million.
func TestClocksDrift(t *testing.T) {
	x, err := New(Config{Seed: 2, Until: time.Hour, Job: Job{DP: 32, Workload: AllReduceLoop, SyncBytes: 64 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	apart := func(at time.Duration) []float64 {
		if err := x.Advance(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		var out []float64
		for h := range x.Recording().Hosts() {
			out = append(out, float64(int64(x.Recording().Clock(h)-x.Recording().Clock(0))))
		}
		return out
	}
	a, b := apart(time.Minute), apart(41*time.Minute)
	most := 0.0
	for h := range a {
		most = max(most, math.Abs(b[h]-a[h]))
	}
	if most/(40*60*1e9) > 2*driftSpread || most/(40*60*1e9) < driftSpread/10 {
		t.Errorf("in 40 minutes clocks drift by up to %v", time.Duration(most))
	}
}

// The node's own evidence appears with the fault and not before, on its host and on no other.
func TestEvidenceFollowsTheFault(t *testing.T) {
	const rank = 21 // Host 2, GPU 5.
	for _, c := range []struct {
		fault Fault
		kind  string
		gone  bool // It is gone ten seconds after the fault.
	}{
		{Fault{Kind: GPUError}, "xid", false},
		{Fault{Kind: CUDAError}, "xid", false},
		{Fault{Kind: ECCError}, "ecc_uncorrectable", false},
		{Fault{Kind: NVLinkError, Remaining: 0.1}, "nvlink_errors", false},
		{Fault{Kind: GPUThrottle, Remaining: 0.5}, "clock_throttled", true},
		{Fault{Kind: BackgroundCompute, Remaining: 0.5}, "foreign_process", true},
		{Fault{Kind: NICDown}, "port_down", true},
		{Fault{Kind: LinkFlap, Remaining: 0.2}, "link_downed", true},
		{Fault{Kind: SwitchPortSlow, Remaining: 0.2}, "port_rate_reduced", true},
		{Fault{Kind: Congestion, Peer: 5, Remaining: 0.2}, "cnp_rate", true},
		{Fault{Kind: PCIeDowngrade, Remaining: 0.25}, "link_width_reduced", true},
		{Fault{Kind: CPUContention, Remaining: 0.2}, "cpu_pressure", true},
		{Fault{Kind: CPUThrottle, Remaining: 0.2}, "cpu_clock_reduced", true},
		{Fault{Kind: CrossNUMA, Remaining: 0.5}, "numa_remote", true},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			f := c.fault
			f.Rank, f.At, f.For = rank, 8*time.Second, 2*time.Second
			s, err := newSim(Config{Seed: 1, Until: time.Minute, Job: gpt64(), Faults: []Fault{f}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.applyFaults(); err != nil {
				t.Fatal(err)
			}
			has := func(h int32, at Time) bool {
				for _, fact := range s.facts(h, at) {
					if fact.Kind == c.kind {
						return true
					}
				}
				return false
			}
			for _, q := range []struct {
				host int32
				at   float64
				want bool
			}{{2, 7.9, false}, {2, 9, true}, {2, 21, !c.gone}, {3, 9, false}} {
				if got := has(q.host, seconds(q.at)); got != q.want {
					t.Errorf("host %d at %g s: %s %v, want %v", q.host, q.at, c.kind, got, q.want)
				}
			}
		})
	}
}

// A proxy thread serves its flows one after another: slow enough, and not before, it and not the wire sets the pace.
func TestSlowCPUsSlowTheProxyAndNothingElse(t *testing.T) {
	took := func(faults ...Fault) float64 {
		s, o := single(t, 4, trace.AllReduce, 1<<30, faults...)
		e := s.evaluate(o, Never-1, false, false)
		return last(e.left).Seconds()
	}
	healthy := took()
	near(t, "seconds at half the clock", took(Fault{Kind: CPUThrottle, Rank: 2, Remaining: 0.5}), healthy, 0.02)
	// Three actions a step for sending and three for receiving, a microsecond each at full clock.
	const perStep = 2 * proxyTurns * proxyTurn / 1e9
	for _, clock := range []float64{0.15, 0.05} {
		steps := 2 * 3 * float64(1<<30/4) / (1 << 20)
		near(t, "seconds at a low clock", took(Fault{Kind: CPUThrottle, Rank: 2, Remaining: clock}), steps*perStep/clock, 0.1)
	}
}

// Pulse, D.2: across sockets the rate is lower and fluctuates.
func TestCrossNUMAFluctuates(t *testing.T) {
	s, _ := single(t, 4, trace.AllReduce, 1<<30, Fault{Kind: CrossNUMA, Rank: 1, Remaining: 0.5})
	var rates []float64
	sum := 0.0
	for i := range 400 {
		f, _ := s.hw[1].pcie.at(Time(i) * wobblePeriod)
		rates = append(rates, f)
		sum += f
	}
	near(t, "mean rate", sum/400, 0.5, 0.05)
	if spread := slices.Max(rates) - slices.Min(rates); spread < 0.4 || slices.Min(rates) < 0.2 {
		t.Errorf("rates from %g to %g", slices.Min(rates), slices.Max(rates))
	}
}

// Two faults at once both leave their mark and are both sealed.
func TestTwoFaultsAtOnce(t *testing.T) {
	slow := Fault{Kind: GPUThrottle, Rank: 3, At: 15 * time.Second, Remaining: 0.6}
	hang := Fault{Kind: ProcessStopped, Rank: 50, At: 30 * time.Second}
	rec, answer := mustRun(t, Config{Seed: 1, Until: 45 * time.Second, Job: gpt64(), Faults: []Fault{slow, hang}})
	if len(answer.Truths) != 2 || !answer.Hang {
		t.Errorf("sealed %+v", answer)
	}
	before, after := 0.0, 0.0
	ends := rec.Iterations(0)
	for i := 2; i < len(ends); i++ {
		d := (ends[i] - ends[i-1]).Seconds()
		if ends[i] < seconds(15) {
			before = d
		} else {
			after = max(after, d)
		}
	}
	if after < 1.15*before {
		t.Errorf("iterations take %.2f s before and %.2f s after the first fault", before, after)
	}
	if l := ends[len(ends)-1]; l > seconds(32) {
		t.Errorf("the last iteration ends at %.1f s, after the process was stopped", l.Seconds())
	}
}

// profileAt is how a profile was computed before it was compiled: from the definition.
func profileAt(ws []window, t Time) float64 {
	f := 1.0
	for _, w := range ws {
		if w.from <= t && t < w.to {
			f *= w.factor
		}
	}
	return f
}

func TestProfileIsTheProductOfItsWindows(t *testing.T) {
	p := &profile{}
	for i := range 40 {
		at := Time(random(9, forFact, int64(i), 0, 0) % 1000)
		to := at + Time(random(9, forFact, int64(i), 1, 0)%300)
		if i%7 == 0 {
			to = Never
		}
		p.add(window{from: at, to: to, factor: 0.5 + float64(i%5)/10})
	}
	for at := range Time(1500) {
		f, until := p.at(at)
		near(t, "factor", f, profileAt(p.windows, at), 1e-9)
		if before, _ := p.at(until - 1); until < Never && before != f {
			t.Errorf("the factor at %d is said to hold until %d and is %g before", at, until, before)
		}
	}
}
