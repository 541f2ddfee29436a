// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// instrKind is what the host thread does next.
type instrKind uint8

const (
	doHost       instrKind = iota // The host thread itself works: data loading, Python.
	doCompute                     // Launches a kernel on the compute stream.
	doCollect                     // Launches a collective on its communicator's stream.
	doP2P                         // Launches a group of sends and receives.
	doWait                        // The compute stream waits for a communicator's stream.
	doSync                        // The host thread waits for its GPU.
	doIterate                     // End of an iteration.
	doCheckpoint                  // Writes a checkpoint.
)

// label says what a computation is, for faults and imbalance.
type label uint8

const (
	plain label = iota
	dataLoad
	forward
	backward
	expertWork
	optimizer
)

// instr is one step of the host thread's program. Programs are shared by all ranks of a pipeline stage.
type instr struct {
	kind     instrKind
	slot     slot
	label    label
	blocking bool // Later computation waits for it.
	fn       trace.Func
	dtype    dtype
	work     Time  // Computation or host time at nominal speed.
	bytes    int64 // Per rank, as NCCL counts it: payload of AllReduce; the gathered part is bytes x ranks.
	halves   []half
	mb       int16
	group    int16
	allToAll bool // Sends and receives to and from everybody, uneven:
	combine  bool // the way back from the experts.
}

// half is one side of a send/receive: relative to the communicator.
type half struct {
	send  bool
	delta int32 // Peer = own rank in the communicator + delta, modulo its size; absolute when abs.
	abs   bool
	bytes int64
}

type dtype uint8

const (
	bf16 dtype = iota
	fp32
)

func (d dtype) size() int64 { return [...]int64{2, 4}[d] }

func (d dtype) String() string { return [...]string{"bfloat16", "float32"}[d] }

// stageProgram is the program of one pipeline stage for one kind of iteration.
type stageProgram struct {
	train []instr
	eval  []instr
}

// builder makes a stage's program.
type builder struct {
	job   *Job
	hw    *Hardware
	stage int
	out   []instr
}

const (
	dataLoadTime  = 3 * time.Millisecond
	stepTime      = 2 * time.Millisecond // Python around a microbatch.
	optimizerRate = 1.2e12               // Bytes per second through the optimizer's kernels.
)

func (j *Job) program(hw *Hardware, stage int) stageProgram {
	b := builder{job: j, hw: hw, stage: stage}
	if j.Workload != Training {
		b.custom()
		return stageProgram{train: b.out}
	}
	b.iteration(false)
	p := stageProgram{train: b.out}
	b.out = nil
	b.iteration(true)
	p.eval = b.out
	return p
}

func (b *builder) add(in instr) { b.out = append(b.out, in) }

func (b *builder) layers() int {
	j := b.job
	n := j.Model.Layers / j.PP
	if b.stage < j.Model.Layers%j.PP {
		n++
	}
	return n
}

// tokens of one microbatch on one context-parallel rank.
func (b *builder) tokens() float64 {
	return float64(b.job.MicroBatchSize*b.job.Model.Seq) / float64(b.job.CP)
}

// groupTime is the forward time of one layer group's attention or feed-forward half on one rank.
func (b *builder) groupTime(expert bool) Time {
	j, m := b.job, b.job.Model
	layers := float64(b.layers()) / float64(j.LayerGroups)
	attn := 2*4*float64(m.Hidden)*float64(m.Hidden) + 2*float64(m.Seq)*float64(m.Hidden)
	flops := attn
	if expert {
		flops = 2 * 3 * float64(m.Hidden) * float64(m.FFN) * float64(max(1, m.TopK))
	}
	t := flops * b.tokens() * layers / float64(j.TP) / b.hw.GPUFlops
	if j.StageFactor != nil {
		t *= j.StageFactor[b.stage]
	}
	return seconds(t)
}

// activation is the size of one microbatch's activations.
func (b *builder) activation() int64 { return int64(b.tokens()) * int64(b.job.Model.Hidden) * 2 }

// params is the number of parameters of this rank's shard of the stage, before data parallelism.
func (b *builder) params() float64 {
	j := b.job
	per := j.Model.layerParams()
	if j.Model.Experts > 0 {
		dense := 4 * float64(j.Model.Hidden) * float64(j.Model.Hidden)
		per = dense + (per-dense)/float64(j.EP)
	}
	p := per * float64(b.layers()) / float64(j.TP)
	if b.stage == 0 || b.stage == j.PP-1 {
		p += float64(j.Model.Vocab) * float64(j.Model.Hidden) / float64(j.TP)
	}
	return p
}

func (b *builder) iteration(eval bool) {
	j := b.job
	m := j.MicroBatches
	b.add(instr{kind: doHost, label: dataLoad, work: At(dataLoadTime)})
	if eval {
		for i := range m {
			b.p2p(i, b.recvForward())
			b.forward(i)
			b.p2p(i, b.sendForward())
		}
	} else {
		b.oneFOneB(m)
	}
	b.finish(eval)
}

// oneFOneB is Megatron's non-interleaved schedule.
func (b *builder) oneFOneB(m int) {
	warm := min(b.job.PP-b.stage-1, m)
	steady := m - warm
	for i := range warm {
		b.p2p(i, b.recvForward())
		b.forward(i)
		b.p2p(i, b.sendForward())
	}
	if steady > 0 {
		b.p2p(warm, b.recvForward())
	}
	for i := range steady {
		b.forward(warm + i)
		b.p2p(i, b.sendForward(), b.recvBackward())
		b.backward(i, warm == 0 && i == m-1)
		if i == steady-1 {
			b.p2p(i, b.sendBackward())
		} else {
			b.p2p(i, b.sendBackward(), b.recvForward())
		}
	}
	for i := range warm {
		b.p2p(steady+i, b.recvBackward())
		b.backward(steady+i, i == warm-1)
		b.p2p(steady+i, b.sendBackward())
	}
}

// edge is the size of a pipeline transfer: scattered over the tensor-parallel ranks.
func (b *builder) edge() int64 { return b.activation() / int64(b.job.TP) }

// neighbour is a send to or a receive from the stage delta away; nil where there is none.
func (b *builder) neighbour(send bool, delta int32) []half {
	if to := b.stage + int(delta); to < 0 || to >= b.job.PP {
		return nil
	}
	return []half{{send: send, delta: delta, bytes: b.edge()}}
}

func (b *builder) sendForward() []half  { return b.neighbour(true, 1) }
func (b *builder) recvBackward() []half { return b.neighbour(false, 1) }
func (b *builder) sendBackward() []half { return b.neighbour(true, -1) }
func (b *builder) recvForward() []half  { return b.neighbour(false, -1) }

// p2p launches a group of sends and receives, if there are any.
func (b *builder) p2p(mb int, parts ...[]half) {
	halves := slices.Concat(parts...)
	if len(halves) == 0 {
		return
	}
	b.add(instr{kind: doP2P, slot: slotPP, blocking: true, halves: halves, mb: int16(mb), dtype: bf16})
}

func (b *builder) forward(mb int) {
	b.add(instr{kind: doHost, work: At(stepTime)})
	for g := range b.job.LayerGroups {
		b.layerGroup(mb, g, 1, forward)
	}
}

func (b *builder) backward(mb int, last bool) {
	for g := b.job.LayerGroups - 1; g >= 0; g-- {
		b.layerGroup(mb, g, 2, backward)
		if last && b.job.Overlap && b.job.Sharding != FSDP {
			b.gradients(g, b.job.LayerGroups, false)
		}
	}
}

// layerGroup is the forward (times 1) or backward (times 2) pass of a group of layers.
func (b *builder) layerGroup(mb, g, times int, l label) {
	j := b.job
	at := func(in instr) {
		in.mb, in.group = int16(mb), int16(g)
		b.add(in)
	}
	layers := int64(max(1, b.layers()/j.LayerGroups))
	if j.Sharding == FSDP {
		at(instr{kind: doCollect, slot: slotDP, fn: trace.AllGather, bytes: b.shard(), dtype: bf16, blocking: true})
	}
	if j.CP > 1 {
		kv := b.activation() / int64(j.TP) / 4 * layers
		at(instr{kind: doCollect, slot: slotCP, fn: trace.AllGather, bytes: kv, dtype: bf16, blocking: true})
	}
	at(instr{kind: doCompute, label: l, work: Time(times) * b.groupTime(false)})
	b.tensor(at, layers)
	if j.Model.Experts > 0 && j.EP > 1 {
		routed := b.activation() / int64(j.TP) * int64(j.Model.TopK) * layers
		at(instr{kind: doP2P, slot: slotEP, allToAll: true, bytes: routed, dtype: bf16, blocking: true})
		at(instr{kind: doCompute, label: expertWork, work: Time(times) * b.groupTime(true)})
		at(instr{kind: doP2P, slot: slotEP, allToAll: true, combine: true, bytes: routed, dtype: bf16, blocking: true})
	} else {
		at(instr{kind: doCompute, label: l, work: Time(times) * b.groupTime(true)})
	}
	b.tensor(at, layers)
	if j.Sharding == FSDP && l == backward {
		at(instr{kind: doCollect, slot: slotDP, fn: trace.ReduceScatter, bytes: b.shard(), dtype: fp32})
	}
}

func (b *builder) tensor(at func(instr), layers int64) {
	if b.job.TP == 1 {
		return
	}
	at(instr{kind: doCollect, slot: slotTP, fn: trace.AllReduce, bytes: b.activation() * layers, dtype: bf16, blocking: true})
}

// shard is one rank's part of a layer group's parameters under FSDP, in bytes of bfloat16.
func (b *builder) shard() int64 {
	return int64(b.params()*2) / int64(b.job.LayerGroups) / int64(b.job.DP*b.job.CP)
}

// gradients launches the data-parallel communication of bucket g of n.
func (b *builder) gradients(g, n int, blocking bool) {
	j := b.job
	group := int64(j.DP * j.CP)
	if group == 1 {
		return
	}
	bytes := int64(b.params()*4) / int64(n)
	in := instr{kind: doCollect, slot: slotDP, fn: trace.AllReduce, bytes: bytes, dtype: fp32, blocking: blocking, group: int16(g)}
	if j.Sharding == ZeRO {
		in.fn, in.bytes = trace.ReduceScatter, bytes/group
	}
	b.add(in)
}

// finish ends an iteration: gradients, norm, optimizer, parameters, loss.
func (b *builder) finish(eval bool) {
	j := b.job
	group := int64(j.DP * j.CP)
	if !eval {
		if !j.Overlap && j.Sharding != FSDP {
			for g := range j.GradBuckets {
				b.gradients(g, j.GradBuckets, false)
			}
		}
		b.add(instr{kind: doWait, slot: slotDP})
		b.add(instr{kind: doCollect, slot: slotMP, fn: trace.AllReduce, bytes: 4, dtype: fp32, blocking: true})
		shard := b.params()
		if j.Sharding != AllReduceDP {
			shard /= float64(group)
		}
		b.add(instr{kind: doCompute, label: optimizer, work: seconds(shard * 16 / optimizerRate)})
		if j.Sharding == ZeRO && group > 1 {
			b.add(instr{kind: doCollect, slot: slotDP, fn: trace.AllGather, bytes: int64(b.params()*2) / group, dtype: bf16, blocking: true})
		}
	}
	b.add(instr{kind: doCollect, slot: slotWorld, fn: trace.AllReduce, bytes: 16, dtype: fp32, blocking: true})
	b.add(instr{kind: doSync})
	b.add(instr{kind: doCheckpoint})
	b.add(instr{kind: doIterate})
}

// custom is a loop of one kind of communication, without computation.
func (b *builder) custom() {
	j := b.job
	n := int32(j.World())
	b.add(instr{kind: doHost, work: At(100 * time.Microsecond)})
	switch j.Workload {
	case AllReduceLoop:
		b.add(instr{kind: doCollect, slot: slotWorld, fn: trace.AllReduce, bytes: j.SyncBytes, dtype: fp32, blocking: true})
	case NeighbourLoop:
		side := int32(2)
		for side*side < n && n%(side*2) == 0 {
			side *= 2
		}
		var hs []half
		for _, d := range []int32{1, -1, side, -side} {
			if d%n == 0 {
				continue
			}
			hs = append(hs, half{send: true, delta: d, bytes: j.SyncBytes}, half{delta: -d, bytes: j.SyncBytes})
		}
		b.add(instr{kind: doP2P, slot: slotWorld, halves: hs, dtype: bf16, blocking: true})
	case AllToOneLoop, OneToAllLoop:
		hub := half{abs: true, bytes: j.SyncBytes, send: j.Workload == AllToOneLoop}
		b.add(instr{kind: doP2P, slot: slotWorld, halves: []half{hub}, dtype: bf16, blocking: true})
	}
	b.add(instr{kind: doSync})
	b.add(instr{kind: doIterate})
}
