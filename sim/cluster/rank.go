// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"time"

	"github.com/culprit-project/culprit/trace"
)

const (
	computeStream = 0
	numStreams    = 1 + int(numSlots)
	endsKept      = 128
	launchQueue   = 1000 // Kernels that a host thread may be ahead of its GPU.
	launchTime    = 12 * time.Microsecond
	callTime      = 25 * time.Microsecond
	kernelGap     = 4 * time.Microsecond
)

// rank is one training process: the host thread's place in its program and the GPU's streams.
type rank struct {
	id      int32
	stage   int32
	place   place
	comms   [numSlots]membership
	prog    []instr
	pc      int
	iter    int32
	host    Time
	syncing bool
	full    bool
	drained Time // When the queue of a rank that was full had room again.
	halted  bool // Does nothing more before the horizon.
	streams [numStreams]stream
	count   [numSlots]counts
	seqs    [numSlots][trace.NumFunc]int32
	history history
	ends    []Time // Ends of iterations.
	script  []deviation
	busy    []activity
	halved  []half // Of the group launched last, used again.
}

type membership struct {
	comm int32 // -1: none.
	rank int32
}

// counts are a rank's operations on one communicator.
type counts struct {
	called, collectives, started, completed int64
	lastCalled, lastLeft                    Time
}

// activity is a span in which the host thread did something that the kernel sees.
type activity struct {
	from, to Time
	what     string // "checkpoint", "data", "gc", …
}

// stream is a queue of the GPU, first in, first out.
type stream struct {
	queue []item
	head  int
	pos   int64 // Items ever queued.
	done  int64
	tail  Time
	ends  *[endsKept]Time // Of the last items; nil until something is queued.
}

// item is one thing in a stream.
type item struct {
	in      *instr
	o       *op    // A collective,
	group   *group // or a group of sends and receives.
	enq     Time
	start   Time
	depPos  int64
	iter    int32
	pc      int32
	m       int32 // Member of the collective.
	dep     int8  // Stream it waits for, -1 none.
	started bool
}

// group is a group of sends and receives that one rank launches together.
type group struct{ refs []finished }

func (r *rank) init(s *sim, id int32) {
	r.id = id
	r.place = s.cfg.Job.place(int(id))
	r.stage = int32(r.place.pp)
	r.prog = s.programs[r.stage].train
	for i := range r.comms {
		r.comms[i].comm = -1
	}
}

// advance runs the rank until it waits for another rank or the horizon.
func (r *rank) advance(s *sim) {
	for again := true; again; {
		again = r.runHost(s)
		for i := range r.streams {
			if st := &r.streams[i]; st.head < len(st.queue) && r.runStream(s, i) {
				again = true
			}
		}
	}
}

// runHost runs the host thread as far as it can and tells whether it did anything.
func (r *rank) runHost(s *sim) bool {
	did := false
	for !r.halted {
		if r.full {
			if r.backlog() > launchQueue/2 {
				return did
			}
			r.full = false
			r.host = max(r.host, r.drained)
		}
		if r.syncing {
			end := r.host
			for i := range r.streams {
				if st := &r.streams[i]; st.head < len(st.queue) {
					return did
				}
				end = max(end, r.streams[i].tail)
			}
			r.syncing = false
			r.host = s.hw[r.id].cpu.finish(end, Time(launchTime))
		}
		if r.host > s.horizon {
			r.halted = true
			return true
		}
		if r.pc >= len(r.prog) {
			r.pc = 0
		}
		r.step(s, &r.prog[r.pc])
		did = true
	}
	return did
}

// resume lets a rank that halted at an earlier horizon go on.
func (r *rank) resume(s *sim) {
	if !r.halted || r.host > s.horizon {
		return
	}
	r.halted = false
	for i := range r.count {
		r.count[i].started = r.count[i].called
	}
}

func (r *rank) backlog() int {
	st := &r.streams[computeStream]
	return len(st.queue) - st.head
}

// step does one instruction of the program.
func (r *rank) step(s *sim, in *instr) {
	cpu := s.hw[r.id].cpu
	pc := r.pc
	r.pc++
	switch in.kind {
	case doHost:
		r.hostWork(s, in)
	case doCompute:
		r.host = cpu.finish(r.host, Time(launchTime))
		r.enqueue(computeStream, item{in: in, iter: r.iter, pc: int32(pc), dep: -1, enq: r.host})
	case doCollect, doP2P:
		if in = r.deviate(in); in != nil && r.comms[in.slot].comm >= 0 {
			r.launch(s, in, pc)
		}
	case doWait:
		if r.comms[in.slot].comm >= 0 {
			r.await(in)
		}
	case doSync:
		r.syncing = true
	case doCheckpoint:
		r.checkpoint(s)
	case doIterate:
		r.iterate(s)
	}
	if r.backlog() >= launchQueue {
		r.full = true
	}
}

// await makes the compute stream wait for all that is queued on the slot's stream.
func (r *rank) await(in *instr) {
	st := &r.streams[1+in.slot]
	if st.pos == 0 {
		return
	}
	r.enqueue(computeStream, item{in: nil, iter: r.iter, dep: int8(1 + in.slot), depPos: st.pos - 1, enq: r.host})
}

func (r *rank) enqueue(stream int, it item) {
	st := &r.streams[stream]
	if st.head == len(st.queue) {
		st.queue, st.head = st.queue[:0], 0
	}
	if st.head > 256 && st.head*2 > len(st.queue) {
		st.queue = st.queue[:copy(st.queue, st.queue[st.head:])]
		st.head = 0
	}
	if st.ends == nil {
		st.ends = new([endsKept]Time)
	}
	st.queue = append(st.queue, it)
	st.pos++
}

// hostWork is work of the host thread itself.
func (r *rank) hostWork(s *sim, in *instr) {
	hw := &s.hw[r.id]
	work := in.work
	if in.label == dataLoad && r.iter == 0 {
		work += Time(lazyConnectTime)
	}
	job := &s.cfg.Job
	if in.label == dataLoad && job.GCEvery > 0 && (int64(r.iter)+int64(random(s.cfg.Seed, forGC, int64(r.id), 0, 0)%1000))%int64(job.GCEvery) == 0 {
		r.busy = append(r.busy, activity{r.host, r.host + Time(job.GCPause), "gc"})
		work += Time(job.GCPause)
	}
	for _, d := range r.script {
		if d.kind == deviateData && in.label == dataLoad && r.host >= d.from {
			r.busy = append(r.busy, activity{r.host, Never, "data"})
			r.host = Never
		}
		if d.kind == deviateSlowData && in.label == dataLoad && r.host >= d.from && r.host < d.to {
			r.busy = append(r.busy, activity{r.host, r.host + d.extra, "data"})
			work += d.extra
		}
	}
	jitter := 1 + 0.1*math.Abs(normal(s.cfg.Seed, forHost, int64(r.id), int64(r.iter), int64(r.pc)))
	r.host = hw.cpu.finish(r.host, Time(float64(work)*jitter))
	r.halted = r.host > s.horizon
}

func (r *rank) checkpoint(s *sim) {
	job := &s.cfg.Job
	if job.CheckpointEvery == 0 || (int(r.iter)+1)%job.CheckpointEvery != 0 || (!job.CheckpointAll && r.place.dp > 0) {
		return
	}
	spread := 1 + job.CheckpointSpread*uniform(s.cfg.Seed, forHost, int64(r.id), int64(r.iter), -1)
	from := r.host
	disk := s.hosts[s.hw[r.id].host].disk
	r.host = s.hw[r.id].cpu.finish(from, disk.finish(from, Time(float64(job.CheckpointTime)*spread))-from)
	r.busy = append(r.busy, activity{from, r.host, "checkpoint"})
	r.halted = r.host > s.horizon
}

func (r *rank) iterate(s *sim) {
	r.ends = append(r.ends, r.host)
	r.iter++
	r.pc = 0
	p := &s.programs[r.stage]
	r.prog = p.train
	if e := s.cfg.Job.EvalEvery; e > 0 && int(r.iter)%e == 0 {
		r.prog = p.eval
	}
	for i := range r.script {
		if d := &r.script[i]; d.kind == deviateOrder && !d.done && r.host >= d.from {
			if swapped := r.swapOrder(r.prog); swapped != nil {
				r.prog, d.done = swapped, true
			}
		}
	}
}

// duration is the time of a computation at full speed, with everything that varies in a healthy job.
func (r *rank) duration(s *sim, it *item) Time {
	job, seed, in := &s.cfg.Job, s.cfg.Seed, it.in
	f := 1 + job.Jitter*normal(seed, forCompute, int64(r.id), int64(it.iter), int64(it.pc))
	if b := uniform(seed, forBlip, int64(r.id), int64(it.iter), int64(it.pc)); b < 2e-4 {
		f += 0.5 * b / 2e-4
	}
	if it.iter == 0 && in.label != optimizer {
		f *= firstStepFactor
	}
	if job.SeqImbalance > 0 && (in.label == forward || in.label == backward || in.label == expertWork) {
		f *= math.Exp(job.SeqImbalance * normal(seed, forSequence, int64(r.place.dp), int64(it.iter), int64(in.mb)))
	}
	if len(s.uneven) > 0 && in.label != plain && in.label != optimizer {
		f *= s.extra(it.iter, false, int(r.stage))
	}
	if in.label == expertWork {
		e := r.place.dp % job.EP
		f *= s.load(it.iter, in, e) * float64(job.EP)
	}
	return Time(float64(in.work) * f)
}

// load is the share of tokens that the experts on expert-parallel rank e get.
func (s *sim) load(iter int32, in *instr, e int) float64 {
	job := &s.cfg.Job
	total, own := 0.0, 0.0
	for i := range job.EP {
		w := 1.0
		if job.ExpertFactor != nil {
			w = job.ExpertFactor[i]
		}
		w *= s.extra(iter, true, i)
		if job.RoutingImbalance > 0 {
			w *= math.Exp(job.RoutingImbalance * normal(s.cfg.Seed, forRouting, int64(i), int64(iter), int64(in.group)<<16|int64(in.mb)))
		}
		total += w
		if i == e {
			own = w
		}
	}
	return own / total
}
