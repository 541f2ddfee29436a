// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// workload is a job on its machines, as a paper or a usual deployment has it.
type workload struct {
	name string
	hw   cluster.Hardware
	job  cluster.Job
}

func (w *workload) ranks() int { return w.job.World() }

// oneGPU is a host with one GPU and one NIC, so that all communication crosses the network.
func oneGPU() cluster.Hardware {
	hw := cluster.H100()
	hw.GPUsPerHost, hw.NICsPerHost = 1, 1
	return hw
}

// Workloads by name.
var workloads = map[string]workload{
	// Llama 7B under FSDP on one host: nothing crosses the network.
	"fsdp-8": {"fsdp-8", cluster.H100(), cluster.Job{
		ID: "llama-7b", Model: cluster.Llama7B, DP: 8, MicroBatches: 2, MicroBatchSize: 2, Sharding: cluster.FSDP, LayerGroups: 4,
	}},
	// CCL-D's functional testbed: two hosts.
	"fsdp-16": {"fsdp-16", cluster.H100(), cluster.Job{
		ID: "llama-7b", Model: cluster.Llama7B, DP: 16, MicroBatches: 2, MicroBatchSize: 2, Sharding: cluster.FSDP, LayerGroups: 4, Channels: 8,
	}},
	// Mycroft's testbed: 32 A100, TP 8, PP 2, DP 2.
	"gpt-32": {"gpt-32", cluster.A100(), cluster.Job{
		ID: "gpt-32b", Model: cluster.GPT32B, TP: 8, DP: 2, PP: 2, MicroBatches: 4, Sharding: cluster.ZeRO,
	}},
	// Pulse's GPT-2 70B: TP 8, ZeRO-2 DP 4, PP 2.
	"gpt-64": {"gpt-64", cluster.H100(), cluster.Job{
		ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, DP: 4, PP: 2, MicroBatches: 8, Sharding: cluster.ZeRO, Overlap: true,
	}},
	"gpt-64-tree": {"gpt-64-tree", cluster.H100(), cluster.Job{
		ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, DP: 8, MicroBatches: 2, Sharding: cluster.AllReduceDP, Tree: true, Proto: "ll128",
	}},
	// Pulse's Mixtral: TP 8 and DP 4 in attention, TP 8 and EP 4 in the experts.
	"mixtral-32": {"mixtral-32", cluster.H100(), cluster.Job{
		ID: "mixtral", Model: cluster.Mixtral, TP: 8, DP: 4, EP: 4, MicroBatches: 4, MicroBatchSize: 2, Sharding: cluster.ZeRO, RoutingImbalance: 0.05,
	}},
	"neighbour-4": {"neighbour-4", oneGPU(), cluster.Job{ID: "neighbour", DP: 4, Workload: cluster.NeighbourLoop, SyncBytes: 1 << 30}},
	"gpt-512": {"gpt-512", cluster.H100(), cluster.Job{
		ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, DP: 16, PP: 4, MicroBatches: 8, Sharding: cluster.ZeRO, Overlap: true,
	}},
	"fsdp-512": {"fsdp-512", cluster.H100(), cluster.Job{
		ID: "llama-7b", Model: cluster.Llama7B, DP: 512, MicroBatches: 1, MicroBatchSize: 4, Sharding: cluster.FSDP, LayerGroups: 2, Channels: 2,
	}},
	"gpt-2048": {"gpt-2048", cluster.H100(), cluster.Job{
		ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, DP: 32, PP: 8, MicroBatches: 16, Sharding: cluster.ZeRO, Overlap: true,
	}},
	"gpt-8192": {"gpt-8192", cluster.H100(), cluster.Job{
		ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, CP: 2, DP: 64, PP: 8, MicroBatches: 16, Sharding: cluster.ZeRO, Overlap: true,
	}},
	"gpt-10240": {"gpt-10240", cluster.H100(), cluster.Job{
		ID: "gpt-70b", Model: cluster.GPT70B, TP: 8, DP: 160, PP: 8, MicroBatches: 16, Sharding: cluster.ZeRO, Overlap: true,
	}},
}

// warm is the time after which a workload has left its first steps behind, and period about one iteration.
func (w *workload) warm() (start, period time.Duration) {
	switch {
	case w.job.Workload != cluster.Training:
		return 30 * time.Second, 50 * time.Millisecond
	case w.job.World() >= 2048:
		return 30 * time.Second, 4 * time.Second
	}
	return 25 * time.Second, 4 * time.Second
}

// known is from when on the rules know what is usual in a job: a baseline leaves out its first 20 s, holds 20 s at least, and
// stays 20 s behind. The look at a new job, after a minute of iterations, is over by then.
const known = 110 * time.Second

// watched is for how long a job runs on once it is warm: long enough for what is slow by a minute's mean, or in the largest
// jobs, which cost a second of simulation for each of their own, for twice the time that the triggers usually take.
func (w *workload) watched() time.Duration {
	if w.ranks() > 2048 {
		return 50 * time.Second
	}
	return 75 * time.Second
}
