// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rcatest makes evidence of slow jobs for tests of the engine, and reads verdicts for them.
package rcatest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// SlowJob makes timelines: a job of dp x pp x tp ranks whose iterations are computed exactly (who arrives last, when
// all leave), with faults as functions of rank and iteration, on clocks that need not agree.
type SlowJob struct {
	dp, pp, tp int
	Iters      int
	micro      int
	Jitter     float64
	// compute scales a rank's computation, host delays its calls, send scales the time its sends are outstanding, all
	// by iteration; nil: healthy.
	Compute      func(rank, iter int) float64
	Host         func(rank, iter int) time.Duration
	Send         func(rank, iter int) float64
	Flush        func(rank, iter int) float64
	Offset       func(rank int) int64
	Drift        func(rank int) float64
	PCIe         bool // Flushes are late for PCIe's sake, not the proxy's.
	Computations bool // Computations are recorded too.
	Facts        []rca.Fact
	Rng          *rand.Rand
}

const (
	layerTime  = 20 * time.Millisecond
	tpTime     = 2 * time.Millisecond
	ppTime     = time.Millisecond
	dpTime     = 40 * time.Millisecond
	normalSend = 10 * time.Millisecond
)

// NewSlowJob is a healthy job of dp x pp x tp ranks, two to a host.
func NewSlowJob(dp, pp, tp int) *SlowJob {
	return &SlowJob{dp: dp, pp: pp, tp: tp, Iters: 12, micro: 4, Jitter: 0.005, Rng: rand.New(rand.NewPCG(7, 7))}
}

// At gives the rank of stage p, data-parallel replica d and tensor-parallel place t.
func (j *SlowJob) At(p, d, t int) int { return (p*j.dp+d)*j.tp + t }

// World is the number of ranks.
func (j *SlowJob) World() int { return j.dp * j.pp * j.tp }

// Evidence runs the job.
func (j *SlowJob) Evidence() rca.Evidence {
	ev := rca.Evidence{JobID: "slow", WorldSize: j.World(), Facts: j.Facts}
	comm := map[string][]int{}
	now, left, called := make([]time.Duration, j.World()), make([]time.Duration, j.World()), make([]time.Duration, j.World())
	number := map[string]int64{}
	seq := map[string]int64{}
	for p := range j.pp {
		for d := range j.dp {
			for t := range j.tp {
				r := j.At(p, d, t)
				ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: fmt.Sprintf("node%d", r/2), GPU: fmt.Sprint(r % 2), State: rca.ProcessRunning, Caps: AllCaps})
				comm[fmt.Sprintf("tp_%d", p*j.dp+d)] = append(comm[fmt.Sprintf("tp_%d", p*j.dp+d)], r)
				comm[fmt.Sprintf("dp_%d", p*j.tp+t)] = append(comm[fmt.Sprintf("dp_%d", p*j.tp+t)], r)
				comm[fmt.Sprintf("pp_%d", d*j.tp+t)] = append(comm[fmt.Sprintf("pp_%d", d*j.tp+t)], r)
			}
		}
	}
	record := func(s rca.Segment, from, to time.Duration) {
		const epoch = int64(1e15)
		clock := func(t time.Duration) int64 {
			v := epoch + int64(t)
			if j.Drift != nil {
				v += int64(j.Drift(s.Rank) * float64(t))
			}
			if j.Offset != nil {
				v += j.Offset(s.Rank)
			}
			return v
		}
		s.Start, s.End, s.Iteration, s.Stage, s.DataRank, s.Layer, s.Microbatch = clock(from), clock(to), -1, -1, -1, -1, -1
		if s.Kind == rca.SegmentOp {
			// Called when the one before had ended, or when the host got round to it.
			s.Entered, s.Start = s.Start, clock(min(max(left[s.Rank], called[s.Rank]), from))
			left[s.Rank] = to
		}
		ev.Timeline = append(ev.Timeline, s)
	}
	work := func(r, it int, base time.Duration) {
		f := 1 + j.Jitter*j.Rng.NormFloat64()
		if j.Compute != nil {
			f *= j.Compute(r, it)
		}
		from := now[r]
		now[r] += time.Duration(float64(base) * f)
		if j.Computations {
			record(rca.Segment{Rank: r, Kind: rca.SegmentCompute, Func: "compute", Number: -1, Peer: -1}, from, now[r])
		}
	}
	sendOf := func(r, it int) float64 {
		if j.Send == nil {
			return 1
		}
		return j.Send(r, it)
	}
	waits := func(s *rca.Segment, r, it int, transfer time.Duration) {
		s.Steps = 100
		s.SendWait[2] = time.Duration(float64(transfer) * 0.9 * sendOf(r, it))
		s.RecvWait[1] = transfer / 50
		if j.Flush != nil {
			s.RecvWait[1] = time.Duration(float64(s.RecvWait[1]) * j.Flush(r, it))
			if !j.PCIe {
				s.RecvWait[2] = s.RecvWait[1] / 2
			}
		}
	}
	collective := func(name, fn string, bytes int64, members []int, it int, base time.Duration) {
		last, slow := time.Duration(0), 1.0
		for _, r := range members {
			last = max(last, now[r])
			slow = max(slow, sendOf(r, it))
			if j.Flush != nil {
				slow = max(slow, 1+(j.Flush(r, it)-1)/20)
			}
		}
		end := last + time.Duration(float64(base)*slow)
		n := number[name]
		number[name]++
		for i, r := range members {
			s := rca.Segment{Rank: r, Comm: rca.CommID(name), Number: n, Seq: n, Func: fn, Peer: -1, Bytes: bytes, SlowestPeer: (i + 1) % len(members)}
			if fn != "AllReduce" {
				waits(&s, r, it, base)
			}
			record(s, now[r], end)
			now[r] = end
		}
	}
	p2p := func(name string, a, b, it int) {
		base := time.Duration(float64(ppTime) * sendOf(a, it))
		end := max(now[a], now[b]) + base
		k := fmt.Sprint(name, a, b)
		n := seq[k]
		seq[k]++
		s := rca.Segment{Rank: a, Comm: rca.CommID(name), Number: -1, Seq: n, Func: "Send", Peer: b, Bytes: 1 << 20}
		waits(&s, a, it, ppTime)
		record(s, now[a], now[a]+base)
		record(rca.Segment{Rank: b, Comm: rca.CommID(name), Number: -1, Seq: n, Func: "Recv", Peer: a, Bytes: 1 << 20}, now[b], end)
		now[a] += base
		now[b] = end
	}
	for it := range j.Iters {
		for r := range now {
			if j.Host != nil {
				now[r] += j.Host(r, it)
				called[r] = now[r]
			}
		}
		stage := func(p int, base time.Duration) {
			for d := range j.dp {
				for range 2 {
					for t := range j.tp {
						work(j.At(p, d, t), it, base)
					}
					if j.tp > 1 {
						name := fmt.Sprintf("tp_%d", p*j.dp+d)
						collective(name, "AllReduce", 1<<20, comm[name], it, tpTime)
					}
				}
			}
		}
		across := func(p, q int) {
			for d := range j.dp {
				for t := range j.tp {
					p2p(fmt.Sprintf("pp_%d", d*j.tp+t), j.At(p, d, t), j.At(q, d, t), it)
				}
			}
		}
		for range j.micro {
			for p := range j.pp {
				stage(p, layerTime)
				if p+1 < j.pp {
					across(p, p+1)
				}
			}
		}
		for range j.micro {
			for p := j.pp - 1; p >= 0; p-- {
				stage(p, 2*layerTime)
				if p > 0 {
					across(p, p-1)
				}
			}
		}
		if j.dp > 1 {
			for p := range j.pp {
				for t := range j.tp {
					name := fmt.Sprintf("dp_%d", p*j.tp+t)
					collective(name, "ReduceScatter", 8<<20, comm[name], it, dpTime)
				}
			}
		}
	}
	for name, members := range comm {
		if len(members) > 1 {
			ev.Comms = append(ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
		}
	}
	return ev
}

// One scales one rank by f in every iteration.
func One(rank int, f float64) func(int, int) float64 {
	return func(r, _ int) float64 {
		if r == rank {
			return f
		}
		return 1
	}
}

// AllCaps is what a source with every event can see.
const AllCaps = rca.SeesCalls | rca.SeesSteps | rca.SeesPeerWait | rca.SeesKernels | rca.SeesCompletion | rca.SeesProcess
