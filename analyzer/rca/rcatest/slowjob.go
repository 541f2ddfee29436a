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
	// Compute scales a rank's computation, Host delays its calls, Send scales the time its sends are outstanding, Flush that of
	// its receives' way to the GPU, all by iteration; Offset (ns) and Drift are its clock's. nil: healthy.
	Compute      func(rank, iter int) float64
	Host         func(rank, iter int) time.Duration
	Send         func(rank, iter int) float64
	Flush        func(rank, iter int) float64
	Offset       func(rank int) int64
	Drift        func(rank int) float64
	PCIe         bool // Flushes are late for PCIe's sake, not the proxy's.
	Computations bool // Computations are recorded too.
	Facts        []rca.Fact
	Rng          *rand.Rand // Of the jitter.
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
	n := j.World()
	r := &slowRun{
		SlowJob: j, ev: rca.Evidence{JobID: "slow", WorldSize: n, Facts: j.Facts}, comm: map[string][]int{},
		now: make([]time.Duration, n), left: make([]time.Duration, n), called: make([]time.Duration, n),
		number: map[string]int64{}, seq: map[string]int64{},
	}
	r.place()
	for it := range j.Iters {
		r.iteration(it)
	}
	for name, members := range r.comm {
		if len(members) > 1 {
			r.ev.Comms = append(r.ev.Comms, rca.Comm{ID: rca.CommID(name), Name: name, Size: len(members), Members: members})
		}
	}
	return r.ev
}

// slowRun is a job while it runs.
type slowRun struct {
	*SlowJob
	ev                rca.Evidence
	comm              map[string][]int // Members by name.
	now, left, called []time.Duration  // By rank: how far it is, when it left its last operation, when its host got round to calling.
	number, seq       map[string]int64 // Next operation, by communicator and by pair.
}

// place puts the ranks on hosts and into their communicators.
func (r *slowRun) place() {
	for p := range r.pp {
		for d := range r.dp {
			for t := range r.tp {
				id := r.At(p, d, t)
				r.ev.Ranks = append(r.ev.Ranks, rca.Rank{ID: id, Host: fmt.Sprintf("node%d", id/2), GPU: fmt.Sprint(id % 2), State: rca.ProcessRunning, Caps: AllCaps})
				for _, name := range []string{r.tpName(p, d), r.dpName(p, t), r.ppName(d, t)} {
					r.comm[name] = append(r.comm[name], id)
				}
			}
		}
	}
}

func (r *slowRun) tpName(p, d int) string { return fmt.Sprintf("tp_%d", p*r.dp+d) }
func (r *slowRun) dpName(p, t int) string { return fmt.Sprintf("dp_%d", p*r.tp+t) }
func (r *slowRun) ppName(d, t int) string { return fmt.Sprintf("pp_%d", d*r.tp+t) }

// iteration runs microbatches forward and backward, and the reduction of gradients.
func (r *slowRun) iteration(it int) {
	for id := range r.now {
		if r.Host != nil {
			r.now[id] += r.Host(id, it)
			r.called[id] = r.now[id]
		}
	}
	for range r.micro {
		for p := range r.pp {
			r.stage(p, it, layerTime)
			if p+1 < r.pp {
				r.exchange(p, p+1, it)
			}
		}
	}
	for range r.micro {
		for p := r.pp - 1; p >= 0; p-- {
			r.stage(p, it, 2*layerTime)
			if p > 0 {
				r.exchange(p, p-1, it)
			}
		}
	}
	for p := range r.pp {
		for t := range r.tp {
			if r.dp > 1 {
				r.collective(r.dpName(p, t), "ReduceScatter", 8<<20, it, dpTime)
			}
		}
	}
}

// stage computes two layers of a stage on all its ranks.
func (r *slowRun) stage(p, it int, base time.Duration) {
	for d := range r.dp {
		for range 2 {
			for t := range r.tp {
				r.work(r.At(p, d, t), it, base)
			}
			if r.tp > 1 {
				r.collective(r.tpName(p, d), "AllReduce", 1<<20, it, tpTime)
			}
		}
	}
}

// exchange sends from all ranks of stage p to those of stage q.
func (r *slowRun) exchange(p, q, it int) {
	for d := range r.dp {
		for t := range r.tp {
			r.p2p(r.ppName(d, t), r.At(p, d, t), r.At(q, d, t), it)
		}
	}
}

func (r *slowRun) work(id, it int, base time.Duration) {
	f := 1 + r.Jitter*r.Rng.NormFloat64()
	if r.Compute != nil {
		f *= r.Compute(id, it)
	}
	from := r.now[id]
	r.now[id] += time.Duration(float64(base) * f)
	if r.Computations {
		r.record(rca.Segment{Rank: id, Kind: rca.SegmentCompute, Func: "compute", Number: -1, Peer: -1}, from, r.now[id])
	}
}

// collective lets all members leave together, as soon after the last arriver as the slowest's transfer allows.
func (r *slowRun) collective(name, fn string, bytes int64, it int, base time.Duration) {
	members := r.comm[name]
	last, slow := time.Duration(0), 1.0
	for _, id := range members {
		last = max(last, r.now[id])
		slow = max(slow, r.sendOf(id, it))
		if r.Flush != nil {
			slow = max(slow, 1+(r.Flush(id, it)-1)/20)
		}
	}
	end := last + time.Duration(float64(base)*slow)
	n := r.number[name]
	r.number[name]++
	for i, id := range members {
		s := rca.Segment{Rank: id, Comm: rca.CommID(name), Number: n, Seq: n, Func: fn, Peer: -1, Bytes: bytes, SlowestPeer: (i + 1) % len(members)}
		if fn != "AllReduce" {
			r.waits(&s, it, base)
		}
		r.record(s, r.now[id], end)
		r.now[id] = end
	}
}

// p2p is a send that does not wait for its receiver.
func (r *slowRun) p2p(name string, from, to, it int) {
	base := time.Duration(float64(ppTime) * r.sendOf(from, it))
	end := max(r.now[from], r.now[to]) + base
	pair := fmt.Sprint(name, from, to)
	n := r.seq[pair]
	r.seq[pair]++
	s := rca.Segment{Rank: from, Comm: rca.CommID(name), Number: -1, Seq: n, Func: "Send", Peer: to, Bytes: 1 << 20}
	r.waits(&s, it, ppTime)
	r.record(s, r.now[from], r.now[from]+base)
	r.record(rca.Segment{Rank: to, Comm: rca.CommID(name), Number: -1, Seq: n, Func: "Recv", Peer: from, Bytes: 1 << 20}, r.now[to], end)
	r.now[from] += base
	r.now[to] = end
}

func (r *slowRun) sendOf(id, it int) float64 {
	if r.Send == nil {
		return 1
	}
	return r.Send(id, it)
}

// waits fills in what the transfer of a segment waited for.
func (r *slowRun) waits(s *rca.Segment, it int, transfer time.Duration) {
	s.Steps = 100
	s.SendWait[2] = time.Duration(float64(transfer) * 0.9 * r.sendOf(s.Rank, it))
	s.RecvWait[1] = transfer / 50
	if r.Flush != nil {
		s.RecvWait[1] = time.Duration(float64(s.RecvWait[1]) * r.Flush(s.Rank, it))
		if !r.PCIe {
			s.RecvWait[2] = s.RecvWait[1] / 2
		}
	}
}

// record writes a segment down by its rank's own clock.
func (r *slowRun) record(s rca.Segment, from, to time.Duration) {
	s.Start, s.End, s.Iteration, s.Stage, s.DataRank, s.Layer, s.Microbatch = r.clock(s.Rank, from), r.clock(s.Rank, to), -1, -1, -1, -1, -1
	if s.Kind == rca.SegmentOp {
		// Called when the one before had ended, or when the host got round to it.
		s.Entered, s.Start = s.Start, r.clock(s.Rank, min(max(r.left[s.Rank], r.called[s.Rank]), from))
		r.left[s.Rank] = to
	}
	r.ev.Timeline = append(r.ev.Timeline, s)
}

func (r *slowRun) clock(id int, t time.Duration) int64 {
	const epoch = int64(1e15)
	v := epoch + int64(t)
	if r.Drift != nil {
		v += int64(r.Drift(id) * float64(t))
	}
	if r.Offset != nil {
		v += r.Offset(id)
	}
	return v
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
