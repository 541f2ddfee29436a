// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// one is a scenario with a single fault of a kind at a random place and time.
func one(kind cluster.FaultKind, severity string, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: GroupHang, severity: severity, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), At: d.when()}}
		},
	}
}

// two are two independent faults at one time on different hosts.
func two(a, b cluster.FaultKind) scenario {
	return scenario{
		name: string(a) + "+" + string(b), group: GroupHang, severity: "two at once", needs: overNetwork,
		faults: func(d *dice) []cluster.Fault {
			at := d.when()
			r := d.rank()
			return []cluster.Fault{{Kind: a, Rank: r, At: at}, {Kind: b, Rank: d.otherHost(r), At: at}}
		},
	}
}

// hangs are the scenarios in which the job stands still.
func hangs() []scenario {
	both := func(w *workload) bool { return overNetwork(w) && training(w) }
	return []scenario{
		one(cluster.NICDown, "dead", overNetwork),
		one(cluster.GPUError, "dead", nil),
		one(cluster.ECCError, "dead", nil),
		one(cluster.CUDAError, "dead", nil),
		one(cluster.NVLinkError, "dead", withNVLink),
		one(cluster.ProcessStopped, "stopped", nil),
		one(cluster.ProcessKilled, "killed", nil),
		one(cluster.HostLost, "lost", overNetwork),
		one(cluster.NotEntered, "stuck", nil),
		one(cluster.DataStuck, "stuck", training),
		one(cluster.StorageStuck, "stuck", training),
		one(cluster.OtherFunc, "function", both),
		one(cluster.OtherSize, "size", both),
		one(cluster.SkippedOp, "order", both),
		one(cluster.Deadlock, "order", both),
		two(cluster.ProcessStopped, cluster.NICDown),
		two(cluster.GPUError, cluster.ProcessKilled),
	}
}

// quiet are the runs in which nobody is to blame.
func quiet() []scenario {
	return []scenario{
		{name: "healthy", group: GroupHealthy, severity: "none"},
		{
			name: "healthy_gc", group: GroupHealthy, severity: "garbage collection", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.GCEvery, c.Job.GCPause = 5, 300*time.Millisecond },
		},
		{
			name: "healthy_sequences", group: GroupHealthy, severity: "uneven lengths", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.SeqImbalance = 0.08 },
		},
		{
			name: "checkpoint_all", group: GroupBenign, severity: "20 s", needs: training,
			change: func(c *cluster.Config, _ *dice) {
				c.Job.CheckpointEvery, c.Job.CheckpointTime, c.Job.CheckpointAll, c.Job.CheckpointSpread = 6, 20*time.Second, true, 0.2
			},
		},
		{
			name: "checkpoint_one", group: GroupBenign, severity: "20 s", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.CheckpointEvery, c.Job.CheckpointTime = 6, 20*time.Second },
		},
		{
			name: "evaluation", group: GroupBenign, severity: "every 4", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.EvalEvery = 4 },
		},
		{
			name: "first_step", group: GroupBenign, severity: "slow start",
			change: func(c *cluster.Config, _ *dice) { c.Until = 20 * time.Second },
		},
	}
}
