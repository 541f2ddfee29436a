// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// Case is one run of the matrix.
type Case struct {
	Name     string // scenario/workload/seed
	Scenario string
	Group    string // hang, slow, healthy, benign.
	Workload string
	Severity string
	Ranks    int
	config   cluster.Config
	// ask: the engine is asked at this time even when nothing triggers, as a person would; 0 never.
	ask time.Duration
}

// scenario makes the faults of a run on a job, from a random source.
type scenario struct {
	name     string
	group    string
	severity string
	faults   func(d *dice) []cluster.Fault
	change   func(c *cluster.Config, d *dice)
	needs    func(w *workload) bool
}

// dice draws the place and the time of a fault.
type dice struct {
	state uint64
	w     *workload
}

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	x := d.state
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func (d *dice) n(n int) int { return int(d.next() % uint64(n)) } //nolint:gosec // Small.

func (d *dice) rank() int { return d.n(d.w.ranks()) }

// otherHost is a rank on another host than rank's, the same rank when there is only one host.
func (d *dice) otherHost(rank int) int {
	per := d.w.hw.GPUsPerHost
	hosts := (d.w.ranks() + per - 1) / per
	if hosts == 1 {
		return rank
	}
	h := (rank/per + 1 + d.n(hosts-1)) % hosts
	return min(h*per+rank%per, d.w.ranks()-1)
}

// nextHost is the same place on the next host of rank's pipeline stage: a neighbour in the data-parallel rings.
func (d *dice) nextHost(rank int) int {
	j := &d.w.job
	per := d.w.hw.GPUsPerHost
	stage := max(1, j.TP) * max(1, j.CP) * max(1, j.DP)
	return rank/stage*stage + (rank%stage+per)%stage
}

// when is a moment after the job has warmed up, at any point of an iteration.
func (d *dice) when() time.Duration {
	start, period := d.w.warm()
	return start + time.Duration(d.n(int(period)))
}

func overNetwork(w *workload) bool { return w.ranks() > w.hw.GPUsPerHost }

func training(w *workload) bool { return w.job.Workload == cluster.Training }

func withNVLink(w *workload) bool { return w.hw.GPUsPerHost > 1 }

// one is a scenario with a single fault of a kind at a random place and time.
func one(kind cluster.FaultKind, severity string, needs func(*workload) bool) scenario {
	return scenario{
		name: string(kind), group: "hang", severity: severity, needs: needs,
		faults: func(d *dice) []cluster.Fault {
			return []cluster.Fault{{Kind: kind, Rank: d.rank(), At: d.when()}}
		},
	}
}

// hangs are the scenarios in which the job stands still.
func hangs() []scenario {
	two := func(a, b cluster.FaultKind) scenario {
		return scenario{
			name: string(a) + "+" + string(b), group: "hang", severity: "two at once", needs: overNetwork,
			faults: func(d *dice) []cluster.Fault {
				at := d.when()
				r := d.rank()
				return []cluster.Fault{{Kind: a, Rank: r, At: at}, {Kind: b, Rank: d.otherHost(r), At: at}}
			},
		}
	}
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
		{name: "healthy", group: "healthy", severity: "none"},
		{
			name: "healthy_gc", group: "healthy", severity: "garbage collection", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.GCEvery, c.Job.GCPause = 5, 300*time.Millisecond },
		},
		{
			name: "healthy_sequences", group: "healthy", severity: "uneven lengths", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.SeqImbalance = 0.08 },
		},
		{
			name: "checkpoint_all", group: "benign", severity: "20 s", needs: training,
			change: func(c *cluster.Config, _ *dice) {
				c.Job.CheckpointEvery, c.Job.CheckpointTime, c.Job.CheckpointAll, c.Job.CheckpointSpread = 6, 20*time.Second, true, 0.2
			},
		},
		{
			name: "checkpoint_one", group: "benign", severity: "20 s", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.CheckpointEvery, c.Job.CheckpointTime = 6, 20*time.Second },
		},
		{
			name: "evaluation", group: "benign", severity: "every 4", needs: training,
			change: func(c *cluster.Config, _ *dice) { c.Job.EvalEvery = 4 },
		},
		{
			name: "first_step", group: "benign", severity: "slow start",
			change: func(c *cluster.Config, _ *dice) { c.Until = 20 * time.Second },
		},
	}
}

// Options choose how much of the matrix is run.
type Options struct {
	Quick bool
	Seed  uint64
	Only  string // Part of a case's name; empty: all.
	Seeds int    // Per scenario and workload; 0: 1 quick, 3 full.
	Ranks int    // Largest scale; 0: 512 quick, 10240 full.
}

// atScale are the scenarios that the quick matrix also runs on hundreds of ranks.
var atScale = []string{
	string(cluster.NICDown), string(cluster.GPUError), string(cluster.ProcessStopped), string(cluster.NotEntered), string(cluster.SkippedOp),
	string(cluster.GPUThrottle), string(cluster.NICBandwidth), "healthy", "checkpoint_one",
}

const quickRanks = 64 // Up to here the quick matrix runs every scenario.

// Matrix lists the runs.
func Matrix(opt Options) []Case {
	names := []string{"fsdp-8", "fsdp-16", "gpt-32", "gpt-64", "gpt-64-tree", "mixtral-32", "neighbour-4", "gpt-512"}
	limit, seeds := 512, 1
	if !opt.Quick {
		names = append(names, "fsdp-512", "gpt-2048", "gpt-8192", "gpt-10240")
		limit, seeds = 10240, 3
	}
	if opt.Ranks > 0 {
		limit = opt.Ranks
	}
	if opt.Seeds > 0 {
		seeds = opt.Seeds
	}
	var out []Case
	for _, sc := range slices.Concat(hangs(), slows(opt.Quick), quiet()) {
		for _, name := range names {
			w := workloads[name]
			if w.ranks() > limit || (sc.needs != nil && !sc.needs(&w)) {
				continue
			}
			if opt.Quick && w.ranks() > quickRanks && !slices.Contains(atScale, sc.name) {
				continue
			}
			for seed := range seeds {
				if c := makeCase(sc, &w, opt.Seed+uint64(seed)); strings.Contains(c.Name, opt.Only) { //nolint:gosec // Small.
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func makeCase(sc scenario, w *workload, seed uint64) Case {
	h := seed
	for _, b := range sc.name + "/" + sc.severity + "/" + w.name {
		h = h*1099511628211 + uint64(b) //nolint:gosec // A hash.
	}
	d := &dice{state: h, w: w}
	start, _ := w.warm()
	c := Case{
		Name: fmt.Sprintf("%s/%s/%s/%d", sc.name, strings.ReplaceAll(sc.severity, " ", "_"), w.name, seed), Scenario: sc.name, Group: sc.group, Workload: w.name,
		Severity: sc.severity, Ranks: w.ranks(),
		config: cluster.Config{Seed: d.next(), Hardware: w.hw, Job: w.job, Until: start + 75*time.Second},
	}
	if sc.faults != nil {
		c.config.Faults = sc.faults(d)
	}
	if sc.change != nil {
		sc.change(&c.config, d)
	}
	if sc.group == "healthy" || sc.group == "benign" {
		c.ask = c.config.Until
	}
	return c
}
