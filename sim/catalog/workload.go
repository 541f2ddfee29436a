// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// Workload is a job on its machines.
type Workload struct {
	Name     string
	Help     string
	Hardware cluster.Hardware
	Job      cluster.Job
}

// Ranks is the number of processes.
func (w *Workload) Ranks() int { return w.Job.World() }

// Hosts is the number of machines.
func (w *Workload) Hosts() int {
	return (w.Ranks() + w.Hardware.GPUsPerHost - 1) / w.Hardware.GPUsPerHost
}

// oneGPU is a host with one GPU and one NIC, so that all communication crosses the network.
func oneGPU() cluster.Hardware {
	hw := cluster.H100()
	hw.GPUsPerHost, hw.NICsPerHost = 1, 1
	return hw
}

// Workloads lists what is known by name, small to large.
func Workloads() []Workload {
	h100, a100 := cluster.H100(), cluster.A100()
	llama := cluster.Job{
		ID: "llama-7b", Model: cluster.Llama7B, MicroBatches: 2, MicroBatchSize: 2, Sharding: cluster.FSDP, LayerGroups: 4,
	}
	gpt70 := cluster.Job{ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, MicroBatches: 8, Sharding: cluster.ZeRO, Overlap: true}
	with := func(j cluster.Job, change func(*cluster.Job)) cluster.Job {
		change(&j)
		return j
	}
	return []Workload{
		{"neighbour-4", "Two-dimensional neighbour exchange in a loop, one GPU a host.", oneGPU(), cluster.Job{
			ID: "neighbour", DP: 4, Workload: cluster.NeighbourLoop, SyncBytes: 1 << 30,
		}},
		{"all-reduce-4", "AllReduce of 256 MB in a loop, as nccl-tests do, one GPU a host.", oneGPU(), cluster.Job{
			ID: "all-reduce", DP: 4, Workload: cluster.AllReduceLoop,
		}},
		{"all-to-one-8", "Everybody sends to rank 0 in a loop, one GPU a host.", oneGPU(), cluster.Job{
			ID: "all-to-one", DP: 8, Workload: cluster.AllToOneLoop, SyncBytes: 64 << 20,
		}},
		{"one-to-all-8", "Rank 0 sends to everybody in a loop, one GPU a host.", oneGPU(), cluster.Job{
			ID: "one-to-all", DP: 8, Workload: cluster.OneToAllLoop, SyncBytes: 64 << 20,
		}},
		{"fsdp-8", "Llama 7B, FSDP on one host: nothing crosses the network.", h100, with(llama, func(j *cluster.Job) { j.DP = 8 })},
		{"fsdp-16", "Llama 7B, FSDP on two hosts.", h100, with(llama, func(j *cluster.Job) { j.DP, j.Channels = 16, 8 })},
		{"gpt-16", "A quarter of GPT 32B's layers, tensor 2, data 4, pipeline 2, ZeRO, four GPUs a host: the smallest with every kind of group.", fourGPUs(), with(cluster.Job{
			ID: "gpt-16", Model: cluster.GPT32B, TP: 2, DP: 4, PP: 2, MicroBatches: 2, Sharding: cluster.ZeRO, LayerGroups: 1,
		}, func(j *cluster.Job) { j.Model.Layers /= 4 })},
		{"gpt-32", "GPT 32B on 32 A100: tensor 8, data 2, pipeline 2, ZeRO.", a100, cluster.Job{
			ID: "gpt-32b", Model: cluster.GPT32B, TP: 8, DP: 2, PP: 2, MicroBatches: 4, Sharding: cluster.ZeRO,
		}},
		{"mixtral-32", "Mixtral 8x7B: tensor 8, data 4, experts over 4, uneven routing.", h100, cluster.Job{
			ID: "mixtral", Model: cluster.Mixtral, TP: 8, DP: 4, EP: 4, MicroBatches: 4, MicroBatchSize: 2, Sharding: cluster.ZeRO,
			RoutingImbalance: 0.05,
		}},
		{"gpt-64", "GPT 70B: tensor 8, data 4, pipeline 2, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.DP, j.PP = 4, 2 })},
		{"gpt-64-tree", "GPT 70B: tensor 8, data 8, gradients all-reduced by tree with LL128.", h100, cluster.Job{
			ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, DP: 8, MicroBatches: 2, Tree: true, Proto: "ll128",
		}},
		{"gpt-64-cp", "GPT 70B with long sequences: tensor 8, context 2, data 2, pipeline 2, ZeRO.", h100, with(gpt70, func(j *cluster.Job) {
			j.CP, j.DP, j.PP = 2, 2, 2
			j.Model.Seq *= 4
			j.MicroBatches = 4
		})},
		{"gpt-256", "GPT 70B: tensor 8, data 8, pipeline 4, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.DP, j.PP = 8, 4 })},
		{"gpt-512", "GPT 70B: tensor 8, data 16, pipeline 4, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.DP, j.PP = 16, 4 })},
		{"fsdp-512", "Llama 7B, FSDP over 64 hosts.", h100, with(llama, func(j *cluster.Job) {
			j.DP, j.MicroBatches, j.MicroBatchSize, j.LayerGroups = 512, 1, 4, 2
		})},
		{"gpt-1024", "GPT 70B: tensor 8, data 16, pipeline 8, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.DP, j.PP, j.MicroBatches = 16, 8, 16 })},
		{"gpt-2048", "GPT 70B: tensor 8, data 32, pipeline 8, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.DP, j.PP, j.MicroBatches = 32, 8, 16 })},
		{"gpt-8192", "GPT 70B: tensor 8, context 2, data 64, pipeline 8, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.CP, j.DP, j.PP, j.MicroBatches = 2, 64, 8, 16 })},
		{"gpt-10240", "GPT 70B: tensor 8, data 160, pipeline 8, ZeRO, overlapped.", h100, with(gpt70, func(j *cluster.Job) { j.DP, j.PP, j.MicroBatches = 160, 8, 16 })},
	}
}

// fourGPUs is a host of four H100 with a NIC each.
func fourGPUs() cluster.Hardware {
	hw := cluster.H100()
	hw.GPUsPerHost, hw.NICsPerHost = 4, 4
	return hw
}

// FindWorkload gives the workload of a name.
func FindWorkload(name string) (Workload, error) {
	for _, w := range Workloads() {
		if w.Name == name {
			return w, nil
		}
	}
	names := make([]string, 0, 20)
	for _, w := range Workloads() {
		names = append(names, w.Name)
	}
	return Workload{}, fmt.Errorf("no workload %q: there are %s", name, strings.Join(names, ", "))
}

// Setting is something about a workload that can be changed.
type Setting struct {
	Name string
	Help string
	set  func(j *cluster.Job, value string) error
}

// Settings lists what can be changed about a workload.
func Settings() []Setting {
	return []Setting{
		{"job-id", "Name of the job.", func(j *cluster.Job, v string) error { j.ID = v; return nil }},
		{"tp", "Tensor-parallel ranks.", whole(func(j *cluster.Job) *int { return &j.TP })},
		{"cp", "Context-parallel ranks.", whole(func(j *cluster.Job) *int { return &j.CP })},
		{"dp", "Data-parallel ranks.", whole(func(j *cluster.Job) *int { return &j.DP })},
		{"pp", "Pipeline stages.", whole(func(j *cluster.Job) *int { return &j.PP })},
		{"ep", "Expert-parallel ranks, within the data-parallel ones.", whole(func(j *cluster.Job) *int { return &j.EP })},
		{"micro-batches", "Microbatches of an iteration.", whole(func(j *cluster.Job) *int { return &j.MicroBatches })},
		{"micro-batch-size", "Sequences of a microbatch.", whole(func(j *cluster.Job) *int { return &j.MicroBatchSize })},
		{"layers", "Layers of the model.", whole(func(j *cluster.Job) *int { return &j.Model.Layers })},
		{"channels", "Channels of a collective.", whole(func(j *cluster.Job) *int { return &j.Channels })},
		{"eval-every", "Iterations between evaluations.", whole(func(j *cluster.Job) *int { return &j.EvalEvery })},
		{"checkpoint-every", "Iterations between checkpoints.", whole(func(j *cluster.Job) *int { return &j.CheckpointEvery })},
		{"checkpoint-time", "Time that writing one takes.", span(func(j *cluster.Job) *time.Duration { return &j.CheckpointTime })},
		{"gc-every", "Iterations between a rank's garbage collections.", whole(func(j *cluster.Job) *int { return &j.GCEvery })},
		{"gc-pause", "Time that one takes.", span(func(j *cluster.Job) *time.Duration { return &j.GCPause })},
		{"seq-imbalance", "Relative standard deviation of microbatches' lengths.", fraction(func(j *cluster.Job) *float64 { return &j.SeqImbalance })},
		{"routing-imbalance", "Relative standard deviation of experts' loads.", fraction(func(j *cluster.Job) *float64 { return &j.RoutingImbalance })},
		{"jitter", "Relative standard deviation of a computation.", fraction(func(j *cluster.Job) *float64 { return &j.Jitter })},
	}
}

func whole(field func(*cluster.Job) *int) func(*cluster.Job, string) error {
	return func(j *cluster.Job, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 1<<20 {
			return fmt.Errorf("%q is not a number from 0 to %d", v, 1<<20)
		}
		*field(j) = n
		return nil
	}
}

func fraction(field func(*cluster.Job) *float64) func(*cluster.Job, string) error {
	return func(j *cluster.Job, v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= 0 && f < 10) {
			return fmt.Errorf("%q is not a number from 0 to 10", v)
		}
		*field(j) = f
		return nil
	}
}

func span(field func(*cluster.Job) *time.Duration) func(*cluster.Job, string) error {
	return func(j *cluster.Job, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as 8s", v)
		}
		*field(j) = d
		return nil
	}
}

// Set changes a workload as name=value says.
func (w *Workload) Set(name, value string) error {
	all := Settings()
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return fmt.Errorf("a workload has no setting %q", name)
	}
	if err := all[i].set(&w.Job, value); err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	return nil
}
