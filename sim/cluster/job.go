// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"
)

// Model is the shape of the network that is trained.
type Model struct {
	Name    string
	Layers  int
	Hidden  int
	FFN     int
	Vocab   int
	Seq     int
	Experts int // 0: dense.
	TopK    int
}

// Shapes used by the scenarios.
var (
	GPT32B  = Model{Name: "gpt-32b", Layers: 64, Hidden: 6400, FFN: 4 * 6400, Vocab: 50304, Seq: 4096}
	GPT70B  = Model{Name: "gpt-70b", Layers: 80, Hidden: 8192, FFN: 28672, Vocab: 50304, Seq: 4096}
	Mixtral = Model{Name: "mixtral-8x7b", Layers: 32, Hidden: 4096, FFN: 14336, Vocab: 32000, Seq: 4096, Experts: 8, TopK: 2}
	Llama7B = Model{Name: "llama-7b", Layers: 32, Hidden: 4096, FFN: 11008, Vocab: 32000, Seq: 4096}
)

// layerParams counts the parameters of one layer, experts included.
func (m Model) layerParams() float64 {
	attn := 4 * float64(m.Hidden) * float64(m.Hidden)
	ffn := 3 * float64(m.Hidden) * float64(m.FFN)
	return attn + ffn*float64(max(1, m.Experts))
}

// Sharding says how data parallelism keeps gradients and parameters together.
type Sharding string

// Ways of data parallelism.
const (
	AllReduceDP Sharding = "ddp"  // Gradients all-reduced in buckets.
	ZeRO        Sharding = "zero" // Gradients reduce-scattered, parameters all-gathered once an iteration.
	FSDP        Sharding = "fsdp" // Parameters gathered layer by layer, forward and backward.
)

// Job is a training job. Ranks are laid out as Megatron does: tensor, context, data, pipeline, fastest first.
type Job struct {
	ID                 string
	Model              Model
	TP, CP, DP, PP, EP int // EP groups lie inside DP groups.
	Sharding           Sharding
	MicroBatches       int // Per iteration and data-parallel rank.
	MicroBatchSize     int
	Overlap            bool // Gradient communication overlaps the last backward pass.
	LayerGroups        int  // Layers of a stage are simulated in so many groups; 0: 2.
	GradBuckets        int  // 0: 2.
	Tree               bool // Gradients use NCCL's tree instead of the ring.
	Proto              string
	Channels           int // Per collective; 0: 2.
	// Pure collective loop instead of training (neighbour exchange and the like); empty: training.
	Workload Workload
	// SyncBytes is the size of one transfer of a custom workload.
	SyncBytes int64

	EvalEvery, CheckpointEvery int // Iterations; 0 never.
	CheckpointTime             time.Duration
	CheckpointAll              bool          // Every rank writes; otherwise data-parallel rank 0 does and the rest wait.
	CheckpointSpread           float64       // Ranks' writing times differ by up to this share.
	GCEvery                    int           // Iterations between a rank's garbage collections, ranks out of step; 0 never.
	GCPause                    time.Duration // 0: 150 ms.
	SeqImbalance               float64       // Standard deviation of a microbatch's length, relative.
	RoutingImbalance           float64       // Standard deviation of an expert's load from iteration to iteration, relative.
	Jitter                     float64       // Standard deviation of a computation, relative; 0: 0.5%.
	// StageFactor makes pipeline stages unequal; nil: all 1. ExpertFactor the same for experts, permanently.
	StageFactor  []float64
	ExpertFactor []float64
}

// Workload is a loop of one kind of communication without a model (Pulse's custom collectives).
type Workload string

// Custom workloads.
const (
	Training         Workload = ""
	NeighbourLoop    Workload = "neighbour-exchange" // Two-dimensional, each rank sends to its neighbours.
	AllToOneLoop     Workload = "all-to-one"
	OneToAllLoop     Workload = "one-to-all"
	AllReduceLoop    Workload = "all-reduce" // An NCCL-tests style loop.
	firstStepFactor           = 3.0          // Computation of the first iteration takes so many times longer.
	lazyConnectTime           = 600 * time.Millisecond
	defaultJitter             = 0.005
	defaultMicroSize          = 1
)

// World is the number of ranks.
func (j *Job) World() int { return max(1, j.TP) * max(1, j.CP) * max(1, j.DP) * max(1, j.PP) }

func (j *Job) setDefaults() error {
	for _, p := range []*int{&j.TP, &j.CP, &j.DP, &j.PP, &j.EP, &j.MicroBatches, &j.MicroBatchSize} {
		if *p == 0 {
			*p = 1
		}
	}
	setDefault(&j.ID, "train-1")
	setDefault(&j.LayerGroups, 2)
	setDefault(&j.GradBuckets, 2)
	setDefault(&j.Channels, 2)
	setDefault(&j.Jitter, defaultJitter)
	setDefault(&j.Sharding, AllReduceDP)
	setDefault(&j.Proto, "simple")
	setDefault(&j.GCPause, 150*time.Millisecond)
	setDefault(&j.CheckpointTime, 8*time.Second)
	if j.Workload != Training {
		setDefault(&j.SyncBytes, 256<<20)
		return nil
	}
	if j.DP%j.EP != 0 {
		return fmt.Errorf("job %s: EP %d does not divide DP %d", j.ID, j.EP, j.DP)
	}
	if j.Model.Layers < j.PP {
		return fmt.Errorf("job %s: %d layers on %d stages", j.ID, j.Model.Layers, j.PP)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// place is a rank's coordinates.
type place struct{ tp, cp, dp, pp int }

func (j *Job) place(rank int) place {
	p := place{}
	p.tp, rank = rank%j.TP, rank/j.TP
	p.cp, rank = rank%j.CP, rank/j.CP
	p.dp, rank = rank%j.DP, rank/j.DP
	p.pp = rank
	return p
}

func (j *Job) rankAt(p place) int { return p.tp + j.TP*(p.cp+j.CP*(p.dp+j.DP*p.pp)) }

// slot is a rank's role of a communicator; each has its own stream.
type slot uint8

const (
	slotTP slot = iota
	slotCP
	slotPP
	slotDP
	slotEP
	slotMP    // Model-parallel group: gradient norm.
	slotWorld // Everybody.
	numSlots
)

var slotNames = [numSlots]string{"tp", "cp", "pp", "dp", "ep", "mp", "world"}

// groups lists the members of every communicator of a slot, each in rank order within the communicator.
func (j *Job) groups(s slot) [][]int32 {
	var out [][]int32
	index := map[int]int{}
	n := j.World()
	for r := range n {
		p := j.place(r)
		var key int
		switch s {
		case slotTP:
			p.tp = 0
			key = j.rankAt(p)
		case slotCP:
			p.cp = 0
			key = j.rankAt(p)
		case slotPP:
			p.pp = 0
			key = j.rankAt(p)
		case slotDP:
			p.dp, p.cp = 0, 0
			key = j.rankAt(p)
		case slotEP:
			p.dp -= p.dp % j.EP
			key = j.rankAt(p)
		case slotMP:
			p.tp, p.pp = 0, 0
			key = j.rankAt(p)
		case slotWorld:
			key = 0
		}
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], int32(r))
	}
	return out
}
