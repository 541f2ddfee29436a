// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// slowJob makes timelines: a job of dp x pp x tp ranks whose iterations are computed exactly (who arrives last, when
// all leave), with faults as functions of rank and iteration, on clocks that need not agree.
type slowJob struct {
	dp, pp, tp int
	iters      int
	micro      int
	jitter     float64
	// compute scales a rank's computation, host delays its calls, send scales the time its sends are outstanding, all
	// by iteration; nil: healthy.
	compute func(rank, iter int) float64
	host    func(rank, iter int) time.Duration
	send    func(rank, iter int) float64
	flush   func(rank, iter int) float64
	offset  func(rank int) int64
	drift   func(rank int) float64
	pcie    bool // Flushes are late for PCIe's sake, not the proxy's.
	segs    bool // Computations are recorded too.
	facts   []Fact
	rng     *rand.Rand
}

const (
	layerTime  = 20 * time.Millisecond
	tpTime     = 2 * time.Millisecond
	ppTime     = time.Millisecond
	dpTime     = 40 * time.Millisecond
	normalSend = 10 * time.Millisecond
)

func newSlowJob(dp, pp, tp int) *slowJob {
	return &slowJob{dp: dp, pp: pp, tp: tp, iters: 12, micro: 4, jitter: 0.005, rng: rand.New(rand.NewPCG(7, 7))}
}

func (j *slowJob) at(p, d, t int) int { return (p*j.dp+d)*j.tp + t }

func (j *slowJob) world() int { return j.dp * j.pp * j.tp }

// evidence runs the job.
func (j *slowJob) evidence() Evidence {
	ev := Evidence{JobID: "slow", WorldSize: j.world(), Facts: j.facts}
	comm := map[string][]int{}
	now, left, called := make([]time.Duration, j.world()), make([]time.Duration, j.world()), make([]time.Duration, j.world())
	number := map[string]int64{}
	seq := map[string]int64{}
	for p := range j.pp {
		for d := range j.dp {
			for t := range j.tp {
				r := j.at(p, d, t)
				ev.Ranks = append(ev.Ranks, Rank{ID: r, Host: fmt.Sprintf("node%d", r/2), GPU: fmt.Sprint(r % 2), State: ProcessRunning, Caps: allCaps})
				comm[fmt.Sprintf("tp_%d", p*j.dp+d)] = append(comm[fmt.Sprintf("tp_%d", p*j.dp+d)], r)
				comm[fmt.Sprintf("dp_%d", p*j.tp+t)] = append(comm[fmt.Sprintf("dp_%d", p*j.tp+t)], r)
				comm[fmt.Sprintf("pp_%d", d*j.tp+t)] = append(comm[fmt.Sprintf("pp_%d", d*j.tp+t)], r)
			}
		}
	}
	record := func(s Segment, from, to time.Duration) {
		const epoch = int64(1e15)
		clock := func(t time.Duration) int64 {
			v := epoch + int64(t)
			if j.drift != nil {
				v += int64(j.drift(s.Rank) * float64(t))
			}
			if j.offset != nil {
				v += j.offset(s.Rank)
			}
			return v
		}
		s.Start, s.End, s.Iteration, s.Stage, s.DataRank, s.Layer, s.Microbatch = clock(from), clock(to), -1, -1, -1, -1, -1
		if s.Kind == SegmentOp {
			// Called when the one before had ended, or when the host got round to it.
			s.Entered, s.Start = s.Start, clock(min(max(left[s.Rank], called[s.Rank]), from))
			left[s.Rank] = to
		}
		ev.Timeline = append(ev.Timeline, s)
	}
	work := func(r, it int, base time.Duration) {
		f := 1 + j.jitter*j.rng.NormFloat64()
		if j.compute != nil {
			f *= j.compute(r, it)
		}
		from := now[r]
		now[r] += time.Duration(float64(base) * f)
		if j.segs {
			record(Segment{Rank: r, Kind: SegmentCompute, Func: "compute", Number: -1, Peer: -1}, from, now[r])
		}
	}
	sendOf := func(r, it int) float64 {
		if j.send == nil {
			return 1
		}
		return j.send(r, it)
	}
	waits := func(s *Segment, r, it int, transfer time.Duration) {
		s.Steps = 100
		s.SendWait[2] = time.Duration(float64(transfer) * 0.9 * sendOf(r, it))
		s.RecvWait[1] = transfer / 50
		if j.flush != nil {
			s.RecvWait[1] = time.Duration(float64(s.RecvWait[1]) * j.flush(r, it))
			if !j.pcie {
				s.RecvWait[2] = s.RecvWait[1] / 2
			}
		}
	}
	collective := func(name, fn string, bytes int64, members []int, it int, base time.Duration) {
		last, slow := time.Duration(0), 1.0
		for _, r := range members {
			last = max(last, now[r])
			slow = max(slow, sendOf(r, it))
			if j.flush != nil {
				slow = max(slow, 1+(j.flush(r, it)-1)/20)
			}
		}
		end := last + time.Duration(float64(base)*slow)
		n := number[name]
		number[name]++
		for i, r := range members {
			s := Segment{Rank: r, Comm: CommID(name), Number: n, Seq: n, Func: fn, Peer: -1, Bytes: bytes, SlowestPeer: (i + 1) % len(members)}
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
		s := Segment{Rank: a, Comm: CommID(name), Number: -1, Seq: n, Func: "Send", Peer: b, Bytes: 1 << 20}
		waits(&s, a, it, ppTime)
		record(s, now[a], now[a]+base)
		record(Segment{Rank: b, Comm: CommID(name), Number: -1, Seq: n, Func: "Recv", Peer: a, Bytes: 1 << 20}, now[b], end)
		now[a] += base
		now[b] = end
	}
	for it := range j.iters {
		for r := range now {
			if j.host != nil {
				now[r] += j.host(r, it)
				called[r] = now[r]
			}
		}
		stage := func(p int, base time.Duration) {
			for d := range j.dp {
				for range 2 {
					for t := range j.tp {
						work(j.at(p, d, t), it, base)
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
					p2p(fmt.Sprintf("pp_%d", d*j.tp+t), j.at(p, d, t), j.at(q, d, t), it)
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
			ev.Comms = append(ev.Comms, Comm{ID: CommID(name), Name: name, Size: len(members), Members: members})
		}
	}
	return ev
}
